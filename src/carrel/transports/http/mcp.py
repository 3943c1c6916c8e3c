"""Streamable HTTP: the endpoint `/mcp`, both eras.

A modern request is a conversation of its own: a connection is made for it and closed with
it, so equal ids of different clients never meet, and a client that leaves has cancelled.
A legacy request belongs to its session, if it has one. Answers are JSON; an event stream
is opened only when something has to be told before the answer.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import time
from typing import Final

from carrel.core.blocking import Hurrying
from carrel.core.errors import ProtocolError
from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.protocol import eras, headers, jsonrpc, methods, wire_errors
from carrel.protocol.eras import Era
from carrel.protocol.headers import Headers
from carrel.protocol.jsonrpc import Key, Message, Response
from carrel.server.requests import Work, aside
from carrel.server.server import Connection, Server
from carrel.transports.http.asgi import JSON, Answered, Gone, Request, TooLong
from carrel.transports.http.open_posts import Waiting, messages_in
from carrel.transports.http.sessions import Session, Sessions
from carrel.transports.http.sse import Outbox, stream
from carrel.transports.http.threads import Threads

_VERSION, _METHOD, _NAME = headers.VERSION.encode(), headers.METHOD.encode(), headers.NAME.encode()
_SESSION: Final = b"mcp-session-id"
_LISTEN: Final = "subscriptions/listen"
_LONG: Final = frozenset({_LISTEN, "initialize", "resources/subscribe"})
"""Methods that leave more behind than their answer."""
_ALLOW_POST: Final = (b"allow", b"POST")
_ALLOW_ALL: Final = (b"allow", b"POST, GET, DELETE")


class Endpoint:
    """Answers what comes to `/mcp`."""

    def __init__(self, server: Server, threads: Threads, is_let_in: Callable[[Request], bool]) -> None:
        """Make it. `is_let_in` tells of somebody who was let in whether they still would be."""
        self.sessions = Sessions(self._end_waiting)
        self._server = server
        self._threads = threads
        self._is_let_in = is_let_in
        self._waiting: set[Waiting] = set()

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
        busy = {waiting.connection for waiting in self._waiting if waiting.connection.is_busy}
        for waiting in tuple(self._waiting):
            for ending in () if waiting.connection in busy else waiting.connection.close():
                waiting.outbox.finish(ending)
            waiting.fail("Server is stopping")
        for connection in busy:
            # Only now: work that is stopped gives no answer, and may take its time.
            aside(connection.close)
        self.sessions.close()

    def _end_waiting(self, session: Session) -> None:
        """Answer what still waits in a session that ends."""
        for waiting in tuple(self._waiting):
            if waiting.connection is session.connection:
                waiting.fail("Session ended")

    def _cancel_waiting(self, session: Session, key: Key | None) -> None:
        """Let nobody wait for what was cancelled: what works on it may take its time, or never notice."""
        for waiting in self._waiting:
            if waiting.connection is session.connection:
                waiting.cancel(key)

    # POST: one message

    async def _post(self, request: Request) -> None:
        problem = _problem_with(request)
        if problem is not None:
            await request.refuse(*problem)
            return
        try:
            body = await request.body(self._server.catalog.max_bytes)
        except TooLong:
            limit = self._server.catalog.max_bytes
            await request.refuse(413, f"Message too large: one message holds {limit} bytes", (b"connection", b"close"))
            return
        beside = _headers_of(request)
        try:
            message = jsonrpc.decode(body)
        except ProtocolError as error:
            await self._take_no_message(request, body, error)
            return
        if isinstance(message, Response) or message.id is None:
            await self._take_notice(request, message, beside)
            return
        try:
            call = methods.parse(message, self._server.served, beside)
        except ProtocolError as error:
            era = methods.era_of(message, beside)
            await _reply(request, wire_errors.encode(error, era, message.id), era)
            return
        if call.era is Era.MODERN:
            await self._converse(request, call, None)
        elif call.method == "initialize":
            await self._open_session(request, call)
        else:
            await self._answer_legacy(request, call)

    async def _take_no_message(self, request: Request, body: bytes, error: ProtocolError) -> None:
        """Answer what is no single message: a batch, where one was agreed on, or nonsense."""
        session = self._session_of(request)
        is_batch = body.lstrip()[:1] == b"["
        if is_batch and session is not None and session.version == eras.BATCH_VERSION:
            await self._answer_batch(request, session, body.strip())
            return
        await request.reply(400, wire_errors.encode(error, Era.LEGACY, error.request_id), JSON)

    async def _answer_batch(self, request: Request, session: Session, body: bytes) -> None:
        outbox = Outbox()
        with Hurrying(on_event_loop=True):
            given = session.connection.accept(body)
        messages = messages_in(body)
        for message in messages:
            if message.method == "notifications/cancelled":
                self._cancel_waiting(session, methods.cancelled_key(message))
        if given is None:
            await request.reply(202)
        elif isinstance(given, Work):
            ids = {one.key: one.id for one in messages if one.key is not None and one.id is not None}
            waiting = Waiting(session.connection, outbox, Era.LEGACY, ids, is_batch=True)
            await self._wait(request, waiting, given, outbox.finish)
        else:
            await request.reply(200 if given.startswith(b"[") else 400, given, JSON)

    async def _take_notice(self, request: Request, message: Message | Response, beside: Headers) -> None:
        """Take what wants no answer."""
        is_modern = beside.is_modern or (isinstance(message, Message) and methods.era_of(message) is Era.MODERN)
        if isinstance(message, Response):
            if is_modern:
                error = ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: a response, and nothing was asked")
                await request.reply(400, wire_errors.encode(error, Era.MODERN, None), JSON)
                return
        elif not is_modern and _SESSION in request.headers:
            session = self._session_of(request)
            if session is None:
                await _refuse_session(request, None)
                return
            with Hurrying(on_event_loop=True):
                session.connection.notice(message)
            if message.method == "notifications/cancelled":
                self._cancel_waiting(session, methods.cancelled_key(message))
        await request.reply(202)

    def at_once(self, request: Request, body: bytes) -> Answered | None:
        """Answer a call that nothing has to be waited or told for; None for any other."""
        problem = _problem_with(request)
        if problem is not None or len(body) > self._server.catalog.max_bytes:
            return None
        try:
            message = jsonrpc.decode(body)
            if isinstance(message, Response) or message.id is None:
                return None
            call = methods.parse(message, self._server.served, _headers_of(request))
        except ProtocolError:
            return None
        if call.method in _LONG or call.params.meta.progress_token is not None:
            return None
        session = self._session_of(request) if call.era is Era.LEGACY else None
        if session is None and call.era is Era.LEGACY and _SESSION in request.headers:
            return None
        connection = session.connection if session else self._connect(request, _nowhere)
        with Hurrying(on_event_loop=True):
            answer = connection.at_once(call)
        return None if answer is None else _answered(request, answer, call.era)

    # Requests

    async def _converse(self, request: Request, call: methods.Call, session: Session | None) -> None:
        """Answer a call: at once, or when its work is done; with a stream if something is told before."""
        if call.method != _LISTEN and call.params.meta.progress_token is None:
            connection = session.connection if session else self._connect(request, _nowhere)
            with Hurrying(on_event_loop=True):
                given = connection.begin(call)
            if given is not None and not isinstance(given, Work):
                await _reply(request, given, call.era)
                return
            outbox = Outbox()
        else:
            outbox = Outbox()
            connection = session.connection if session else self._connect(request, outbox.put)
            with Hurrying(on_event_loop=True):
                given = connection.begin(call, outbox.put)
            if given is not None and not isinstance(given, Work):
                outbox.finish(given)
        take = outbox.finish_if if call.method == _LISTEN else outbox.finish
        try:
            await self._wait(request, Waiting(connection, outbox, call.era, {call.key: call.id}), given, take)
        finally:
            if call.era is Era.MODERN:
                if connection.is_busy or (isinstance(given, Work) and not outbox.is_finished):
                    aside(connection.close)
                else:
                    connection.close()

    async def _wait(
        self, request: Request, waiting: Waiting, given: bytes | Work | None, take: Callable[[bytes | None], None]
    ) -> None:
        """Wait for what comes first: the answer, something to tell before it, or that the client left."""
        outbox = waiting.outbox
        gone = asyncio.ensure_future(request.until_gone())
        gone.add_done_callback(lambda _: outbox.wake())
        self._waiting.add(waiting)
        try:
            if isinstance(given, Work):
                self._threads.submit(request.access, given, take)
            while not (outbox.is_finished or outbox.has_pending or gone.done()):
                await outbox.wait(None)
            if gone.done():
                return
            if not outbox.is_finished or outbox.has_pending:
                await self._stream(request, outbox, gone)
            elif outbox.answer is not None:
                await _reply(request, outbox.answer, waiting.era)
            else:
                # What was cancelled gets no answer, and a POST gets JSON or a stream: one that ends at once.
                await stream(request, outbox, gone.done)
        finally:
            self._waiting.discard(waiting)
            gone.cancel()

    async def _stream(self, request: Request, outbox: Outbox, gone: asyncio.Future[None]) -> None:
        with self._threads.streaming(request.access) as is_free, _expiring(request, outbox):
            if is_free:
                await stream(request, outbox, lambda: gone.done() or self._is_shut_out(request))
            else:
                await request.refuse(503, "Too many open streams: close some", (b"retry-after", b"1"))

    def _is_shut_out(self, request: Request) -> bool:
        """Tell whether whoever opened a stream may be told no more: the token ended, or was taken back."""
        ends_at = request.access.expires_at
        return (ends_at is not None and time() >= ends_at) or not self._is_let_in(request)

    def _connect(self, request: Request, send: Callable[[bytes], None]) -> Connection:
        return self._server.connect(send, request.access, request.allowance)

    # Legacy

    async def _open_session(self, request: Request, call: methods.Call) -> None:
        outbox = Outbox()
        connection = self._connect(request, outbox.put)
        with Hurrying(on_event_loop=True):
            given = connection.begin(call)
        if isinstance(given, Work):
            given = await self._threads.answer(request.access, given)
        if given is None:
            raise Gone
        if headers.status_of(given, Era.LEGACY) != 200 or given.startswith(b'{"error"'):
            await _reply(request, given, Era.LEGACY)
            return
        version = eras.negotiate(call.params.protocol_version)
        session = Session(request.access, connection, outbox, version)
        self.sessions.add(session)
        await request.reply(200, given, JSON, (_SESSION, session.id.encode()))

    async def _answer_legacy(self, request: Request, call: methods.Call) -> None:
        session = self._session_of(request)
        if session is None and _SESSION in request.headers:
            await _refuse_session(request, call.id)
        elif session is None and call.method == "resources/subscribe":
            error = ProtocolError(jsonrpc.INVALID_REQUEST, "Invalid request: subscriptions need a session")
            await request.reply(400, wire_errors.encode(error, Era.LEGACY, call.id), JSON)
        else:
            await self._converse(request, call, session)

    def _session_of(self, request: Request) -> Session | None:
        given = request.headers.get(_SESSION)
        return None if given is None else self.sessions.find(given.decode("latin-1"), request.access)

    async def _get_or_delete(self, request: Request) -> None:
        session = self._session_of(request)
        if _SESSION not in request.headers or _headers_of(request).is_modern:
            await request.refuse(405, "Use POST", _ALLOW_POST)
        elif session is None:
            await _refuse_session(request, None)
        elif request.method == "DELETE":
            self.sessions.end(session)
            await request.reply(204)
        elif not _takes(request.headers.get(b"accept", b"*/*"), b"text/event-stream"):
            await request.refuse(406, "Accept must list text/event-stream")
        else:
            await self._stream_session(request, session)

    async def _stream_session(self, request: Request, session: Session) -> None:
        """Tell a session's news; a later stream of the same session takes over."""
        gone = asyncio.ensure_future(request.until_gone())
        gone.add_done_callback(lambda _: session.outbox.wake())
        try:
            with self._threads.streaming(request.access) as is_free, _expiring(request, session.outbox):
                if not is_free:
                    await request.refuse(503, "Too many open streams: close some", (b"retry-after", b"1"))
                    return
                reader = session.claim()

                def is_over() -> bool:
                    self.sessions.touch(session)
                    return gone.done() or self._is_shut_out(request) or not session.is_read_by(reader)

                await stream(request, session.outbox, is_over)
        finally:
            gone.cancel()


