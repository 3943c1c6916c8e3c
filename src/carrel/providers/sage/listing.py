"""The list: system files, then checkpoints, knowledge and failures, each newest first.

An entry's key is made of its kind, age and name, so a cursor is a position. A file is read for its title once, and
again only when it changed.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from carrel.core.errors import echo
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import replace
from carrel.providers.sage import folders
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.folders import Signature
from carrel.providers.sage.memory import SageMemory
from carrel.providers.sage.names import BAD_NAME, HIDDEN, is_plain
from carrel.providers.sage.record_folder import RecordFile, RecordFolder, Summary
from carrel.providers.sage.records import Checkpoint, FailureRecord
from carrel.providers.sage.rendering import MIME_TYPES, minute_of, percent
from carrel.providers.sage.system_files import FRONT, mime_type_of

DESCRIPTION_LENGTH: Final = 120
_LAST_MS: Final = 10**15
_CHECKPOINTS, _KNOWLEDGE, _FAILURES = "4", "5", "6"
"""The first characters of the keys of each kind; the keys of system files sort before them."""

Records = RecordFolder[Checkpoint] | RecordFolder[FailureRecord]


class SageListing:
    """The entries of a memory."""

    def __init__(self, memory: SageMemory) -> None:
        self._memory = memory

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the entries after a key; the objective, the constraints and the pinned files come first."""
        return chain.from_iterable(self.kinds(after))

    def kinds(self, after: str = "") -> tuple[Iterator[Resource], ...]:
        """Return the entries after a key by kind, each in key order; the system files come first."""
        return (
            self._system(after),
            self._records("checkpoint", _CHECKPOINTS, self._memory.checkpoints, after),
            self._knowledge(after),
            self._records("failure", _FAILURES, self._memory.failures, after),
        )

    def _system(self, after: str) -> Iterator[Resource]:
        for file in self._memory.system.listed():
            place = f"{file.rank}{file.path}"
            if place > after:
                priority = 1.0 if file.rank < 2 else 0.9 if file.rank == 2 else 0.7
                summary = f"System: {file.path}", file.first_line, priority
                entry = _entry("system", file.path, summary, mime_type_of(file.path), file.signature, place)
                yield replace(entry, pinned=file.rank <= FRONT, guaranteed=True)

    def _records(self, kind: str, section: str, folder: Records, after: str) -> Iterator[Resource]:
        if after[:1] > section:
            return
        mime_type = MIME_TYPES[self._memory.format(None)]
        for file, address in folder.listed():
            place = _place(section, *file.newness)
            summary = _summarize(folder, file) if place > after else None
            if summary is not None:
                yield _entry(kind, address, summary, mime_type, file.signature, place)

    def _knowledge(self, after: str) -> Iterator[Resource]:
        if after[:1] > _KNOWLEDGE:
            return
        knowledge = self._memory.knowledge
        mime_type = MIME_TYPES[self._memory.format(None)]
        items = knowledge.items().values()
        places = {_place(_KNOWLEDGE, knowledge.when(one), f"{one.position:09d}"): one.item for one in items}
        for place in sorted(place for place, item in places.items() if place > after and is_plain(item.id)):
            item = places[place]
            signature, reason = knowledge.state(item)
            if signature is not None and not reason:
                status = f", {item.status}" if item.status else ""
                keywords = f": {', '.join(item.keywords)}" if item.keywords else ""
                summary = item.id, f"{item.type}{status}{keywords}", 0.2 if item.is_hidden else 0.5
                yield _entry("knowledge", item.id, summary, mime_type, signature, place)

    # Files that are not listed

    def unlisted(self, *, with_hidden: bool = True) -> Iterator[tuple[str, str]]:
        """Yield the path of each file that is not in the list, and the reason."""
        for file in self._memory.system.every(with_hidden=with_hidden):
            if file.reason:
                yield f"system/{echo(file.path)}", file.reason
        for folder in (self._memory.checkpoints, self._memory.failures):
            yield from self._unlisted_records(folder, with_hidden=with_hidden)
        knowledge = self._memory.knowledge
        if knowledge.problem:
            yield "knowledge/index.yaml", knowledge.problem
        for indexed in knowledge.items().values():
            reason = knowledge.state(indexed.item)[1] or ("" if is_plain(indexed.item.id) else BAD_NAME)
            if reason:
                yield f"knowledge/{echo(indexed.item.id)}", reason

    def _unlisted_records(self, folder: Records, *, with_hidden: bool) -> Iterator[tuple[str, str]]:
        found = folders.scan(folder.root, with_hidden=with_hidden)
        for name in sorted(one.name for one in found):
            stem = folder.stem_of(name)
            if name.startswith("."):
                yield f"{folder.name}/{echo(name)}", HIDDEN
            elif stem and not is_plain(stem):
                yield f"{folder.name}/{echo(name)}", BAD_NAME
        for file in sorted(folder.examined().values(), key=lambda file: file.stem):
            if file.reason:
                yield f"{folder.name}/{file.name}", file.reason


def _summarize(folder: Records, file: RecordFile) -> Summary | None:
    """Return a file's summary, for which it is read once, or None if it cannot be read."""
    if file.summary is None and not file.reason:
        try:
            record, _ = folder.load(file.stem)
        except BadFile as error:
            file.reason = error.reason
            return None
        if isinstance(record, FailureRecord):
            file.summary = file.id or file.stem, cut(record.approach), 0.5
        else:
            when = f" {minute_of(record.ts)}" if record.ts else ""
            description = cut(f"{percent(record.confidence)}{when}: {record.thesis}")
            file.summary = (
                cut(record.question or record.id or file.stem),
                description,
                0.3 if record.is_recovery else 0.4,
            )
    return file.summary


def _place(section: str, when: int, name: str) -> str:
    """Return a key that sorts the newest first, and of one time the later name."""
    inverted = "".join(chr(0xA7 - ord(letter)) for letter in name if "-" <= letter <= "z")
    return f"{section}{_LAST_MS - when:016d}{inverted}~"


def cut(text: str, length: int = DESCRIPTION_LENGTH) -> str:
    """Return a text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _entry(kind: str, name: str, summary: Summary, mime_type: str, signature: Signature, place: str) -> Resource:
    title, description, priority = summary
    modified_ns, size, _ = signature
    annotations = Annotations(priority=priority, last_modified_ms=modified_ns // 1_000_000_000 * 1000)
    return Resource(
        f"sage://{kind}/{name}",
        f"{kind}/{name}",
        cut(description),
        mime_type,
        title=title,
        annotations=annotations,
        size=size,
        sort_key=place,
        rank=Rank.MEMORY,
    )
