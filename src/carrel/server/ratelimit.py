"""The rate limit of completions: a number per second for each caller, with bursts."""

import threading
from time import monotonic

from carrel.core.errors import ProviderError
from carrel.core.limits import COMPLETION_BURST, COMPLETIONS_PER_SECOND


class Allowance:
    """The completions that one caller has left, on all of its connections."""

    __slots__ = ("_at", "_left", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = float(COMPLETION_BURST)
        self._at = monotonic()

    def spend(self) -> None:
        """Use one; if none is left, raise an error that says when to try again."""
        with self._lock:
            now = monotonic()
            earned = (now - self._at) * COMPLETIONS_PER_SECOND
            self._left = min(float(COMPLETION_BURST), self._left + earned)
            self._at = now
            if self._left < 1:
                pause_ms = 1000 // COMPLETIONS_PER_SECOND
                raise ProviderError("Too many completions: slow down", word="busy", data={"retryAfterMs": pause_ms})
            self._left -= 1
