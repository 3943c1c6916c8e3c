"""Streamable HTTP: the endpoint `/mcp`, both eras.

Each modern request has its own connection, which is closed with it: equal ids of different clients do not conflict, and
a client that disconnects cancels its request. A legacy request belongs to its session, if it has one. Answers are JSON;
an event stream is opened only if a notification comes before the answer.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from carrel.core.cache import BoundedCache
from carrel.core.errors import ProtocolError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.core.record import Value
from carrel.protocol import eras, headers, jsonrpc, methods, wire_errors
from carrel.protocol.eras import Era
from carrel.protocol.headers import Headers
from carrel.protocol.jsonrpc import Key, Message
from carrel.server.connection import Connection
from carrel.server.ratelimit import Allowances
from carrel.server.requests import Work, in_background
from carrel.server.server import Server
from carrel.transports.http.asgi import JSON, Answered, Request, TooLong
from carrel.transports.http.plain import refusal
from carrel.transports.http.sessions import LegacySession, Sessions
from carrel.transports.http.shared_sessions import SharedSessions
from carrel.transports.http.sse import Outbox, expiring, stream
from carrel.transports.http.threads import Threads

_VERSION, _METHOD, _NAME = headers.VERSION.encode(), headers.METHOD.encode(), headers.NAME.encode()
_SESSION: Final = b"mcp-session-id"
_LISTEN: Final = "subscriptions/listen"
_ALLOW_POST: Final = (b"allow", b"POST")
_ALLOW_ALL: Final = (b"allow", b"POST, GET, DELETE")
_sound_headers: Final[BoundedCache[tuple[bytes, bytes], bool]] = BoundedCache(1 << 16)
"""Values of `Content-Type` and `Accept` with which nothing is wrong."""


class OpenPost(Value, frozen=True, eq=False):
    """A POST that waits for its answer, or streams notifications.

    `ids` are the ids of its requests that were not cancelled. `work` returns the answer; without it, or with
    `may_go_on`, the answer comes when the connection is closed. `opens` is the session that a successful answer opens.
    """

    connection: Connection
    outbox: Outbox
    era: Era
    ids: dict[Key, bytes]
    work: Work | None = None
    may_go_on: bool = False
    is_batch: bool = False
    opens: LegacySession | None = None

    def cancel(self, key: Key | None) -> None:
        """Remove a cancelled request; when all are cancelled, end without an answer."""
        if key is not None and self.ids.pop(key, None) is not None and not self.ids:
            self.outbox.finish()

    def fail(self, problem: str) -> None:
        """Answer with an error, unless there is an answer already."""
        error = ProviderError(problem, word="unavailable")
        failures = b",".join([wire_errors.encode(error, self.era, request_id) for request_id in self.ids.values()])
        self.outbox.finish(b"[" + failures + b"]" if self.is_batch else failures)

    def take(self, answer: bytes | None) -> None:
        """Receive the outcome of the work."""
        if answer is not None or not self.may_go_on:
            self.outbox.finish(answer)


class Endpoint:
    """Answers requests to `/mcp`."""

    def __init__(
        self,
        server: Server,
        threads: Threads,
        is_shut_out: Callable[[Request], bool],
        allowances: Allowances,
        shared: SharedSessions | None = None,
    ) -> None:
        """`is_shut_out` returns whether the token of a request has expired or was revoked."""
        self.sessions = Sessions(self._end_posts)
        self._shared = shared
        self._loop: asyncio.AbstractEventLoop | None = None
        if shared is not None:
            shared.on_change = self._hear_of_session
        self._server = server
        self._threads = threads
        self._is_shut_out = is_shut_out
        self._allowances = allowances
        self._posts: set[OpenPost] = set()

    async def answer(self, request: Request) -> None:
        """Answer one request."""
        if request.method == "POST":
            await self._post(request)
        elif request.method in ("GET", "DELETE"):
            await self._get_or_delete(request)
        else:
            await request.refuse(405, "Use POST", _ALLOW_ALL)

    def close(self) -> None:
        """End every stream, each with its result, and every session."""
        busy = {post.connection for post in self._posts if post.connection.is_busy}
        for post in tuple(self._posts):
            for ending in () if post.connection in busy else post.connection.close():
                post.outbox.finish(ending)
            post.fail("Server is stopping")
        for connection in busy:
            # Last, and on another thread: stopped work returns no answer, and may take long to stop.
            in_background(connection.close)
        self.sessions.close()

    def _end_posts(self, session: LegacySession) -> None:
        """Answer the open requests of a session that ends."""
        for post in tuple(self._posts):
            if post.connection is session.connection:
                post.fail("Session ended")

    def _cancel_posts(self, session: LegacySession, key: Key | None) -> None:
        """End the wait for a cancelled request; its work may stop later, or never."""
        for post in self._posts:
            if post.connection is session.connection:
                post.cancel(key)

    # POST: one message

    async def _post(self, request: Request) -> None:
        problem = problem_with(request)
        if problem is not None:
            await request.refuse(*problem)
            return
        try:
            body = await request.body(self._server.catalog.max_bytes)
        except TooLong:
            limit = self._server.catalog.max_bytes
            await request.refuse(413, f"Message too large: one message holds {limit} bytes", (b"connection", b"close"))
            return
        await self.finish(request, self.accept(request, body))

    def accept(self, request: Request, body: bytes) -> Answered | OpenPost:
        """Accept the message of a POST with valid headers; return its answer, or the POST that waits for it."""
        try:
            return attempt("HTTP", self._accept, request, body)
        except (RequestError, ProviderError, ProtocolError) as error:
            return refusal(request, error)

    def _accept(self, request: Request, body: bytes) -> Answered | OpenPost:
        http_headers = _headers_of(request)
        call = methods.parse_read(body, http_headers)
        if call is not None:
            return self._accept_call(request, call)
        try:
            message = jsonrpc.decode(body)
        except ProtocolError as error:
            return self._accept_batch(request, body, error)
        if message is None or message.id is None:
            return self._accept_notice(request, message, http_headers)
        try:
            call = methods.parse(message, self._server.dispatch.served, http_headers)
        except ProtocolError as error:
            era = methods.era_of(message, http_headers)
            return _answered(request, wire_errors.encode(error, era, message.id), era)
        return self._accept_call(request, call)

    def _accept_call(self, request: Request, call: methods.ParsedCall) -> Answered | OpenPost:
        if call.era is Era.MODERN:
            return self._begin(request, call, None)
        if call.method == "initialize":
            return self._open_session(request, call)
        session = self._session_of(request)
        if session is None and _SESSION in request.headers:
            return _unknown_session(call.id)
        if session is None and call.method == "resources/subscribe":
            refused = ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: subscriptions need a session")
            return Answered(400, (JSON,), wire_errors.encode(refused, Era.LEGACY, call.id))
        return self._begin(request, call, session)

    def _begin(self, request: Request, call: methods.ParsedCall, session: LegacySession | None) -> Answered | OpenPost:
        outbox = Outbox() if call.method == _LISTEN or call.params.meta.progress_token is not None else None
        send = _ignore if outbox is None else outbox.put
        connection = session.connection if session else self._connect(request, send)
        given = connection.begin(call, send, on_loop=True)
        if type(given) is bytes and not (outbox and outbox.has_pending):
            return _answered(request, given, call.era)
        post = OpenPost(
            connection,
            outbox or Outbox(),
            call.era,
            {call.key: call.id},
            given if isinstance(given, Work) else None,
            may_go_on=call.method == _LISTEN,
        )
        if type(given) is bytes:
            post.take(given)
        return post

    def _open_session(self, request: Request, call: methods.ParsedCall) -> OpenPost:
        outbox = Outbox()
        connection = self._connect(request, outbox.put)
        given = connection.begin(call, on_loop=True)
        assert isinstance(given, Work)  # providers are asked for their instructions
        version = eras.negotiate(call.params.protocol_version)
        session_id, name = "", ""
        if self._shared is not None:
            client = methods.client_name(call.params.client_info)
            session_id, state = self._shared.open(request.access, version, client)
            name = state.name
        session = self._keep(LegacySession(request.access, connection, outbox, version, session_id, name))
        return OpenPost(connection, Outbox(), Era.LEGACY, {call.key: call.id}, given, opens=session)

    def _accept_batch(self, request: Request, body: bytes, error: ProtocolError) -> Answered | OpenPost:
        """Accept a batch, if the session has batches; return the error for anything else."""
        session = self._session_of(request)
        if body.lstrip()[:1] != b"[" or session is None or session.version not in eras.VERSIONS.with_batches:
            return Answered(400, (JSON,), wire_errors.encode(error, Era.LEGACY, error.request_id))
        given = session.connection.accept(body.strip())
        messages = _messages_in(body)
        for message in messages:
            if message.method == "notifications/cancelled":
                self._cancel_posts(session, methods.cancelled_key(message))
        if given is None:
            return Answered(202)
        if isinstance(given, Work):
            ids = {one.key: one.id for one in messages if one.key is not None and one.id is not None}
            return OpenPost(session.connection, Outbox(), Era.LEGACY, ids, given, is_batch=True)
        return Answered(200 if given.startswith(b"[") else 400, (JSON,), given)

    def _accept_notice(self, request: Request, message: Message | None, http_headers: Headers) -> Answered:
        """Accept a message that gets no answer."""
        is_modern = http_headers.is_modern or (message is not None and methods.era_of(message) is Era.MODERN)
        if message is None:
            if is_modern:
                error = ProtocolError(
                    jsonrpc.INVALID_REQUEST, "Invalid request: this is a response, but the server sent no request"
                )
                return Answered(400, (JSON,), wire_errors.encode(error, Era.MODERN, None))
        elif not is_modern and _SESSION in request.headers:
            session = self._session_of(request)
            if session is None:
                return _unknown_session(None)
            session.connection.notice(message)
            if message.method == "notifications/cancelled":
                self._cancel_posts(session, methods.cancelled_key(message))
        return Answered(202)

    # The answer

    async def finish(self, request: Request, given: Answered | OpenPost) -> None:
        """Send the answer to a message, now or when it is ready."""
        if isinstance(given, Answered):
            await request.reply(given.status, given.body, *given.headers)
            return
        try:
            await self._wait(request, given)
        finally:
            connection = given.connection
            if given.era is Era.MODERN:
                if connection.is_busy or (given.work is not None and not given.outbox.is_finished):
                    in_background(connection.close)
                else:
                    connection.close()

    async def _wait(self, request: Request, post: OpenPost) -> None:
        """Wait for the answer, a notification before it, or the client to disconnect, and act on the first of them."""
        outbox = post.outbox
        gone = asyncio.ensure_future(request.until_gone())
        gone.add_done_callback(lambda _: outbox.wake())
        self._posts.add(post)
        try:
            if post.work is not None:
                self._threads.submit(request.access, post.work, post.take)
            while not (outbox.is_finished or outbox.has_pending or gone.done()):
                await outbox.wait(None)
            if gone.done():
                return
            if not outbox.is_finished or outbox.has_pending:
                await self._stream(request, outbox, gone)
            elif outbox.answer is not None:
                answered = self._answered(request, post, outbox.answer)
                await request.reply(answered.status, answered.body, *answered.headers)
            else:
                # A cancelled request gets no answer, but the POST needs one: a stream that ends at once.
                await stream(request, outbox, gone.done)
        finally:
            self._posts.discard(post)
            gone.cancel()

    def _answered(self, request: Request, post: OpenPost, answer: bytes) -> Answered:
        answered = _answered(request, answer, post.era)
        if post.opens is None or answered.status != 200 or answer.startswith(b'{"error"'):
            return answered
        self.sessions.add(post.opens)
        return Answered(200, (JSON, (_SESSION, post.opens.id.encode())), answer)

    async def _stream(self, request: Request, outbox: Outbox, gone: asyncio.Future[None]) -> None:
        with self._threads.streaming(request.access) as is_free, expiring(request, outbox):
            if is_free:
                await stream(request, outbox, lambda: gone.done() or self._is_shut_out(request))
            else:
                await request.refuse(503, "Too many open streams: close some", (b"retry-after", b"1"))

    def _connect(self, request: Request, send: Callable[[bytes], None]) -> Connection:
        return self._server.connect(send, request.access, self._allowances)

    # Sessions

    def _session_of(self, request: Request) -> LegacySession | None:
        given = request.headers.get(_SESSION)
        if given is None:
            return None
        session_id = given.decode("latin-1")
        session = self.sessions.find(session_id, request.access)
        if self._shared is None:
            return session
        if session is not None and self._shared.has_ended(session.name):
            self.sessions.end(session)
            return None
        return session or self._adopt(request, session_id, self._shared)

    def _adopt(self, request: Request, session_id: str, shared: SharedSessions) -> LegacySession | None:
        """Continue a session that another replica opened; None if there is no such session."""
        state = shared.find(session_id, request.access)
        if state is None:
            return None
        outbox = Outbox()
        connection = self._connect(request, outbox.put)
        connection.adopt(state.version, state.client)
        session = LegacySession(request.access, connection, outbox, state.version, session_id, state.name)
        self.sessions.add(self._keep(session))
        return session

    def _keep(self, session: LegacySession) -> LegacySession:
        """Store the subscriptions of a session for other replicas."""
        shared = self._shared
        if shared is not None:
            self._loop = asyncio.get_running_loop()

            def remember(uri: str, is_wanted: bool) -> None:
                shared.remember(session.name, uri, is_wanted=is_wanted)

            session.connection.on_subscription = remember
        return session

    def _hear_of_session(self, name: str) -> None:
        """Learn, on the thread of the feed, that a session changed on another replica."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.call_soon_threadsafe(self._renew, name)

    def _renew(self, name: str) -> None:
        for session in self.sessions.named(name):
            if self._shared is not None and self._shared.has_ended(name):
                self.sessions.end(session)
            elif session.has_reader:
                in_background(partial(self._resume, session, ""))

    def _resume(self, session: LegacySession, last_event: str) -> None:
        """Take a session's subscriptions from the store, and send what was missed since an event; may wait."""
        if self._shared is not None and self._shared.has_events:
            with suppress(ProviderError):  # without the store, a stream goes on with what it has
                found = self._shared.resume(session.name, last_event)
                session.connection.resubscribe(found.uris, found.missed, has_missed_lists=found.has_missed_lists)

    async def _get_or_delete(self, request: Request) -> None:
        session = self._session_of(request)
        if _SESSION not in request.headers or _headers_of(request).is_modern:
            await request.refuse(405, "Use POST", _ALLOW_POST)
        elif session is None:
            await self.finish(request, _unknown_session(None))
        elif request.method == "DELETE":
            self.sessions.end(session)
            if self._shared is not None:
                await self._threads.call(request.access, partial(self._shared.end, session.name), owner="sessions")
            await request.reply(204)
        elif not _takes(request.headers.get(b"accept", b"*/*"), b"text/event-stream"):
            await request.refuse(406, "Accept must list text/event-stream")
        else:
            await self._stream_session(request, session)

    async def _stream_session(self, request: Request, session: LegacySession) -> None:
        """Stream the notifications of a session; a later stream of the same session takes over."""
        gone = asyncio.ensure_future(request.until_gone())
        gone.add_done_callback(lambda _: session.outbox.wake())
        try:
            with self._threads.streaming(request.access) as is_free, expiring(request, session.outbox):
                if not is_free:
                    await request.refuse(503, "Too many open streams: close some", (b"retry-after", b"1"))
                    return
                reader = session.claim()

                def is_over() -> bool:
                    self.sessions.touch(session)
                    return gone.done() or self._is_shut_out(request) or not session.is_read_by(reader)

                if self._shared is None:
                    await stream(request, session.outbox, is_over)
                    return
                last_event = request.headers.get(b"last-event-id", b"").decode("latin-1")
                resume = partial(self._resume, session, last_event)
                await self._threads.call(request.access, resume, owner="sessions")
                await stream(request, session.outbox, is_over, self._shared.event_id)
        finally:
            gone.cancel()


