"""Code links: where the code a knowledge item is about stands now.

A file is opened through the sandbox of the workspace, and never if the workspace denies it.
"""

import os
import re
from typing import Final, Literal

from carrel.denial import Denial
from carrel.provider import Project
from carrel.providers.sage.git import Git
from carrel.providers.sage.records import CodeLink, Knowledge
from carrel.sandbox import Opened, Root, SandboxError
from carrel.value import Value

Status = Literal["ok", "modified", "not found"]

_INTRODUCERS: Final = (
    "def class function func fn interface type struct enum trait union const let var val module object record namespace"
).split()
_OPENERS: Final = "if for while switch return else elif catch with match".split()
_OPENS: Final = re.compile(rf"(?:{'|'.join(_OPENERS)})\b")
_INTRODUCED: Final = rf"(?<!\w)(?:{'|'.join(_INTRODUCERS)})\s+(?:\([^()]*\)\s*)?"


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
        """Say for each of an item's links where it leads now."""
        return [self._resolve(link, item.saved_at_commit) for link in item.code_links]

    def _resolve(self, link: CodeLink, commit: str) -> Resolved:
        file, has_symbol, symbol = link.chunk_id.rpartition("::")
        if not has_symbol:
            file, symbol = link.chunk_id, ""
        text = self.read(file)
        line = find_definition(text, symbol) if text is not None and symbol else 0
        if text is None or (symbol and not line):
            return Resolved(link, file, 0, "not found")
        is_modified = bool(commit) and self._git.changed_since(commit, file)
        return Resolved(link, file, line, "modified" if is_modified else "ok")

    def fingerprint(self, item: Knowledge) -> str:
        """Give a token that changes when the links may lead elsewhere; no git is asked."""
        states = [self._state(link.chunk_id.rpartition("::")[0] or link.chunk_id) for link in item.code_links]
        if item.saved_at_commit:
            states += [_state_of(os.path.join(self._project.root, one)) for one in (".git/HEAD", ".git/logs/HEAD")]
        return " ".join(states)

    def _state(self, file: str) -> str:
        try:
            with self._open(file) as opened:
                return _spelled(opened.stat)
        except (OSError, SandboxError, ValueError):
            return "-"

    def read(self, file: str) -> str | None:
        """Give a project file's text; None if it is missing, denied, outside or too large."""
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


def _state_of(path: str) -> str:
    try:
        return _spelled(os.stat(path))
    except OSError:
        return "-"


def _spelled(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}"


def find_definition(text: str, symbol: str) -> int:
    """Give the number of the first line that defines the symbol's last part, or 0."""
    name = symbol.rpartition(".")[2]
    if not name or name not in text:
        return 0
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if name in line]
    word = re.escape(name)
    introduced = re.compile(rf"{_INTRODUCED}{word}(?!\w)").search
    assigned = re.compile(rf"\s*{word}\s*(?::[^=]*)?=(?![=>])").match
    called = re.compile(rf"(?<!\w){word}\(").search

    def is_block(line: str) -> bool:
        return line.rstrip().endswith(("{", ":")) and not _OPENS.match(line.lstrip(" \t}")) and bool(called(line))

    for defines in (introduced, assigned, is_block):
        number = next((number for number, line in lines if defines(line)), 0)
        if number:
            return number
    return 0
