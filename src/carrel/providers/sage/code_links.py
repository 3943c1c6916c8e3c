"""Code links: the current place of the code that a knowledge item is about.

Files are opened beneath the project's root, and the deny-list applies.
"""

from time import monotonic
from typing import Final, Literal

from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.files.sandbox import Opened, Root, SandboxError
from carrel.files.secrets import DenyList
from carrel.git.repository import Git
from carrel.providers.sage.definitions import find_definition
from carrel.providers.sage.folders import segments_of, signature_of
from carrel.providers.sage.records import CodeLink, KnowledgeItem

Status = Literal["ok", "modified", "not found", "not checked"]

RESOLVE_S: Final = 2.0
"""The time for all links of one item: there may be any number of them."""


class ResolvedLink(Value, frozen=True):
    """A link and its target; `line` is 0 if the link names a whole file or was not found."""

    link: CodeLink
    file: str
    line: int
    status: Status


class ProjectCode:
    """The files of the project that links may name."""

    def __init__(self, project: Project, git: Git, max_bytes: int) -> None:
        self._project = project
        self._git = git
        self._max_bytes = max_bytes
        self._root: Root | None = None
        self._deny = DenyList(project.deny)

    def resolve(self, item: KnowledgeItem) -> list[ResolvedLink]:
        """Return an item's links, each with its current target."""
        end = monotonic() + RESOLVE_S
        found = [self._resolve(link, is_late=monotonic() > end) for link in item.code_links]
        files = {one.file for one in found if one.status == "ok"}
        changed = self._git.changed_since(item.saved_at_commit, files) if files and item.saved_at_commit else ()
        return [replace(one, status="modified") if one.file in changed and one.status == "ok" else one for one in found]

    def _resolve(self, link: CodeLink, *, is_late: bool) -> ResolvedLink:
        file, symbol = _split(link)
        if is_late:
            return ResolvedLink(link, file, 0, "not checked")
        text = self.read(file)
        line = find_definition(text, symbol, file) if text is not None and symbol else 0
        return ResolvedLink(link, file, line, "ok" if text is not None and (line or not symbol) else "not found")

    def fingerprint(self, item: KnowledgeItem) -> str:
        """Return a token that changes when a link or its target may have changed; git's history is not walked."""
        states = [f"{link} {self._state(_split(link)[0])}" for link in item.code_links]
        if item.saved_at_commit:
            states.append(self._git.head())
        return " ".join(states)

    def _state(self, file: str) -> str:
        try:
            with self._open(file) as opened:
                return str(signature_of(opened.stat))
        except (OSError, SandboxError, ValueError):
            return "-"

    def read(self, file: str) -> str | None:
        """Return the text of a project file, or None if it is missing, denied, outside or too large."""
        try:
            with self._open(file) as opened:
                if opened.is_folder or opened.stat.st_size > self._max_bytes:
                    return None
                return opened.read(0, self._max_bytes + 1).decode(errors="replace")
        except (OSError, SandboxError, ValueError):
            return None

    def _open(self, file: str) -> Opened:
        segments = segments_of(file)
        if not segments or file.startswith("/") or ".." in segments:
            raise ValueError("not the path of a project file")
        if self._root is None:
            self._root = Root(self._project.root, guard=self._deny.covers_path)
        return self._root.open(segments)

    def close(self) -> None:
        """Close the handle."""
        if self._root is not None:
            self._root.close()


def _split(link: CodeLink) -> tuple[str, str]:
    """Return the file and the symbol of a link; the symbol is empty if the link names a whole file."""
    file, has_symbol, symbol = link.chunk_id.rpartition("::")
    return (file, symbol) if has_symbol else (link.chunk_id, "")
