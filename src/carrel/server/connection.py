"""One client's connection: it takes the client's messages and answers them.

`accept` takes a message as bytes, `begin` a call that is parsed already; both return the answer, or a `Work` that the
transport runs on another thread. A connection is synchronous, does no input or output, and may be used from several
threads. An unexpected exception of a provider is logged and answered as "Internal error".
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from carrel.catalog.access import EVERYTHING, Access, ActingAs, current_access
from carrel.catalog.routes import Found
from carrel.core.cancellation import Cancellable, Cancelled
from carrel.core.content import too_large
from carrel.core.errors import (
    CarrelError,
    NotFound,
    ProtocolError,
    ProviderError,
    RequestError,
    TooLarge,
    UnknownScheme,
)
from carrel.core.faults import attempt
from carrel.core.hosts import fit_instructions
from carrel.core.limits import MAX_BATCH, MAX_SUBSCRIBED_URIS, OPENING_DEADLINE_S
from carrel.core.model import Page
from carrel.core.record import replace
from carrel.protocol import eras, jsonrpc, methods, results, wire_errors
from carrel.protocol.eras import Era
from carrel.protocol.framing import OverLong
from carrel.protocol.jsonrpc import Key, Message
from carrel.server.dispatch import Dispatch, Job, Send, Unfinished
from carrel.server.ratelimit import Allowances
from carrel.server.requests import Running, Work, in_background, join_answers

if TYPE_CHECKING:
    from carrel.catalog.watcher import Subscription, Watcher

Tried = tuple[Found | None, bytes | Unfinished | None]
"""The route of a read, and the answer to a call, or what is left of it for a worker thread."""
SendProgress = Callable[[float, float | None, str | None], None]

_ASK_PROVIDERS: Final = frozenset(
    {
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "completion/complete",
        "tools/list",
        *eras.EXTENSION_METHODS,
    }
)
"""Methods that call every provider, and so wait if one waits."""

_OPENING: Final = frozenset({"initialize", "server/discover"})
"""Methods that ask providers for their instructions."""

_WITHOUT_INSTRUCTIONS: Final = "Instructions are missing: a provider did not give its part in time."
"""Sent in place of late instructions: a host must be able to connect."""

_NOT_BEGUN: Final = Unfinished(None)
"""Stands for a call that has not begun, and runs on a worker thread from its start."""


class Connection:
    """The state of one client: what was agreed, its requests that still run, and its subscriptions."""

    def __init__(
        self, dispatch: Dispatch, watcher: "Callable[[], Watcher]", send: Send, access: Access, allowances: Allowances
    ) -> None:
        self._dispatch = dispatch
        self._watcher = watcher
        self._catalog = dispatch.catalog
        self._send = send
        self._access = access
        self._allowances = allowances
        self._version: str | None = None
        self._client = ""
        self._running: dict[Key, Running] = {}
        self._listens: dict[Key, tuple[bytes, Subscription]] = {}
        self._subscription: Subscription | None = None
        self._opening = threading.Lock()
        self._seen: Page | None = None
        self._is_closed = False
        self.on_subscription: Callable[[str, bool], None] | None = None
        """Called when the client subscribes to a URI, or unsubscribes; may raise, and then nothing is subscribed."""

    def adopt(self, version: str, client: str) -> None:
        """Continue a legacy session that another server opened: what its `initialize` agreed on."""
        self._version, self._client = version, client

    def resubscribe(self, uris: Sequence[str], missed: Iterable[str] = (), *, has_missed_lists: bool = False) -> None:
        """Subscribe a legacy client to exactly these URIs, and notify of what it missed.

        A URI that is new here counts as missed: it may have changed since another server subscribed the client to it.
        """
        with ActingAs(self._access):
            subscription = self._subscription_of_client()
            for uri in subscription.uris.difference(uris):
                subscription.discard(uri)
            new = [uri for uri in uris if uri not in subscription.uris]
            for uri in new:
                with contextlib.suppress(CarrelError):
                    subscription.add(uri)
            subscription.start()
        for uri in dict.fromkeys((*new, *missed)):
            if uri in subscription.uris:
                self._send(results.changed(uri, None))
        if has_missed_lists:
            self._send(results.changed("", None))

    def accept(self, line: bytes | OverLong) -> bytes | Work | None:
        """Return the answer to a message or a batch, or the work that returns it, or None if there is no answer."""
        if isinstance(line, OverLong):
            return self._refuse_over_long(line)
        call = methods.parse_read(line)
        if call is not None:
            return self.begin(call)
        if line[:1] == b"[" and self._version in eras.VERSIONS.with_batches:
            return self._accept_batch(line)
        return self._accept_one(line)

    def _accept_one(self, line: bytes, *, in_batch: bool = False) -> bytes | Work | None:
        try:
            message = jsonrpc.decode(line)
        except ProtocolError as error:
            return wire_errors.encode(error, Era.LEGACY, error.request_id)
        if message is None:
            return None
        if message.id is None:
            self.notice(message)
            return None
        try:
            if in_batch and (message.method == "initialize" or methods.era_of(message) is Era.MODERN):
                raise ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: this one may not be in a batch")
            call = methods.parse(message, self._dispatch.served)
        except ProtocolError as error:
            return wire_errors.encode(error, Era.LEGACY, message.id)
        if in_batch and call.method != "ping":
            return self._begin_on_worker(call, None, self._send)
        return self.begin(call)

    @property
    def is_busy(self) -> bool:
        """Whether a request still runs, which `close` would have to stop."""
        return bool(self._running)

    def close(self) -> list[bytes]:
        """End the connection; return the results that end its open subscriptions."""
        for running in tuple(self._running.values()):
            running.cancel()
        with self._opening:
            self._is_closed = True
            if self._subscription is not None:
                self._subscription.close()
        endings = []
        while self._listens:
            key, (request_id, subscription) = self._listens.popitem()
            subscription.close()
            endings.append(jsonrpc.answer(request_id, results.listen_result(key)))
        return endings

    # One message

    def begin(
        self, call: methods.ParsedCall, send: Send | None = None, *, on_loop: bool = False
    ) -> bytes | Work | None:
        """Return the answer to a call, or the work that returns it.

        `send` gets the messages that come before the answer. On an event loop (`on_loop`), only quick calls run here; a
        read that turns out to take longer continues in the work, with what it has opened.
        """
        if self._is_in_use(call.key):
            return self._refuse_duplicate(call)
        if current_access() is self._access:
            return self._begin(call, send or self._send, on_loop)
        with ActingAs(self._access):
            return self._begin(call, send or self._send, on_loop)

    def _begin(self, call: methods.ParsedCall, send: Send, on_loop: bool) -> bytes | Work | None:
        found, answer = self._try(call, send, on_loop)
        return self._begin_on_worker(call, found, send, answer) if isinstance(answer, Unfinished) else answer

    def _try(self, call: methods.ParsedCall, send: Send, on_loop: bool) -> Tried:
        found = None
        try:
            if call.method == "resources/read":
                if on_loop and not self._catalog.finds_at_once(call.params.uri):
                    return None, _NOT_BEGUN
                found = self._catalog.find(call.params.uri)
            if self._needs_thread(call.method, found, on_loop):
                return found, _NOT_BEGUN
            return found, self._run(Job(call, found, send, on_loop))
        except (RequestError, ProviderError, ProtocolError) as error:
            return found, self._fail(Job(call), error)
        except Cancelled:
            return found, None

    def _begin_on_worker(
        self, call: methods.ParsedCall, found: Found | None, send: Send, unfinished: Unfinished | None = None
    ) -> bytes | Work:
        """Return the work that answers a call on a worker thread, from the start or with what is `unfinished`."""
        if self._is_in_use(call.key):
            return self._refuse_duplicate(call)
        with ActingAs(self._access):
            try:
                owner, is_patient = attempt(call.method, self._slot_of, call, found)
            except (RequestError, ProviderError, ProtocolError) as error:
                return self._fail(Job(call), error)
        client = methods.client_name(call.params.meta.client_info) or self._client
        running = Running(lambda: self._running.pop(call.key, None), _progress_of(call, send), client)
        self._running[call.key] = running
        if unfinished is _NOT_BEGUN:
            unfinished = None
        elif unfinished is not None:
            running.on_cancel(unfinished.close)
        job = Job(call, found, send, running=running, unfinished=unfinished)
        return self._work(job, running, lambda: self._run_on_worker(job), owner=owner, is_patient=is_patient)

    def _work(
        self, job: Job, running: Running, run: Callable[[], bytes | None], *, owner: str = "", is_patient: bool = False
    ) -> Work:
        is_opening = job.call.method in _OPENING
        late = ProviderError("Request timed out", word="timeout")
        return Work(
            running,
            run=run,
            late=lambda: self._open(job, _WITHOUT_INSTRUCTIONS) if is_opening else self._fail(job, late),
            busy=lambda: self._fail(job, ProviderError("Server is busy: too many requests wait", word="busy")),
            deadline_s=self._dispatch.deadline_s,
            at_most_s=OPENING_DEADLINE_S if is_opening else inf,
            is_patient=is_patient,
            owner=owner,
        )

    def _refuse_duplicate(self, call: methods.ParsedCall) -> bytes:
        message = "Invalid request: id is in use by a request that still runs"
        return wire_errors.encode(ProtocolError(jsonrpc.INVALID_REQUEST, message), call.era, call.id)

    def _is_in_use(self, key: Key) -> bool:
        return key in self._running or key in self._listens

    def _slot_of(self, call: methods.ParsedCall, found: Found | None) -> tuple[str, bool]:
        """Return the name of the provider whose worker slot a call takes, and whether it is a tool that may take long.

        Calls whose provider is not known share the slots of their method.
        """
        is_patient = False
        if found is None and call.method == "tools/call":
            is_patient = self._catalog.is_patient(call.params.name)
            uri = call.params.arguments.get("uri")
            with contextlib.suppress(RequestError):
                found = self._catalog.find(uri) if isinstance(uri, str) else None
            if found is None:
                return f"{call.method} {call.params.name}", is_patient
        return _group(call) if found is None else found.mounted.provider.name, is_patient

    def _needs_thread(self, method: str, found: Found | None, on_loop: bool) -> bool:
        """Return whether a call must run on a worker thread."""
        if found is not None:
            return self._dispatch.needs_thread(found, on_loop)
        if method in _ASK_PROVIDERS:
            return self._dispatch.has_blocking or (on_loop and not self._dispatch.is_instant)
        return method == "tools/call" or (method in _OPENING and on_loop)

    def _run_on_worker(self, job: Job) -> bytes | None:
        """Answer a call on a worker thread; return None if it was cancelled meanwhile."""
        running = job.running
        with ActingAs(self._access), Cancellable(lambda: running is not None and running.cancelled):
            try:
                answer = self._run(self._with_route(job))
                assert not isinstance(answer, Unfinished)  # only an event loop leaves anything unfinished
                return answer
            except Cancelled:
                return None
            except (RequestError, ProviderError, ProtocolError) as error:
                return self._fail(job, error)

    def _with_route(self, job: Job) -> Job:
        """Return a read with its route; `begin` may have left finding it to this thread."""
        if job.found is not None or job.call.method != "resources/read":
            return job
        return replace(job, found=attempt(job.call.method, self._catalog.find, job.call.params.uri))

    def _run(self, job: Job) -> bytes | Unfinished | None:
        """Return the answer to a call, which may be an error."""
        method = job.call.method
        if method == "resources/list" and self._subscription is None:
            job = replace(job, saw=self._see)
        shared = self._dispatch.by_method.get(method)
        try:
            answer = attempt(method, _OWN[method], self, job) if shared is None else attempt(method, shared, job)
            if type(answer) is bytes and len(answer) > self._catalog.max_bytes:
                raise self._does_not_fit(job, len(answer))
        except (RequestError, ProviderError, ProtocolError) as error:
            return self._fail(job, error)
        return answer

    def _fail(self, job: Job, error: wire_errors.Answerable) -> bytes:
        if isinstance(error, NotFound | UnknownScheme) and job.call.method == "resources/read":
            from carrel.catalog.suggestions import with_advice  # only on failure

            error = with_advice(self._catalog, error)
        return wire_errors.encode(error, job.call.era, job.call.id, job.uri)

    def _does_not_fit(self, job: Job, size: int) -> TooLarge:
        limit = self._catalog.max_bytes
        if job.call.method == "resources/read" and job.found is not None:
            start = job.call.params.start or job.found.start
            return too_large(job.call.params.uri, size, limit, start, is_answer=True)
        return TooLarge(f"Too large: the answer has {size} bytes, one message holds {limit}", size=size, limit=limit)

    def _accept_batch(self, line: bytes) -> bytes | Work | None:
        """Accept each message of a batch; their answers are sent as one array."""
        try:
            lines = jsonrpc.decode_batch(line)
            if not 0 < len(lines) <= MAX_BATCH:
                message = f"Invalid request: a batch holds 1 to {MAX_BATCH} messages"
                raise ProtocolError(jsonrpc.INVALID_REQUEST, message)
        except ProtocolError as error:
            return wire_errors.encode(error, Era.LEGACY, error.request_id)
        given = [self._accept_one(element, in_batch=True) for element in lines]
        return join_answers(lines, given, self._catalog.max_bytes)

    def _refuse_over_long(self, line: OverLong) -> bytes:
        limit = self._catalog.max_bytes
        message = f"Message too large: one message holds {limit} bytes"
        return wire_errors.too_large(jsonrpc.find_id(line.head), message, limit)

    def notice(self, message: Message) -> None:
        """Accept a notification; unknown ones are ignored."""
        if message.method == "notifications/cancelled":
            self._run_notification(message.method, methods.cancelled_key(message))
        elif message.method == "notifications/initialized":
            # It asks every provider for its list.
            in_background(partial(self._run_notification, message.method, None))

    def _run_notification(self, method: str, params: Key | None) -> None:
        """Handle a notification; its errors are dropped."""
        self._run_on_worker(Job(methods.ParsedCall(b"", "", method, Era.LEGACY, params)))

    def _cancelled(self, job: Job) -> None:
        """Stop a request that the client cancelled; late and unknown ids are ignored."""
        key = job.call.params
        running = self._running.get(key)
        if running is None or not running.abandon():
            listen = self._listens.pop(key, None)
            if listen is not None:
                listen[1].close()

    def _initialized(self, _job: Job) -> None:
        if self._version is not None:
            self._subscription_of_client().start()

    # Completion

    def _complete(self, job: Job) -> bytes:
        self._allowances.of(self._access.name).spend()
        return self._dispatch.complete(job)

    # Opening

    def _open(self, job: Job, late_instructions: str = "") -> bytes:
        """Answer `server/discover` or `initialize`; with `late_instructions`, do not ask the providers for theirs."""
        declared = self._dispatch.declared
        if job.call.method == "initialize":
            self._version = eras.negotiate(job.call.params.protocol_version)
            self._client = methods.client_name(job.call.params.client_info)
        client = methods.client_name(job.call.params.meta.client_info) or self._client
        instructions = late_instructions or fit_instructions(self._catalog.instructions(), client)
        if job.call.method == "initialize" and self._version is not None:
            return jsonrpc.answer(job.call.id, results.initialize_result(self._version, declared, instructions))
        return jsonrpc.answer(job.call.id, results.discover_result(declared, instructions))

    def _ping(self, job: Job) -> bytes:
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    # Subscriptions

    def _listen(self, job: Job) -> None:
        """Acknowledge, then notify of changes; the request is answered when the subscription ends."""
        from carrel.server.notifications import ChangeNotifier  # after the first answer

        wanted = job.call.params.notifications
        key = job.call.key
        lists, tools = wanted.resources_list_changed, wanted.tools_list_changed and self._catalog.calls
        notifier = ChangeNotifier(self._catalog, self._access, job.send, key, lists=lists, tools=tools)
        subscription = self._watcher().subscribe(notifier, wanted.resource_subscriptions, list_changes=lists or tools)
        self._listens[key] = (job.call.id, subscription)
        running = job.running or self._running.get(key)
        if running is not None and not running.settle():
            del self._listens[key]
            subscription.close()
            return
        honoured = [uri for uri in wanted.resource_subscriptions if uri in subscription.uris]
        job.send(results.acknowledged(key, wanted, honoured, tools=self._catalog.calls))
        subscription.start()

    def _subscribe(self, job: Job) -> bytes:
        if self._version is None:
            raise ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: subscriptions need initialize first")
        subscription = self._subscription_of_client()
        if len(subscription.uris) >= MAX_SUBSCRIBED_URIS:
            raise ProviderError(f"Too many subscriptions: at most {MAX_SUBSCRIBED_URIS}", word="busy")
        subscription.add(job.call.params.uri)
        if self.on_subscription is not None:
            try:
                self.on_subscription(job.call.params.uri, True)
            except BaseException:
                subscription.discard(job.call.params.uri)
                raise
        subscription.start()
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    def _unsubscribe(self, job: Job) -> bytes:
        if self.on_subscription is not None:
            self.on_subscription(job.call.params.uri, False)
        if self._subscription is not None:
            self._subscription.discard(job.call.params.uri)
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    def _subscription_of_client(self) -> "Subscription":
        """Return the one subscription of a legacy client: to its URIs, and to the lists."""
        return self._subscription or self._open_subscription()

    def _see(self, page: Page) -> None:
        """Keep the list that a client saw before it subscribed to changes."""
        self._seen = page

    def _open_subscription(self) -> "Subscription":
        from carrel.catalog.watcher import LIST  # after the first answer
        from carrel.server.notifications import ChangeNotifier, is_list

        # Without the lock: providers are asked, and `close` must not wait for them.
        notifier = ChangeNotifier(self._catalog, self._access, self._send, lists=True, tools=self._catalog.calls)
        made = self._watcher().subscribe(notifier, list_changes=True)
        with self._opening:
            if self._subscription is None and not self._is_closed:
                self._subscription = made
            kept: Subscription | None = self._subscription
        if kept is not made:
            made.close()
        elif self._seen is not None and not is_list(self._seen, made.listed):
            # The list changed after the client saw it.
            notifier(LIST)
        if kept is None:
            raise ProviderError("The connection has ended", word="unavailable")
        return kept


class LineConnection(Connection):
    """A connection whose lines a thread reads and answers. When a call takes long, another thread can take over."""

    def __init__(self, dispatch: Dispatch, watcher: "Callable[[], Watcher]", send: Send) -> None:
        super().__init__(dispatch, watcher, send, EVERYTHING, Allowances())
        # By the call itself: a client may use the id of a call again that it cancelled, and that has not ended.
        self._inline: dict[int, methods.ParsedCall] = {}
        self._overtaken: dict[int, Running] = {}
        self._overtaking = threading.Lock()
        self._stuck: dict[str, int] = {}

    @property
    def inline(self) -> methods.ParsedCall | None:
        """The call that the reading thread is answering now."""
        return next(iter(tuple(self._inline.values())), None)

    def overtake(self, call: methods.ParsedCall, hand_over: Callable[[Work], None]) -> None:
        """Leave a call that takes long to the reading thread, which another thread replaces.

        From now on the call can be cancelled and has a deadline; `hand_over` gets it as work that only waits for
        these. Until it ends, other calls of its group run on worker threads.
        """
        with self._overtaking:
            # Atomic: either the reading thread takes its call out of here, or this thread does.
            taken = self._inline.pop(id(call), None)
            if taken is None:
                return
            running = Running(lambda: self._running.pop(taken.key, None))
            self._running[taken.key] = self._overtaken[id(taken)] = running
            group = _group(taken)
            self._stuck[group] = self._stuck.get(group, 0) + 1
            hand_over(self._work(Job(taken), running, lambda: None))

    def _try(self, call: methods.ParsedCall, send: Send, on_loop: bool) -> Tried:
        if self._stuck and _group(call) in self._stuck:
            return None, _NOT_BEGUN
        self._inline[id(call)] = call
        try:
            found, answer = super()._try(call, send, on_loop)
        finally:
            is_overtaken = self._inline.pop(id(call), None) is None
        return found, None if is_overtaken and not self._end_overtaken(call) else answer

    def _end_overtaken(self, call: methods.ParsedCall) -> bool:
        """End the state of an overtaken call; return False if it was cancelled or its time was over."""
        with self._overtaking:
            running = self._overtaken.pop(id(call))
            group = _group(call)
            self._stuck[group] -= 1
            if not self._stuck[group]:
                del self._stuck[group]
        return running.settle()


_OWN: Final[Mapping[str, Callable[[Connection, Job], bytes | None]]] = {
    "completion/complete": Connection._complete,
    "server/discover": Connection._open,
    "subscriptions/listen": Connection._listen,
    "initialize": Connection._open,
    "ping": Connection._ping,
    "resources/subscribe": Connection._subscribe,
    "resources/unsubscribe": Connection._unsubscribe,
    "notifications/cancelled": Connection._cancelled,
    "notifications/initialized": Connection._initialized,
}
"""Methods that depend on the connection; `Dispatch` has the others."""


def _group(call: methods.ParsedCall) -> str:
    """Return a name shared by all calls that wait for the same provider, as far as the call shows it."""
    uri: str | None = getattr(call.params, "uri", None)
    return f"{call.method} {uri.partition(':')[0].lower()}" if uri else call.method


def _progress_of(call: methods.ParsedCall, send: Send) -> SendProgress | None:
    token = call.params.meta.progress_token
    if call.method != "tools/call" or token is None:
        return None

    def send_progress(value: float, total: float | None, message: str | None) -> None:
        given = {"progressToken": token, "progress": value, "total": total, "message": message}
        params = {name: part for name, part in given.items() if part is not None}
        send(jsonrpc.notification("notifications/progress", params))

    return send_progress
