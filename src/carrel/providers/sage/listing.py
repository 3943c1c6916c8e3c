"""The list: system files, then checkpoints, knowledge and failures, each newest first.

An entry's key is made of its kind, its age and its name, so a cursor is a position. What is not listed can be
told with the reason. Files are read for their title once, and again only when they changed.
"""

from collections.abc import Iterator
from typing import Final

from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import Value, replace
from carrel.providers.sage import folders
from carrel.providers.sage.file_format import Broken
from carrel.providers.sage.folders import Gone, Name, Signature
from carrel.providers.sage.item_names import HIDDEN, ODD_NAME, is_plain, shown
from carrel.providers.sage.knowledge import Shelved
from carrel.providers.sage.lookup import failure_addresses
from carrel.providers.sage.memory import Memory
from carrel.providers.sage.record_folders import Card, Shelf
from carrel.providers.sage.records import Checkpoint, Failure
from carrel.providers.sage.rendering import MIME_TYPES, percent, saved
from carrel.providers.sage.system_files import FRONT, SystemFile, SystemFiles

DESCRIPTION_LENGTH: Final = 120
_LAST_MS: Final = 10**15
_SPARE_STATES: Final = 64
"""Content files that are gone are forgotten when there are more of them than of those that are there, and these."""
_CHECKPOINTS, _KNOWLEDGE, _FAILURES = "4", "5", "6"
"""What the keys of each kind begin with; those of system files come before."""


class Unlisted(Value, frozen=True):
    """Something in the folder that is not listed, and why."""

    path: str
    reason: str


class Listing:
    """The entries of a memory."""

    def __init__(self, memory: Memory, system: SystemFiles) -> None:
        self._memory = memory
        self._system = system
        self._contents: dict[str, tuple[Signature, str]] = {}

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the entries after a key; the objective, the constraints and what is pinned come first."""
        yield from (entry for entry in self._system_entries() if entry.sort_key > after)
        for section, part in (
            (_CHECKPOINTS, self._checkpoints),
            (_KNOWLEDGE, self._knowledge),
            (_FAILURES, self._failures),
        ):
            if not after or after[0] <= section:
                yield from part(after)

    def kinds(self) -> tuple[Iterator[Resource], ...]:
        """Return the entries by kind, each in key order; the system files come first."""
        return self._system_entries(), self._checkpoints(""), self._knowledge(""), self._failures("")

    def _system_entries(self) -> Iterator[Resource]:
        return (_system_entry(file) for file in self._system.files() if not file.reason)

    def _checkpoints(self, after: str) -> Iterator[Resource]:
        shelf = self._memory.checkpoints
        form = self._memory.format(None)
        for card in shelf.newest_first(shelf.cards().values()):
            place = _place(_CHECKPOINTS, *card.newness)
            if place > after:
                summary = self._summary(shelf, card)
                if isinstance(summary, Checkpoint):
                    yield _checkpoint_entry(card, summary, MIME_TYPES[form], place)

    def _summary(self, shelf: Shelf[Checkpoint] | Shelf[Failure], card: Card) -> object:
        """Give what the list tells of a file, read once; None if it cannot be read."""
        if card.summary is None and not card.reason:
            try:
                record, _ = shelf.load(card.stem)
            except Broken as error:
                card.reason = error.reason
            except Gone:
                card.reason = "I/O error"
            else:
                card.summary = _short(record)
        return card.summary

    def _knowledge(self, after: str) -> Iterator[Resource]:
        library = self._memory.library
        mime_type = MIME_TYPES[self._memory.format(None)]
        items = library.items().values()
        if len(self._contents) > 2 * len(items) + _SPARE_STATES:
            files = {one.item.file for one in items}
            self._contents = {file: state for file, state in list(self._contents.items()) if file in files}
        places = {_place(_KNOWLEDGE, library.when(one), f"{one.place:09d}"): one for one in items}
        for place in sorted(places):
            one = places[place]
            if place > after and is_plain(one.item.id):
                signature, reason = self._content_state(one)
                if signature is not None and not reason:
                    yield self._knowledge_entry(one, mime_type, place, signature)

    def content_reason(self, shelved: Shelved) -> str:
        """Say why an item's content cannot be read; empty if it can. A file that did not change is not read again."""
        return self._content_state(shelved)[1]

    def _content_state(self, shelved: Shelved) -> tuple[Signature | None, str]:
        """Return the signature of an item's content file, and why it cannot be read, or an empty text."""
        item = shelved.item
        signature = self._state(item.file)
        known = self._contents.get(item.file)
        if signature is not None and known is not None and known[0] == signature:
            return known
        try:
            _, read = self._memory.library.content(item)
        except Broken as error:
            state = signature, error.reason
        else:
            state = read.signature, ""
        if state[0] is not None:
            self._contents[item.file] = state[0], state[1]
        return state

    def _state(self, file: str) -> Signature | None:
        root = self._memory.home.root("knowledge")
        segments = tuple(part for part in file.split("/") if part not in ("", "."))
        if root is None or not segments or ".." in segments or file.startswith("/"):
            return None
        try:
            with folders.open_beneath(root, segments) as opened:
                return folders.signature_of(opened.stat)
        except (Broken, Gone):
            return None

    def _knowledge_entry(self, shelved: Shelved, mime_type: str, place: str, signature: Signature) -> Resource:
        item = shelved.item
        status = f", {item.status}" if item.status else ""
        keywords = f": {', '.join(item.keywords)}" if item.keywords else ""
        priority = 0.2 if item.is_hidden else 0.5
        told = f"{item.type}{status}{keywords}"
        return _entry("knowledge", item.id, item.id, told, mime_type, signature, priority, place)

    def _failures(self, after: str) -> Iterator[Resource]:
        shelf = self._memory.failures
        cards = shelf.examined()
        mime_type = MIME_TYPES[self._memory.format(None)]
        addresses = failure_addresses(shelf, cards)
        for card in shelf.newest_first(cards.values()):
            place = _place(_FAILURES, *card.newness)
            name = addresses[card.stem]
            if place > after and not card.reason:
                summary = self._summary(shelf, card)
                if isinstance(summary, Failure):
                    title = card.id or card.stem
                    yield _entry("failure", name, title, summary.approach, mime_type, card.signature, 0.5, place)

    # What is not listed

    def unlisted(self, *, with_hidden: bool = True) -> Iterator[Unlisted]:
        """Yield what is in the folders and not in the list, with the reason."""
        for path, reason in self._unlisted(with_hidden=with_hidden):
            yield Unlisted(shown(path), reason)

    def _unlisted(self, *, with_hidden: bool) -> Iterator[tuple[str, str]]:
        for file in self._system.files(with_hidden=with_hidden):
            if file.reason:
                yield f"system/{file.path}", file.reason
        yield from self._unshelved("checkpoints", self._memory.checkpoints, with_hidden=with_hidden)
        yield from self._unshelved("failures", self._memory.failures, with_hidden=with_hidden)
        yield from self._unlisted_knowledge()

    def _unlisted_knowledge(self) -> Iterator[tuple[str, str]]:
        if self._memory.library.problem:
            yield "knowledge/index.yaml", self._memory.library.problem
        for shelved in self._memory.library.items().values():
            reason = self.content_reason(shelved) or ("" if is_plain(shelved.item.id) else ODD_NAME)
            if reason:
                yield f"knowledge/{shelved.item.id}", reason

    def _unshelved(
        self, folder: Name, shelf: Shelf[Checkpoint] | Shelf[Failure], *, with_hidden: bool
    ) -> Iterator[tuple[str, str]]:
        root = self._memory.home.root(folder)
        for name in sorted(seen.name for seen in folders.scan(root, hidden=with_hidden)) if root is not None else ():
            stem = shelf.stem_of(name)
            if name.startswith("."):
                yield f"{folder}/{name}", HIDDEN
            elif stem and not is_plain(stem):
                yield f"{folder}/{name}", ODD_NAME
        for card in sorted(shelf.examined().values(), key=lambda card: card.stem):
            if card.reason:
                yield f"{folder}/{card.name}", card.reason


