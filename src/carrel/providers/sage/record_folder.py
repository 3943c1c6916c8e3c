"""Checkpoints and failures: one file each, known by its stem, read again only when it changed.

A file whose stem cannot be requested is left out. A `RecordFile` holds the facts for finding and listing; the record
itself is read when it is needed. An id is compared, in this order, with the stem, the id inside the file, parts of
both, and their words; the first comparison with a match decides.
"""

import re
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from carrel.core.isotime import parse_iso
from carrel.providers.sage.fields import BadFile, decode, split_front_matter
from carrel.providers.sage.folders import FileData, FileMissing, FolderName, SageFolders, Signature, Subfolder, scan
from carrel.providers.sage.names import is_plain
from carrel.providers.sage.record_files import parse_legacy_checkpoint, read_fields
from carrel.providers.sage.records import Checkpoint, FailureRecord

MARKDOWN, LEGACY = ".md", ".yaml"
MAX_CANDIDATES: Final = 5

_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)(?!\d)")
_WORDS: Final = re.compile(r"[-_\n]|(?<=[0-9])T(?=[0-9])")

Summary = tuple[str, str, float]
"""Title, description and priority of an entry in the list."""

Item = TypeVar("Item")
Record = TypeVar("Record", bound=Checkpoint | FailureRecord)


class Ambiguous(Exception):
    """Several items match; `ids` are those of the newest, and each of them works."""

    def __init__(self, count: int, ids: Sequence[str]) -> None:
        super().__init__(count)
        self.count = count
        self.ids = tuple(ids)


def words_of(text: str) -> frozenset[str]:
    """Return the words of an id in lower case."""
    return frozenset(word.lower() for word in _WORDS.split(text) if word)


def time_in(stem: str) -> int | None:
    """Return the time at the start of a stem in milliseconds, or None."""
    found = _TIME.match(stem)
    try:
        return None if found is None else timegm(tuple(int(part) for part in found.groups())) * 1000
    except ValueError:
        return None


def without_time(stem: str) -> str:
    """Return a stem without the time at its start."""
    found = _TIME.match(stem)
    return stem if found is None else stem[found.end() :]


