"""Worker threads, with a deadline for each piece of work.

Threads are started when first needed. Each provider has a number of slots, so that a stuck provider does not delay the
others. Work past its deadline is answered with a timeout and keeps its thread until it returns.
Patient work, such as waiting for a build, has no deadline and its own thread.
"""

import threading
from collections import Counter
from collections.abc import Callable
from math import inf
from time import monotonic

from carrel.core.limits import (
    MAX_PATIENT,
    MAX_PENDING,
    MAX_PENDING_IN_ALL,
    MAX_WORKER_THREADS,
    REQUEST_DEADLINE_S,
    WORKER_THREADS,
)
from carrel.server.requests import Work

Take = Callable[[bytes | None], None]
"""Called with the outcome of one piece of work: its answer, or None if it was cancelled."""


class Workers:
    """Runs work and passes the answers to `send`, in the order they are ready."""

    def __init__(self, send: Callable[[bytes], None], deadline_s: float = REQUEST_DEADLINE_S) -> None:
        self._send = send
        self._deadline_s = deadline_s
        lock = threading.Lock()
        self._is_needed = threading.Condition(lock)
        self._is_due = threading.Condition(lock)
        self._is_drained = threading.Condition(lock)
        self._waiting: dict[str, dict[Work, tuple[int, Take]]] = {}
        self._running: Counter[str] = Counter()
        self._number = 0
        self._pending = 0
        self._deadlines: dict[Work, tuple[float, Take]] = {}
        self._threads = 0
        self._idle = 0
        self._clock: threading.Thread | None = None
        self._rings_at = inf
        self._is_closed = False
        self._patient = 0

    def submit(self, work: Work, take: Take | None = None) -> None:
        """Run a piece of work soon, or refuse it if too much waits; its answer goes to `take`, if given."""
        given = take or self._give
        if work.is_patient:
            self._submit_patient(work, given)
            return
        unwanted: list[Take] = []
        with self._is_needed:
            is_full = self._is_full(work.owner)
            if is_full:
                unwanted = self._drop_cancelled()
                is_full = self._is_full(work.owner)
            if not is_full:
                self._number += 1
                self._pending += 1
                self._waiting.setdefault(work.owner, {})[work] = self._number, given
                # A thread that was woken but has not run yet still counts as idle, and takes one piece only.
                if self._ready() > self._idle and self._threads < MAX_WORKER_THREADS:
                    self._start_thread()
                else:
                    self._is_needed.notify()
                self._set_deadline(work, given)
        for give_up in unwanted:
            give_up(None)
        if is_full:
            given(work.refuse())

    def adopt(self, work: Work) -> None:
        """Set a deadline for work that runs on another thread already; `release` ends that."""
        with self._is_needed:
            self._set_deadline(work, self._give)

    def release(self, work: Work) -> None:
        """Forget the deadline of work that was adopted."""
        with self._is_drained:
            self._deadlines.pop(work, None)
            if not self._deadlines:
                self._is_drained.notify_all()

    def drop_cancelled(self) -> None:
        """Remove cancelled work that has not begun."""
        with self._is_needed:
            unwanted = self._drop_cancelled()
        for give_up in unwanted:
            give_up(None)

    def _is_full(self, owner: str) -> bool:
        return len(self._waiting.get(owner, ())) >= MAX_PENDING or self._pending >= MAX_PENDING_IN_ALL

    def _drop_cancelled(self) -> list[Take]:
        """Remove cancelled work from the queues; return the functions that take its outcome."""
        cancelled = [work for queue in self._waiting.values() for work in queue if work.is_cancelled]
        for work in cancelled:
            self._leave(work)
        return [self._deadlines.pop(work)[1] for work in cancelled]

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._serve, name="carrel-worker", daemon=True).start()

    def _set_deadline(self, work: Work, take: Take) -> None:
        deadline = monotonic() + min(max(self._deadline_s, work.deadline_s), work.at_most_s)
        self._deadlines[work] = (deadline, take)
        if self._clock is None:
            self._clock = threading.Thread(target=self._watch_deadlines, name="carrel-clock", daemon=True)
            self._clock.start()
        elif deadline < self._rings_at:
            self._is_due.notify()

    def _submit_patient(self, work: Work, take: Take) -> None:
        with self._is_needed:
            is_full = self._patient >= MAX_PATIENT
            self._patient += not is_full
        if is_full:
            take(work.refuse())
        else:
            threading.Thread(target=self._work_patiently, args=(work, take), name="carrel-patient", daemon=True).start()

    def _work_patiently(self, work: Work, take: Take) -> None:
        """Run one piece of patient work; always give an outcome, even on `BaseException`."""
        is_done = False
        try:
            take(work.run())
            is_done = True
        finally:
            if not is_done:
                take(work.expire())
            with self._is_drained:
                self._patient -= 1
                self._is_drained.notify_all()

    def drain(self, grace_s: float) -> None:
        """Wait until everything is done, at most this long."""
        with self._is_drained:
            self._is_drained.wait_for(lambda: not self._deadlines and not self._patient, grace_s)

    def close(self) -> None:
        """End the threads, each when its work is done."""
        with self._is_needed:
            self._is_closed = True
            self._is_needed.notify_all()
            self._is_due.notify()

    def _serve(self) -> None:
        """Run one of the threads; always release its place, even on `BaseException`."""
        try:
            self._work()
        finally:
            with self._is_needed:
                self._threads -= 1
                if not self._is_closed and self._ready() > self._idle:
                    self._start_thread()

    def _work(self) -> None:
        while True:
            with self._is_needed:
                while not self._ready():
                    if self._is_closed:
                        return
                    self._idle += 1
                    self._is_needed.wait()
                    self._idle -= 1
                work, take = self._next()
            is_done = False
            try:
                take(work.run())
                is_done = True
            finally:
                with self._is_drained:
                    self._running[work.owner] -= 1
                    if not self._running[work.owner]:
                        del self._running[work.owner]
                    if is_done:
                        self._deadlines.pop(work, None)
                    if not self._deadlines:
                        self._is_drained.notify_all()

    def _ready(self) -> int:
        """Return how many pieces of work could begin now."""
        return sum(min(len(queue), WORKER_THREADS - self._running[owner]) for owner, queue in self._waiting.items())

    def _next(self) -> tuple[Work, Take]:
        """Return, of all work that could begin now, the piece that has waited longest."""
        rows = self._waiting.items()
        first = (next(iter(queue.items())) for owner, queue in rows if self._running[owner] < WORKER_THREADS)
        work, (_, take) = min(first, key=lambda one: one[1][0])
        self._leave(work)
        self._running[work.owner] += 1
        return work, take

    def _leave(self, work: Work) -> None:
        """Remove a piece of work from its queue, if it still waits."""
        queue = self._waiting.get(work.owner, {})
        if queue.pop(work, None) is not None:
            self._pending -= 1
            if not queue:
                del self._waiting[work.owner]

    def _watch_deadlines(self) -> None:
        while not self._is_closed:
            with self._is_due:
                now = monotonic()
                late = [(work, take) for work, (deadline, take) in self._deadlines.items() if deadline <= now]
                for work, _ in late:
                    del self._deadlines[work]
                    self._leave(work)
                if late and not self._deadlines:
                    self._is_drained.notify_all()
                if not late and not self._is_closed:
                    self._rings_at = min((deadline for deadline, _ in self._deadlines.values()), default=inf)
                    self._is_due.wait(None if self._rings_at == inf else self._rings_at - now)
            for work, take in late:
                take(work.expire())

    def _give(self, encoded: bytes | None) -> None:
        if encoded:
            self._send(encoded)
