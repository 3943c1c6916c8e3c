"""The server's side of a TCP connection: uvicorn's protocol, with bounds on who sends slowly, or much.

Headers and bodies have to arrive in time, headers within a size. A connection past the
bound on all of them is closed at once, one whose reader takes nothing is cut off.
"""

import asyncio
from typing import Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from carrel.limits import HTTP_READ_S, HTTP_STALL_S, MAX_CONNECTIONS, MAX_HEADER_BYTES

_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Wire(HttpToolsProtocol):
    """One connection. What is counted here is never asked of the application."""

    read_s = HTTP_READ_S
    stall_s = HTTP_STALL_S
    max_header_bytes = MAX_HEADER_BYTES
    max_connections = MAX_CONNECTIONS

    _is_reading = False
    _is_in_headers = True
    _is_refused = False
    _header_bytes = 0
    _earlier: tuple[RequestResponseCycle, ...] = ()
    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

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
        for timer in (self._deadline, self._stall):
            if timer is not None:
                timer.cancel()
        # uvicorn tells only the latest request of a pipeline that nobody waits any more.
        for cycle in self._earlier:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        # uvicorn leaves the timer of an idle connection that was reset, and with it all that the connection held.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Take bytes, as long as they come within the bounds."""
        if self._is_refused:
            return
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
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > self.max_header_bytes:
            self._refuse(_LARGE)
            return
        before = self.cycle
        super().on_headers_complete()
        if self.pipeline:
            self._earlier = (*(cycle for cycle in self._earlier if not cycle.response_complete), before)

    def on_body(self, body: bytes) -> None:
        """A part of its body is there."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """It is all there."""
        self._is_reading = False
        if not self._is_refused:
            super().on_message_complete()

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

    def _close_idle(self) -> None:
        """Close an idle connection; one that never took our last answer is not waited for."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    timeout_keep_alive_handler = _close_idle

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
        if not self.transport.is_closing():
            if answer:
                self.transport.write(answer)
            self.transport.close()
