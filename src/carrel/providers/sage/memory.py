"""The memory of a project: its folders and settings, and reading one item by kind and name.

A read that fails raises `SageError` with the message and the kind that every client gets.
"""

import logging
import os
from collections.abc import Callable, Container
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.content import etag_of, matches
from carrel.core.errors import echo
from carrel.core.model import Text
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.core.store_address import StoreAddress
from carrel.git.repository import Git
from carrel.providers.sage import folders
from carrel.providers.sage.code_links import ProjectCode
from carrel.providers.sage.fields import BadFile, Fields, decode
from carrel.providers.sage.folder_files import FolderFiles, MemoryFiles
from carrel.providers.sage.folders import FileMissing, LinkOutside, SageFolders, Signature, segments_of
from carrel.providers.sage.knowledge import KnowledgeFolder
from carrel.providers.sage.names import checked
from carrel.providers.sage.record_files import (
    content_of,
    parse_checkpoint,
    parse_failure,
    parse_index,
    parse_legacy_checkpoint,
    read_mapping,
)
from carrel.providers.sage.record_folder import LEGACY, MARKDOWN, Ambiguous, RecordFolder
from carrel.providers.sage.records import Checkpoint, FailureRecord, KnowledgeItem, from_fields
from carrel.providers.sage.rendering import (
    FORMATS,
    MIME_TYPES,
    Format,
    render_checkpoint,
    render_failure,
    render_knowledge,
)
from carrel.providers.sage.system_files import SystemFiles, mime_type_of

if TYPE_CHECKING:
    from carrel.providers.sage.team_files import TeamFiles

log = logging.getLogger(__name__)

ErrorKind = Literal["invalid", "not_found", "unreadable", "conflict"]
TUNING: Final = "tuning.yaml"
MAX_TUNING_BYTES: Final = 1_048_576


