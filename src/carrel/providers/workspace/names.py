"""Which names a folder had: a file that is replaced by another of its name neither came nor went."""

from array import array
from collections.abc import Iterable
from typing import Final

from carrel.sandbox import Kind

_KINDS: Final[tuple[Kind, ...]] = ("file", "folder", "link")


class Names:
    """The names in one folder, each with its kind, remembered by eight bytes."""

    def __init__(self, names: Iterable[tuple[str, Kind]]) -> None:
        self._hashes = array("q", map(hash, names))

    def has(self, name: str, kind: Kind) -> bool:
        """Tell whether a name is known as a thing of this kind."""
        return hash((name, kind)) in self._hashes

    def put(self, name: str, kind: Kind) -> bool:
        """Note that a name is there; tell whether it was, as a thing of the same kind."""
        if self.has(name, kind):
            return True
        self.drop(name)
        self._hashes.append(hash((name, kind)))
        return False

    def drop(self, name: str) -> Kind | None:
        """Note that a name is gone; give what it was, if it was there."""
        for kind in _KINDS:
            if (known := hash((name, kind))) in self._hashes:
                self._hashes.remove(known)
                return kind
        return None