async def _reply(request: Request, answer: bytes, era: Era) -> None:
    """Send an answer with the status that belongs to it."""
    answered = _answered(request, answer, era)
    await request.reply(answered.status, answer, JSON, *answered.headers)


def _answered(request: Request, answer: bytes, era: Era) -> Answered:
    """Give an answer the status that belongs to it, and say what is missing where that is a scope."""
    status = headers.status_of(answer, era)
    if status != 403:
        return Answered(status, (), answer)
    return Answered(403, (request.scope_challenge(headers.needed_scope(answer)),), answer)


async def _refuse_session(request: Request, request_id: bytes | None) -> None:
    error = ProtocolError(jsonrpc.INVALID_REQUEST, "Unknown session: it ended, or never was; initialize anew")
    await request.reply(404, wire_errors.encode(error, Era.LEGACY, request_id), JSON)


@contextmanager
def _expiring(request: Request, outbox: Outbox) -> Iterator[None]:
    """Have a stream look when the right to it ends."""
    ends_at = request.access.expires_at
    if ends_at is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(max(0.0, ends_at - time()) + 0.001, outbox.wake)
    try:
        yield
    finally:
        timer.cancel()


def _nowhere(_: bytes) -> None:
    """Take what nobody asked to be told."""


def _headers_of(request: Request) -> Headers:
    given = request.headers.get
    repeated = b""
    if request.repeated:
        repeated = next((one for one in (_VERSION, _METHOD, _NAME) if one in request.repeated), b"")
    version, method, name = given(_VERSION), given(_METHOD), given(_NAME)
    is_short = len(version or b"") + len(method or b"") + len(name or b"") <= MAX_REMEMBERED_LENGTH
    return (_remembered_headers if is_short else _headers)(version, method, name, repeated)


