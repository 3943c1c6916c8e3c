"""Closes what tests of search open: each search watches folders, and a user has only so many watchers."""

from collections.abc import Iterator

import pytest

from carrel.catalog.catalog import Catalog
from carrel.search.search import Search


@pytest.fixture(autouse=True)
def closed_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every catalogue and every search of a test when it ends."""
    opened: list[Catalog | Search] = []
    for kind in (Catalog, Search):
        begin = kind.__init__

        def begin_noted(self: Catalog | Search, *given: object, _begin: object = begin, **named: object) -> None:
            opened.append(self)
            _begin(self, *given, **named)  # type: ignore[operator]

        monkeypatch.setattr(kind, "__init__", begin_noted)
    yield
    for one in reversed(opened):
        one.close()
