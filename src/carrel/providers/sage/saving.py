"""Saving: checkpoints and failures as new files, knowledge under a lock, system files in place.

`arguments` has checked the values. A write that fails raises `SageError`.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Final

from carrel.core.errors import echo
from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.files.atomic import FILE_MODE
from carrel.files.secrets import DenyList
from carrel.providers.sage import file_writes, folders, yaml_text
from carrel.providers.sage.arguments import SaveKnowledge, bounded, invalid
from carrel.providers.sage.fields import MAX_FRONT_MATTER, BadFile, decode, split_front_matter
from carrel.providers.sage.file_writes import FolderWriter, NameTaken, WriteFailed
from carrel.providers.sage.folders import Signature, segments_of
from carrel.providers.sage.knowledge import INDEX, MAX_INDEX_BYTES
from carrel.providers.sage.memory import SageError, SageMemory
from carrel.providers.sage.names import checked, clean_id, slug_of
from carrel.providers.sage.record_files import compose_checkpoint, compose_content, compose_failure
from carrel.providers.sage.records import Checkpoint, CodeLink, FailureRecord, GitContext, KnowledgeItem, to_data
from carrel.providers.sage.rendering import tokens

LOCK: Final = ".index.lock"
LOCK_S: Final = 10.0
_PAUSE_S: Final = 0.02
_STAMP: Final = "%Y-%m-%dT%H-%M-%S"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SavedItem(Value, frozen=True):
    """A saved item: its id, its URI, and its file relative to the workspace."""

    id: str
    uri: str
    path: str


class SageWriter:
    """Writes to one Sage folder."""

    def __init__(self, project: Project, memory: SageMemory) -> None:
        self._project = project
        self._memory = memory
        self._writer = FolderWriter(project, memory.home.data)

    def _path(self, *parts: str) -> str:
        """Return a path relative to the workspace."""
        return os.path.relpath(os.path.join(self._memory.home.path, *parts), self._project.root)

    def make_folder(self, *segments: str) -> list[str]:
        """Create a folder; return the paths of the new ones."""
        with _explained("/".join(segments)):
            return [self._path(*names) for names in self._writer.make(*segments)]

    def _encode(self, text: str, name: str) -> bytes:
        """Return the bytes of an item's file; raise `SageError` if Carrel could not read it again."""
        if len(split_front_matter(text)[0].encode()) > MAX_FRONT_MATTER:
            raise invalid(name, f"its metadata is larger than {MAX_FRONT_MATTER} bytes")
        return bounded(text, name, self._memory.limit).encode()

    # Checkpoints and failures

    def save_checkpoint(self, given: Checkpoint, *, continues: bool) -> SavedItem:
        """Save a checkpoint; if `continues` is set, it continues from the newest one that was saved on purpose."""
        now = datetime.now(UTC)
        git = self._memory.git.state()
        context = None if git is None else GitContext(git.branch, git.commit, git.is_dirty, git.recent)
        record = replace(given, ts=now.isoformat(), git_context=context)
        if continues:
            record = replace(record, continues_from=self._newest_checkpoint())

        def compose(stem: str) -> bytes:
            return self._encode(compose_checkpoint(replace(record, id=stem)), "thesis")

        stem = self._create("checkpoints", f"{now.strftime(_STAMP)}_{slug_of(given.thesis)}", compose)
        return SavedItem(stem, f"sage://checkpoint/{stem}", self._path("checkpoints", f"{stem}.md"))

    def _newest_checkpoint(self) -> str:
        folder = self._memory.checkpoints
        newest = folder.load_readable(file.stem for file in folder.newest_first(folder.files().values()))
        return next((stem for stem, record in newest if not record.is_recovery), "")

    def save_failure(self, given: FailureRecord) -> SavedItem:
        """Save a failure record."""
        now = datetime.now(UTC).astimezone()
        name = clean_id(given.id)
        added = now.strftime("%Y-%m-%dT%H:%M:%S")
        record = replace(given, id=name, added=added, project=os.path.basename(self._project.root))
        data = self._encode(compose_failure(record), "approach")
        stem = self._create("failures", f"{now.strftime(_STAMP)}_{name}", lambda _: data)
        return SavedItem(name, f"sage://failure/{name}", self._path("failures", f"{stem}.md"))

    def _create(self, folder: str, stem: str, compose: Callable[[str], bytes]) -> str:
        with _explained(stem), self._writer.folder(folder) as handle:
            return file_writes.create_numbered(handle, stem, ".md", compose)

    # System files

    def save_system_file(self, filename: str, content: str, *, overwrite: bool) -> SavedItem:
        """Write a system file."""
        segments = segments_of(checked(filename) or "")
        if not segments or not segments[-1].endswith(".md") or any(part.startswith(".") for part in segments):
            raise SageError(f"Invalid filename: {echo(filename)}", "invalid")
        if DenyList(self._project.deny).covers_path(segments, is_folder=False):
            raise SageError(f"Error writing {echo(filename)}: {folders.DENIED}", "unreadable")
        data = bounded(content, "content", self._memory.limit).encode()
        path = "/".join(segments)
        with _explained(filename), self._writer.folder("system", *segments[:-1]) as handle:
            try:
                write = file_writes.replace if overwrite else file_writes.create
                write(handle, segments[-1], data)
            except NameTaken:
                raise SageError(f"File exists: {echo(filename)}", "invalid") from None
        return SavedItem(path, f"sage://system/{path}", self._path("system", *segments))

    # Knowledge

    def save_knowledge(self, given: SaveKnowledge) -> SavedItem:
        """Save a knowledge item: its content, then the index, under the lock of the index."""
        skill = clean_id(given.skill) if given.skill else ""
        segments = ("skills", skill) if skill else ("global",)
        name = clean_id(given.id)
        links = tuple(CodeLink(one.chunk_id, one.relation, one.note) for one in given.code_links)
        item = KnowledgeItem(
            name,
            "/".join((*segments, f"{name}.md")),
            given.type,
            tuple(given.keywords),
            (skill,) if skill else (),
            added=datetime.now(UTC).astimezone().strftime("%Y-%m-%d"),
            source=given.source,
            status="pending" if given.type == "todo" else "",
            saved_at_commit=self._memory.git.short_head() if links else "",
            code_links=links,
        )
        entry = _entry(item, tokens(given.content.strip()))
        fields = to_data(item, "id", "type", "keywords", "source", "added") | {"skill": skill, "status": item.status}
        data = self._encode(compose_content(fields, given.content), "content")
        with _explained(name), self._writer.folder("knowledge") as folder, _locked(folder):
            is_saved = False
            while not is_saved:
                signature, text = _read_index(folder)
                index = self._put_entry(text, entry)
                with self._writer.folder("knowledge", *segments) as handle:
                    file_writes.replace(handle, f"{name}.md", data)
                # Sage takes no lock: if the index changed meanwhile, it is read again.
                is_saved = file_writes.replace(folder, INDEX, index, lambda: _signature(folder) == signature)  # noqa: B023 called at once
        return SavedItem(name, f"sage://knowledge/{name}", self._path("knowledge", *item.file.split("/")))

    def _put_entry(self, text: str, entry: dict[str, object]) -> bytes:
        # A new index must not hide the items that were served without one.
        known = [] if text.strip() else [one.item for one in self._memory.knowledge.items().values()]
        try:
            others = [_entry(item) for item in known if item.id != entry["id"]]
            return yaml_text.put_item(text, entry, others).encode()
        except BadFile as error:
            raise WriteFailed(f"index.yaml is {error.reason}") from None


