"""Saving: checkpoints and failures as new files, knowledge under a lock, system files in place.

`arguments` has checked the values. A write that fails raises `SageError`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from carrel.core.errors import echo
from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.files.secrets import DenyList
from carrel.providers.sage import folders, yaml_text
from carrel.providers.sage.arguments import SaveKnowledge, bounded, invalid
from carrel.providers.sage.fields import MAX_FRONT_MATTER, BadFile, split_front_matter
from carrel.providers.sage.file_writes import NameTaken, WriteFailed
from carrel.providers.sage.folder_files import Check
from carrel.providers.sage.folders import segments_of
from carrel.providers.sage.memory import SageError, SageMemory
from carrel.providers.sage.names import checked, clean_id, slug_of
from carrel.providers.sage.record_files import compose_checkpoint, compose_content, compose_failure
from carrel.providers.sage.records import Checkpoint, CodeLink, FailureRecord, GitContext, KnowledgeItem, to_data
from carrel.providers.sage.rendering import tokens

_STAMP: Final = "%Y-%m-%dT%H-%M-%S"


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
        self._files = memory.files

    def _path(self, *parts: str) -> str:
        """Return a path for people."""
        return self._files.shown(parts)

    def make_folder(self, *segments: str) -> list[str]:
        """Create a folder; return the paths of the new ones."""
        with _explained("/".join(segments)):
            return [self._path(*names) for names in self._files.make(*segments)]

    def _encode(self, text: str, name: str) -> bytes:
        """Return the bytes of an item's file; raise `SageError` if Carrel could not read it again."""
        if len(split_front_matter(text)[0].encode()) > MAX_FRONT_MATTER:
            raise invalid(name, f"its metadata is larger than {MAX_FRONT_MATTER} bytes")
        return bounded(text, name, self._memory.limit).encode()

    def _check(self, kind: str, name: Callable[[], str], if_match: str | None) -> Check | None:
        """Return the check that an item has an ETag; None if the caller gave none."""
        if if_match is None:
            return None
        return lambda: self._memory.check_unchanged(kind, name(), if_match)

    # Checkpoints and failures

    def save_checkpoint(self, given: Checkpoint, *, continues: bool, if_match: str | None = None) -> SavedItem:
        """Save a checkpoint; if `continues` is set, it continues from the newest one that was saved on purpose."""
        now = datetime.now(UTC)
        git = self._memory.git.state()
        context = None if git is None else GitContext(git.branch, git.commit, git.is_dirty, git.recent)
        record = replace(given, ts=now.isoformat(), git_context=context)

        def previous() -> str:
            return self._newest_checkpoint() if continues else given.continues_from

        def compose(stem: str) -> bytes:
            return self._encode(compose_checkpoint(replace(record, id=stem, continues_from=previous())), "thesis")

        check = self._check("checkpoint", previous, if_match)
        stem = self._create("checkpoints", f"{now.strftime(_STAMP)}_{slug_of(given.thesis)}", compose, check)
        return SavedItem(stem, f"sage://checkpoint/{stem}", self._path("checkpoints", f"{stem}.md"))

    def _newest_checkpoint(self) -> str:
        folder = self._memory.checkpoints
        newest = folder.load_readable(file.stem for file in folder.newest_first(folder.files().values()))
        return next((stem for stem, record in newest if not record.is_recovery), "")

    def save_failure(self, given: FailureRecord, *, if_match: str | None = None) -> SavedItem:
        """Save a failure record."""
        now = datetime.now(UTC).astimezone()
        name = clean_id(given.id)
        added = now.strftime("%Y-%m-%dT%H:%M:%S")
        record = replace(given, id=name, added=added, project=os.path.basename(self._project.root))
        data = self._encode(compose_failure(record), "approach")
        check = self._check("failure", lambda: name, if_match)
        stem = self._create("failures", f"{now.strftime(_STAMP)}_{name}", lambda _: data, check)
        return SavedItem(name, f"sage://failure/{name}", self._path("failures", f"{stem}.md"))

    def _create(self, folder: str, stem: str, compose: Callable[[str], bytes], check: Check | None) -> str:
        with _explained(stem):
            return self._files.create_numbered(folder, stem, compose, check)

    # System files

    def save_system_file(
        self, filename: str, content: str, *, overwrite: bool, if_match: str | None = None
    ) -> SavedItem:
        """Write a system file."""
        segments = segments_of(checked(filename) or "")
        if not segments or not segments[-1].endswith(".md") or any(part.startswith(".") for part in segments):
            raise SageError(f"Invalid filename: {echo(filename)}", "invalid")
        if DenyList(self._project.deny).covers_path(segments, is_folder=False):
            raise SageError(f"Error writing {echo(filename)}: {folders.DENIED}", "unreadable")
        data = bounded(content, "content", self._memory.limit).encode()
        path = "/".join(segments)
        with _explained(filename):
            try:
                write = self._files.replace if overwrite else self._files.create
                write(("system", *segments), data, self._check("system", lambda: path, if_match))
            except NameTaken:
                raise SageError(f"File exists: {echo(filename)}", "invalid") from None
        return SavedItem(path, f"sage://system/{path}", self._path("system", *segments))

    # Knowledge

    def save_knowledge(self, given: SaveKnowledge) -> SavedItem:
        """Save a knowledge item: its content, then the index, under the lock of the index."""
        skill = clean_id(given.skill) if given.skill else ""
        segments = ("skills", skill) if skill else ("global",)
        name = clean_id(given.id)
        if not given.id.isascii() and name in self._memory.knowledge.items():  # it may be another item
            raise invalid("id", f"only A-Z, a-z, 0-9, _ and - are kept, and {name} exists; to replace it, give that id")
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
        path = ("knowledge", *segments, f"{name}.md")
        with _explained(name):
            check = self._check("knowledge", lambda: name, given.if_match)
            self._files.put_indexed(path, data, lambda text: self._put_entry(text, entry), check)
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
