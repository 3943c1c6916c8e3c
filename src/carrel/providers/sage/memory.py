"""The memory of a project: its folders and settings, and reading one item by kind and name.

A read that fails raises `SageError` with the message and the kind that every client gets.
"""

import logging
import os
from typing import Final, Literal

from carrel.core.errors import echo
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.git import Git
from carrel.providers.sage import folders
from carrel.providers.sage.code_links import ProjectCode
from carrel.providers.sage.fields import BadFile, Fields
from carrel.providers.sage.file_format import decode, read_mapping
from carrel.providers.sage.folders import FileMissing, LinkOutside, SageFolders, Signature, segments_of
from carrel.providers.sage.knowledge import KnowledgeFolder
from carrel.providers.sage.names import SUBJECTS, checked
from carrel.providers.sage.record_folder import Ambiguous, NoMatch, open_checkpoints, open_failures
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

log = logging.getLogger(__name__)

ErrorKind = Literal["invalid", "not_found", "unreadable"]
TUNING: Final = "tuning.yaml"
MAX_TUNING_BYTES: Final = 1_048_576


class SageError(Exception):
    """A read or write that failed: the message for the caller, its kind, and the URIs of possible items."""

    def __init__(self, message: str, kind: ErrorKind, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.kind: ErrorKind = kind
        self.candidates = candidates


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
        self.home = SageFolders(project, folder)
        self.git = Git(project.root, project.environment)
        self.code = ProjectCode(project, self.git, max_file_bytes)
        self.system = SystemFiles(self.home, max_file_bytes)
        self.checkpoints = open_checkpoints(self.home, max_file_bytes)
        self.failures = open_failures(self.home, max_file_bytes)
        self.knowledge = KnowledgeFolder(self.home, max_file_bytes)
        self._tuning = Tuning()
        self._tuning_signature: Signature | None = None

    def close(self) -> None:
        """Close every handle."""
        self.home.close()
        self.code.close()

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

    def read(self, kind: str, asked: str, wanted: str | None = None) -> ItemText:
        """Return the item that a name means, in the `wanted` format."""
        name = checked(asked)
        if name is None:
            raise SageError(f"Invalid {SUBJECTS[kind]}: {echo(asked)}", "invalid")
        if kind == "system":
            return self._read_system(name, asked)
        form = self.format(wanted)
        try:
            if kind == "checkpoint":
                stem, checkpoint, read = self.checkpoints.load_by_id(name)
                return ItemText(
                    render_checkpoint(checkpoint, stem, form), MIME_TYPES[form], read.modified_ms, checkpoint, stem
                )
            if kind == "failure":
                stem, failure, read = self.failures.load_by_id(name)
                return ItemText(render_failure(failure, stem, form), MIME_TYPES[form], read.modified_ms, failure, stem)
            item = self.knowledge.find(name)
            content, read = self.knowledge.content(item)
            text = render_knowledge(item, content, self.code.resolve(item), form)
            return ItemText(text, MIME_TYPES[form], read.modified_ms, item, item.id)
        except (BadFile, FileMissing, Ambiguous, NoMatch) as error:
            raise _explain(kind, asked, error) from None

    def _read_system(self, name: str, asked: str) -> ItemText:
        segments = segments_of(name)
        outside = SageError(f"File not in system folder: {echo(asked)}", "invalid")
        if not segments:
            raise outside
        try:
            read = folders.read(self.home.root("system"), segments, self.limit)
            text = decode(read.data, keeps_line_ends=True)
        except FileMissing:
            raise SageError(f"File not found: {echo(asked)}", "not_found") from None
        except LinkOutside:
            raise outside from None
        except BadFile as error:
            raise SageError(f"Error reading {echo(asked)}: {error.reason}", "unreadable") from None
        return ItemText(text, mime_type_of(segments[-1]), read.modified_ms)


def _explain(kind: str, asked: str, error: Exception) -> SageError:
    """Return the error for a client."""
    if isinstance(error, BadFile):
        return SageError(f"Error loading {kind} {echo(asked)}: {error.reason}", "unreadable")
    if isinstance(error, Ambiguous):
        named = ", ".join(error.ids) + (", …" if error.count > len(error.ids) else "")
        message = f"{kind.capitalize()} ambiguous: {echo(asked)} matches {error.count}: {named}"
        return SageError(message, "not_found", tuple(f"sage://{kind}/{one}" for one in error.ids))
    return SageError(f"{kind.capitalize()} not found: {echo(asked)}", "not_found")


def _parse_tuning(fields: Fields) -> Tuning:
    form = fields.text("output_format")
    counts = {name: fields.number(name) for name in ("system_folder_max_tokens", "failure_injection_limit")}
    usable = {name: int(count) for name, count in counts.items() if count is not None and 0 <= count < 1e9}
    return from_fields(Tuning, fields, output_format=form if form in FORMATS else None, **usable)
