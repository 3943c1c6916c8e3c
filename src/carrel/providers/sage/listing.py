"""The list: system files, then checkpoints, knowledge and failures, each newest first.

An entry's key is made of its kind, age and name, so a cursor is a position. A file is read for its title once, and
again only when it changed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from carrel.core.errors import echo
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import Value, replace
from carrel.providers.sage import folders
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.folders import FileMissing, Signature
from carrel.providers.sage.memory import SageMemory
from carrel.providers.sage.names import BAD_NAME, HIDDEN, is_plain
from carrel.providers.sage.record_folder import RecordFile, RecordFolder
from carrel.providers.sage.records import Checkpoint, FailureRecord, KnowledgeItem
from carrel.providers.sage.rendering import MIME_TYPES, minute_of, percent
from carrel.providers.sage.system_files import FRONT, SystemFile, mime_type_of

DESCRIPTION_LENGTH: Final = 120
_LAST_MS: Final = 10**15
_SPARE_STATES: Final = 64
"""States of content files are forgotten when there are more than two for each item, and these."""
_CHECKPOINTS, _KNOWLEDGE, _FAILURES = "4", "5", "6"
"""The first characters of the keys of each kind; the keys of system files sort before them."""

Records = RecordFolder[Checkpoint] | RecordFolder[FailureRecord]


class UnlistedFile(Value, frozen=True):
    """A file that is not listed, with the reason."""

    path: str
    reason: str


class SageListing:
    """The entries of a memory."""

    def __init__(self, memory: SageMemory) -> None:
        self._memory = memory
        self._contents: dict[str, tuple[Signature, str]] = {}

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the entries after a key; the objective, the constraints and the pinned files come first."""
        yield from (entry for entry in self._system_entries() if entry.sort_key > after)
        for section, part in self._memories():
            if not after or after[0] <= section:
                yield from part(after)

    def kinds(self) -> tuple[Iterator[Resource], ...]:
        """Return the entries by kind, each in key order; the system files come first."""
        return self._system_entries(), *(part("") for _, part in self._memories())

    def _system_entries(self) -> Iterator[Resource]:
        return map(_system_entry, self._memory.system.listed())

    def _memories(self) -> Sequence[tuple[str, Callable[[str], Iterator[Resource]]]]:
        checkpoints = partial(self._records, _CHECKPOINTS, self._memory.checkpoints)
        failures = partial(self._records, _FAILURES, self._memory.failures)
        return (_CHECKPOINTS, checkpoints), (_KNOWLEDGE, self._knowledge), (_FAILURES, failures)

    def _records(self, section: str, folder: Records, after: str) -> Iterator[Resource]:
        mime_type = MIME_TYPES[self._memory.format(None)]
        for file, address in folder.listed():
            place = _place(section, *file.newness)
            if place > after:
                summary = _summarize(folder, file)
                if summary is not None:
                    yield _record_entry(file, address, summary, mime_type, place)

    def _knowledge(self, after: str) -> Iterator[Resource]:
        knowledge = self._memory.knowledge
        mime_type = MIME_TYPES[self._memory.format(None)]
        items = knowledge.items().values()
        if len(self._contents) > 2 * len(items) + _SPARE_STATES:
            files = {one.item.file for one in items}
            self._contents = {file: state for file, state in list(self._contents.items()) if file in files}
        places = {_place(_KNOWLEDGE, knowledge.when(one), f"{one.position:09d}"): one for one in items}
        for place in sorted(places):
            item = places[place].item
            if place > after and is_plain(item.id):
                signature, reason = self._content_state(item)
                if signature is not None and not reason:
                    status = f", {item.status}" if item.status else ""
                    keywords = f": {', '.join(item.keywords)}" if item.keywords else ""
                    description = f"{item.type}{status}{keywords}"
                    priority = 0.2 if item.is_hidden else 0.5
                    yield _entry("knowledge", item.id, item.id, description, mime_type, signature, priority, place)

    def _content_state(self, item: KnowledgeItem) -> tuple[Signature | None, str]:
        """Return the signature of an item's content file, and why it cannot be read; an unchanged file is not read."""
        signature = self._memory.knowledge.signature(item)
        known = self._contents.get(item.file)
        if signature is not None and known is not None and known[0] == signature:
            return known
        reason = ""
        try:
            signature = self._memory.knowledge.content(item)[1].signature
        except BadFile as error:
            reason = error.reason
        if signature is not None:
            self._contents[item.file] = signature, reason
        return signature, reason

    # Files that are not listed

    def unlisted(self, *, with_hidden: bool = True) -> Iterator[UnlistedFile]:
        """Yield the files that are not in the list, with the reason."""
        for path, reason in self._unlisted(with_hidden=with_hidden):
            yield UnlistedFile(echo(path), reason)

    def _unlisted(self, *, with_hidden: bool) -> Iterator[tuple[str, str]]:
        for file in self._memory.system.every(with_hidden=with_hidden):
            if file.reason:
                yield f"system/{file.path}", file.reason
        for folder in (self._memory.checkpoints, self._memory.failures):
            yield from self._unlisted_records(folder, with_hidden=with_hidden)
        knowledge = self._memory.knowledge
        if knowledge.problem:
            yield "knowledge/index.yaml", knowledge.problem
        for indexed in knowledge.items().values():
            reason = self._content_state(indexed.item)[1] or ("" if is_plain(indexed.item.id) else BAD_NAME)
            if reason:
                yield f"knowledge/{indexed.item.id}", reason

    def _unlisted_records(self, folder: Records, *, with_hidden: bool) -> Iterator[tuple[str, str]]:
        found = folders.scan(self._memory.home.root(folder.name), with_hidden=with_hidden)
        for name in sorted(one.name for one in found):
            stem = folder.stem_of(name)
            if name.startswith("."):
                yield f"{folder.name}/{name}", HIDDEN
            elif stem and not is_plain(stem):
                yield f"{folder.name}/{name}", BAD_NAME
        for file in sorted(folder.examined().values(), key=lambda file: file.stem):
            if file.reason:
                yield f"{folder.name}/{file.name}", file.reason