def _headers(version: bytes | None, method: bytes | None, name: bytes | None, repeated: bytes) -> Headers:
    return Headers(
        None if version is None else version.strip(b" \t").decode("latin-1"),
        None if method is None else method.strip(b" \t").decode("latin-1"),
        None if name is None else name.strip(b" \t").decode("latin-1"),
        repeated.decode(),
    )


_remembered_headers: Final = lru_cache(maxsize=256)(_headers)


def _problem_with(request: Request) -> tuple[int, str] | None:
    """Return what is wrong with the form of a POST: a status and a sentence, or None."""
    content_type, accept = request.headers.get(b"content-type", b""), request.headers.get(b"accept", b"*/*")
    is_short = len(content_type) + len(accept) <= MAX_REMEMBERED_LENGTH
    return (_remembered_problem if is_short else _problem)(content_type, accept)


def _problem(content_type: bytes, accept: bytes) -> tuple[int, str] | None:
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        return 415, "Content-Type must be application/json"
    if not (_takes(accept, b"application/json") and _takes(accept, b"text/event-stream")):
        return 406, "Accept must list application/json and text/event-stream"
    return None


_remembered_problem: Final = lru_cache(maxsize=64)(_problem)


def _takes(accept: bytes, kind: bytes) -> bool:
    named = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    return not named.isdisjoint({kind, kind.partition(b"/")[0] + b"/*", b"*/*"})
