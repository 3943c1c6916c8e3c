"""How long a list, or a read of the index, may go on parsing files."""

from time import monotonic


class Patience:
    """Seconds that may be spent on parsing; `with` it, time is counted."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._began = 0.0

    @property
    def left(self) -> float:
        """Seconds that are left, 0 or more."""
        return max(0.0, self._left)

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be parsed."""
        return self._left <= 0

    def __enter__(self) -> None:
        self._began = monotonic()

    def __exit__(self, *_: object) -> None:
        self._left -= monotonic() - self._began
