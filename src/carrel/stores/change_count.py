"""A number of changes that threads wait on: each compares it with the number it knows, so none misses a change."""

import threading


class ChangeCount:
    """How many changes were heard of. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0

    @property
    def number(self) -> int:
        """Return how many changes there were."""
        return self._number

    def add(self) -> None:
        """Count a change, and wake all that wait."""
        with self._changed:
            self._number += 1
            self._changed.notify_all()

    def wake(self) -> None:
        """Let all that wait look whether they have to stop."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, known: int, seconds: float, stop: threading.Event) -> bool:
        """Wait until there are other changes than the known ones, or a time; return whether to stop instead.

        After `stop` is set, `wake` ends the wait.
        """
        with self._changed:
            self._changed.wait_for(lambda: stop.is_set() or self._number != known, seconds)
        return stop.is_set()
