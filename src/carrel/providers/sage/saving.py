"""Saving: checkpoints and failures as new files, knowledge under a lock, system files in place.

What is given has been checked by `arguments`; what cannot be written raises `Refused`.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any, Final

from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.files.atomic import FILE_MODE
from carrel.files.secrets import Denial
from carrel.providers.sage import file_writes, folders, knowledge_index
from carrel.providers.sage.file_format import MAX_FRONT_MATTER, Broken, decode, split_front_matter
from carrel.providers.sage.file_writes import Taken, WriteFailed, Writer
from carrel.providers.sage.folders import Signature
from carrel.providers.sage.item_names import checked, clean_id, shown, slug_of
from carrel.providers.sage.knowledge import INDEX, MAX_INDEX_BYTES
from carrel.providers.sage.memory import Memory, Refused
from carrel.providers.sage.records import Checkpoint, Failure, GitContext
from carrel.providers.sage.rendering import tokens
from carrel.providers.sage.serialization import compose_checkpoint, compose_content, compose_failure

LOCK: Final = ".index.lock"
LOCK_S: Final = 10.0
_PAUSE_S: Final = 0.02
_STAMP: Final = "%Y-%m-%dT%H-%M-%S"


class Saved(Value, frozen=True):
    """What was saved: its id, its URI, and its file relative to the workspace."""

    id: str
    uri: str
    path: str


class Saving:
    """Writes to one Sage folder."""

    def __init__(self, project: Project, memory: Memory) -> None:
        self._project = project
        self._memory = memory
        self._writer = Writer(project, memory.home.data)

    def _path(self, *parts: str) -> str:
        """Give a file's path relative to the workspace."""
        return os.path.relpath(os.path.join(self._memory.home.place, *parts), self._project.root)

    def make(self, *segments: str) -> list[str]:
        """Make a folder; give the paths of what was made, relative to the workspace."""
        with self._told("/".join(segments)):
            return [self._path(*way.split("/")) if way else self._path() for way in self._writer.make(*segments)]

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Turn a failed write into what the caller is told."""
        try:
            yield
        except WriteFailed as error:
            raise Refused(f"Error writing {shown(name)}: {error.reason}", "unreadable") from None

    def _bounded(self, text: str, name: str) -> bytes:
        """Give the bytes of a file that Carrel itself could read again."""
        data = text.encode()
        if len(data) > self._memory.limit:
            raise Refused(f"Invalid {name}: larger than {self._memory.limit} bytes", "invalid")
        return data

    def _composed(self, text: str, name: str) -> bytes:
        """Give the bytes of a file with front matter that Carrel itself could read again."""
        if len(split_front_matter(text)[0].encode()) > MAX_FRONT_MATTER:
            raise Refused(f"Invalid {name}: what stands beside it is larger than {MAX_FRONT_MATTER} bytes", "invalid")
        return self._bounded(text, name)

    # Checkpoints and failures

    def checkpoint(self, given: Checkpoint, *, continues: bool) -> Saved:
        """Save a checkpoint; with `continues`, after the newest that was saved on purpose."""
        now = datetime.now(UTC)
        record = replace(given, ts=now.isoformat(), git_context=self._git_context())
        if continues:
            record = replace(record, continues_from=self._newest_checkpoint())

        def compose(stem: str) -> bytes:
            return self._composed(compose_checkpoint(replace(record, id=stem)), "thesis")

        stem = f"{now.strftime(_STAMP)}_{slug_of(given.thesis)}"
        saved = self._create("checkpoints", stem, compose)
        return Saved(saved, f"sage://checkpoint/{saved}", self._path("checkpoints", f"{saved}.md"))

    def _git_context(self) -> GitContext | None:
        state = self._memory.git.state()
        return None if state is None else GitContext(state.branch, state.commit, state.is_dirty, state.recent)

    def _newest_checkpoint(self) -> str:
        shelf = self._memory.checkpoints
        for card in shelf.newest_first(shelf.cards().values()):
            record = shelf.load_if_sound(card.stem)
            if record is not None and not record.is_recovery:
                return card.stem
        return ""

    def failure(self, given: Failure) -> Saved:
        """Record a failure."""
        now = datetime.now(UTC).astimezone()
        name = clean_id(given.id)
        added = now.strftime("%Y-%m-%dT%H:%M:%S")
        record = replace(given, id=name, added=added, project=os.path.basename(self._project.root))
        stem = f"{now.strftime(_STAMP)}_{name}"
        saved = self._create("failures", stem, lambda _: self._composed(compose_failure(record), "approach"))
        return Saved(name, f"sage://failure/{name}", self._path("failures", f"{saved}.md"))

    def _create(self, folder: str, stem: str, compose: Callable[[str], bytes]) -> str:
        with self._told(stem), self._writer.folder(folder) as handle:
            return file_writes.create_numbered(handle, stem, ".md", compose)

    # System files

    def system(self, filename: str, content: str, *, overwrite: bool) -> Saved:
        """Write a system file."""
        name = checked(filename)
        segments = [part for part in (name or "").split("/") if part not in ("", ".")]
        if not segments or not segments[-1].endswith(".md") or any(part.startswith(".") for part in segments):
            raise Refused(f"Invalid filename: {shown(filename)}", "invalid")
        if Denial(self._project.deny).covers_path(segments, is_folder=False):
            raise Refused(f"Error writing {shown(filename)}: {folders.DENIED}", "unreadable")
        data = self._bounded(content, "content")
        path = "/".join(segments)
        with self._told(filename), self._writer.folder("system", *segments[:-1]) as handle:
            if overwrite:
                file_writes.replace(handle, segments[-1], data)
            else:
                try:
                    file_writes.create(handle, segments[-1], data)
                except Taken:
                    raise Refused(f"File exists: {shown(filename)}", "invalid") from None
        return Saved(path, f"sage://system/{path}", self._path("system", *segments))

    # Knowledge

    def knowledge(self, given: Mapping[str, Any]) -> Saved:
        """Save a knowledge item: its content, then the index, both under the index's lock."""
        item_id = clean_id(given["id"])
        skill = clean_id(given["skill"]) if given["skill"] else ""
        way = ("skills", skill) if skill else ("global",)
        entry, fields = self._entry(given, item_id, skill, "/".join((*way, f"{item_id}.md")))
        data = self._composed(compose_content(fields, given["content"]), "content")
        with self._told(item_id), self._writer.folder("knowledge") as folder, locked(folder):
            while True:
                before, text = read_index(folder)
                new = self._put(text, entry)
                with self._writer.folder("knowledge", *way) as handle:
                    file_writes.replace(handle, f"{item_id}.md", data)
                if file_writes.replace(folder, INDEX, new, lambda: _signature(folder) == before):  # noqa: B023 at once
                    break
        return Saved(item_id, f"sage://knowledge/{item_id}", self._path("knowledge", *way, f"{item_id}.md"))

    def _entry(
        self, given: Mapping[str, Any], item_id: str, skill: str, file: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give the item's entry in the index, and the fields of its content file."""
        added = datetime.now(UTC).astimezone().strftime("%Y-%m-%d")
        status = "pending" if given["type"] == "todo" else ""
        links = given["code_links"]
        metadata: dict[str, Any] = {
            "added": added,
            "source": given["source"],
            "tokens": tokens(given["content"].strip()),
            "status": status,
        }
        entry: dict[str, Any] = {
            "id": item_id,
            "type": given["type"],
            "file": file,
            "triggers": {"keywords": list(given["keywords"])},
            "scope": {"skills": [skill] if skill else []},
            "metadata": metadata,
        }
        if links:
            metadata["saved_at_commit"] = self._memory.git.short_head() or None
            entry["code_links"] = links
        fields = {
            "id": item_id,
            "type": given["type"],
            "keywords": list(given["keywords"]),
            "source": given["source"],
            "added": added,
            "skill": skill,
            "status": status,
        }
        return entry, fields

    def _put(self, text: str, entry: dict[str, Any]) -> bytes:
        others = [] if text.strip() else self._orphans(entry["id"])
        try:
            return knowledge_index.put(text, entry, others).encode()
        except Broken as error:
            raise WriteFailed(f"index.yaml is {error.reason}") from None

    def _orphans(self, item_id: str) -> list[dict[str, Any]]:
        """Give entries for the content files there are: a new index must not hide what was served without one."""
        return [
            {
                "id": one.item.id,
                "type": one.item.type,
                "file": one.item.file,
                "triggers": {"keywords": list(one.item.keywords), "patterns": []},
                "scope": {"skills": list(one.item.skills), "always": False},
                "metadata": {"added": one.item.added, "source": one.item.source, "status": one.item.status},
            }
            for one in self._memory.library.items().values()
            if one.item.id != item_id
        ]


def read_index(folder: int) -> tuple[Signature | None, str]:
    """Give the index's state and text through the handle it will be written by; a missing one is empty."""
    try:
        handle = os.open(INDEX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        raise WriteFailed(file_writes.reason_of(error)) from None
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise WriteFailed("not a regular file")
        if found.st_size > MAX_INDEX_BYTES:
            raise WriteFailed(f"index.yaml is too large ({found.st_size} bytes, limit {MAX_INDEX_BYTES})")
        try:
            return folders.signature_of(found), decode(file.read())
        except Broken as error:
            raise WriteFailed(f"index.yaml is {error.reason}") from None
        except OSError as error:
            raise WriteFailed(file_writes.reason_of(error)) from None


def _signature(folder: int) -> Signature | None:
    try:
        return folders.signature_of(os.stat(INDEX, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


@contextmanager
def locked(folder: int) -> Iterator[None]:
    """Hold the index's lock; give up after a while."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(LOCK, flags, FILE_MODE, dir_fd=folder)
    except OSError as error:
        raise WriteFailed(file_writes.reason_of(error)) from None
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


__all__ = ["Saved", "Saving"]
