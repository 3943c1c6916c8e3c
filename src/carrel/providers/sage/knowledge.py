"""Knowledge: an index that says what exists, and a content file for each item."""

import logging
from collections.abc import Iterator, Sequence
from threading import RLock
from typing import Final

from carrel.core.cache import Remembered
from carrel.core.record import Value
from carrel.core.uri import is_text
from carrel.files.sandbox import Root
from carrel.providers.sage import folders, lookup
from carrel.providers.sage.file_format import Broken, decode
from carrel.providers.sage.folders import Folders, Gone, Left, Read, Signature
from carrel.providers.sage.item_names import is_plain
from carrel.providers.sage.lookup import Ambiguous, Unmatched
from carrel.providers.sage.parsing import content_of, parse_content, parse_index
from carrel.providers.sage.record_folders import KEPT_BYTES, LARGEST_KEPT_BYTES, time_of
from carrel.providers.sage.records import Knowledge

log = logging.getLogger(__name__)

INDEX: Final = "index.yaml"
MAX_INDEX_BYTES: Final = 64 * 1_048_576
"""The index is one file for all items, so the bound of a single item's file does not hold for it."""

_ENTRY_BYTES: Final = 512
"""What a kept content takes beside its text."""

OUTSIDE: Final = "content file outside the knowledge folder"


class Shelved(Value, frozen=True):
    """A knowledge item, its place in the index, and its time if the index tells it."""

    item: Knowledge
    place: int
    when: int | None
    lowered: str


class Library:
    """What the project knows."""

    def __init__(self, home: Folders, limit: int) -> None:
        self._home = home
        self._limit = limit
        self._lock = RLock()
        self._signature: Signature | None = None
        self._items: dict[str, Shelved] = {}
        self._problem = ""
        self._kept: Remembered[str, tuple[Signature, str]] = Remembered(KEPT_BYTES)

    @property
    def problem(self) -> str:
        """Why the index cannot be read; empty if it can."""
        self.items()
        return self._problem

    def items(self) -> dict[str, Shelved]:
        """Give every item by its id, in the order of the index; the index is read again when it changed."""
        root = self._home.root("knowledge")
        if root is None:
            return {}
        with self._lock:
            try:
                with folders.open_beneath(root, (INDEX,)) as opened:
                    signature = folders.signature_of(opened.stat)
                    if signature == self._signature:
                        return self._items
                return self._take(folders.read(root, (INDEX,), MAX_INDEX_BYTES))
            except Gone:
                return self._without_index(root, "")
            except Broken as error:
                return self._without_index(root, error.reason)

    def _take(self, read: Read) -> dict[str, Shelved]:
        self._items = _shelve(parse_index(decode(read.data)))
        self._signature, self._problem = read.signature, ""
        return self._items

    def _without_index(self, root: Root, problem: str) -> dict[str, Shelved]:
        """Take the items from the content files themselves."""
        if problem and problem != self._problem:
            log.warning("the knowledge index cannot be read: %s; its items come from their files", problem)
        self._signature, self._problem = None, problem
        found = []
        for file in self.content_files(root):
            try:
                text = decode(folders.read(root, tuple(file.split("/")), self._limit).data)
            except (Broken, Gone):
                continue
            found.append(parse_content(text, file, file.rpartition("/")[2].removesuffix(".md")))
        return _shelve(found)

    def content_files(self, root: Root) -> Iterator[str]:
        """Yield the content files there are, in the order of their paths."""
        for seen in sorted(folders.scan(root, ("global",)), key=lambda seen: seen.name):
            if _is_content(seen.name):
                yield f"global/{seen.name}"
        for skill in sorted(folders.scan(root, ("skills",)), key=lambda seen: seen.name):
            if not is_text(skill.name):
                continue
            for seen in sorted(folders.scan(root, ("skills", skill.name)), key=lambda seen: seen.name):
                if _is_content(seen.name):
                    yield f"skills/{skill.name}/{seen.name}"

    def content(self, item: Knowledge) -> tuple[str, Read]:
        """Give an item's content; raise `Broken` with the reason."""
        root = self._home.root("knowledge")
        parts = item.file.split("/")
        if item.file.startswith(("/", "\\")) or ".." in parts or "\\" in item.file:
            raise Broken(OUTSIDE)
        segments = tuple(part for part in parts if part not in ("", "."))
        try:
            if root is None or not segments:
                raise Gone
            kept = self._kept.get(item.file)
            read = folders.read(root, segments, self._limit, kept[0] if kept else None)
        except Gone:
            raise Broken("content file not found") from None
        if kept is not None and kept[0] == read.signature:
            return kept[1], read
        content = content_of(decode(read.data))
        if read.size <= LARGEST_KEPT_BYTES:
            self._kept.put(item.file, (read.signature, content), _ENTRY_BYTES + read.size)
        return content, read

    def is_good(self, item: Knowledge) -> bool:
        """Tell whether an item's content can be read."""
        try:
            self.content(item)
        except Broken:
            return False
        return True

    def newest_first(self, shelved: Sequence[Shelved]) -> list[Shelved]:
        """Put items in order."""
        return sorted(shelved, key=self._newness, reverse=True)

    def when(self, shelved: Shelved) -> int:
        """Give the time of an item: when it was added, else when its file changed."""
        if shelved.when is not None:
            return shelved.when
        try:
            return self.content(shelved.item)[1].modified_ms
        except Broken:
            return 0

    def _newness(self, shelved: Shelved) -> tuple[int, int]:
        return self.when(shelved), shelved.place

    def find(self, wanted: str) -> Knowledge:
        """Give the one item an id means."""
        items = self.items()
        if wanted in items:
            return items[wanted].item
        every = [one for one in items.values() if is_plain(one.item.id)]
        matching = [one for one in every if wanted in one.item.id]
        if not matching:
            matching = lookup.by_words(every, wanted, lambda one: (one.item.id,), lambda one: one.lowered)
        if len(matching) > 1:
            matching = [one for one in matching if self.is_good(one.item)] or matching
        if not matching:
            raise Unmatched
        if len(matching) > 1:
            newest = self.newest_first(matching)[: lookup.NAMED]
            raise Ambiguous(len(matching), [one.item.id for one in newest])
        return matching[0].item


def _is_content(name: str) -> bool:
    return name.endswith(".md") and is_text(name)


def _shelve(items: Sequence[Knowledge]) -> dict[str, Shelved]:
    return {item.id: Shelved(item, place, time_of(item.added), item.id.lower()) for place, item in enumerate(items)}


__all__ = ["Left", "Library", "Shelved"]
