"""Work that may wait, kept off the event loop: one small pool of threads for all of HTTP."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from carrel.boundary import attempt
from carrel.errors import ProtocolError, ProviderError, RequestError
from carrel.limits import MAX_STREAMS_PER_CLIENT, MAX_WAITING_PER_CLIENT, REQUEST_DEADLINE_S
from carrel.permissions import Access, ActingAs
from carrel.transports.workers import Take, Workers
from carrel.work import Running, Work

_Made = TypeVar("_Made")
Failure = RequestError | ProviderError | ProtocolError


class Threads:
    """Runs work for the event loop, each client within its bounds."""

    def __init__(self, deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._workers = Workers(lambda _: None, deadline_s)
        self._waiting: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    def submit(self, work: Work, take: Take) -> None:
        """Have a piece of work done; `take` is called on another thread."""
        self._workers.submit(work, take)

    async def call(
        self,
        access: Access,
        action: Callable[[], _Made],
        discard: Callable[[_Made], object] | None = None,
        *,
        owner: str = "",
    ) -> _Made:
        """Run a function for somebody, and give what it gives or raise what it raises.

        `discard` gets what came too late for anybody to want it; `owner` is the provider that is waited for.
        """
        with self.waiting(access) as is_free:
            if not is_free:
                raise ProviderError("Too many requests wait: slow down", word="busy", data={"retryAfterMs": 1_000})
            errand = _Errand(access, action, discard)
            running = Running(lambda: None)
            self._workers.submit(Work(running, errand.run, errand.expire, errand.refuse, owner=owner), errand.settle)
            return await errand.future

    @contextmanager
    def waiting(self, access: Access) -> Iterator[bool]:
        """Count a request that waits; tell whether the client may have one more."""
        with _counted(self._waiting, access.name, MAX_WAITING_PER_CLIENT) as is_free:
            yield is_free

    @contextmanager
    def streaming(self, access: Access) -> Iterator[bool]:
        """Count an open stream; tell whether the client may have one more."""
        with _counted(self._streams, access.name, MAX_STREAMS_PER_CLIENT) as is_free:
            yield is_free

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    def close(self) -> None:
        """Let the threads end."""
        self._workers.close()


class _Errand(Generic[_Made]):
    """One function's way to a thread and back."""

    def __init__(self, access: Access, action: Callable[[], _Made], discard: Callable[[_Made], object] | None) -> None:
        self._access = access
        self._action = action
        self._discard = discard
        self._loop = asyncio.get_running_loop()
        self._made: list[_Made] = []
        self._failure: Failure = ProviderError("Request timed out", word="timeout")
        self.future: asyncio.Future[_Made] = self._loop.create_future()

    def run(self) -> None:
        try:
            with ActingAs(self._access):
                self._made.append(attempt("HTTP", self._action))
        except (RequestError, ProviderError, ProtocolError) as error:
            self._failure = error

    def expire(self) -> None:
        """Leave the failure as it is: out of time."""

    def refuse(self) -> None:
        self._failure = ProviderError("Server is busy: too many requests wait", word="busy")

    def settle(self, _: bytes | None) -> None:
        # The loop may be gone: then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.future.done():
            if self._made and self._discard is not None:
                self._discard(self._made.pop())
        elif self._made:
            self.future.set_result(self._made[0])
        else:
            self.future.set_exception(self._failure)


@contextmanager
def _counted(counter: Counter[str], name: str, limit: int) -> Iterator[bool]:
    if counter[name] >= limit:
        yield False
        return
    counter[name] += 1
    try:
        yield True
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


def aside(action: Callable[[], object]) -> None:
    """Do something that must not wait for a free thread, and that nobody waits for: stopping, cancelling."""
    threading.Thread(target=action, name="carrel-aside", daemon=True).start()
