"""What was made of files, kept while the files stay as they are; what was not used longest goes first."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from carrel.providers.alc.files import Stamp

T = TypeVar("T")


class Cache(Generic[T]):
    """A bounded memory of files' results. Each has a weight; together they never exceed the bound."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._weight = 0
        self._kept: OrderedDict[str, tuple[Stamp, T, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str, stamp: Stamp) -> T | None:
        """Give what was made of the file as it is now, if it is still known."""
        with self._lock:
            found = self._kept.get(path)
            if found is None or found[0] != stamp:
                return None
            self._kept.move_to_end(path)
            return found[1]

    def put(self, path: str, stamp: Stamp, value: T, weight: int = 1) -> None:
        """Remember what was made of a file."""
        with self._lock:
            before = self._kept.pop(path, None)
            if before is not None:
                self._weight -= before[2]
            if weight > self._bound:
                return
            self._kept[path] = (stamp, value, weight)
            self._weight += weight
            while self._weight > self._bound:
                self._weight -= self._kept.popitem(last=False)[1][2]
