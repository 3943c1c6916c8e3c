"""The state of an index on disk, seen without opening it: opening makes a broken index anew, and writes."""

import fcntl
import os
import sqlite3
import struct
from contextlib import closing
from typing import Final

from carrel.core.record import Value
from carrel.search.index_file import APPLICATION
from carrel.search.store import FILE

_MAGIC: Final = b"SQLite format 3\0"
_MARK_AT: Final = 68
_LOCK: Final = struct.Struct("hhqqi4x")
_SHARED_BYTE: Final = 128
"""The byte of SQLite's shared-memory file that every open connection locks."""


class IndexState(Value, frozen=True):
    """An index: when it was last written, in seconds since 1970; whether it is damaged, or open in another process."""

    path: str
    written_s: float
    is_broken: bool
    is_in_use: bool


def look_at(folder: str | None) -> IndexState | None:
    """Return the state of the index in a folder; None if there is none."""
    path = "" if folder is None else os.path.join(folder, FILE)
    if not os.path.isfile(path):
        return None
    is_in_use = _is_in_use(path)  # first: to close a file of the index would give up our own locks on it
    journal = f"{path}-wal"
    written_s = max(os.stat(one).st_mtime for one in (path, journal) if os.path.exists(one))
    has_journal = os.path.exists(journal) and os.path.getsize(journal) > 0
    return IndexState(path, written_s, _is_broken(path, has_journal=has_journal), is_in_use)


def _is_broken(path: str, *, has_journal: bool) -> bool:
    with open(path, "rb") as file:
        head = file.read(_MARK_AT + 4)
    if not head:
        return False  # a process was killed while it made the index
    if head[: len(_MAGIC)] != _MAGIC or int.from_bytes(head[_MARK_AT:], "big") != APPLICATION:
        return True
    if has_journal:
        return False  # the journal has changes that the file does not have yet
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            connection.execute("SELECT count(*) FROM documents").fetchone()
            connection.execute("SELECT count(*) FROM words WHERE words MATCH 'a'").fetchone()
    except sqlite3.DatabaseError:
        return True
    return False


def _is_in_use(path: str) -> bool:
    """Return whether another process has the index open: every connection to it holds a lock."""
    try:
        with open(f"{path}-shm", "r+b") as shared:
            asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_BYTE, 1, 0)
            kind, *_ = _LOCK.unpack(fcntl.fcntl(shared, fcntl.F_GETLK, asked))
    except (OSError, struct.error):
        return False
    return bool(kind != fcntl.F_UNLCK)
