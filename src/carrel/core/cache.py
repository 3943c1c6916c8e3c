"""What was made before and may be given again, within a bound on how much is kept."""

import threading
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Made = TypeVar("_Made")


class Remembered(Generic[_Key, _Made]):
    """Keeps what was made, by key. When the bound on all weights is passed, what was put longest ago goes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._kept: dict[_Key, tuple[_Made, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Made | None:
        """Give what is kept under a key."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def drop(self, key: _Key) -> None:
        """Remove what is kept under a key."""
        with self._lock:
            self._weight -= self._kept.pop(key, (None, 0))[1]

    def put(self, key: _Key, made: _Made, weight: int) -> None:
        """Keep something in place of what the key had; nothing that alone would pass the bound."""
        with self._lock:
            before = self._kept.pop(key, None)
            self._weight -= 0 if before is None else before[1]
            if weight > self._capacity:
                return
            self._kept[key] = made, weight
            self._weight += weight
            while self._weight > self._capacity:
                oldest = next(iter(self._kept))
                self._weight -= self._kept.pop(oldest)[1]
