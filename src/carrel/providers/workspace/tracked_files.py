"""Which hidden files git tracks: what a project commits below `.github/` is meant to be seen.

Only names are taken from git's index, and only those of which a part begins with a dot. The index is parsed here: a
list asks for it, and a library would cost more than the rest of the list. It is read by handle, within bounds, and
again only when it changed. Where it cannot be understood, or is only a part of a split index, nothing counts as
tracked, so hidden files stay hidden.
"""

import os
from collections.abc import Iterator
from time import monotonic
from typing import Final

from carrel.core.record import Value
from carrel.files.gitignore import octets
from carrel.files.sandbox import Opened, Root, SandboxError
from carrel.providers.workspace.ignore_rules import Segments

FRESH_S: Final = 1.0
"""How long an answer holds before the index is looked at again: as long as a client may keep one (`ttlMs`)."""
MAX_INDEX_BYTES: Final = 64 << 20
MAX_NAMES: Final = 50_000
"""Hidden files that are remembered; a repository with more of them is no ordinary one."""
MAX_NAME_BYTES: Final = 4_096
"""Length of a name in an index: no system opens a longer path."""
MAX_HELD: Final = 8 << 20
"""Characters of all names that are remembered, folders included: the names of one deep file make up many folders."""

INDEX_FILE: Final = (".git", "index")
_CONFIG: Final = (".git", "config")
_MAX_CONFIG_BYTES: Final = 262_144
_HEAD_BYTES: Final = 12
_STAT_BYTES: Final = 40
_EXTENDED: Final = 0x4000
_NAME_BITS: Final = 0x0FFF
_DOT: Final = ord(".")
_FOLDER_END: Final = ord("/")


class UnreadableIndex(Exception):
    """The index is none that is understood here."""


class Hidden(Value, frozen=True):
    """The hidden files that are tracked, and the folders they lie in, as octets from the root down."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


_NOTHING: Final = Hidden()


class Tracked:
    """The hidden names of one root that git tracks."""

    def __init__(self, root: Root, home: str) -> None:
        self._root = root
        self._home = home
        self._until = 0.0
        self._known: tuple[tuple[int, ...], Hidden] = ((), _NOTHING)

    def holds(self, way: str, name: str, *, is_folder: bool) -> bool:
        """Return whether a file is tracked, or anything in a folder; `way` leads there, as octets with a `/`."""
        if monotonic() > self._until:
            self._look()
        hidden = self._known[1]
        return way + octets(name) in (hidden.folders if is_folder else hidden.files)

    def look(self) -> Hidden:
        """Return what is tracked now; the index is looked at in any case."""
        self._look()
        return self._known[1]

    def forget(self) -> None:
        """Look at the index when it is asked for next."""
        self._until = 0.0

    def _look(self) -> None:
        until = monotonic() + FRESH_S
        try:
            self._look_at_index()
        except (SandboxError, OSError, UnreadableIndex):
            self._known = ((), _NOTHING)
        self._until = until

    def _look_at_index(self) -> None:
        try:
            opened = self._root.open(INDEX_FILE)
        except SandboxError:
            self._look_elsewhere()
            return
        with opened:
            self._take(opened, self._root, _CONFIG, ())

    def _look_elsewhere(self) -> None:
        """Look at the index of a linked work tree, or of a repository around the root."""
        if not _lies_in_repository(self._root.path):
            self._known = ((), _NOTHING)
            return
        from carrel.git.discovery import find  # a folder that is no repository needs none of it

        found = find(self._root.path, self._home)
        if found is None:
            raise UnreadableIndex
        try:
            with found.own.open(INDEX_FILE[1:]) as opened:
                self._take(opened, found.shared, _CONFIG[1:], found.prefix)
        finally:
            found.close()

    def _take(self, opened: Opened, shared: Root, config: Segments, prefix: Segments) -> None:
        state = opened.stat
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if key == self._known[0]:
            return
        if opened.is_folder or state.st_size > MAX_INDEX_BYTES:
            raise UnreadableIndex
        above = "".join(f"{octets(name)}/" for name in prefix)
        hidden = read_hidden(opened.read(0, MAX_INDEX_BYTES), _id_bytes(shared, config), above)
        self._known = (key, hidden)


def _lies_in_repository(path: str) -> bool:
    while not os.path.lexists(os.path.join(path, INDEX_FILE[0])):
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return True


def _id_bytes(shared: Root, config: Segments) -> int:
    """Return the length of an object's name in this repository: that of SHA-1, unless it says SHA-256."""
    with shared.open(config) as opened:
        text = opened.read(0, _MAX_CONFIG_BYTES).lower()
    return 32 if b"objectformat" in text and b"sha256" in text else 20


def read_hidden(data: bytes, id_bytes: int, above: str = "") -> Hidden:
    """Return the hidden names below a folder in an index; raise `UnreadableIndex` if it is not a whole index."""
    files: set[str] = set()
    folders: set[str] = set()
    start = above.encode("latin-1")
    held = 0
    try:
        for name in _names(data, id_bytes):
            if not name.startswith(start) or name[-1] == _FOLDER_END:
                continue
            inside = name[len(start) :]
            if inside[0] == _DOT or b"/." in inside:
                path = inside.decode("latin-1")
                files.add(path)
                held += len(path)
                above_it = path.rpartition("/")[0]
                while above_it and above_it not in folders:
                    folders.add(above_it)
                    held += len(above_it)
                    above_it = above_it.rpartition("/")[0]
                if len(files) > MAX_NAMES or held > MAX_HELD:
                    raise UnreadableIndex
    except (IndexError, ValueError):  # it ends too early
        raise UnreadableIndex from None
    return Hidden(frozenset(files), frozenset(folders))


def _names(data: bytes, id_bytes: int) -> Iterator[bytes]:
    """Yield the names in an index of version 2, 3 or 4."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndex
    at, name = _HEAD_BYTES, b""
    for _ in range(count):
        start = at
        at += _STAT_BYTES + id_bytes
        flags = data[at] << 8 | data[at + 1]
        at += 4 if flags & _EXTENDED else 2
        if version == 4:
            dropped, at = _number(data, at)
            if dropped > len(name):
                raise UnreadableIndex
            end = data.index(b"\0", at)
            name = name[: len(name) - dropped] + data[at:end]
            at = end + 1
        else:
            length = flags & _NAME_BITS
            end = at + length if length < _NAME_BITS else data.index(b"\0", at)
            name = data[at:end]
            at = start + ((end - start + 8) & ~7)  # with 1 to 8 zeros behind it
        if not 0 < len(name) <= MAX_NAME_BYTES:
            raise UnreadableIndex
        yield name
    _refuse_part(data, at, id_bytes)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length, as git's packs have it for offsets; return it and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1) << 7 | (byte & 0x7F)
        if value > MAX_INDEX_BYTES:
            raise UnreadableIndex
    return value, at + 1


def _refuse_part(data: bytes, at: int, id_bytes: int) -> None:
    """Raise for an index whose names are partly in another file."""
    while at + 8 <= len(data) - id_bytes:
        if data[at : at + 4] == b"link":
            raise UnreadableIndex
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
