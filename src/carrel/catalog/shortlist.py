"""The list that hosts are sent: a bounded number of entries, chosen by worth.

Hosts drop or choke on long lists. Every provider gives its entries in groups, and each group has a rank. Guaranteed
entries come first, then every group but the files gets a fair part, and the places that are left go to the groups by
rank. The order is that of rank, provider and sort key, each made from the entry alone: so a cursor is a position, and
entries may come and go between pages.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from carrel.catalog.pages import FullList, key_of, seal
from carrel.catalog.routes import Mounted
from carrel.core.errors import BadCursor
from carrel.core.model import Page, Rank, Resource
from carrel.core.record import Value

KIND: Final = "s"
"""What a cursor of this list begins with."""


class Chosen(Value, frozen=True):
    """The entries of the list, in order, and whether there are any others."""

    entries: tuple[Resource, ...]
    is_whole: bool


class _Group:
    """A group of a provider's entries, and those of them that have a place."""

    def __init__(self, mounted: Mounted, entries: Iterator[Resource]) -> None:
        self.mounted = mounted
        self.entries: list[Resource] = []
        self._rest = entries
        self._next = next(entries, None)
        self.rank = Rank.FILES if self._next is None else _rank_of(self._next)

    def take_guaranteed(self, left: int) -> int:
        """Take the guaranteed entries, at most `left`; return how many there are."""
        while self._next is not None and len(self.entries) < left and (self._next.guaranteed or self._next.pinned):
            self.take(left, 1)
        return len(self.entries)

    def take(self, most: int, left: int) -> int:
        """Take entries until there are `most`, but at most `left` more; return how many were added."""
        count = min(most - len(self.entries), left)
        if self._next is None or count <= 0:
            return 0
        before = len(self.entries)
        self.entries.append(self._next)
        self.entries += islice(self._rest, count - 1)
        self._next = next(self._rest, None)
        return len(self.entries) - before

    def has_more(self) -> bool:
        """Return whether an entry found no place."""
        return self._next is not None


def _rank_of(entry: Resource) -> Rank:
    if entry.rank is not None:
        return entry.rank
    return Rank.FRONT if entry.pinned else Rank.OTHERS


class Shortlist:
    """The most useful entries of a list."""

    def __init__(self, listing: FullList, bound: int) -> None:
        self._listing = listing
        self._bound = bound

    def chosen(self) -> Chosen:
        """Return the whole short list."""
        taken = self._take()
        entries = tuple(entry for one in taken for entry in one.entries)
        return Chosen(entries, len(entries) < self._bound or not any(one.has_more() for one in taken))

    def page(self, parts: tuple[str, ...], wanted: int) -> Page:
        """Return one page, from the start or from the place that the parts of a cursor name."""
        rank, number, key = self._place(parts)
        entries: list[Resource] = []
        last: _Group | None = None
        for one in self._take():
            place = (one.rank, self._listing.number_of(one.mounted.provider.name))
            if place < (rank, number):
                continue
            following = one.entries
            if place == (rank, number):
                following = [entry for entry in following if key_of(entry) > key]
            last = one if following and len(entries) < wanted else last
            entries += following[: wanted + 1 - len(entries)]
        if last is None or len(entries) <= wanted:
            return Page(tuple(entries), ttl_ms=self._listing.ttl_ms())
        shown = tuple(entries[:wanted])
        cursor = seal(KIND, str(int(last.rank)), last.mounted.provider.name, key_of(shown[-1]))
        return Page(shown, cursor, ttl_ms=self._listing.ttl_ms())

    def _take(self) -> list[_Group]:
        """Return every group in order, with the entries of it that have a place."""
        every = sorted((_Group(*group) for group in self._listing.groups()), key=lambda group: group.rank)
        fair = self._bound // max(1, 2 * len(every))
        left = self._bound
        for one in every:
            left -= one.take_guaranteed(left)
        for one in every:
            if one.rank is not Rank.FILES:
                left -= one.take(fair, left)
        for one in every:
            left -= one.take(self._bound, left)
        return every

    def _place(self, parts: tuple[str, ...]) -> tuple[int, int, str]:
        """Return the rank, the provider's number and the key after which a page begins."""
        match parts:
            case ():
                return -1, 0, ""
            case (_, rank, name, key) if rank.isascii() and rank.isdigit():
                return int(rank[:9]), self._listing.number_of(name), key
        raise BadCursor
