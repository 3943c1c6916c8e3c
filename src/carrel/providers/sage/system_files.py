"""System files: what lies below `.sage/system`, in the order in which it is listed and told."""

from collections.abc import Iterator
from threading import Lock
from typing import Final

from carrel.core.record import Value
from carrel.files.sandbox import Root
from carrel.providers.sage import folders
from carrel.providers.sage.file_format import Broken, decode
from carrel.providers.sage.folders import Folders, Gone, Seen, Signature
from carrel.providers.sage.item_names import HIDDEN, ODD_NAME, is_plain

OBJECTIVE: Final = "objective.md"
CONSTRAINTS: Final = "constraints.md"
PINNED: Final = "pinned/"
FRONT: Final = 2
"""The rank up to which files stand at the front: 0 the objective, 1 the constraints, 2 what is pinned, 3 the rest."""

MAX_DEPTH: Final = 32
_TYPES: Final = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "json": "application/json",
    "yaml": "text/yaml",
    "yml": "text/yaml",
    "toml": "application/toml",
    "csv": "text/csv",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "xml": "application/xml",
    "svg": "image/svg+xml",
    "js": "text/javascript",
    "ts": "text/x-typescript",
    "py": "text/x-python",
    "sh": "text/x-shellscript",
    "sql": "text/x-sql",
}


class SystemFile(Value, frozen=True):
    """A file below the system folder; `reason` says why it is not listed, if so."""

    path: str
    rank: int
    signature: Signature
    first_line: str = ""
    reason: str = ""

    @property
    def mime_type(self) -> str:
        """Its type, by its name."""
        return mime_type_of(self.path)


def mime_type_of(name: str) -> str:
    """Give the MIME type of a system file, by its extension."""
    return _TYPES.get(name.rpartition(".")[2].lower(), "text/plain") if "." in name else "text/plain"


def rank_of(path: str) -> int:
    """Say where a file stands: the objective first."""
    return 0 if path == OBJECTIVE else 1 if path == CONSTRAINTS else 2 if path.startswith(PINNED) else 3


class SystemFiles:
    """The files below the system folder; each is read once, and again when it changed."""

    def __init__(self, home: Folders, limit: int) -> None:
        self._home = home
        self._limit = limit
        self._known: dict[str, SystemFile] = {}
        self._lock = Lock()

    def files(self, *, with_hidden: bool = False) -> list[SystemFile]:
        """Give the files in their order; with what is hidden, also names that begin with a dot."""
        root = self._home.root("system")
        if root is None:
            return []
        with self._lock:
            found = [self._look(root, path, seen) for path, seen in walk(root, hidden=with_hidden)]
            self._known = {file.path: file for file in found}
        return sorted(found, key=lambda file: (file.rank, file.path))

    def _look(self, root: Root, path: str, seen: Seen) -> SystemFile:
        known = self._known.get(path)
        if known is not None and known.signature == seen.signature and not seen.is_link:
            return known
        rank = rank_of(path)
        if any(name.startswith(".") for name in path.split("/")):
            return SystemFile(path, rank, seen.signature, reason=HIDDEN)
        if not is_plain(path):
            return SystemFile(path, rank, seen.signature, reason=ODD_NAME)
        try:
            read = folders.read(root, tuple(path.split("/")), self._limit)
            first_line = _first_line(decode(read.data))
        except Broken as error:
            return SystemFile(path, rank, seen.signature, reason=error.reason)
        except Gone:
            return SystemFile(path, rank, seen.signature, reason="leads nowhere" if seen.is_link else "I/O error")
        return SystemFile(path, rank, read.signature, first_line)

    def text(self, path: str) -> str:
        """Give a file's text, trimmed; empty if it cannot be read."""
        root = self._home.root("system")
        if root is None:
            return ""
        try:
            return decode(folders.read(root, tuple(path.split("/")), self._limit).data).strip()
        except (Broken, Gone):
            return ""


def walk(root: Root, *, hidden: bool = False) -> Iterator[tuple[str, Seen]]:
    """Yield every name below the folder but folders; a linked folder is not walked into."""
    ahead: list[tuple[str, ...]] = [()]
    while ahead:
        segments = ahead.pop()
        for seen in folders.scan(root, segments, hidden=hidden):
            if not seen.is_folder:
                yield "/".join((*segments, seen.name)), seen
            elif len(segments) < MAX_DEPTH:
                ahead.append((*segments, seen.name))


def _first_line(text: str) -> str:
    for line in text.split("\n"):
        told = line.strip().lstrip("#").strip()
        if told:
            return told
    return ""
