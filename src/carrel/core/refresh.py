"""Refresh a list in the background, so that callers do not wait long for a slow source."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

PATIENCE_S: Final = 0.25
"""How long a caller waits for the refreshed list before it gets the last one."""


class Refresh:
    """Runs `work` on a background thread, one run at a time. Safe from any thread."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._begun_at = 0.0
        self._is_over = threading.Event()
        self._is_over.set()

    def begin(self) -> None:
        """Start a run, unless one is under way."""
        with self._lock:
            if not self._is_over.is_set():
                return
            self._is_over = is_over = threading.Event()
            self._begun_at = monotonic()
        threading.Thread(target=self._run, args=(is_over,), name=self._name, daemon=True).start()

    def wait(self, age_s: float | None = None) -> bool:
        """Wait until the run is over, or has this age (by default `PATIENCE_S`); return whether it is over."""
        until = self._begun_at + (PATIENCE_S if age_s is None else age_s)
        return self._is_over.wait(max(0.0, until - monotonic()))

    @property
    def late_s(self) -> float:
        """The age of a run that takes longer than `PATIENCE_S`, else 0."""
        age_s = monotonic() - self._begun_at
        return age_s if age_s > PATIENCE_S and not self._is_over.is_set() else 0.0

    def _run(self, is_over: threading.Event) -> None:
        try:
            self._work()
        finally:
            is_over.set()
