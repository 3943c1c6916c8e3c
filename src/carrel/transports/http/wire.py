"""One TCP connection of the server: uvicorn's protocol with limits for slow and large requests.

Headers and bodies must arrive in time; headers and trailers have a maximum size. A connection above the maximum number
is closed at once, and one whose client reads nothing is cut off.

A small call to `/mcp` is collected here and accepted when its last byte has arrived. If the answer is ready at once, it
is written without an asyncio task; else the application gets the accepted call and waits for its answer
(`docs/decisions/0011-answers-at-once.md`).
"""

import asyncio
import logging
import re
from functools import lru_cache, partial
from time import monotonic
from typing import Final, Protocol, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from carrel.core.limits import HTTP_FIRST_S, HTTP_IDLE_S, HTTP_READ_S, HTTP_STALL_S, MAX_CONNECTIONS, MAX_HEADER_BYTES
from carrel.protocol import jsonrpc
from carrel.transports.http.asgi import BEGUN, JSON, MCP_PATH, TCP, WRITE, Answered, Event, HeaderList, Request, header
from carrel.transports.http.unauthenticated import NewConnections

log = logging.getLogger(__name__)

CLOSE: Final = (b"connection", b"close")
"""Among the headers of all answers, when the server is about to end."""
_HEAD: Final = b"%s%s%scontent-length: %d\r\n\r\n"
_LATE: Final = 408, "The request did not arrive in time"
_LARGE: Final = 431, "The headers are too large"
_WITH_AUTHORITY: Final = re.compile(rb"[a-z][a-z0-9+.-]*://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_POSTED: Final = {"method": "POST", "raw_path": MCP_PATH, "query_string": b""}
_SMALL_BYTES: Final = 65_536
"""A longer call is not collected here: the application reads it as it arrives."""
_MUCH_BYTES: Final = 65_536
"""Collected answers are written when they have this many bytes, which is what a transport buffers."""
_BURST_S: Final = 0.01
"""How long calls of one connection are answered before other connections get their turn."""


class Answering(Protocol):
    """An application that can accept calls where they arrive."""

    new_connections: NewConnections[object]

    def lets_in(self, request: Request) -> bool:
        """Return whether the headers show, without waiting, that the caller is authenticated."""

    def accept(self, request: Request, body: bytes) -> object:
        """Accept the message of a POST; return an `Answered`, or what the application needs to wait for the answer."""


class Wire(HttpToolsProtocol):
    """One connection, with its limits."""

    read_s = HTTP_READ_S
    first_s = HTTP_FIRST_S
    stall_s = HTTP_STALL_S
    idle_s: float = HTTP_IDLE_S
    burst_s = _BURST_S
    max_header_bytes = MAX_HEADER_BYTES
    max_connections = MAX_CONNECTIONS

    is_lost = False
    _is_reading = False
    _is_in_headers = True
    _is_refused = False
    _header_bytes = 0
    _bytes_at_most = 0
    _begun_at = 0.0
    _idle_since = 0.0
    _answers_until = 0.0
    _held: "tuple[Request, bytearray] | None" = None
    _refusal_due: tuple[int, str] | None = None
    """A refusal to send after the answers to earlier requests."""
    _collected = b""
    _earlier: tuple[RequestResponseCycle, ...] = ()
    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection, unless there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._application = cast("Answering", self.config.app)
        self._answers = cast("asyncio.Transport", AnswerTransport(self))
        new_connections = self._application.new_connections
        if len(self.connections) - len(new_connections) > self.max_connections:
            self.make_room()
            return
        oldest = new_connections.enter(self, self.client[0] if self.client else "")
        if isinstance(oldest, Wire):
            oldest.make_room()
        self._begun_at = self._idle_since = self.loop.time()
        self._deadline = self.loop.call_later(self._may_read_s, self._give_up)
        self._idle_timer = self.loop.call_later(self._may_idle_s, self._look_if_idle)

    def make_room(self) -> None:
        """End a connection without an accepted request, to make room for a newer one."""
        self._is_refused = True
        self.transport.abort()

    def let_in(self) -> None:
        """Note that a request was accepted: from now on the connection is kept as long as any other."""
        self._application.new_connections.leave(self)

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    @property
    def _may_read_s(self) -> float:
        """The time a request may take to arrive."""
        return min(self.read_s, self.first_s) if self in self._application.new_connections else self.read_s

    @property
    def _may_idle_s(self) -> float:
        """The time that the connection may be idle."""
        return min(self.idle_s, self.first_s) if self in self._application.new_connections else self.idle_s

    def eof_received(self) -> None:
        """Write the collected answers: the client sends no more, but may still read."""
        self.flush()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and tell all open requests that the client is gone."""
        for timer in (self._deadline, self._stall, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._application.new_connections.leave(self)
        # uvicorn notifies only the latest request of a pipeline that the client is gone.
        for cycle in self._earlier:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        self.is_lost = True

    def shutdown(self) -> None:
        """Close properly, as soon as no request is in progress."""
        self.flush()
        self._give_over()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse bytes within the limits of time and size."""
        if self._is_refused:
            return
        self._answers_until = monotonic() + self.burst_s
        self._bytes_at_most = len(data) + (self._bytes_at_most if self._is_in_headers else 0)
        self._header_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            log.debug("not HTTP: %s", error, exc_info=True)
            self.send_400_response("Invalid HTTP request")
            return
        if self._header_bytes > self.max_header_bytes and (self._is_reading or self._is_in_headers):
            self._refuse(_LARGE)
        elif self._is_reading and self._deadline is None:
            self._deadline = self.loop.call_later(self._may_read_s, self._give_up)
        elif not self._is_reading and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _feed(self, data: bytes) -> None:
        """Parse bytes. The parser leaves out the body of a request that asks for another protocol; it is fed again."""
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as stop:
                rest = rest[stop.args[0] :]
                if self._is_given_up:
                    head = self._without_upgrade()
                    self.parser = httptools.HttpRequestParser(self)
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                    self.parser.feed_data(head)
            else:
                return

    @property
    def _is_given_up(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _without_upgrade(self) -> bytes:
        """Return the head of the request without `Upgrade`, which may be ignored (RFC 9110, 7.8).

        Java's client, for example, asks for HTTP/2 this way.
        """
        head = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        return b"".join([head, *(b"%s: %s\r\n" % one for one in self.headers if one[0] != b"upgrade"), b"\r\n"])

    # What the parser finds

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_reading = self._is_in_headers = True
        self._begun_at = self.loop.time()
        self.url, self.headers = b"", []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. Trailers, which follow the body, are counted but not kept."""
        if self._is_in_headers:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Continue with a request whose headers are complete and not too large."""
        if self._is_given_up:
            return
        self._is_in_headers = False
        self._header_bytes = 0
        if self._is_refused:
            return
        if self._bytes_at_most > self.max_header_bytes and self._headers_size() > self.max_header_bytes:
            self._refuse(_LARGE)
            return
        self._held = self._hold()
        if self._held is None:
            self._start()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._header_bytes = 0
        if self._held is not None:
            self._held[1].extend(body)
        elif not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Accept a complete request."""
        if self._is_given_up:
            return
        self._is_reading = False
        self._header_bytes = 0
        if self._is_refused or (self._held is not None and self._accept(*self._held)):
            self._held = None
            return
        self._give_over()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, after the answers to earlier requests."""
        refusal = 400, msg
        if self._is_arriving:
            # The latest request breaks off and gets no answer.
            if not self.pipeline:
                self._refuse(refusal)
                return
            self.pipeline.popleft()
        elif self._is_between:
            self._refuse(refusal)
            return
        self._is_refused = True
        self._held = None
        self._refusal_due = refusal

    def _headers_size(self) -> int:
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    def _start(self, begun: tuple[Request, object] | None = None) -> None:
        """Pass the request to the application; `begun` if its message is accepted already."""
        self.flush()
        url, headers = self.url, self.headers
        super().on_message_begin()  # makes the scope, which only the application needs
        self.url = url
        self.headers += headers
        if not self.url.startswith(b"/"):
            self._take_authority()
        before = self.cycle
        cast("Event", self.scope).update({TCP: self, BEGUN: begun})
        expected = [value.lower() for name, value in self.headers if name == b"expect"]
        self.expect_100_continue = b"100-continue" in expected
        super().on_headers_complete()
        self.cycle.transport = self._answers
        cast("Event", self.scope)[WRITE] = partial(self._write_whole, self.cycle)
        if self.pipeline:
            self._earlier = (*(cycle for cycle in self._earlier if not cycle.response_complete), before)

    def _take_authority(self) -> None:
        """Use the host of a target such as `http://name/path` instead of the Host header (RFC 9112, 3.2.2)."""
        found = _WITH_AUTHORITY.fullmatch(self.url)
        if found is not None:
            rest = found[2]
            self.url = rest if rest.startswith(b"/") else b"/" + rest
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", found[1]))

    @property
    def _is_between(self) -> bool:
        """Whether the application has no unanswered request."""
        latest: RequestResponseCycle | None = self.cycle
        return latest is None or latest.response_complete

    # Small calls

    def _hold(self) -> tuple[Request, bytearray] | None:
        """Start to collect a small call, if it may be accepted here when it is complete."""
        parser = self.parser
        is_call = self.url == MCP_PATH and parser.get_method() == b"POST" and self._is_between
        if not is_call or parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        request = Request(_POSTED | {"headers": self.headers, TCP: self}, _never, _nowhere)
        length = request.headers.get(b"content-length", b"")
        is_small = 0 < len(length) <= 5 and int(length) <= _SMALL_BYTES
        is_held = is_small and b"expect" not in request.headers and self._application.lets_in(request)
        return (request, bytearray()) if is_held else None

    def _give_over(self) -> None:
        """Pass what was collected to the application."""
        held, self._held = self._held, None
        if held is not None:
            self._start()
            super().on_body(bytes(held[1]))

    def _accept(self, request: Request, body: bytearray) -> bool:
        """Accept a call; write its answer, or let the application wait for it. Return False if it is not accepted."""
        if not self._may_write or monotonic() > self._answers_until:
            return False
        given = self._application.accept(request, bytes(body))
        if not isinstance(given, Answered):
            self._held = None
            self._start((request, given))
            super().on_message_complete()
            return True
        common = _spelled(tuple(self.server_state.default_headers))
        head = _HEAD % (STATUS_LINE[given.status], common, _spelled(given.headers), len(given.body))
        self.write_soon(head, given.body)
        self.on_response_complete()
        return True

    # Answers

    def _write_whole(self, cycle: RequestResponseCycle, given: Answered) -> bool:
        """Write a whole answer of the application; return False if uvicorn has to, which can wait and close."""
        is_kept = cycle.keep_alive and CLOSE not in given.headers
        if not (is_kept and self._may_write) or cycle.disconnected or cycle.response_started:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        body = b"" if cycle.scope["method"] == "HEAD" else given.body
        self.write_soon(_head(given, self.server_state.default_headers), body)
        cycle.on_response()
        return True

    @property
    def _may_write(self) -> bool:
        """Whether an answer may be written now without waiting, and the connection is kept after it."""
        is_open = not (self.flow.write_paused or self.transport.is_closing())
        return is_open and CLOSE not in self.server_state.default_headers

    def write_soon(self, head: bytes, body: bytes = b"") -> None:
        """Write an answer after everything that arrived at the same time is answered: each write wakes a client."""
        collected = self._collected
        if len(collected) + len(head) + len(body) > _MUCH_BYTES:
            self._collected = b""
            if not self.transport.is_closing():
                self.transport.writelines((collected, head, body))  # does not copy them together
            return
        if not collected:
            self.loop.call_soon(self.flush)
        self._collected = collected + head + body

    def flush(self) -> None:
        """Write what waits to be written."""
        collected, self._collected = self._collected, b""
        if collected and not self.transport.is_closing():
            self.transport.write(collected)

    # Between requests

    def on_response_complete(self) -> None:
        """Continue with the next request, or wait for one."""
        if self.pipeline:
            super().on_response_complete()
            return
        if self._refusal_due is not None:
            self._refuse(self._refusal_due)
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()

    def _look_if_idle(self) -> None:
        """Close an idle connection. One timer serves all of its requests."""
        idle_s = self._may_idle_s
        left = self._idle_since + idle_s - self.loop.time()
        if left > 0 or self._is_reading or not self._is_between:
            self._idle_timer = self.loop.call_later(max(left, idle_s / 16), self._look_if_idle)
        elif self.transport.get_write_buffer_size():
            # The client has not read our last answer.
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    # Slow clients

    def pause_writing(self) -> None:
        """Start to check whether the client reads anything at all."""
        super().pause_writing()
        if self._stall is None:
            left = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(self.stall_s, self._look_if_stalled, left)

    def resume_writing(self) -> None:
        """Stop checking: the client has read what was sent."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _look_if_stalled(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        else:
            self._stall = self.loop.call_later(self.stall_s, self._look_if_stalled, left)

    def _give_up(self) -> None:
        """Close a connection whose present request has not arrived in time."""
        left = self._begun_at + self._may_read_s - self.loop.time()
        if left > 0:
            self._deadline = self.loop.call_later(left, self._give_up)
            return
        if self._refusal_due is None:
            self._refuse(_LATE if self._is_reading else None)

    def _refuse(self, refusal: tuple[int, str] | None) -> None:
        """Close the connection; send the reason, unless that would interrupt an answer or be a second one."""
        may_send = not self._is_answered
        self._is_refused = True
        self._held = None
        self.flush()
        if not self.transport.is_closing():
            if refusal is not None and may_send:
                self.transport.write(_refusal(*refusal))
            self.transport.close()

    @property
    def _is_arriving(self) -> bool:
        """Whether the application has a request whose body is incomplete."""
        return self._is_reading and not self._is_in_headers and self._held is None

    @property
    def _is_answered(self) -> bool:
        """Whether an answer is being sent, or one was sent to the request that is still arriving."""
        latest: RequestResponseCycle | None = self.cycle
        if latest is None:
            return False
        return (self._is_arriving and latest.response_started) or any(
            cycle.response_started and not cycle.response_complete for cycle in (*self._earlier, latest)
        )


class AnswerTransport:
    """The transport of answers in parts. Head and whole body are one write: a kill never sends the head alone."""

    def __init__(self, wire: Wire) -> None:
        self.write = wire.write_soon
        self.is_closing = wire.transport.is_closing
        self._wire = wire

    def close(self) -> None:
        """Close the connection after what was written."""
        self._wire.flush()
        self._wire.transport.close()


def _refusal(status: int, problem: str) -> bytes:
    refused = Answered(status, (CLOSE, JSON), jsonrpc.plain({"error": problem}))
    return _head(refused) + refused.body


def _head(given: Answered, common: HeaderList = ()) -> bytes:
    """Return the status line and the headers of a whole answer; `common` are those of all answers."""
    start = STATUS_LINE[given.status], _spelled(tuple(common)), _spelled(given.headers)
    return b"%s%s%s\r\n" % start if given.status in (204, 304) else _HEAD % (*start, len(given.body))


@lru_cache(maxsize=64)
def _spelled(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    return b"".join(map(_line, headers))


@lru_cache(maxsize=256)
def _line(one: tuple[bytes, bytes]) -> bytes:
    return b"%s: %s\r\n" % header(*one)


async def _never() -> Event:
    raise AssertionError("a call that is answered at once is not received in parts")


async def _nowhere(_: Event) -> None:
    raise AssertionError("a call that is answered at once is not answered in parts")
