"""The rate limit of completions: a number per second for each caller, with bursts."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from carrel.core.errors import ProviderError
from carrel.core.limits import COMPLETION_BURST, COMPLETIONS_PER_SECOND

MAX_CALLERS: Final = 1_024


class Allowance:
    """The completions that one caller has left, on all of its connections.

    With replicas, a caller has no more than all of them together still allow. Uses are reported to the others from
    time to time; between two reports, only what was left at the last one may be used, and nothing is earned.
    """

    __slots__ = ("_at", "_left", "_lock", "_on_spent", "_shared", "_unreported")

    def __init__(self, on_spent: Callable[[], None] | None = None) -> None:
        """Call `on_spent`, which must be quick, after each use, to report it; without it, there are no replicas."""
        self._lock = threading.Lock()
        self._left = float(COMPLETION_BURST)
        self._at = monotonic()
        self._on_spent = on_spent
        self._shared = None if on_spent is None else self._left
        self._unreported = 0

    def spend(self) -> None:
        """Use one; if none is left, raise an error that says when to try again."""
        with self._lock:
            self._earn()
            left = self._left if self._shared is None else min(self._left, self._shared)
            if left < 1:
                pause_ms = max(1000, round(1000 * (1 - left))) // COMPLETIONS_PER_SECOND
                raise ProviderError("Too many completions: slow down", word="busy", data={"retryAfterMs": pause_ms})
            self._left -= 1
            self._unreported += 1
            if self._shared is not None:
                self._shared -= 1
        if self._on_spent is not None:
            self._on_spent()

    def _earn(self) -> None:
        now = monotonic()
        earned = (now - self._at) * COMPLETIONS_PER_SECOND
        self._at = now
        self._left = min(float(COMPLETION_BURST), self._left + earned)
        if self._shared is not None and not self._unreported:
            self._shared = min(float(COMPLETION_BURST), self._shared + earned)

    def unreported(self) -> int:
        """Return how many were used here since the last report; after an outage, no more than a burst."""
        with self._lock:
            self._unreported = min(self._unreported, COMPLETION_BURST)
            return self._unreported

    def learn(self, reported: int, level: float | None) -> None:
        """Set what all replicas still allow after a report; if None, it is unknown, and this server's limit applies."""
        with self._lock:
            self._earn()
            if level is None:
                self._shared = None
                return
            self._unreported -= reported
            self._shared = level - self._unreported


class Allowances:
    """The allowances of callers by name; those that were used long ago are forgotten first. Safe from any thread."""

    def __init__(self) -> None:
        self._known: dict[str, Allowance] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Allowance:
        """Return the allowance of a caller."""
        with self._lock:
            found = self._known.get(name)
            if found is None:
                while len(self._known) >= MAX_CALLERS:
                    del self._known[next(iter(self._known))]
                found = self._known[name] = self.new()
            return found

    def new(self) -> Allowance:
        """Return a whole allowance."""
        return Allowance()
