"""The whole memory of a project: its folders, what lies in them, and reading one item by kind and name.

A read that fails raises `Refused`, with the message and the kind that every face tells alike.
"""

from collections.abc import Callable
from typing import Final, Literal

from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.git import Git
from carrel.providers.sage import folders, lookup, record_folders
from carrel.providers.sage.code_links import Code
from carrel.providers.sage.file_format import Broken, decode
from carrel.providers.sage.folders import Folders, Gone, Left, Read
from carrel.providers.sage.item_names import SUBJECTS, checked, shown
from carrel.providers.sage.knowledge import Library
from carrel.providers.sage.lookup import Ambiguous, Unmatched
from carrel.providers.sage.record_folders import Card, Shelf, T
from carrel.providers.sage.records import Checkpoint, Failure, Knowledge
from carrel.providers.sage.rendering import (
    FORMATS,
    MIME_TYPES,
    Format,
    render_checkpoint,
    render_failure,
    render_knowledge,
)
from carrel.providers.sage.system_files import mime_type_of
from carrel.providers.sage.tuning import TuningFile

ErrorKind = Literal["invalid", "not_found", "unreadable"]
WORDS: Final = {"checkpoint": "Checkpoint", "knowledge": "Knowledge", "failure": "Failure"}


class Refused(Exception):
    """A read or a write that was not done: the message for the caller, and its kind."""

    def __init__(self, message: str, kind: ErrorKind, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.kind: ErrorKind = kind
        self.candidates = candidates


class Served(Value, frozen=True):
    """A text to be served, and the file it comes from."""

    text: str
    mime_type: str
    modified_ms: int
    record: Checkpoint | Knowledge | Failure | None = None
    address: str = ""


class Memory:
    """Everything in the Sage folder. Nothing here writes to it."""

    def __init__(self, project: Project, folder: str, max_file_bytes: int) -> None:
        self.limit = max_file_bytes
        self.home = Folders(project, folder)
        self.git = Git(project.root, project.environment)
        self.code = Code(project, self.git, max_file_bytes)
        self.checkpoints = record_folders.checkpoints(self.home, max_file_bytes)
        self.failures = record_folders.failures(self.home, max_file_bytes)
        self.library = Library(self.home, max_file_bytes)
        self.tuning = TuningFile(self.home)

    def close(self) -> None:
        """Give every handle back."""
        self.home.close()
        self.code.close()

    # Reading one item

    def read(self, kind: str, asked: str, wanted: str | None = None) -> Served:
        """Give what a kind and a name mean, as it is served; `wanted` is the format asked for."""
        name = checked(asked)
        if name is None:
            raise Refused(f"Invalid {SUBJECTS[kind]}: {shown(asked)}", "invalid")
        if kind == "system":
            return self.read_system(name, asked)
        form = self.format(wanted)
        if kind == "checkpoint":
            return self.read_checkpoint(name, asked, form)
        if kind == "knowledge":
            return self.read_knowledge(name, asked, form)
        return self.read_failure(name, asked, form)

    def format(self, wanted: str | None) -> Format:
        """Give the format asked for, else the one that is tuned, else Markdown."""
        if wanted is None:
            return self.tuning.read().output_format or "markdown"
        if wanted not in FORMATS:
            raise Refused(f"Invalid format: {shown(wanted)}", "invalid")
        return "toon" if wanted == "toon" else "markdown"

    def read_system(self, name: str, asked: str) -> Served:
        """Give a system file as it is."""
        segments = tuple(part for part in name.split("/") if part not in ("", "."))
        if not segments:
            raise Refused(f"File not in system folder: {shown(asked)}", "invalid")
        root = self.home.root("system")
        try:
            if root is None:
                raise Gone
            read = folders.read(root, segments, self.limit)
            text = decode(read.data, keeps_line_ends=True)
        except Gone:
            raise Refused(f"File not found: {shown(asked)}", "not_found") from None
        except Left:
            raise Refused(f"File not in system folder: {shown(asked)}", "invalid") from None
        except Broken as error:
            raise Refused(f"Error reading {shown(asked)}: {error.reason}", "unreadable") from None
        return Served(text, mime_type_of(segments[-1]), read.modified_ms)

    def read_checkpoint(self, name: str, asked: str, form: Format) -> Served:
        """Give a checkpoint: by its stem, else the one that is meant."""
        try:
            stem, record, read = _load(self.checkpoints, name, lookup.find_checkpoint)
        except (Broken, Gone, Ambiguous, Unmatched) as error:
            raise self._refusal("checkpoint", asked, error) from None
        return _served(render_checkpoint(record, stem, form), form, read, record, stem)

    def read_knowledge(self, name: str, asked: str, form: Format) -> Served:
        """Give a knowledge item."""
        try:
            item = self.library.find(name)
            content, read = self.library.content(item)
        except (Broken, Ambiguous, Unmatched) as error:
            raise self._refusal("knowledge", asked, error) from None
        text = render_knowledge(item, content, self.code.resolve(item), form)
        return _served(text, form, read, item, item.id)

    def read_failure(self, name: str, asked: str, form: Format) -> Served:
        """Give a failure: by its stem, else the newest with that id."""
        try:
            stem, record, read = _load(self.failures, name, lookup.find_failure)
        except (Broken, Gone, Ambiguous, Unmatched) as error:
            raise self._refusal("failure", asked, error) from None
        return _served(render_failure(record, stem, form), form, read, record, stem)

    def _refusal(self, kind: str, asked: str, error: Exception) -> Refused:
        if isinstance(error, Broken):
            return Refused(f"Error loading {kind} {shown(asked)}: {error.reason}", "unreadable")
        if isinstance(error, Ambiguous):
            named = ", ".join(error.ids) + (", …" if error.count > len(error.ids) else "")
            message = f"{WORDS[kind]} ambiguous: {shown(asked)} matches {error.count}: {named}"
            return Refused(message, "not_found", tuple(f"sage://{kind}/{one}" for one in error.ids))
        return Refused(f"{WORDS[kind]} not found: {shown(asked)}", "not_found")


def _load(shelf: Shelf[T], name: str, find: Callable[[Shelf[T], str], Card]) -> tuple[str, T, Read]:
    """Load the item a name means, with its stem: opened at once if the name is one, else looked for."""
    try:
        return name, *shelf.load(name)
    except Gone:
        stem = find(shelf, name).stem
        return stem, *shelf.load(stem)


def _served(text: str, form: Format, read: Read, record: Checkpoint | Knowledge | Failure, address: str) -> Served:
    return Served(text, MIME_TYPES[form], read.modified_ms, record, address)