def _messages_in(batch: bytes) -> list[Message]:
    """Return the requests and notifications of a batch."""
    messages = []
    with suppress(ProtocolError):
        for line in jsonrpc.decode_batch(batch):
            with suppress(ProtocolError):
                message = jsonrpc.decode(line)
                if message is not None:
                    messages.append(message)
    return messages


def _answered(request: Request, answer: bytes, era: Era) -> Answered:
    """Return an answer with its status and, for 403, the missing scope."""
    status = headers.status_of(answer, era)
    if status != 403:
        return Answered(status, (JSON,), answer)
    return Answered(403, (JSON, request.scope_challenge(headers.needed_scope(answer))), answer)


def _unknown_session(request_id: bytes | None) -> Answered:
    error = ProtocolError(jsonrpc.INVALID_REQUEST, "Unknown session: it ended or never existed; send initialize again")
    return Answered(404, (JSON,), wire_errors.encode(error, Era.LEGACY, request_id))


def _ignore(_: bytes) -> None:
    """Drop a message that the client did not ask for."""


def _headers_of(request: Request) -> Headers:
    given = request.headers.get
    repeated = b""
    if request.repeated:
        repeated = next((one for one in (_VERSION, _METHOD, _NAME) if one in request.repeated), b"")
    return Headers(_text(given(_VERSION)), _text(given(_METHOD)), _text(given(_NAME)), repeated.decode())


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.strip(b" \t").decode("latin-1")


def problem_with(request: Request) -> tuple[int, str] | None:
    """Return what is wrong with the headers of a POST: a status and a sentence, or None."""
    values = request.headers.get(b"content-type", b""), request.headers.get(b"accept", b"*/*")
    if _sound_headers.get(values):
        return None
    problem = _problem(*values)
    if problem is None:
        _sound_headers.put(values, True, 512 + sum(map(len, values)))
    return problem


def _problem(content_type: bytes, accept: bytes) -> tuple[int, str] | None:
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        return 415, "Content-Type must be application/json"
    if not (_takes(accept, b"application/json") and _takes(accept, b"text/event-stream")):
        return 406, "Accept must list application/json and text/event-stream"
    return None


def _takes(accept: bytes, kind: bytes) -> bool:
    named = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not named.isdisjoint({kind, kind.partition(b"/")[0] + b"/*", b"*/*"})
