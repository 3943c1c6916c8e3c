"""One object and the thread it is called on; it is built again when that thread does not return.

An object that takes one call at a time may know nothing of threads, and is called on the thread that built it:
`sqlite3` requires that. The thread of an abandoned call may never be free again. Then the object is built again on
another thread. An object that cannot be built again is called on another thread until its own is free.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from carrel.providers.objects.calls import Busy, CallFailed, Calls
from carrel.providers.objects.loading import has_method

log = logging.getLogger(__name__)

RETURN_S: Final = 0.1
"""How long a call waits for the object's thread to return from an abandoned call."""

REBUILD_PAUSE_S: Final = 10.0
"""How long after a failed attempt the next one is made."""

_Result = TypeVar("_Result")


class Instance:
    """The object that `make` builds, and its calls."""

    def __init__(self, name: str, make: Callable[[], Any], concurrency: int, start_timeout_s: float) -> None:
        self.object: Any = None
        self.rebuilt = 0
        self.needed: tuple[str, ...] = ()
        """Methods that the object must have when it is built again."""
        self.calls = Calls(name, concurrency)
        self._name = name
        self._make = make
        self._start_timeout_s = start_timeout_s
        self._rebuilding = threading.Lock()
        self._rebuild_at = 0.0
        self._is_closed = False

    def make(self, timeout_s: float) -> Any:
        """Build the object on its own thread; raise Late, Busy or Broke."""
        return self.calls.call(self._make, timeout_s)

    def call(self, work: Callable[[Any], Any], timeout_s: float, convert: Callable[[Any], _Result]) -> _Result:
        """Return `convert(work(object))`, called on the object's thread; raise Late, Busy or Broke."""
        deadline = monotonic() + timeout_s
        if self.calls.has_lost_home():
            self._find_home(deadline)
        return self.calls.call(partial(work, self.object), left(deadline), convert)

    def close(self, timeout_s: float) -> None:
        """Close the object, then end its threads."""
        self._is_closed = True
        if has_method(self.object, "close"):
            try:
                self.calls.call(self.object.close, timeout_s)
            except CallFailed as failure:
                log.warning("object %s: close() failed", self._name)
                log.debug("object %s", self._name, exc_info=failure.cause or failure)
        self.calls.close()

    def _find_home(self, deadline: float) -> None:
        """Wait a moment for the object's thread; build the object again if the thread does not return."""
        if not self._rebuilding.acquire(timeout=left(deadline)):
            raise Busy
        try:
            is_due = monotonic() >= self._rebuild_at and not self._is_closed
            if is_due and self.calls.has_lost_home(min(RETURN_S, left(deadline))):
                self._rebuild(min(self._start_timeout_s, left(deadline)))
        finally:
            self._rebuilding.release()

    def _rebuild(self, timeout_s: float) -> None:
        home: threading.Thread | None = None

        def make() -> Any:
            nonlocal home
            home = threading.current_thread()
            return self._make()

        try:
            made: Any = self.calls.call(make, timeout_s)
        except CallFailed as failure:
            self._rebuild_at = monotonic() + REBUILD_PAUSE_S
            log.warning("object %s: a call did not return, and the object cannot be built again", self._name)
            log.debug("object %s", self._name, exc_info=failure.cause or failure)
            return
        if home is None or made is self.object or not all(has_method(made, method) for method in self.needed):
            self._rebuild_at = float("inf")
            return
        before, self.object = self.object, made
        self.calls.move(home, before.close if has_method(before, "close") else lambda: None)
        self.rebuilt += 1
        log.warning("object %s: a call did not return; the object was built again", self._name)


def left(deadline: float) -> float:
    """Return the seconds until a deadline, 0 if it is past."""
    return max(0.0, deadline - monotonic())