class SageError(Exception):
    """A read or write that failed: the message for the caller, its kind, and the URIs of possible items."""

    def __init__(self, message: str, kind: ErrorKind, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.kind: ErrorKind = kind
        self.candidates = candidates


class SageConflict(SageError):
    """An item is not the version that the caller has read: `given` and `current` are the ETags; None for no item."""

    def __init__(self, uri: str, given: str, current: str | None) -> None:
        now = "it does not exist" if current is None else f"read it again; its ETag is {current}"
        super().__init__(f"Changed meanwhile: {echo(uri)} ({now})", "conflict")
        self.given = echo(given)
        self.current = current


class ItemText(Value, frozen=True):
    """The text of an item, with the record it was made from."""

    text: str
    mime_type: str
    modified_ms: int
    record: Checkpoint | KnowledgeItem | FailureRecord | None = None
    address: str = ""


class Tuning(Value, frozen=True):
    """The keys of `tuning.yaml` that Carrel uses; None if a key is not set or not usable."""

    output_format: Format | None = None
    system_folder_enabled: bool | None = None
    system_folder_max_tokens: int | None = None
    failure_memory_enabled: bool | None = None
    failure_injection_limit: int | None = None


class SageMemory:
    """Everything in the Sage folder, for reading."""

    def __init__(self, project: Project, folder: str, max_file_bytes: int) -> None:
        self.limit = max_file_bytes
        self._team = None if project.store is None else _team_files(project.store)
        if self._team is not None:
            self.home = SageFolders(project, self._team.folder, is_named=True)
        else:
            self.home = SageFolders(project, folder, is_named="dir" in project.named)
        self.files: MemoryFiles = self._team or FolderFiles(project, self.home.data)
        self.git = Git(project.root, project.environment)
        self.code = ProjectCode(project, self.git, max_file_bytes)
        self._open_folders()
        self._tuning = Tuning()
        self._tuning_signature: Signature | None = None
        if self._team is not None:
            self._team.versions = self

    def _open_folders(self) -> None:
        """Create the folders, with empty caches."""
        self.system = SystemFiles(self.home, self.limit)
        # Of a Markdown and a YAML file with one stem, the Markdown file counts.
        parsers = {MARKDOWN: parse_checkpoint, LEGACY: parse_legacy_checkpoint}
        self.checkpoints = RecordFolder(self.home, "checkpoints", self.limit, parsers)
        failure_parsers = {MARKDOWN: parse_failure}
        self.failures = RecordFolder(self.home, "failures", self.limit, failure_parsers, has_versions=True)
        self.knowledge = KnowledgeFolder(self.home, self.limit)

    def close(self) -> None:
        """Close every handle."""
        self.home.close()
        self.code.close()
        if self._team is not None:
            self._team.close()

    @property
    def is_shared(self) -> bool:
        """Whether it is kept in the team's store."""
        return self._team is not None

    def refresh(self) -> None:
        """Fetch what others wrote to the team's store; a folder is always read as it is now."""
        if self._team is not None:
            self._team.refresh()

    # Settings

    def tuning(self) -> Tuning:
        """Return the current settings of `tuning.yaml`; a broken file is logged and counts as absent."""
        root = self.home.root("")
        if root is None:
            return Tuning()
        try:
            os.stat(TUNING, dir_fd=root.fd, follow_symlinks=False)  # most projects have none, and every read asks
            with folders.open_file(root, (TUNING,)) as opened:
                signature = folders.signature_of(opened.stat)
            if signature != self._tuning_signature:
                self._tuning_signature, self._tuning = signature, Tuning()
                text = decode(folders.read(root, (TUNING,), MAX_TUNING_BYTES).data)
                self._tuning = _parse_tuning(read_mapping(text)) if text.strip() else Tuning()
            return self._tuning
        except (OSError, FileMissing):
            return Tuning()
        except BadFile as error:
            log.warning("%s is ignored: %s", TUNING, error.reason)
            return Tuning()

    def format(self, wanted: str | None) -> Format:
        """Return the requested format, or else that of `tuning.yaml`, or else Markdown."""
        if wanted is None:
            return self.tuning().output_format or "markdown"
        if wanted not in FORMATS:
            raise SageError(f"Invalid format: {echo(wanted)}", "invalid")
        return "toon" if wanted == "toon" else "markdown"

    # Reading

    def read(self, kind: str, asked: str, wanted: str | None = None, *, resolves: bool = True) -> ItemText:
        """Return the item that a name means, in the `wanted` format; without code links if they are not resolved."""
        name = checked(asked)
        if name is None:
            subject = "filename" if kind == "system" else f"{kind} ID"
            raise SageError(f"Invalid {subject}: {echo(asked)}", "invalid")
        try:
            return (
                self._read_system(name) if kind == "system" else self._read(kind, name, self.format(wanted), resolves)
            )
        except (BadFile, Ambiguous) as error:
            raise _explain(kind, asked, error) from None

    def check_unchanged(self, kind: str, name: str, given: str) -> None:
        """Raise `SageConflict` unless an item has the given ETag, in any format. The caller locks out other writers."""
        fresh = copy(self)
        fresh._open_folders()  # within one tick of the clock, another version may look like the cached one
        current = None
        with suppress(BadFile, Ambiguous):
            for form in (self.format(None), *FORMATS):
                text = fresh._read_system(name) if kind == "system" else fresh._read(kind, name, form, resolves=True)
                if not _is_named(text, name):
                    break  # a part of an id means another item
                etag = etag_of((Text(text.text),))
                current = current or etag
                if matches(given, etag):
                    return
        raise SageConflict(f"sage://{kind}/{name}", given, current)

    def etag_before(self, kind: str, name: str) -> str | None:
        """Return the ETag of an item that has this name, and no other one; None if there is none."""
        fresh = copy(self)
        fresh._open_folders()  # as above
        listed: dict[str, Callable[[], Container[str]]] = {
            "checkpoint": fresh.checkpoints.files,
            "failure": fresh.failures.files,
            "knowledge": fresh.knowledge.items,
        }
        with suppress(BadFile):
            if kind == "system":
                return etag_of((Text(fresh._read_system(name).text),))
            if kind in listed and name in listed[kind]():
                return etag_of((Text(fresh._read(kind, name, self.format(None), resolves=True).text),))
        return None

    def etag_after(self, kind: str, name: str, data: bytes, index: bytes) -> str | None:
        """Return the ETag of an item whose file gets these bytes, as its first reader will get it."""
        form = self.format(None)
        try:
            text = decode(data, keeps_line_ends=kind == "system")
            if kind == "checkpoint":
                text = render_checkpoint(parse_checkpoint(text), name, form)
            elif kind == "failure":
                text = render_failure(parse_failure(text), name, form)
            elif kind == "knowledge":
                item = next(one for one in parse_index(decode(index)) if one.id == name)
                text = render_knowledge(item, content_of(text), self.code.resolve(item), form)
        except (BadFile, StopIteration):
            return None
        return etag_of((Text(text),))

    def _read(self, kind: str, name: str, form: Format, resolves: bool) -> ItemText:
        record: Checkpoint | FailureRecord | KnowledgeItem
        if kind == "checkpoint":
            address, record, read = self.checkpoints.load_by_id(name)
            text = render_checkpoint(record, address, form)
        elif kind == "failure":
            address, record, read = self.failures.load_by_id(name)
            text = render_failure(record, address, form)
        else:
            record = self.knowledge.find(name)
            content, read = self.knowledge.content(record)
            links = self.code.resolve(record) if resolves else ()
            text, address = render_knowledge(record, content, links, form), record.id
        return ItemText(text, MIME_TYPES[form], read.modified_ms, record, address)

    def _read_system(self, name: str) -> ItemText:
        segments = segments_of(name)
        if not segments:
            raise LinkOutside
        read = self.system.read_file(*segments)
        return ItemText(decode(read.data, keeps_line_ends=True), mime_type_of(segments[-1]), read.modified_ms)


def _is_named(item: ItemText, name: str) -> bool:
    """Return whether a name is the whole id of an item."""
    named = item.record.id if isinstance(item.record, KnowledgeItem | FailureRecord) else name
    return named == name


def _team_files(address: StoreAddress) -> "TeamFiles":
    from carrel.providers.sage.team_files import TeamFiles  # loads the database's driver

    return TeamFiles(address)


def _explain(kind: str, asked: str, error: BadFile | Ambiguous) -> SageError:
    """Return the error for a client."""
    subject, action = ("File", "reading") if kind == "system" else (kind.capitalize(), f"loading {kind}")
    if isinstance(error, Ambiguous):
        named = ", ".join(error.ids) + (", …" if error.count > len(error.ids) else "")
        message = f"{subject} ambiguous: {echo(asked)} matches {error.count}: {named}"
        return SageError(message, "not_found", tuple(f"sage://{kind}/{one}" for one in error.ids))
    if isinstance(error, FileMissing):
        return SageError(f"{subject} not found: {echo(asked)}", "not_found")
    if isinstance(error, LinkOutside) and kind == "system":
        return SageError(f"File not in system folder: {echo(asked)}", "invalid")
    return SageError(f"Error {action} {echo(asked)}: {error.reason}", "unreadable")


def _parse_tuning(fields: Fields) -> Tuning:
    form = fields.text("output_format")
    counts = {name: fields.number(name) for name in ("system_folder_max_tokens", "failure_injection_limit")}
    usable = {name: int(count) for name, count in counts.items() if count is not None and 0 <= count < 1e9}
    return from_fields(Tuning, fields, output_format=form if form in FORMATS else None, **usable)
