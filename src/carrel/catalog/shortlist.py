"""The list that hosts are sent: at most so many entries in all, chosen by worth.

Hosts drop or choke on long lists. Every provider gives its entries in shares, and each share has a
rank. Promised entries come first, then every share but the files gets a fair part, and the places that are
left go to the shares by rank. The order is that of rank, provider and key, each made from the entry alone:
so a cursor is a position, and entries may come and go between pages.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from carrel.catalog.cursor import seal
from carrel.catalog.pages import Listing
from carrel.catalog.routes import Mounted
from carrel.core.errors import BadCursor
from carrel.core.model import Page, Resource
from carrel.core.provider import Rank, Share
from carrel.core.record import Value

KIND: Final = "s"
"""What a cursor of this list begins with."""


class Chosen(Value, frozen=True):
    """The entries of the list, in order, and whether there are any others."""

    entries: tuple[Resource, ...]
    is_whole: bool


class _Taken:
    """A share, and the entries of it that have a place."""

    def __init__(self, mounted: Mounted, share: Share, entries: Iterator[Resource]) -> None:
        self.mounted = mounted
        self.share = share
        self.entries: list[Resource] = []
        self._waiting = entries

    def take(self, most: int, left: int) -> int:
        """Take entries until there are `most`, but only as many as there are places left; return how many."""
        before = len(self.entries)
        self.entries += islice(self._waiting, max(0, min(left, most - before)))
        return len(self.entries) - before

    def has_more(self) -> bool:
        """Return whether an entry found no place."""
        return next(self._waiting, None) is not None


class Shortlist:
    """The most useful entries of a list."""

    def __init__(self, listing: Listing, bound: int) -> None:
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
        last: _Taken | None = None
        for one in self._take():
            place = (one.share.rank, self._listing.number_of(one.mounted.provider.name))
            if place < (rank, number):
                continue
            following = one.entries
            if place == (rank, number):
                following = [entry for entry in following if one.share.key(entry) > key]
            last = one if following and len(entries) < wanted else last
            entries += following[: wanted + 1 - len(entries)]
        if last is None or len(entries) <= wanted:
            return Page(tuple(entries), ttl_ms=self._listing.ttl_ms())
        shown = tuple(entries[:wanted])
        cursor = seal(KIND, str(int(last.share.rank)), last.mounted.provider.name, last.share.key(shown[-1]))
        return Page(shown, cursor, ttl_ms=self._listing.ttl_ms())

    def _take(self) -> list[_Taken]:
        """Return every share in order, with the entries of it that have a place."""
        shares = sorted(self._listing.shares(), key=lambda pair: pair[1].rank)
        every = [_Taken(mounted, one, self._listing.permitted(mounted, one.entries)) for mounted, one in shares]
        fair = self._bound // max(1, 2 * len(every))
        left = self._bound
        for one in every:
            left -= one.take(one.share.promised, left)
        for one in every:
            if one.share.rank is not Rank.FILES:
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
