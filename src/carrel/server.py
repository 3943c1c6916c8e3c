"""Answers calls from a catalogue: where resources and protocol meet.

A `Connection` takes one message at a time and gives its answer, or a `Work` that a
transport may run on another thread. It is synchronous, does no input or output of its
own, and may be used from several threads. No fault of a provider gets past it (`boundary`).
"""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from carrel.allowance import Allowance
from carrel.boundary import attempt
from carrel.browsing import PAGE_SIZE, Asked
from carrel.catalog import Catalog
from carrel.content import too_large
from carrel.errors import BadArgument, BadCursor, ProtocolError, ProviderError, RequestError, TooLarge
from carrel.limits import LIST_TTL_MS, MAX_BATCH, MAX_SUBSCRIBED_URIS
from carrel.model import Range
from carrel.permissions import EVERYTHING, Access, ActingAs
from carrel.protocol import eras, failures, jsonrpc, methods, results
from carrel.protocol.eras import Era
from carrel.protocol.framing import OverLong
from carrel.protocol.jsonrpc import Key, Message, Response
from carrel.routing import Found
from carrel.value import Value
from carrel.watch import Subscription, Watcher
from carrel.work import Running, Work, together

Send = Callable[[bytes], None]
"""Gives one encoded message to the client; safe from any thread."""

TellProgress = Callable[[float, float | None, str | None], None]

_ASK_PROVIDERS: Final = frozenset(
    {
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "subscriptions/listen",
        "completion/complete",
        "tools/list",
    }
)
"""Methods that may have to wait for a provider that waits."""

NOTICES: Final = frozenset({"notifications/cancelled", "notifications/initialized"})
"""Notifications that mean something here."""


class Server:
    """A catalogue, served. One for all its connections."""

    def __init__(self, catalog: Catalog, watcher: Watcher | None = None) -> None:
        self.catalog = catalog
        self.watcher = watcher or Watcher(catalog)
        self.declared = eras.capabilities(completes=catalog.completes, calls=catalog.calls)
        self.served = {era: eras.served(era, completes=catalog.completes, calls=catalog.calls) for era in Era}
        self.speaks_fly = any(mounted.speaks_fly for mounted in catalog.mounted)
        self.has_blocking = any(mounted.blocking for mounted in catalog.mounted)

    def connect(self, send: Send, access: Access = EVERYTHING, allowance: Allowance | None = None) -> "Connection":
        """Begin a conversation with whoever has this access; `send` takes what is not the answer to a message."""
        return Connection(self, send, access, allowance or Allowance())

    def answer(self, message: bytes) -> bytes | None:
        """Answer one message by itself, on this thread."""
        connection = self.connect(lambda _: None)
        given = connection.accept(message)
        encoded = given.run() if isinstance(given, Work) else given
        endings = connection.close()
        return endings[0] if endings else encoded


