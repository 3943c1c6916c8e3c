"""System files: everything below `.sage/system`, in the order of the list."""

from typing import Final

from carrel.core.record import Value
from carrel.files.file_types import UNKNOWN_TEXT, known_type
from carrel.providers.sage.fields import BadFile, decode
from carrel.providers.sage.folders import FileMissing, FoundName, SageFolders, Signature, Subfolder, walk
from carrel.providers.sage.names import BAD_NAME, HIDDEN, is_plain

OBJECTIVE: Final = "objective.md"
CONSTRAINTS: Final = "constraints.md"
PINNED: Final = "pinned/"
FRONT: Final = 2
"""The last rank at the front of the list: 0 objective, 1 constraints, 2 pinned files, 3 other files."""


class SystemFile(Value, frozen=True):
    """A file below the system folder; `reason` says why it is not listed."""

    path: str
    rank: int
    signature: Signature
    first_line: str = ""
    reason: str = ""


def mime_type_of(name: str) -> str:
    """Return the MIME type of a system file by its name; every system file is text."""
    mime_type, is_text = known_type(name) or (UNKNOWN_TEXT, True)
    return mime_type if is_text else UNKNOWN_TEXT


class SystemFiles(Subfolder[str]):
    """The files below the system folder; each is read again only when it changed."""

    def __init__(self, home: SageFolders, limit: int) -> None:
        super().__init__(home, "system", limit)
        self._known: dict[str, SystemFile] = {}

    def every(self, *, with_hidden: bool = False) -> list[SystemFile]:
        """Return all files in order, also those that are not listed."""
        with self._lock:
            names = walk(self.root, with_hidden=with_hidden)
            files = [self._examine(path, found) for path, found in names]
            self._known = {file.path: file for file in files}
        return sorted(files, key=lambda file: (file.rank, file.path))

    def listed(self) -> list[SystemFile]:
        """Return the files that can be read, in order."""
        return [file for file in self.every() if not file.reason]

    def _examine(self, path: str, found: FoundName) -> SystemFile:
        known = self._known.get(path)
        if known is not None and known.signature == found.signature and not found.is_link:
            return known
        rank = 0 if path == OBJECTIVE else 1 if path == CONSTRAINTS else 2 if path.startswith(PINNED) else 3
        signature, first_line, reason = found.signature, "", ""
        if any(name.startswith(".") for name in path.split("/")):
            reason = HIDDEN
        elif not is_plain(path):
            reason = BAD_NAME
        else:
            try:
                read = self.read_file(*path.split("/"))
                signature, first_line = read.signature, _first_line(decode(read.data))
            except BadFile as error:
                is_dangling = found.is_link and isinstance(error, FileMissing)
                reason = "link to a missing file" if is_dangling else error.reason
        return SystemFile(path, rank, signature, first_line, reason)

    def text(self, path: str) -> str:
        """Return a file's text without space at its ends, or an empty text if it cannot be read."""
        try:
            return self.load_file(tuple(path.split("/")), str.strip)[0]
        except BadFile:
            return ""


def _first_line(text: str) -> str:
    return next((line for line in (line.strip().lstrip("#").strip() for line in text.split("\n")) if line), "")