def _summarize(folder: Records, file: RecordFile) -> Checkpoint | FailureRecord | None:
    """Return the part of a record that the list needs, or None if the record cannot be read."""
    if file.summary is None and not file.reason:
        try:
            record, _ = folder.load(file.stem)
        except BadFile as error:
            file.reason = error.reason
        except FileMissing:
            file.reason = "I/O error"
        else:
            file.summary = _shorten(record)
    return file.summary


def _shorten(record: Checkpoint | FailureRecord) -> Checkpoint | FailureRecord:
    if isinstance(record, FailureRecord):
        return FailureRecord(record.id, cut(record.approach))
    return Checkpoint(
        record.id,
        record.type,
        record.ts,
        confidence=record.confidence,
        question=cut(record.question),
        thesis=cut(record.thesis),
    )


def _place(section: str, when: int, name: str) -> str:
    """Return a key that sorts the newest first, and of one time the later name."""
    inverted = "".join(chr(0xA7 - ord(letter)) for letter in name if "-" <= letter <= "z")
    return f"{section}{_LAST_MS - when:016d}{inverted}~"


def cut(text: str, length: int = DESCRIPTION_LENGTH) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _system_entry(file: SystemFile) -> Resource:
    priority = 1.0 if file.rank < 2 else 0.9 if file.rank == 2 else 0.7
    title, place, mime_type = f"System: {file.path}", f"{file.rank}{file.path}", mime_type_of(file.path)
    entry = _entry("system", file.path, title, file.first_line, mime_type, file.signature, priority, place)
    return replace(entry, pinned=file.rank <= FRONT, guaranteed=True)


def _record_entry(
    file: RecordFile, address: str, record: Checkpoint | FailureRecord, mime_type: str, place: str
) -> Resource:
    if isinstance(record, FailureRecord):
        kind, title, description, priority = "failure", file.id or file.stem, record.approach, 0.5
    else:
        when = f" {minute_of(record.ts)}" if record.ts else ""
        description = f"{percent(record.confidence)}{when}: {record.thesis}"
        title = cut(record.question or record.id or file.stem)
        kind, priority = "checkpoint", 0.3 if record.is_recovery else 0.4
    return _entry(kind, address, title, description, mime_type, file.signature, priority, place)


def _entry(
    kind: str, name: str, title: str, text: str, mime_type: str, signature: Signature, priority: float, place: str
) -> Resource:
    modified_ns, size, _ = signature
    annotations = Annotations(priority=priority, last_modified_ms=modified_ns // 1_000_000_000 * 1000)
    return Resource(
        f"sage://{kind}/{name}",
        f"{kind}/{name}",
        cut(text),
        mime_type,
        title=title,
        annotations=annotations,
        size=size,
        sort_key=place,
        rank=Rank.MEMORY,
    )