def _short(record: Checkpoint | Failure) -> Checkpoint | Failure:
    """Keep of a record only what the list tells."""
    if isinstance(record, Failure):
        return Failure(record.id, cut(record.approach))
    return Checkpoint(
        record.id,
        record.type,
        record.ts,
        record.trigger,
        record.confidence,
        record.skill,
        question=record.question,
        thesis=record.thesis,
    )


def _place(section: str, when: int, name: str) -> str:
    """Make a key that sorts the newest first; of one time, the later name."""
    inverted = "".join(chr(0xA7 - ord(letter)) for letter in name if "-" <= letter <= "z")
    return f"{section}{_LAST_MS - when:016d}{inverted}~"


def cut(text: str, length: int = DESCRIPTION_LENGTH) -> str:
    """Put a text on one line, at most so long."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _system_entry(file: SystemFile) -> Resource:
    priority = 1.0 if file.rank < 2 else 0.9 if file.rank == 2 else 0.7
    title = f"System: {file.path}"
    place = f"{file.rank}{file.path}"
    entry = _entry("system", file.path, title, file.first_line, file.mime_type, file.signature, priority, place)
    return replace(entry, pinned=file.rank <= FRONT, guaranteed=True)


def _checkpoint_entry(card: Card, summary: Checkpoint, mime_type: str, place: str) -> Resource:
    when = saved(summary.ts)
    told = f"{percent(summary.confidence)}{f' {when}' if when else ''}: {summary.thesis}"
    title = summary.question or summary.id or card.stem
    priority = 0.3 if summary.is_recovery else 0.4
    return _entry("checkpoint", card.stem, cut(title), told, mime_type, card.signature, priority, place)


def _entry(
    kind: str, name: str, title: str, told: str, mime_type: str, signature: Signature, priority: float, place: str
) -> Resource:
    modified_ns, size, _ = signature
    annotations = Annotations(priority=priority, last_modified_ms=modified_ns // 1_000_000_000 * 1000)
    return Resource(
        f"sage://{kind}/{name}",
        f"{kind}/{name}",
        cut(told),
        mime_type,
        title=title,
        annotations=annotations,
        size=size,
        sort_key=place,
        rank=Rank.MEMORY,
    )
