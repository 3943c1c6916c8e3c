"""The search of a server that has not searched yet: nothing of it is imported or opened before the first search."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carrel.search.search import Search


class LazySearch:
    """Opens the search when it is first asked for. Safe to use from several threads."""

    def __init__(self, open_: "Callable[[], Search]") -> None:
        self._open = open_
        self._opened: Search | None = None
        self._opening = Lock()
        self._is_closed = False

    def opened(self) -> "Search":
        """Return the search; open it first if need be."""
        with self._opening:
            if self._opened is None:
                self._opened = self._open()
                if self._is_closed:
                    self._opened.close()
            return self._opened

    def close(self) -> None:
        """Close the search, if it was opened."""
        with self._opening:
            self._is_closed = True
            if self._opened is not None:
                self._opened.close()
