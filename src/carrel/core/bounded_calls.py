"""Calls that may hang: each runs on its own thread, and the caller waits a limited time for all of them."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Generic, TypeVar

from carrel.core.cancellation import Cancellable, Cancelled
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt

_Given = TypeVar("_Given")


class _Call(Generic[_Given]):
    """One call and its outcome."""

    def __init__(self, work: Callable[[], _Given]) -> None:
        self._work = work
        self._ended = threading.Event()
        self._answer: list[_Given] = []
        self._error: CarrelError | None = None
        self.is_late = False

    def run(self) -> None:
        """Run the call; it is cancelled when it is late."""
        try:
            with Cancellable(lambda: self.is_late):
                self._answer.append(self._work())
        except Cancelled:
            pass
        except CarrelError as error:
            self._error = error
        finally:
            self._ended.set()

    def wait(self, within_s: float) -> bool:
        """Return whether it ended in time."""
        return self._ended.wait(max(0.0, within_s))

    def answers(self) -> list[_Given]:
        """Return a list with its result, empty if it was cancelled; raise its exception if it failed."""
        if self._error is not None:
            raise self._error
        return self._answer


class BoundedCalls:
    """Calls several owners at once. An owner with a late call is not called again until that call has ended."""

    def __init__(self, what: str, within_s: float) -> None:
        self._what = what
        self._within_s = within_s
        self._late: Counter[str] = Counter()
        self._lock = threading.Lock()

    def ask(self, calls: Mapping[str, Callable[[], _Given]]) -> dict[str, _Given]:
        """Return the results that came in time, by owner; raise the exception of a call that failed."""
        begun = {owner: self._begin(owner, work) for owner, work in calls.items() if not self._late[owner]}
        ends_at = monotonic() + self._within_s
        answers: dict[str, _Given] = {}
        for owner, call in begun.items():
            if call.wait(ends_at - monotonic()) or not self._give_up(owner, call):
                answers.update((owner, answer) for answer in call.answers())
        return answers

    def _begin(self, owner: str, work: Callable[[], _Given]) -> _Call[_Given]:
        call = _Call(partial(attempt, f"{self._what} of {owner}", work))
        context = copy_context()
        threading.Thread(target=self._run, args=(owner, call, context.run), name="carrel-bounded", daemon=True).start()
        return call

    def _run(self, owner: str, call: _Call[_Given], run: Callable[[Callable[[], None]], None]) -> None:
        try:
            run(call.run)
        finally:
            with self._lock:
                if call.is_late:
                    self._late[owner] -= 1

    def _give_up(self, owner: str, call: _Call[_Given]) -> bool:
        """Count a call as late, unless it has just ended; return whether it is late."""
        with self._lock:
            if call.wait(0):
                return False
            call.is_late = True
            self._late[owner] += 1
            return True
