"""Event streams: messages from any thread, sent in order.

A message that already waits is not added again, so the number of waiting messages is limited by the subscription. An
idle stream sends a comment at intervals.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from time import time
from typing import Final

from carrel.core.limits import KEEP_ALIVE_S
from carrel.transports.http.asgi import Request

MAX_PENDING: Final = 2_048
"""Messages that wait for one client. At most 1,025 of them are changes; the rest is progress and may be lost."""

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_COMMENT: Final = b": \n\n"


class Outbox:
    """Messages for one client, and finally its answer. Created on the event loop, filled from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._pending: dict[bytes, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self.is_finished = False
        self.answer: bytes | None = None

    def put(self, message: bytes) -> None:
        """Send a message soon."""
        with self._lock:
            if self.is_finished or len(self._pending) >= MAX_PENDING:
                return
            self._pending[message] = None
        self.wake()

    def finish(self, answer: bytes | None = None) -> None:
        """Send the answer, if there is one, as the last message; drop all later ones."""
        with self._lock:
            if self.is_finished:
                return
            self.is_finished, self.answer = True, answer
        self.wake()

    def take(self) -> list[bytes]:
        """Return the messages that wait, in order, and forget them."""
        with self._lock:
            taken, self._pending = list(self._pending), {}
        return taken

    @property
    def has_pending(self) -> bool:
        """Whether a message other than the answer waits."""
        return bool(self._pending)

    def wake(self) -> None:
        """Wake the stream."""
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            # The loop may be closed; then there is nothing to wake.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until there may be something to send, at most this long; return whether the time ran out."""
        if self._pending or self.is_finished:
            return False
        self._waiter = waiter = self._loop.create_future()
        is_late = False

        def expire() -> None:
            nonlocal is_late
            is_late = True
            self._wake()

        timer = None if timeout_s is None else self._loop.call_later(timeout_s, expire)
        if self._pending or self.is_finished:
            self._wake()
        try:
            await waiter
        finally:
            # A stream that takes over may wait already before the former one has ended.
            if self._waiter is waiter:
                self._waiter = None
            if timer is not None:
                timer.cancel()
        return is_late


@contextlib.contextmanager
def expiring(request: Request, outbox: Outbox) -> Iterator[None]:
    """Wake a stream when the token or the cookie of its request expires."""
    ends_at = request.access.expires_at
    if ends_at is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(max(0.0, ends_at - time()) + 0.001, outbox.wake)
    try:
        yield
    finally:
        timer.cancel()


async def stream(
    request: Request, outbox: Outbox, is_over: Callable[[], bool], event_id: Callable[[], str] = lambda: ""
) -> None:
    """Send the messages of the outbox until it is finished; if `is_over` says so before, stop without the answer.

    `event_id` returns what a client sends as `Last-Event-ID` to go on after a message; empty for no id.
    """
    await request.begin(200, HEADERS)
    await request.write(_idle(event_id()))
    last = b""
    while not is_over():
        waiting = outbox.take()
        if waiting:
            named = _named(event_id())
            await request.write(b"".join([named + frame(message) for message in waiting]))
        elif outbox.is_finished:
            last = b"" if outbox.answer is None else frame(outbox.answer)
            break
        elif await outbox.wait(KEEP_ALIVE_S):
            await request.write(_idle(event_id()))
    await request.write(last, is_last=True)


def _named(event_id: str) -> bytes:
    return f"id: {event_id}\n".encode() if event_id else b""


def _idle(event_id: str) -> bytes:
    """Return what an idle stream sends: a comment, and the id alone, which a client remembers without an event."""
    return _named(event_id) + _COMMENT


def frame(message: bytes) -> bytes:
    """Return a message as an event; it must not contain line ends."""
    return b"event: message\ndata: " + message + b"\n\n"