def _entry(item: KnowledgeItem, size: int | None = None) -> dict[str, object]:
    """Return an item's entry in the index. A value of None is not written, and removes an older one."""
    links = [{key: value for key, value in to_data(link).items() if value} for link in item.code_links]
    metadata = {"added": item.added, "source": item.source, "tokens": size, "status": item.status}
    entry: dict[str, object] = {
        "id": item.id,
        "type": item.type,
        "file": item.file,
        "triggers": {"keywords": list(item.keywords)},
        "scope": {"skills": list(item.skills)},
        "metadata": metadata,
    }
    if links:
        metadata["saved_at_commit"] = item.saved_at_commit or None
        entry["code_links"] = links
    return entry


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raise a failed write as the error for the caller."""
    try:
        yield
    except WriteFailed as error:
        raise SageError(f"Error writing {echo(name)}: {error.reason}", "unreadable") from None


def _read_index(folder: int) -> tuple[Signature | None, str]:
    """Return the signature and the text of the index, through the handle it will be written by."""
    with file_writes.reasons():
        try:
            handle = os.open(INDEX, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None, ""
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise WriteFailed("not a regular file")
            if found.st_size > MAX_INDEX_BYTES:
                raise WriteFailed(f"index.yaml is too large ({found.st_size} bytes, limit {MAX_INDEX_BYTES})")
            try:
                return folders.signature_of(found), decode(file.read())
            except BadFile as error:
                raise WriteFailed(f"index.yaml is {error.reason}") from None


def _signature(folder: int) -> Signature | None:
    try:
        return folders.signature_of(os.stat(INDEX, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


@contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Hold the lock of the index; raise `WriteFailed` if it is not free in time."""
    with file_writes.reasons():
        handle = os.open(LOCK, _LOCK, FILE_MODE, dir_fd=folder)
    try:
        deadline = monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if monotonic() > deadline:
                    raise WriteFailed("index is locked") from None
                sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)
