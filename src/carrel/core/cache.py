"""A cache with a bound on the total weight of its values."""

import threading
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Made = TypeVar("_Made")


class BoundedCache(Generic[_Key, _Made]):
    """Keeps values by key. When the total weight passes the capacity, the oldest values are dropped."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._kept: dict[_Key, tuple[_Made, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Made | None:
        """Return the value of a key, or None."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def drop(self, key: _Key) -> None:
        """Remove a key."""
        with self._lock:
            self._weight -= self._kept.pop(key, (None, 0))[1]

    def put(self, key: _Key, made: _Made, weight: int) -> None:
        """Set the value of a key. A value that is heavier than the capacity is not kept."""
        with self._lock:
            self._weight -= self._kept.pop(key, (None, 0))[1]
            if weight > self._capacity:
                return
            self._kept[key] = made, weight
            self._weight += weight
            while self._weight > self._capacity:
                oldest = next(iter(self._kept))
                self._weight -= self._kept.pop(oldest)[1]
