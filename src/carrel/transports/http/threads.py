"""Worker threads for the event loop: one pool for all of HTTP, with limits for each client."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from carrel.catalog.access import Access, ActingAs
from carrel.core.cancellation import Cancellable, Cancelled
from carrel.core.errors import ProtocolError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.core.limits import MAX_STREAMS_PER_CLIENT, MAX_WAITING_PER_CLIENT, REQUEST_DEADLINE_S
from carrel.server.requests import Running, Work
from carrel.server.workers import Take, Workers

_Made = TypeVar("_Made")
Failure = RequestError | ProviderError | ProtocolError


class Stopping(ProviderError):
    """The server stops before the work is done."""

    def __init__(self) -> None:
        super().__init__("Server is stopping", word="unavailable")


class Threads:
    """Runs work for the event loop, each client within its limits."""

    def __init__(self, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._workers = Workers(lambda _: None, deadline_s)
        self._waiting = Places(MAX_WAITING_PER_CLIENT)
        self._streams = Places(MAX_STREAMS_PER_CLIENT)
        self._calls: set[_ThreadCall[Any]] = set()
        self.is_closed = False

    def submit(self, access: Access, work: Work, take: Take) -> None:
        """Run a piece of work for a caller; `take` is called with the outcome, maybe on another thread.

        The work counts against the caller's limit until it is done, even if the caller has left.
        """
        leave = self._enter(access)
        if leave is None:
            take(work.refuse())
            return

        def taken(answer: bytes | None) -> None:
            leave()
            take(answer)

        self._workers.submit(work, taken)

    async def call(
        self,
        access: Access,
        action: Callable[[], _Made],
        discard: Callable[[_Made], object] | None = None,
        *,
        owner: str = "",
        deadline_s: float = 0.0,
    ) -> _Made:
        """Run a function on a worker thread; return what it returns, or raise what it raises.

        `discard` gets a result that came too late; `owner` names the provider whose slot it takes; `deadline_s` is a
        deadline longer than the usual one.
        """
        if self.is_closed:
            raise Stopping
        leave = self._enter(access)
        if leave is None:
            raise ProviderError("Too many requests wait: slow down", word="busy", data={"retryAfterMs": 1_000})
        running = Running(lambda: None)
        call = _ThreadCall(access, action, discard, lambda: running.cancelled)
        self._calls.add(call)
        try:
            work = Work(running, call.run, call.expire, call.refuse, owner=owner, deadline_s=deadline_s)
            self._workers.submit(work, call.settle)
            return await call.future
        finally:
            running.abandon()  # a client that left lets long work stop
            self._calls.discard(call)
            leave()

    def _enter(self, access: Access) -> Callable[[], None] | None:
        """Take a place for work; if none is free, remove cancelled work first."""
        leave = self._waiting.enter(access.name)
        if leave is None:
            self._workers.drop_cancelled()
            leave = self._waiting.enter(access.name)
        return leave

    @contextmanager
    def streaming(self, access: Access) -> Iterator[bool]:
        """Count an open stream; yield whether the client may have one more."""
        leave = self._streams.enter(access.name)
        try:
            yield leave is not None
        finally:
            if leave is not None:
                leave()

    @property
    def open_streams(self) -> int:
        """The number of open streams."""
        return self._streams.taken

    def close(self) -> None:
        """End the threads; calls that still wait get an error."""
        self.is_closed = True
        self._workers.close()
        for call in self._calls:
            call.stop()


class _ThreadCall(Generic[_Made]):
    """A function that runs on a worker thread, and the future of its result."""

    def __init__(
        self,
        access: Access,
        action: Callable[[], _Made],
        discard: Callable[[_Made], object] | None,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._access = access
        self._action = action
        self._discard = discard
        self._is_cancelled = is_cancelled
        self._loop = asyncio.get_running_loop()
        self._made: list[_Made] = []
        self._failure: Failure = ProviderError("Request timed out", word="timeout")
        self.future: asyncio.Future[_Made] = self._loop.create_future()

    def run(self) -> None:
        try:
            with ActingAs(self._access), Cancellable(self._is_cancelled):
                self._made.append(attempt("HTTP", self._action))
        except (RequestError, ProviderError, ProtocolError) as error:
            self._failure = error
        except Cancelled:
            pass

    def expire(self) -> None:
        """Keep the failure as it is: the time is over."""

    def refuse(self) -> None:
        self._failure = ProviderError("Server is busy: too many requests wait", word="busy")

    def stop(self) -> None:
        """End the wait for it with an error."""
        if not self.future.done():
            self.future.set_exception(Stopping())

    def settle(self, _: bytes | None) -> None:
        """Settle the future. This may be called twice: by the clock, and by the thread when it is done."""
        # The loop may be closed; then no caller waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.future.done():
            if self._made and self._discard is not None:
                self._discard(self._made.pop())
        elif self._made:
            self.future.set_result(self._made.pop())
        else:
            self.future.set_exception(self._failure)


class Places:
    """A number of places for each client, taken and left from any thread."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """The number of places taken by all clients."""
        return self._taken.total()

    def enter(self, name: str) -> Callable[[], None] | None:
        """Take a place; return the function that leaves it, or None if no place is free."""
        with self._lock:
            if self._taken[name] >= self._each:
                return None
            self._taken[name] += 1
        is_left = False

        def leave() -> None:
            nonlocal is_left
            with self._lock:
                if not is_left:
                    is_left = True
                    self._taken[name] -= 1
                    if not self._taken[name]:
                        del self._taken[name]

        return leave
