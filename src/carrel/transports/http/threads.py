"""Work that may wait, kept off the event loop: one small pool of threads for all of HTTP."""

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


class Threads:
    """Runs work for the event loop, each client within its bounds."""

    def __init__(self, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._workers = Workers(lambda _: None, deadline_s)
        self._waiting = Places(MAX_WAITING_PER_CLIENT)
        self._streams = Places(MAX_STREAMS_PER_CLIENT)
        self._errands: set[_Errand[Any]] = set()

    def submit(self, access: Access, work: Work, take: Take) -> None:
        """Have a piece of work done for somebody; `take` is called, maybe on another thread.

        It counts until it is done, also when whoever asked has left meanwhile.
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
        """Run a function for somebody, and give what it gives or raise what it raises.

        `discard` gets what came too late for anybody to want it; `owner` is who is waited for, and `deadline_s`
        the time that may take where it is more than usual.
        """
        leave = self._enter(access)
        if leave is None:
            raise ProviderError("Too many requests wait: slow down", word="busy", data={"retryAfterMs": 1_000})
        running = Running(lambda: None)
        errand = _Errand(access, action, discard, lambda: running.cancelled)
        self._errands.add(errand)
        try:
            work = Work(running, errand.run, errand.expire, errand.refuse, owner=owner, deadline_s=deadline_s)
            self._workers.submit(work, errand.settle)
            return await errand.future
        finally:
            running.abandon()  # a client that left lets long work stop
            self._errands.discard(errand)
            leave()

    def _enter(self, access: Access) -> Callable[[], None] | None:
        """Take a place for work, if need be one of work that was cancelled before it began."""
        leave = self._waiting.enter(access.name)
        if leave is None:
            self._workers.drop_cancelled()
            leave = self._waiting.enter(access.name)
        return leave

    @contextmanager
    def streaming(self, access: Access) -> Iterator[bool]:
        """Count an open stream; tell whether the client may have one more."""
        leave = self._streams.enter(access.name)
        try:
            yield leave is not None
        finally:
            if leave is not None:
                leave()

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.taken

    def close(self) -> None:
        """Let the threads end; who waits for one is told so."""
        self._workers.close()
        for errand in self._errands:
            errand.stop()


class _Errand(Generic[_Made]):
    """One function's way to a thread and back."""

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
        """Leave the failure as it is: out of time."""

    def refuse(self) -> None:
        self._failure = ProviderError("Server is busy: too many requests wait", word="busy")

    def stop(self) -> None:
        """Have nobody wait for it any more."""
        if not self.future.done():
            self.future.set_exception(ProviderError("Server is stopping", word="unavailable"))

    def settle(self, _: bytes | None) -> None:
        """Give what there is. It may be called twice: by the clock, and by the thread that was done just then."""
        # The loop may be gone: then nobody waits any more.
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
    """So many for each client, taken and left from any thread."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """How many are taken, by all together."""
        return self._taken.total()

    def enter(self, name: str) -> Callable[[], None] | None:
        """Take a place; give what leaves it, once however often it is called, or None if none is free."""
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
