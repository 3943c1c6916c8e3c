"""Checkpoints and failures: one file each, known by its stem, looked at again only when it changed.

A file whose stem cannot be asked for is on no shelf: whatever named it would name what cannot be read.

A `Card` remembers what is needed to find and list an item; the item itself is read when it is wanted.
"""

import re
import stat
from calendar import timegm
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from threading import RLock
from typing import Any, Final, Generic, TypeVar

from carrel.core.cache import Remembered
from carrel.providers.sage import folders
from carrel.providers.sage.file_format import Broken, decode, read_fields, split_front_matter, text_of
from carrel.providers.sage.folders import Folders, Gone, Name, Read, Signature
from carrel.providers.sage.item_names import is_plain
from carrel.providers.sage.parsing import parse_checkpoint, parse_failure, parse_legacy
from carrel.providers.sage.records import Checkpoint, Failure, Record

LEGACY: Final = ".yaml"
KEPT_BYTES: Final = 4 * 1_048_576
LARGEST_KEPT_BYTES: Final = 65_536
"""How much is kept of the items of one kind as they were parsed, and how large one may be: who reads one often reads it
again."""
_RECORD_BYTES: Final = 1_024
"""What a record takes beside its text."""

_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)(?!\d)")
_WORDS: Final = re.compile(r"[-_]|(?<=[0-9])T(?=[0-9])")

T = TypeVar("T", bound=Record)


def words_of(text: str) -> frozenset[str]:
    """Give the words of an id, in lower case."""
    return frozenset(word.lower() for word in _WORDS.split(text) if word)


def time_in(stem: str) -> int | None:
    """Give the time a stem begins with, in milliseconds; None for one that never was."""
    found = _TIME.match(stem)
    try:
        return None if found is None else timegm(tuple(int(part) for part in found.groups())) * 1000
    except ValueError:
        return None


def time_of(text: str) -> int | None:
    """Give the time an ISO text means, in milliseconds; without a zone it counts as UTC."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


class Card:
    """What is remembered of a file: enough to find it. `reason` says why it cannot be read, if so."""

    __slots__ = (
        "id",
        "is_examined",
        "is_link",
        "lowered",
        "name",
        "reason",
        "signature",
        "state",
        "stem",
        "summary",
        "when",
    )

    def __init__(self, name: str, stem: str, signature: Signature, *, is_link: bool) -> None:
        self.name = name
        self.stem = stem
        self.signature = signature
        self.state = str(signature)
        self.is_link = is_link
        self.is_examined = False
        self.id = ""
        self.lowered = stem.lower()
        self.reason = ""
        self.when = time_in(stem)
        self.summary: Any = None

    @property
    def newness(self) -> tuple[int, str]:
        """Its place by age: the larger is the newer."""
        return (self.when if self.when is not None else self.signature[0] // 1_000_000), self.stem


class Shelf(Generic[T]):
    """The files of one folder."""

    def __init__(
        self, name: Name, home: Folders, limit: int, parse: Callable[[str, str], T], *, has_legacy: bool = False
    ) -> None:
        self._name: Name = name
        self._home = home
        self._limit = limit
        self._parse = parse
        self._suffixes = (".md", LEGACY) if has_legacy else (".md",)
        self._cards: dict[str, Card] = {}
        self._kept: Remembered[str, tuple[Signature, T]] = Remembered(KEPT_BYTES)
        self._lock = RLock()

    def cards(self) -> dict[str, Card]:
        """Look at the folder: give every file by its stem, those that did not change as they were known."""
        root = self._home.root(self._name)
        if root is None:
            return {}
        with self._lock:
            known, found = self._cards, dict[str, Card]()
            for name, mode, signature in folders.states(root):
                stem = self.stem_of(name)
                card = known.get(stem)
                if (card is None and not is_plain(stem)) or (stem in found and not name.endswith(".md")):
                    continue
                if card is None or card.signature != signature or card.name != name or card.is_link:
                    card = Card(name, stem, signature, is_link=stat.S_ISLNK(mode))
                found[stem] = card
            self._cards = found
            return found

    def stem_of(self, name: str) -> str:
        """Give a file's stem; empty if its name is not one of an item."""
        if name.endswith(".md"):
            return name[:-3]
        return name[: -len(LEGACY)] if LEGACY in self._suffixes and name.endswith(LEGACY) else ""

    def examined(self) -> dict[str, Card]:
        """Look at the folder, and into every file that changed: each has its id, or the reason it has none."""
        cards = self.cards()
        for card in cards.values():
            if not card.is_examined:
                self.examine(card)
        return cards

    def examine(self, card: Card) -> None:
        """Learn a file's id and time, or why it cannot be read; a second time costs nothing."""
        if card.is_examined:
            return
        try:
            read = self._read(card.name)
            if card.signature != read.signature:
                card.signature, card.state = read.signature, str(read.signature)
            card.id, times = _head_of(card.name, decode(read.data))
            if card.when is None:
                card.when = next((when for when in map(time_of, times) if when is not None), None)
            card.lowered = f"{card.stem}\n{card.id}".lower()
        except Broken as error:
            card.reason = error.reason
        except Gone:
            card.reason = "I/O error"
        card.is_examined = True

    def newest_first(self, cards: Iterable[Card]) -> list[Card]:
        """Put cards in order; those without a time in their stem are looked into."""
        chosen = list(cards)
        for card in chosen:
            if card.when is None:
                self.examine(card)
        return sorted(chosen, key=lambda card: card.newness, reverse=True)

    def load(self, stem: str) -> tuple[T, Read]:
        """Read the item with this very stem; raise `Gone`, or `Broken` with the reason."""
        for suffix in self._suffixes:
            name = stem + suffix
            kept = self._kept.get(name)
            try:
                read = self._read(name, kept[0] if kept else None)
            except Gone:
                continue
            if kept is not None and kept[0] == read.signature:
                return kept[1], read
            record = self._parse(name, decode(read.data))
            if read.size <= LARGEST_KEPT_BYTES:
                self._kept.put(name, (read.signature, record), _RECORD_BYTES + read.size)
            return record, read
        raise Gone

    def load_if_sound(self, stem: str) -> T | None:
        """Give the item with this very stem; None if there is none, or none that can be read."""
        try:
            return self.load(stem)[0]
        except (Broken, Gone):
            return None

    def _read(self, name: str, known: Signature | None = None) -> Read:
        root = self._home.root(self._name)
        if root is None or name.startswith(".") or "/" in name:
            raise Gone
        return folders.read(root, (name,), self._limit, known)


def _head_of(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """Give the id inside a file and the texts that may tell its time; the body is not looked at."""
    if name.endswith(LEGACY):
        record = parse_legacy(text)
        return record.id, (record.ts,)
    fields = read_fields(split_front_matter(text)[0])
    return text_of(fields, "id"), tuple(text_of(fields, key) for key in ("ts", "extracted_at", "added"))


def _parse_checkpoint(name: str, text: str) -> Checkpoint:
    return parse_legacy(text) if name.endswith(LEGACY) else parse_checkpoint(text)


def _parse_failure(name: str, text: str) -> Failure:
    del name
    return parse_failure(text)


def checkpoints(home: Folders, limit: int) -> "Shelf[Checkpoint]":
    """Give the shelf of checkpoints."""
    return Shelf("checkpoints", home, limit, _parse_checkpoint, has_legacy=True)


def failures(home: Folders, limit: int) -> "Shelf[Failure]":
    """Give the shelf of failures."""
    return Shelf("failures", home, limit, _parse_failure)
