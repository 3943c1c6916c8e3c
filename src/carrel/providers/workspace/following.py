"""Which files and folders somebody listens to, and how each was when it was last looked at.

A folder that is moved takes along what lies in it, and the system tells of the folder alone. So
what is followed beneath a name that came or went is looked at; only that, however large the folder is.
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator

from carrel.errors import RequestError
from carrel.providers.workspace.ignore import Segments
from carrel.providers.workspace.tree import Tree, etag_of
from carrel.sandbox import SandboxError

Place = tuple[str, Segments]
"""The name of a root, and names below it. Sorted, what lies in a folder follows it at once."""


class Followed:
    """The places that are followed. Listeners add and remove them while events come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, tuple[Place, ...]] = {}
        self._count: Counter[Place] = Counter()
        self._sorted: list[Place] = []
        self._states: dict[Place, str | None] = {}

    def add(self, uri: str, tree: Tree, names: Iterable[Segments]) -> None:
        """Follow the places that a URI stands for; once, however often it is said."""
        states = {(tree.name, segments): _state(tree, segments) for segments in names}
        with self._lock:
            self._forget(uri)
            self._of[uri] = tuple(states)
            for place, state in states.items():
                if not self._count[place]:
                    insort(self._sorted, place)
                    self._states[place] = state
                self._count[place] += 1

    def discard(self, uri: str) -> None:
        """Follow a URI no longer."""
        with self._lock:
            self._forget(uri)

    def __len__(self) -> int:
        """Count the places."""
        return len(self._sorted)

    def look_at(self, tree: Tree, segments: Segments) -> bool:
        """Look at a place, if it is followed; tell whether it is another than before."""
        place = tree.name, segments
        if place not in self._states:
            return False
        state = _state(tree, segments)
        with self._lock:
            is_changed = place in self._states and self._states[place] != state
            if is_changed:
                self._states[place] = state
        return is_changed

    def changed_below(self, tree: Tree, folder: Segments) -> Iterator[Segments]:
        """Look at what is followed in a folder, and give what is another than before."""
        with self._lock:
            below = list(self._below((tree.name, folder)))
        for segments in below:
            if self.look_at(tree, segments):
                yield segments

    def _below(self, folder: Place) -> Iterator[Segments]:
        depth = len(folder[1])
        for at in range(bisect_right(self._sorted, folder), len(self._sorted)):
            root, segments = self._sorted[at]
            if (root, segments[:depth]) != folder:
                return
            yield segments

    def _forget(self, uri: str) -> None:
        for place in self._of.pop(uri, ()):
            self._count[place] -= 1
            if not self._count[place]:
                del self._count[place], self._states[place]
                del self._sorted[bisect_left(self._sorted, place)]


def _state(tree: Tree, segments: Segments) -> str | None:
    """Give what changes when a file does, or when a folder is another; None where nothing is served."""
    try:
        with tree.open_path("", segments).opened as opened:
            return str(opened.stat.st_ino) if opened.is_folder else etag_of(opened.stat)
    except (RequestError, SandboxError):
        return None
