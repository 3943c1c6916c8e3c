"""Which names a folder had: a file that is replaced by another of its name neither came nor went."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

from carrel.files.sandbox import Kind

_KINDS: Final[tuple[Kind, ...]] = ("file", "folder", "link")


class Names:
    """The names in one folder, each with its kind, remembered by eight bytes."""

    def __init__(self, names: Iterable[tuple[str, Kind]]) -> None:
        self._hashes = array("q", sorted(map(hash, names)))

    def has(self, name: str, kind: Kind) -> bool:
        """Tell whether a name is known as a thing of this kind."""
        return self._place(name, kind) is not None

    def put(self, name: str, kind: Kind) -> bool:
        """Note that a name is there; tell whether it was, as a thing of the same kind."""
        if self.has(name, kind):
            return True
        self.drop(name)
        insort(self._hashes, hash((name, kind)))
        return False

    def drop(self, name: str) -> Kind | None:
        """Note that a name is gone; give what it was, if it was there."""
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
