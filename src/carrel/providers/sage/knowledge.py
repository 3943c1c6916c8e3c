"""Knowledge items: an index of all items, and a content file for each."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from carrel.core.isotime import parse_iso
from carrel.core.record import Value
from carrel.core.uri import is_text
from carrel.providers.sage import folders
from carrel.providers.sage.fields import BadFile, decode
from carrel.providers.sage.folders import FileData, FileMissing, SageFolders, Signature, Subfolder, segments_of
from carrel.providers.sage.names import is_plain
from carrel.providers.sage.record_files import content_of, parse_content_file, parse_index
from carrel.providers.sage.record_folder import find_by_words, only
from carrel.providers.sage.records import KnowledgeItem

log = logging.getLogger(__name__)

INDEX: Final = "index.yaml"
INDEX_PATH: Final = ("knowledge", INDEX)
MAX_INDEX_BYTES: Final = 64 * 1_048_576
"""The index has all items, so the limit for a single item's file does not apply."""


class IndexedItem(Value, frozen=True):
    """A knowledge item, its position in the index, and its time if the index has it."""

    item: KnowledgeItem
    position: int
    when: int | None


class KnowledgeFolder(Subfolder[str]):
    """The knowledge items of a project."""

    def __init__(self, home: SageFolders, limit: int) -> None:
        super().__init__(home, "knowledge", limit)
        self._signature: Signature | None = None
        self._items: dict[str, IndexedItem] = {}
        self._states: dict[str, tuple[Signature, str]] = {}
        self._problem = ""

    @property
    def problem(self) -> str:
        """The reason why the index cannot be read, or an empty text."""
        self.items()
        return self._problem

    def items(self) -> dict[str, IndexedItem]:
        """Return the items by id in the order of the index, which is read again when it changed."""
        root = self.root
        if root is None:
            return {}
        with self._lock:
            try:
                read = folders.read(root, (INDEX,), MAX_INDEX_BYTES, self._signature)
                if read.signature != self._signature:
                    self._items = self._number(parse_index(decode(read.data)))
            except FileMissing:
                return self._items_without_index("")
            except BadFile as error:
                return self._items_without_index(error.reason)
            self._signature, self._problem = read.signature, ""
            return self._items

    def _items_without_index(self, problem: str) -> dict[str, IndexedItem]:
        """Return the items that the content files describe themselves."""
        if problem and problem != self._problem:
            log.warning("the knowledge index cannot be read: %s; its items come from their files", problem)
        self._signature, self._problem = None, problem
        return self._number(item for file in self._content_files() for item in self._describe(file))

    def _number(self, items: Iterable[KnowledgeItem]) -> dict[str, IndexedItem]:
        """Return items by id, and forget the states of files that belong to none of them."""
        numbered = {item.id: IndexedItem(item, position, parse_iso(item.added)) for position, item in enumerate(items)}
        files = {one.item.file for one in numbered.values()}
        self._states = {file: state for file, state in list(self._states.items()) if file in files}
        return numbered

    def _content_files(self) -> Iterator[str]:
        root = self.root
        skills = sorted(found.name for found in folders.scan(root, ("skills",)) if is_text(found.name))
        for segments in (("global",), *(("skills", skill) for skill in skills)):
            for name in sorted(found.name for found in folders.scan(root, segments)):
                if name.endswith(".md") and is_text(name):
                    yield "/".join((*segments, name))

    def _describe(self, file: str) -> Iterator[KnowledgeItem]:
        try:
            text = decode(self.read_file(*file.split("/")).data)
        except BadFile:
            return
        yield parse_content_file(text, file)

    # Contents

    def content(self, item: KnowledgeItem) -> tuple[str, FileData]:
        """Return an item's content; raise `BadFile` with the reason."""
        try:
            return self.load_file(_content_segments(item.file), content_of)
        except FileMissing:
            raise BadFile("content file not found") from None

    def signature(self, item: KnowledgeItem) -> Signature | None:
        """Return the signature of an item's content file, or None if it cannot be opened."""
        try:
            with folders.open_file(self.root, _content_segments(item.file)) as opened:
                return folders.signature_of(opened.stat)
        except BadFile:
            return None

    def state(self, item: KnowledgeItem) -> tuple[Signature | None, str]:
        """Return the signature of an item's content file, and why it cannot be read; an unchanged file is not read."""
        signature = self.signature(item)
        known = self._states.get(item.file)
        if signature is not None and known is not None and known[0] == signature:
            return known
        reason = ""
        try:
            signature = self.content(item)[1].signature
        except BadFile as error:
            reason = error.reason
        if signature is not None:
            self._states[item.file] = signature, reason
        return signature, reason

    # Order and finding

    def when(self, indexed: IndexedItem) -> int:
        """Return when an item was added, or else when its file changed."""
        if indexed.when is not None:
            return indexed.when
        try:
            return self.content(indexed.item)[1].modified_ms
        except BadFile:
            return 0

    def newest_first(self, items: Iterable[IndexedItem]) -> list[IndexedItem]:
        """Return items in order."""
        return sorted(items, key=lambda one: (self.when(one), one.position), reverse=True)

    def find(self, wanted: str) -> KnowledgeItem:
        """Return the one item that an id means; raise `Ambiguous` or `FileMissing`."""
        items = self.items()
        if wanted in items:
            return items[wanted].item
        every = [one for one in items.values() if is_plain(one.item.id)]
        matching = [one for one in every if wanted in one.item.id]
        matching = matching or find_by_words(every, wanted, lambda one: one.item.id)
        if len(matching) > 1:
            matching = self.newest_first([one for one in matching if not self.state(one.item)[1]] or matching)
        return only(matching, lambda one: one.item.id).item


def _content_segments(file: str) -> tuple[str, ...]:
    """Return the path of a content file; raise `BadFile` if it leaves the folder, `FileMissing` if it is empty."""
    if file.startswith(("/", "\\")) or ".." in file.split("/") or "\\" in file:
        raise BadFile("content file outside the knowledge folder")
    segments = segments_of(file)
    if not segments:
        raise FileMissing
    return segments