class Connection:
    """One conversation: what was agreed, what runs, what is listened to."""

    def __init__(self, server: Server, send: Send, access: Access, allowance: Allowance) -> None:
        self._server = server
        self._catalog = server.catalog
        self._send = send
        self._access = access
        self._allowance = allowance
        self._version: str | None = None
        self._running: dict[Key, Running] = {}
        self._listens: dict[Key, tuple[bytes, Subscription]] = {}
        self._subscription: Subscription | None = None
        self._opening = threading.Lock()

    def accept(self, line: bytes | OverLong) -> bytes | Work | None:
        """Take a message, or a batch; give its answer, or work that may wait, or nothing."""
        if isinstance(line, OverLong):
            return self._refuse_over_long(line)
        if line[:1] == b"[" and self._version == eras.BATCH_VERSION:
            return self._accept_batch(line)
        return self._accept_one(line)

    def _accept_one(self, line: bytes) -> bytes | Work | None:
        try:
            message = jsonrpc.decode(line)
        except ProtocolError as error:
            return failures.encode(error, Era.LEGACY, error.request_id)
        if isinstance(message, Response):
            return None
        if message.id is None:
            self.notice(message)
            return None
        try:
            call = methods.parse(message, self._server.served)
        except ProtocolError as error:
            return failures.encode(error, Era.LEGACY, message.id)
        return self.begin(call)

    def close(self) -> list[bytes]:
        """End the conversation; give the results that end its open subscriptions."""
        for running in tuple(self._running.values()):
            running.cancel()
        if self._subscription is not None:
            self._subscription.close()
        endings = []
        while self._listens:
            key, (request_id, subscription) = self._listens.popitem()
            subscription.close()
            endings.append(jsonrpc.answer(request_id, results.listen_result(key)))
        return endings

    # One message

    def begin(self, call: methods.Call, send: Send | None = None) -> bytes | Work | None:
        """Answer a call, or give work that will. `send` takes what comes before the answer, if that has its own way."""
        if call.key in self._running or call.key in self._listens:
            message = "Invalid request: id is in use by a request that still runs"
            return failures.encode(ProtocolError(jsonrpc.INVALID_REQUEST, message), call.era, call.id)
        found = None
        if call.method == "resources/read":
            try:
                with ActingAs(self._access):
                    found = self._catalog.find(call.params.uri)
            except RequestError as error:
                return failures.encode(error, call.era, call.id, call.params.uri)
        if not self._is_blocking(call.method, found):
            return self._run(_Job(call, found, None, send or self._send))
        running = Running(lambda: self._running.pop(call.key, None), _progress_of(call, send or self._send))
        self._running[call.key] = running
        job = _Job(call, found, running, send or self._send)
        return Work(
            running,
            run=lambda: self._run(job),
            late=lambda: self._fail(job, ProviderError("Request timed out", word="timeout")),
            busy=lambda: self._fail(job, ProviderError("Server is busy: too many requests wait", word="busy")),
        )

    def _is_blocking(self, method: str, found: Found | None) -> bool:
        if found is not None:
            return found.mounted.blocking
        return method == "tools/call" or (self._server.has_blocking and method in _ASK_PROVIDERS)

    def _run(self, job: "_Job") -> bytes | None:
        """Answer a call, whatever becomes of it."""
        try:
            with ActingAs(self._access):
                encoded = attempt(_ANSWERS[job.call.method], self, job)
            if encoded is not None and len(encoded) > self._catalog.max_bytes:
                raise self._does_not_fit(job, len(encoded))
        except (RequestError, ProviderError, ProtocolError) as error:
            return self._fail(job, error)
        return encoded

    def _fail(self, job: "_Job", error: failures.Answerable) -> bytes:
        return failures.encode(error, job.call.era, job.call.id, job.uri)

    def _does_not_fit(self, job: "_Job", size: int) -> TooLarge:
        limit = self._catalog.max_bytes
        if job.call.method == "resources/read" and job.found is not None:
            asked = {**job.found.variables, **dict(job.found.query_range)}.get("start", "0")
            start = job.call.params.start or (int(asked) if asked.isdecimal() else 0)
            return too_large(job.call.params.uri, size, limit, start)
        return TooLarge(f"Too large: the answer has {size} bytes, one message holds {limit}", size=size, limit=limit)

    def _accept_batch(self, line: bytes) -> bytes | Work | None:
        """Handle each message of a batch; one array goes back."""
        try:
            lines = jsonrpc.decode_batch(line)
            if not 0 < len(lines) <= MAX_BATCH:
                message = f"Invalid request: a batch holds 1 to {MAX_BATCH} messages"
                raise ProtocolError(jsonrpc.INVALID_REQUEST, message)
        except ProtocolError as error:
            return failures.encode(error, Era.LEGACY, error.request_id)
        return together([self._accept_one(element) for element in lines])

    def _refuse_over_long(self, line: OverLong) -> bytes:
        limit = self._catalog.max_bytes
        message = f"Message too large: one message holds {limit} bytes"
        data = {"limit": limit, failures.ERROR_KEY: "too_large"}
        return jsonrpc.failure(jsonrpc.find_id(line.head), eras.TOO_LARGE, message, data)

    def notice(self, message: Message) -> None:
        """Take a notification, inside the same boundary as a call; unknown ones are ignored."""
        if message.method in NOTICES:
            self._run(_Job(methods.Call(b"", "", message.method, Era.LEGACY, message), None, None, self._send))

    def _cancelled(self, job: "_Job") -> None:
        """Stop what the client no longer wants; late and unknown ids are ignored."""
        key = methods.cancelled_key(job.call.params)
        if key is None:
            return
        running = self._running.get(key)
        if running is None or not running.cancel():
            listen = self._listens.pop(key, None)
            if listen is not None:
                listen[1].close()

    def _initialized(self, _job: "_Job") -> None:
        if self._version is not None:
            self._subscription_of_client().start()

    # Resources

    def _read(self, job: "_Job") -> bytes:
        params = job.call.params
        assert job.found is not None
        wanted = None
        if params.start is not None or params.length is not None:
            wanted = Range(params.start or 0, params.length)
        reading = self._catalog.read_found(job.found, params.uri, wanted, params.meta.condition or None)
        is_fly = wanted is not None or job.found.mounted.speaks_fly
        return jsonrpc.answer(job.call.id, results.read_result(reading, params.uri, job.call.era, is_fly=is_fly))

    def _list(self, job: "_Job") -> bytes:
        """Give a page; one that would not fit a message ends earlier."""
        if job.call.params.is_fly:
            return self._browse(job)
        limit = self._catalog.page_size
        is_fly = self._server.speaks_fly and not job.call.params.cursor
        while True:
            page = self._catalog.page(job.call.params.cursor, limit)
            if is_fly:
                total = sum(1 for _ in self._catalog.entries())
                result = results.fly_list_result(page, total, 0, limit, job.call.era)
            else:
                result = results.list_result(page, job.call.era)
            encoded = jsonrpc.answer(job.call.id, result)
            if len(encoded) <= self._catalog.max_bytes or len(page.entries) <= 1:
                return encoded
            limit = len(page.entries) // 2

    def _browse(self, job: "_Job") -> bytes:
        """Give a page in Fly's way, with its fields beside the standard ones."""
        params = job.call.params
        if params.cursor is not None:
            raise BadArgument("Invalid parameter: cursor (not together with others)", data={"parameter": "cursor"})
        size = PAGE_SIZE if params.page_size is None else params.page_size
        browsed = self._catalog.browse(Asked(params.directory, params.uri, params.page or 0, size))
        result = results.fly_list_result(browsed.page, browsed.total, params.page or 0, size, job.call.era)
        encoded = jsonrpc.answer(job.call.id, result)
        limit = self._catalog.max_bytes
        if len(encoded) <= limit:
            return encoded
        suggested = max(1, len(browsed.page.entries) * limit // len(encoded) // 2)
        message = f"Too large: the page has {len(encoded)} bytes, one message holds {limit}; ask for fewer entries"
        raise TooLarge(message, size=len(encoded), limit=limit, data={"suggestedPageSize": suggested})

    def _list_templates(self, job: "_Job") -> bytes:
        templates, next_cursor = self._catalog.templates(job.call.params.cursor)
        result = results.templates_result(templates, next_cursor, LIST_TTL_MS, job.call.era)
        return jsonrpc.answer(job.call.id, result)

    def _complete(self, job: "_Job") -> bytes:
        self._allowance.spend()
        params = job.call.params
        if params.ref.type != "ref/resource":
            raise BadArgument("Unknown reference: only ref/resource is known here", data={"parameter": "ref"})
        completion = self._catalog.complete(
            params.ref.uri, params.argument.name, params.argument.value, params.context.arguments
        )
        return jsonrpc.answer(job.call.id, results.completion_result(completion, job.call.era))

    # Tools

    def _list_tools(self, job: "_Job") -> bytes:
        if job.call.params.cursor:
            raise BadCursor
        result = results.tools_result(self._catalog.tools(), LIST_TTL_MS, job.call.era)
        return jsonrpc.answer(job.call.id, result)

    def _call_tool(self, job: "_Job") -> bytes:
        assert job.running is not None
        result = self._catalog.call(job.call.params.name, job.call.params.arguments, job.running)
        return jsonrpc.answer(job.call.id, results.call_result(result, job.call.era))

    # Opening

    def _discover(self, job: "_Job") -> bytes:
        result = results.discover_result(self._server.declared, self._catalog.instructions())
        return jsonrpc.answer(job.call.id, result)

    def _initialize(self, job: "_Job") -> bytes:
        self._version = eras.negotiate(job.call.params.protocol_version)
        result = results.initialize_result(self._version, self._server.declared, self._catalog.instructions())
        return jsonrpc.answer(job.call.id, result)

    def _ping(self, job: "_Job") -> bytes:
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    # Subscriptions

    def _listen(self, job: "_Job") -> None:
        """Acknowledge first, then tell; the request is answered when the subscription ends."""
        wanted = job.call.params.notifications
        key = job.call.key

        def tell(what: str) -> None:
            job.send(results.changed(what, key))

        subscription = self._server.watcher.subscribe(
            tell, wanted.resource_subscriptions, list_changes=wanted.resources_list_changed
        )
        self._listens[key] = (job.call.id, subscription)
        if job.running is not None and not job.running.settle():
            del self._listens[key]
            subscription.close()
            return
        honoured = [uri for uri in wanted.resource_subscriptions if uri in subscription.uris]
        job.send(results.acknowledged(key, wanted, honoured, tools=self._catalog.calls))
        subscription.start()

    def _subscribe(self, job: "_Job") -> bytes:
        if self._version is None:
            raise ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: subscriptions need initialize first")
        subscription = self._subscription_of_client()
        if len(subscription.uris) >= MAX_SUBSCRIBED_URIS:
            raise ProviderError(f"Too many subscriptions: at most {MAX_SUBSCRIBED_URIS}", word="busy")
        subscription.add(job.call.params.uri)
        subscription.start()
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    def _unsubscribe(self, job: "_Job") -> bytes:
        if self._subscription is not None:
            self._subscription.discard(job.call.params.uri)
        return jsonrpc.answer(job.call.id, results.empty_result(job.call.era))

    def _subscription_of_client(self) -> Subscription:
        """Give the one subscription of a legacy client: its URIs, and the list."""

        def tell(what: str) -> None:
            self._send(results.changed(what))

        with self._opening:
            if self._subscription is None:
                self._subscription = self._server.watcher.subscribe(tell, list_changes=True)
            return self._subscription


class _Job(Value, frozen=True):
    """A call on its way through: with the route it found, its state if it may wait, and what tells of it."""

    call: methods.Call
    found: Found | None
    running: Running | None
    send: Send

    @property
    def uri(self) -> str | None:
        return getattr(self.call.params, "uri", None)


_ANSWERS: Final[Mapping[str, Callable[[Connection, _Job], bytes | None]]] = {
    "resources/read": Connection._read,
    "resources/list": Connection._list,
    "resources/templates/list": Connection._list_templates,
    "completion/complete": Connection._complete,
    "tools/list": Connection._list_tools,
    "tools/call": Connection._call_tool,
    "server/discover": Connection._discover,
    "subscriptions/listen": Connection._listen,
    "initialize": Connection._initialize,
    "ping": Connection._ping,
    "resources/subscribe": Connection._subscribe,
    "resources/unsubscribe": Connection._unsubscribe,
    "notifications/cancelled": Connection._cancelled,
    "notifications/initialized": Connection._initialized,
}


def _progress_of(call: methods.Call, send: Send) -> TellProgress | None:
    token = call.params.meta.progress_token
    if call.method != "tools/call" or token is None:
        return None

    def tell(value: float, total: float | None, message: str | None) -> None:
        given = {"progressToken": token, "progress": value, "total": total, "message": message}
        params = {name: part for name, part in given.items() if part is not None}
        send(jsonrpc.notification("notifications/progress", params))

    return tell