class RecordFile:
    """The known facts about a file. `reason` says why it cannot be read; `summary` is for the list."""

    __slots__ = ("id", "is_examined", "is_link", "name", "reason", "signature", "state", "stem", "summary", "when")

    def __init__(self, name: str, stem: str, signature: Signature, *, is_link: bool) -> None:
        self.name = name
        self.stem = stem
        self.observe(signature)
        self.is_link = is_link
        self.is_examined = False
        self.id = ""
        self.reason = ""
        self.when = time_in(stem)
        self.summary: Summary | None = None

    def observe(self, signature: Signature) -> None:
        """Set the signature, and its text, which every search compares."""
        self.signature, self.state = signature, str(signature)

    @property
    def newness(self) -> tuple[int, str]:
        """The sort key by age: the newer file has the larger one."""
        return (self.when if self.when is not None else self.signature[0] // 1_000_000), self.stem


class RecordFolder(Subfolder[Record]):
    """The records of one folder. With `has_versions`, records with one id are versions of one item."""

    def __init__(
        self,
        home: SageFolders,
        name: FolderName,
        limit: int,
        parsers: Mapping[str, Callable[[str], Record]],
        *,
        has_versions: bool = False,
    ) -> None:
        super().__init__(home, name, limit)
        self._parsers = parsers
        self._has_versions = has_versions
        self._files: dict[str, RecordFile] = {}

    # Files

    def files(self) -> dict[str, RecordFile]:
        """Return the files by stem, as they are in the folder now."""
        with self._lock:
            known, current = self._files, dict[str, RecordFile]()
            for found in scan(self.root):
                name = found.name
                stem = self.stem_of(name)
                file = known.get(stem)
                if (file is None and not is_plain(stem)) or (stem in current and not name.endswith(MARKDOWN)):
                    continue
                if file is None or file.signature != found.signature or file.name != name or file.is_link:
                    file = RecordFile(name, stem, found.signature, is_link=found.is_link)
                current[stem] = file
            self._files = current
            return current

    def stem_of(self, name: str) -> str:
        """Return a file's stem, or an empty text if it is not a record."""
        for suffix in self._parsers:
            if name.endswith(suffix):
                return name[: -len(suffix)]
        return ""

    def examined(self) -> dict[str, RecordFile]:
        """Return the files by stem, each with its id, or with the reason why it cannot be read."""
        files = self.files()
        for file in files.values():
            self.examine(file)
        return files

    def examine(self, file: RecordFile) -> None:
        """Read a file's id and time, once."""
        if file.is_examined:
            return
        try:
            read = self.read_file(file.name)
            file.observe(read.signature)
            file.id, times = _read_head(file.name, decode(read.data))
            if file.when is None:
                file.when = next((when for when in map(parse_iso, times) if when is not None), None)
        except BadFile as error:
            file.reason = error.reason
        file.is_examined = True

    def newest_first(self, files: Iterable[RecordFile]) -> list[RecordFile]:
        """Return files in order; one without a time in its stem is examined for it."""
        chosen = list(files)
        for file in chosen:
            if file.when is None:
                self.examine(file)
        return sorted(chosen, key=lambda file: file.newness, reverse=True)

    def readable(self) -> list[tuple[RecordFile, str]]:
        """Return the files that can be read, newest first, each with the id in its URI."""
        self.examined()
        return [(file, address) for file, address in self.listed() if not file.reason]

    def listed(self) -> list[tuple[RecordFile, str]]:
        """Return the files newest first, each with the id in its URI; only versions need to be examined for that."""
        files = self.examined() if self._has_versions else self.files()
        addresses = self.addresses(files)
        return [(file, addresses[file.stem]) for file in self.newest_first(files.values())]

    # Records

    def load(self, stem: str) -> tuple[Record, FileData]:
        """Return the record with exactly this stem; raise `FileMissing`, or `BadFile` with the reason."""
        if stem.startswith(".") or "/" in stem:
            raise FileMissing
        for suffix, parse in self._parsers.items():
            with suppress(FileMissing):
                return self.load_file((stem + suffix,), parse)
        raise FileMissing

    def load_readable(self, stems: Iterable[str]) -> Iterator[tuple[str, Record]]:
        """Yield the records with exactly these stems, except those that cannot be read."""
        for stem in stems:
            try:
                record, _ = self.load(stem)
            except BadFile:
                continue
            yield stem, record

    def load_by_id(self, wanted: str) -> tuple[str, Record, FileData]:
        """Return the record that an id means, with its stem; raise as `load` and `find` do."""
        try:
            return wanted, *self.load(wanted)
        except FileMissing:
            stem = self.find(wanted).stem
            return stem, *self.load(stem)

    # Finding

    def find(self, wanted: str) -> RecordFile:
        """Return the one file that an id means; raise `Ambiguous` or `FileMissing`."""
        files = self.examined()
        if wanted in files:
            return files[wanted]
        every = list(files.values())
        matching = self.newest_first([file for file in every if file.id == wanted] or _find_loosely(every, wanted))
        if self._has_versions:
            newest: dict[str, RecordFile] = {}
            for file in matching:
                newest.setdefault(file.id or f"\n{file.stem}", file)
            matching = list(newest.values())
        ids = self.addresses(files) if len(matching) > 1 else {}
        return only(matching, lambda file: ids[file.stem])

    def addresses(self, files: Mapping[str, RecordFile]) -> dict[str, str]:
        """Return the id in each file's URI by stem: its stem, but for the newest version its id."""
        if not self._has_versions:
            return {stem: stem for stem in files}
        addresses: dict[str, str] = {}
        taken = set(files)
        for file in self.newest_first(files.values()):
            is_free = bool(file.id) and file.id not in taken and is_plain(file.id)
            addresses[file.stem] = file.id if is_free else file.stem
            taken.add(file.id)
        return addresses


def _read_head(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """Return the id in a file, and the texts that may be its time."""
    if name.endswith(LEGACY):
        record = parse_legacy_checkpoint(text)
        return record.id, (record.ts,)
    fields = read_fields(split_front_matter(text)[0])
    return fields.text("id"), tuple(fields.text(key) for key in ("ts", "extracted_at", "added"))


def _find_loosely(files: list[RecordFile], wanted: str) -> list[RecordFile]:
    """Return the files matched by a part of an id or else by words; unreadable ones only if no other matches."""
    parts = [file for file in files if wanted in file.stem or wanted in file.id]
    matching = parts or find_by_words(files, wanted, lambda file: f"{file.stem}\n{file.id}")
    return [file for file in matching if not file.reason] or matching


def find_by_words(items: Sequence[Item], wanted: str, names: Callable[[Item], str]) -> list[Item]:
    """Return the items whose names have every wanted word."""
    words = words_of(wanted)
    if not words:
        return []
    found = []
    for item in items:
        text = names(item)
        lowered = text.lower()
        if all(word in lowered for word in words) and words <= words_of(text):
            found.append(item)
    return found


def only(matching: Sequence[Item], name: Callable[[Item], str]) -> Item:
    """Return the only match; raise `FileMissing`, or `Ambiguous` with the first few names."""
    if not matching:
        raise FileMissing
    if len(matching) > 1:
        raise Ambiguous(len(matching), [name(item) for item in matching[:MAX_CANDIDATES]])
    return matching[0]
