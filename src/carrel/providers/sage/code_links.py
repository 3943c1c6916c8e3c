"""Code links: where the code a knowledge item is about stands now.

Files are opened beneath the project's root, and never if the deny-list refuses them.
"""

import os
from time import monotonic
from typing import Final, Literal

from carrel.core.provider import Project
from carrel.core.record import Value, replace
from carrel.files.sandbox import Opened, Root, SandboxError
from carrel.files.secrets import Denial
from carrel.git import Git
from carrel.providers.sage.definitions import find_definition
from carrel.providers.sage.records import CodeLink, Knowledge

Status = Literal["ok", "modified", "not found", "not checked"]

RESOLVE_S: Final = 2.0
"""How long an item's links are looked up: there may be any number of them."""


class Resolved(Value, frozen=True):
    """A link, and where it leads; `line` is 0 where it means a whole file or leads nowhere."""

    link: CodeLink
    file: str
    line: int
    status: Status


class Code:
    """The workspace, as far as links may lead into it."""

    def __init__(self, project: Project, git: Git, max_bytes: int) -> None:
        self._project = project
        self._git = git
        self._max_bytes = max_bytes
        self._root: Root | None = None
        self._deny = Denial(project.deny)

    def resolve(self, item: Knowledge) -> list[Resolved]:
        """Return where each of an item's links leads now."""
        end = monotonic() + RESOLVE_S
        found = [self._find(link, is_late=monotonic() > end) for link in item.code_links]
        files = {one.file for one in found if one.status == "ok"}
        changed = self._git.changed_since(item.saved_at_commit, files) if files and item.saved_at_commit else ()
        return [replace(one, status="modified") if one.file in changed and one.status == "ok" else one for one in found]

    def _find(self, link: CodeLink, *, is_late: bool) -> Resolved:
        file, has_symbol, symbol = link.chunk_id.rpartition("::")
        if not has_symbol:
            file, symbol = link.chunk_id, ""
        if is_late:
            return Resolved(link, file, 0, "not checked")
        text = self.read(file)
        line = find_definition(text, symbol, file) if text is not None and symbol else 0
        if text is None or (symbol and not line):
            return Resolved(link, file, 0, "not found")
        return Resolved(link, file, line, "ok")

    def fingerprint(self, item: Knowledge) -> str:
        """Return a token that changes when the links may lead elsewhere; the history is not walked for it."""
        states = [self._state(link.chunk_id.rpartition("::")[0] or link.chunk_id) for link in item.code_links]
        if item.saved_at_commit:
            states.append(self._git.head())
        return " ".join(states)

    def _state(self, file: str) -> str:
        try:
            with self._open(file) as opened:
                return _spelled(opened.stat)
        except (OSError, SandboxError, ValueError):
            return "-"

    def read(self, file: str) -> str | None:
        """Return a project file's text; None if it is missing, denied, outside or too large."""
        try:
            with self._open(file) as opened:
                if opened.is_folder or opened.stat.st_size > self._max_bytes:
                    return None
                return opened.read(0, self._max_bytes + 1).decode(errors="replace")
        except (OSError, SandboxError, ValueError):
            return None

    def _open(self, file: str) -> Opened:
        """Open what a path in a memory names, if that is a file of the project that may be read."""
        segments = tuple(part for part in file.split("/") if part not in ("", "."))
        if not segments or file.startswith("/") or ".." in segments:
            raise ValueError("it names no file of the project")
        if self._root is None:
            self._root = Root(self._project.root, guard=self._deny.covers_path)
        return self._root.open(segments)

    def close(self) -> None:
        """Give the handle back."""
        if self._root is not None:
            self._root.close()


def _spelled(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}"
