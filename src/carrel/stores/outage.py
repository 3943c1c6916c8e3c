"""What is known about an outage of a store, so that not every call waits for the store anew.

A call that finds the store away begins an outage. For a moment all others fail at once; then one of them tries again.
"""

import threading
from time import monotonic
from typing import Final

REST_S: Final = 1.0
"""How long calls fail at once after one that found the store away."""
PROBE_S: Final = 1.0
"""How long the call that tries again waits for a connection."""


class Outage:
    """Whether a store is away. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_known = False
        self._answered_at = 0.0
        self._rest_until = 0.0

    def patience_s(self, usual_s: float) -> float:
        """Return how long a call may wait for a connection; 0 if it must not try.

        During an outage only one call tries; the next may try when that one has failed, or after `usual_s`.
        """
        if not self._is_known:
            return usual_s
        with self._lock:
            now = monotonic()
            if now < self._rest_until:
                return 0.0
            self._rest_until = now + usual_s
            return min(PROBE_S, usual_s)

    def begin(self, started: float) -> None:
        """Note that a call which began at this time found the store away, unless a later one found it back."""
        with self._lock:
            if self._answered_at > started:
                return
            self._is_known = True
            self._rest_until = monotonic() + REST_S

    def end(self) -> None:
        """Note that the store answers."""
        self._answered_at = monotonic()
        self._is_known = False
