"""Calls of foreign code: on separate threads, with a time limit, inside one boundary for exceptions.

An object that accepts one call at a time is always called on the same thread, its home. A call that takes too long is
abandoned: its thread keeps running, its result is dropped, and later calls run on another thread. When `MAX_ABANDONED`
threads are abandoned, the object is busy until one of them returns. Coroutines run on one event loop
for each object.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, TypeVar

from carrel.providers.objects.stdout_redirect import stdout_redirected

MAX_ABANDONED: Final = 8
"""Threads that may hang at the same time."""

GRACE_S: Final = 1.0

_Result = TypeVar("_Result")


class CallFailed(Exception):
    """A call gave no result. `word` names the reason for clients."""

    word = "failed"
    cause: BaseException | None = None


class Late(CallFailed):
    """The call did not return in time, and was abandoned."""

    word = "timeout"


class Busy(CallFailed):
    """No slot was free in time, or too many threads are abandoned."""

    word = "busy"


class Broke(CallFailed):
    """The call raised an exception, `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


def attempt(work: Callable[[], object]) -> tuple[Any, BaseException | None]:
    """Call foreign code; return its result and None, or None and the exception. This is the boundary."""
    try:
        return work(), None
    except BaseException as error:  # an object's SystemExit must not end the server
        return None, error


class Calls:
    """The calls of one object, at most `concurrency` at the same time."""

    def __init__(self, name: str, concurrency: int = 1) -> None:
        self._name = name
        self._slots = threading.Semaphore(concurrency)
        self._has_home = concurrency == 1
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._abandoned: set[_Worker] = set()
        self._home: _Worker | None = None
        self._loop: _Loop | None = None
        self._is_closed = False

    def call(
        self, work: Callable[[], Any], timeout_s: float, convert: Callable[[Any], _Result] = lambda given: given
    ) -> _Result:
        """Return `convert(work())`; raise Late, Busy or Broke."""
        deadline = monotonic() + timeout_s
        if len(self._abandoned) >= MAX_ABANDONED or not self._slots.acquire(timeout=timeout_s):
            raise Busy
        try:
            task = _Task(lambda: convert(self._resolve(work())))
            worker = self._worker()
            worker.inbox.put(task)
            if not task.done.wait(max(0.0, deadline - monotonic())) and self._abandon(worker, task):
                raise Late
        finally:
            self._slots.release()
        if task.error is not None:
            raise Broke(task.error)
        result: _Result = task.result
        return result

    def has_lost_home(self, timeout_s: float = 0.0) -> bool:
        """Return whether an abandoned call still holds the home after `timeout_s`."""
        with self._returned:
            return not self._returned.wait_for(lambda: self._home not in self._abandoned, timeout_s)

    def move(self, home: threading.Thread, farewell: Callable[[], object]) -> None:
        """Make a thread the home; the old home calls `farewell` when it is free, and ends."""
        with self._lock:
            before, self._home = self._home, next(one for one in self._workers if one is home)
            if before is None:
                return
            before.farewell = farewell
            if before in self._idle:
                self._idle.remove(before)
                self._workers.discard(before)
                before.inbox.put(None)

    def close(self) -> None:
        """End every thread that foreign code does not hold."""
        with self._lock:
            self._is_closed = True
            workers, self._idle = tuple(self._workers), []
            loop, self._loop = self._loop, None
        for worker in workers:
            worker.inbox.put(None)
        if loop is not None:
            loop.close()
        deadline = monotonic() + GRACE_S
        for worker in workers:
            if worker.ident is not None:  # another thread may be about to start it; it ends at once then
                worker.join(max(0.0, deadline - monotonic()))

    # For the workers

    def finish(self, worker: "_Worker", task: "_Task") -> bool:
        """Record that a worker is free again; return whether it is still needed."""
        with self._lock:
            is_needed = not self._is_closed and (not task.is_abandoned or worker is self._home)
            self._abandoned.discard(worker)
            if is_needed:
                self._idle.append(worker)
            else:
                self._workers.discard(worker)
            task.done.set()
            self._returned.notify_all()
            return is_needed

    def _worker(self) -> "_Worker":
        with self._lock:
            if self._home is not None and self._home in self._idle:
                self._idle.remove(self._home)
                return self._home
            if self._idle:
                return self._idle.pop()
            worker = _Worker(self, f"carrel-object-{self._name}")
            self._workers.add(worker)
            if self._has_home and self._home is None:
                self._home = worker
        worker.start()
        return worker

    def _abandon(self, worker: "_Worker", task: "_Task") -> bool:
        """Abandon a task, unless it has just finished; return whether it is abandoned."""
        with self._lock:
            if task.done.is_set():
                return False
            task.is_abandoned = True
            self._abandoned.add(worker)
        if task.future is not None:
            task.future.cancel()
        return True

    def _resolve(self, given: Any) -> Any:
        """Return the result of an `async` method; any other value as it is."""
        if not inspect.isawaitable(given):
            return given
        with self._lock:
            if self._loop is None:
                self._loop = _Loop(f"carrel-object-{self._name}-loop")
            loop = self._loop
        future = loop.submit(given)
        worker = threading.current_thread()
        if isinstance(worker, _Worker) and worker.task is not None:
            worker.task.future = future
            if worker.task.is_abandoned:
                future.cancel()
        return future.result()


class _Task:
    """One call, and its outcome."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_abandoned = False
        self.future: Future[Any] | None = None


class _Worker(threading.Thread):
    """A thread that makes one call after another, until one is abandoned."""

    def __init__(self, calls: Calls, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.inbox: SimpleQueue[_Task | None] = SimpleQueue()
        self.task: _Task | None = None
        self.farewell: Callable[[], object] | None = None
        self._calls = calls

    def run(self) -> None:
        while (task := self.inbox.get()) is not None:
            self.task = task
            with stdout_redirected:
                task.result, task.error = attempt(task.work)
            self.task = None
            is_needed = self._calls.finish(self, task)
            del task  # while the thread waits, it must not keep the result, which may hold open files
            if not is_needed:
                break
        if self.farewell is not None:
            with stdout_redirected:
                attempt(self.farewell)


class _Loop:
    """The event loop of one object, on a separate thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, given: Awaitable[Any]) -> Future[Any]:
        """Await a value on the loop."""

        async def wait() -> Any:
            return await given

        return asyncio.run_coroutine_threadsafe(wait(), self._loop)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(GRACE_S)

    def _run(self) -> None:
        with stdout_redirected:
            while not self._is_closed:
                # A coroutine's SystemExit ends `run_forever`; its caller gets it when the loop runs again.
                attempt(self._loop.run_forever)
            attempt(lambda: self._loop.run_until_complete(self._end()))
        self._loop.close()

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.stop()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=GRACE_S / 2) if others else None
