"""The names that a folder had, so that a replaced file counts neither as new nor as deleted."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

from carrel.files.sandbox import Kind

_KINDS: Final[tuple[Kind, ...]] = ("file", "folder", "link")


class Names:
    """The names in one folder with their kinds; each takes eight bytes."""

    def __init__(self, names: Iterable[tuple[str, Kind]]) -> None:
        self._hashes = array("q", sorted(map(hash, names)))

    def has(self, name: str, kind: Kind) -> bool:
        """Return whether a name of this kind is known."""
        return self._place(name, kind) is not None

    def put(self, name: str, kind: Kind) -> bool:
        """Add a name; return whether it was there with the same kind."""
        if self.has(name, kind):
            return True
        self.drop(name)
        insort(self._hashes, hash((name, kind)))
        return False

    def drop(self, name: str) -> Kind | None:
        """Remove a name; return its kind, or None if it was not there."""
        for kind in _KINDS:
            place = self._place(name, kind)
            if place is not None:
                del self._hashes[place]
                return kind
        return None

    def _place(self, name: str, kind: Kind) -> int | None:
        wanted = hash((name, kind))
        place = bisect_left(self._hashes, wanted)
        return place if place < len(self._hashes) and self._hashes[place] == wanted else None
