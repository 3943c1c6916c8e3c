"""The server's side of a TCP connection: uvicorn's protocol, with bounds on who sends slowly, or much.

Headers and bodies have to arrive in time, headers within a size. A connection past the
bound on all of them is closed at once, one whose reader takes nothing is cut off.
"""

import asyncio
from functools import lru_cache
from typing import Final, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from carrel.limits import HTTP_IDLE_S, HTTP_READ_S, HTTP_STALL_S, MAX_CONNECTIONS, MAX_HEADER_BYTES
from carrel.transports.asgi import MCP_PATH, Event, Request

_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


_POSTED: Final = {"method": "POST", "raw_path": MCP_PATH, "query_string": b""}
_HEAD: Final = b"%s%scontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_MUCH: Final = 65_536
_SMALL_DIGITS: Final = 6


class Answering(Protocol):
    """An application that can answer some calls where they arrive."""

    def at_once(self, request: Request, body: bytes) -> tuple[int, bytes] | None:
        """Give status and answer of a POST to `/mcp` that nothing has to be waited for; None for any other."""


class Wire(HttpToolsProtocol):
    """One connection. What is counted here is never asked of the application."""

    read_s = HTTP_READ_S
    stall_s = HTTP_STALL_S
    idle_s: float = HTTP_IDLE_S
    max_header_bytes = MAX_HEADER_BYTES
    max_connections = MAX_CONNECTIONS

    _is_reading = False
    _is_in_headers = True
    _is_refused = False
    _header_bytes = 0
    _bytes_at_most = 0
    _held: bytes | None = None
    _said = b""
    _earlier: tuple[RequestResponseCycle, ...] = ()
    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None
    _rests_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self.max_connections:
            self._is_refused = True
            self.transport.abort()
            return
        self._deadline = self.loop.call_later(self.read_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        for timer in (self._deadline, self._stall, self._rest):
            if timer is not None:
                timer.cancel()
        # uvicorn tells only the latest request of a pipeline that nobody waits any more.
        for cycle in self._earlier:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, as long as they come within the bounds."""
        if self._is_refused:
            return
        self._bytes_at_most = len(data) + (self._bytes_at_most if self._is_in_headers else 0)
        if self._is_in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._is_in_headers and self._header_bytes > self.max_header_bytes:
            self._refuse(_LARGE)
        elif self._is_reading and self._deadline is None:
            self._deadline = self.loop.call_later(self.read_s, self._give_up)
        elif not self._is_reading and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # What the parser finds

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_reading = self._is_in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are there: let the application see them if they are within the size."""
        self._is_in_headers = False
        self._header_bytes = 0
        if self._bytes_at_most > self.max_header_bytes and self._headers_size() > self.max_header_bytes:
            self._refuse(_LARGE)
            return
        self._held = self._hold()
        if self._held is None:
            self._start()

    def _headers_size(self) -> int:
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    def _start(self) -> None:
        """Let the application see the request."""
        self._flush()
        before = self.cycle
        super().on_headers_complete()
        if self.pipeline:
            self._earlier = (*(cycle for cycle in self._earlier if not cycle.response_complete), before)

    def on_body(self, body: bytes) -> None:
        """A part of its body is there."""
        if self._held is not None:
            self._held += body
        elif not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """It is all there."""
        self._is_reading = False
        held, self._held = self._held, None
        if self._is_refused or (held is not None and self._answer_at_once(held)):
            return
        if held is not None:
            self._start()
            super().on_body(held)
        super().on_message_complete()

    # Calls that need not wait

    def _hold(self) -> bytes | None:
        """Begin to hold a small call back until it is all there: it may be answered then, without a task of its own."""
        if self.url != MCP_PATH or self.expect_100_continue or self.parser.get_method() != b"POST":
            return None
        if not self._is_between or not self.parser.should_keep_alive():
            return None
        for name, value in self.headers:
            if name == b"content-length":
                return b"" if len(value) < _SMALL_DIGITS else None
        return None

    @property
    def _is_between(self) -> bool:
        """Whether no request is under way in the application."""
        latest: RequestResponseCycle | None = self.cycle
        return latest is None or latest.response_complete

    def _answer_at_once(self, body: bytes) -> bool:
        if self.flow.write_paused or self.transport.is_closing():
            return False
        request = Request(_POSTED | {"headers": self.headers}, _never, _nowhere)
        given = cast("Answering", self.config.app).at_once(request, body)
        if given is None:
            return False
        status, answer = given
        common = _spelled(tuple(self.server_state.default_headers))
        self._say(_HEAD % (STATUS_LINE[status], common, len(answer)) + answer)
        self.on_response_complete()
        return True

    def _say(self, answer: bytes) -> None:
        """Write an answer soon: when all that came in together, on other connections too, has been answered.

        A write wakes its reader. Where that comes between two answers, both sides are switched to and fro for each.
        """
        if not self._said:
            self.loop.call_soon(self._flush)
        self._said += answer
        if len(self._said) > _MUCH:
            self._flush()

    def _flush(self) -> None:
        said, self._said = self._said, b""
        if said and not self.transport.is_closing():
            self.transport.write(said)

    def shutdown(self) -> None:
        """End in good order, as soon as nothing is under way."""
        self._flush()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, after the answers to what came before it."""
        self._flush()
        super().send_400_response(msg)

    # Readers who take nothing

    def pause_writing(self) -> None:
        """The other end is slower than we are: see that it moves at all."""
        super().pause_writing()
        if self._stall is None:
            left = self.transport.get_write_buffer_size()
            self._stall = self.loop.call_later(self.stall_s, self._look_if_stalled, left)

    def resume_writing(self) -> None:
        """The other end took what it was sent."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def on_response_complete(self) -> None:
        """Go on with what came meanwhile, or rest."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._rests_since = self.loop.time()
        if self._rest is None and not self.transport.is_closing():
            self._rest = self.loop.call_later(self.idle_s, self._look_if_idle)

    def _look_if_idle(self) -> None:
        """Close a connection on which nothing happened for long. One timer does for all of its requests."""
        is_busy = self._is_reading or not self._is_between
        left = self._rests_since + self.idle_s - self.loop.time()
        self._rest = None
        if is_busy or left > 0:
            self._rest = self.loop.call_later(max(left, 1.0), self._look_if_idle)
        elif self.transport.get_write_buffer_size():
            # One that never took our last answer is not waited for.
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def _look_if_stalled(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        else:
            self._stall = self.loop.call_later(self.stall_s, self._look_if_stalled, left)

    def _give_up(self) -> None:
        cycle = getattr(self, "cycle", None)
        has_begun = cycle is not None and cycle.response_started and not cycle.response_complete
        self._refuse(b"" if has_begun or not self._is_reading else _LATE)

    def _refuse(self, answer: bytes) -> None:
        self._is_refused = True
        self._flush()
        if not self.transport.is_closing():
            if answer:
                self.transport.write(answer)
            self.transport.close()


@lru_cache(maxsize=4)
def _spelled(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])


async def _never() -> Event:
    raise AssertionError("a call that is answered at once is not received in parts")


async def _nowhere(_: Event) -> None:
    raise AssertionError("a call that is answered at once is not answered in parts")
