"""The names of the tracked files, from git's index.

It is parsed here because a list of files needs its names, and loading a library would take longer than the rest of the
list. The bytes may be a stranger's: an index that is too large, cut, or only a part of a split index is refused.
"""

from collections.abc import Iterator
from typing import Final

from carrel.files.sandbox import Opened, Root

MAX_INDEX_BYTES: Final = 64 << 20
MAX_NAME_BYTES: Final = 4_096
"""Length of a name: no system opens a longer path."""

STAT_BYTES: Final = 40
"""Length of a file's state at the start of its entry; the name of its content, flags and its own name follow."""
EXTENDED: Final = 0x4000
_HEAD_BYTES: Final = 12
_NAME_BITS: Final = 0x0FFF
_MAX_CONFIG_BYTES: Final = 262_144


class UnreadableIndex(Exception):
    """The file is not a whole index of a known version."""


def read_index(opened: Opened, id_bytes: int) -> "IndexFile":
    """Return an open index of a repository whose object names have `id_bytes`; raise `UnreadableIndex`."""
    if opened.is_folder or opened.size > MAX_INDEX_BYTES:
        raise UnreadableIndex
    return IndexFile(opened.read(0, MAX_INDEX_BYTES), id_bytes)


class IndexFile:
    """The bytes of an index of version 2, 3 or 4."""

    def __init__(self, data: bytes, id_bytes: int) -> None:
        self.data = data
        self._id_bytes = id_bytes
        self.tree = b""
        """The name of the tree that all files make up, if the index has it; known after `names`."""

    def names(self) -> Iterator[tuple[bytes, int]]:
        """Yield each name, and where its entry begins; raise `UnreadableIndex`."""
        data = self.data
        version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
        if data[:4] != b"DIRC" or version not in (2, 3, 4):
            raise UnreadableIndex
        at, name = _HEAD_BYTES, b""
        try:
            for _ in range(count):
                start = at
                name, at = self._next_name(start, name, is_compressed=version == 4)
                if not 0 < len(name) <= MAX_NAME_BYTES:
                    raise UnreadableIndex
                yield name, start
        except (IndexError, ValueError):  # it ends too early
            raise UnreadableIndex from None
        self._read_extensions(at)

    def _next_name(self, start: int, before: bytes, *, is_compressed: bool) -> tuple[bytes, int]:
        """Return the name of the entry at `start`, and where the next entry begins."""
        data = self.data
        at = start + STAT_BYTES + self._id_bytes
        flags = data[at] << 8 | data[at + 1]
        at += 4 if flags & EXTENDED else 2
        if is_compressed:  # only what differs from the end of the name before
            dropped, at = _number(data, at)
            if dropped > len(before):
                raise UnreadableIndex
            end = data.index(b"\0", at)
            return before[: len(before) - dropped] + data[at:end], end + 1
        length = flags & _NAME_BITS
        end = at + length if length < _NAME_BITS else data.index(b"\0", at)
        return data[at:end], start + ((end - start + 8) & ~7)  # 1 to 8 zeros follow the name

    def _read_extensions(self, at: int) -> None:
        """Read what follows the files; raise `UnreadableIndex` if the names are partly in another file."""
        data = self.data
        while at + 8 <= len(data) - self._id_bytes:  # a checksum of this length ends the file
            kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "big")
            if kind == b"link":
                raise UnreadableIndex
            if kind == b"TREE":
                start, _, rest = data[at + 8 : at + 8 + length].partition(b"\n")
                is_valid = start.startswith(b"\0") and start[1:].split(b" ")[0].isdigit()
                self.tree = rest[: self._id_bytes].hex().encode() if is_valid else b""
            at += 8 + length


def read_id_bytes(root: Root, config: tuple[str, ...]) -> int:
    """Return the length of object names in the repository with this configuration file: that of SHA-1 or SHA-256."""
    with root.open(config) as opened:
        text = opened.read(0, _MAX_CONFIG_BYTES).lower()
    return 32 if b"objectformat" in text and b"sha256" in text else 20


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, as git spells offsets, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | (byte & 0x7F)
        if value > MAX_INDEX_BYTES:
            raise UnreadableIndex
    return value, at + 1
