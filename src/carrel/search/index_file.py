"""The file of the index: open, create or replace it, and share it with other processes.

One connection writes. A thread that reads has its own connection, so it waits for no other reader or writer. Errors of
SQLite are raised as `IndexUnavailable`.
"""

import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from errno import ELOOP
from functools import cache
from pathlib import Path
from typing import Final

from carrel.core.errors import CarrelError
from carrel.files.atomic import FOLDER_MODE, locked

VERSION: Final = 6
"""Incremented whenever an index of an older version would give wrong answers."""
APPLICATION: Final = 0x43524C53
"""Marks a file as ours."""
MEMORY: Final = ":memory:"
"""The path of an index that is kept in memory."""

MAX_IDLE: Final = 4
"""Maximum number of idle connections for reading that are kept open."""
_CACHE_KB: Final = 8_192
"""Cache of a connection for reading, in KB; with a smaller one, a search reads the same pages again and again."""
_BUSY_MS: Final = 5_000
_JOURNAL_BYTES: Final = 4 << 20
_LAYOUT: Final = """
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uri TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL, scheme TEXT NOT NULL,
    path TEXT NOT NULL, title TEXT NOT NULL, language TEXT NOT NULL, modified_ms INTEGER, is_partial INTEGER NOT NULL,
    traits INTEGER NOT NULL, lines_each INTEGER NOT NULL, pieces INTEGER NOT NULL, size INTEGER NOT NULL
);
CREATE TABLE dead (number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, pieces INTEGER NOT NULL);
CREATE TABLE vocabulary (id INTEGER PRIMARY KEY AUTOINCREMENT, words BLOB NOT NULL);
CREATE TABLE records (id INTEGER PRIMARY KEY, fields TEXT NOT NULL, vector BLOB);
CREATE VIRTUAL TABLE words USING fts5 (terms, content='', tokenize='ascii', detail=none, columnsize=0);
"""
_SHADOWS: Final = ("words_", "sqlite_")
_REASONS: Final = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_CANTOPEN: "read-only",
    sqlite3.SQLITE_PERM: "read-only",
    sqlite3.SQLITE_CORRUPT: "broken",
    sqlite3.SQLITE_NOTADB: "broken",
    sqlite3.SQLITE_ERROR: "broken",
}


class IndexUnavailable(CarrelError):
    """The index cannot be used now.

    `reason` is one of `busy`, `full`, `read-only`, `newer` (a newer Carrel made it), `its folder is not private`,
    `this SQLite has no FTS5`, `closed` (another thread closed it, or it was deleted a moment ago: try again), and
    `broken`: then it was replaced by an empty one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the search index cannot be used now: {reason}")
        self.reason = reason


class FileConnection(sqlite3.Connection):
    """A connection that knows which file it was opened for."""

    generation = 0


class SearchFile:
    """The file, with one connection to write and some to read. Safe to use from several threads."""

    def __init__(self, path: str) -> None:
        """Open or create the file at `path`; raise `IndexUnavailable` if that is not possible."""
        self.path = path
        self.generation = 0
        """A number that changes when the file is replaced; caches of its content are invalid then."""
        self.writer_lock = threading.RLock()
        self._idle_lock = threading.Lock()
        """Guards the attributes below. It is held only briefly; if both locks are needed, the writer's comes first."""
        self._idle: list[FileConnection] = []
        self._is_closed = False
        with self._faults(), self.writer_lock:
            self._open()

    def _open(self) -> None:
        with self._idle_lock:
            self.generation += 1
            self._is_closed = False
        self._identity: tuple[tuple[int, int], ...] = ()
        if self.path == MEMORY:
            self.writer = _connected(MEMORY)
            self.writer.generation = self.generation
            self._make(self.writer)
            return
        folder = os.path.dirname(self.path) or "."
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        _check_private(folder)
        with locked(self.path):
            self.writer = self._opened()
        self._identity = self._identity_now()

    def _opened(self) -> FileConnection:
        """Return a connection to a file of our version; an unusable file is replaced by an empty one."""
        connection: FileConnection | None = None
        try:
            connection = self._connected()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application == APPLICATION and version > VERSION:
                raise IndexUnavailable("newer")
            if (application, version) == (APPLICATION, VERSION) and _has_our_layout(connection):
                connection.execute("SELECT count(*) FROM words WHERE words MATCH 'a'").fetchone()
                return connection
        except sqlite3.DatabaseError as error:
            if _reason_of(error) != "broken":
                raise
        if connection is not None:
            connection.close()
        self._delete()
        connection = self._connected()
        self._make(connection)
        return connection

    def _connected(self) -> FileConnection:
        # Only SQLite may open the file: closing any other handle would give up all locks of this process on it.
        if os.path.islink(self.path):
            raise OSError(ELOOP, "the index is a link")
        private = _address(f"{self.path}.lock").removeprefix("file://")
        return _connected(f"{_address(self.path)}?mode=rwc&modeof={private}", is_uri=True)

    def _make(self, connection: sqlite3.Connection) -> None:
        # One transaction, and the mark last: a process that is killed here leaves a file that is not ours yet.
        marks = f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};"
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {_LAYOUT} {marks} COMMIT;")
        except sqlite3.OperationalError as error:
            if "no such module" in str(error):
                raise IndexUnavailable("this SQLite has no FTS5") from None
            raise

    def _delete(self) -> None:
        for ending in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path + ending)

    def _identity_now(self) -> tuple[tuple[int, int], ...]:
        """Return which files these are: SQLite itself replaces none of them while a connection is open."""
        return tuple(_number_of(self.path + ending) for ending in ("", "-wal", "-shm"))

    def close(self) -> None:
        """Close the file; connections in use are closed when they are returned."""
        with self.writer_lock, self._idle_lock:
            self._is_closed = True
            while self._idle:
                self._idle.pop().close()
            self.writer.close()

    def reset(self) -> None:
        """Delete everything, and begin with an empty file."""
        with self._faults(), self.writer_lock:
            self.close()
            if self.path != MEMORY:
                with locked(self.path):
                    self._delete()
            self._open()

    @contextlib.contextmanager
    def reading(self) -> Iterator[FileConnection]:
        """Yield a connection for reading; all reads within see the same state."""
        with self._faults(), self._followed(), self._lent() as connection:
            is_outer = not connection.in_transaction
            if is_outer:
                connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if is_outer and connection.in_transaction:
                    connection.execute("COMMIT")

    @contextlib.contextmanager
    def _lent(self) -> Iterator[FileConnection]:
        """Yield a connection that no other thread uses meanwhile; an index in memory has only one."""
        if self.path == MEMORY:
            with self.writer_lock:
                yield self.writer
            return
        connection = self._borrow()
        try:
            yield connection
        finally:
            with self._idle_lock:
                is_kept = not self._is_closed and connection.generation == self.generation
                is_kept = is_kept and not connection.in_transaction and len(self._idle) < MAX_IDLE
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()

    def _borrow(self) -> FileConnection:
        with self._idle_lock:
            if self._is_closed:
                raise IndexUnavailable("closed")
            if self._idle:
                return self._idle.pop()
            generation = self.generation
        try:
            connection = _connected(f"{_address(self.path)}?mode=rw", is_uri=True)
        except sqlite3.OperationalError as error:
            if _reason_of(error) == "read-only" and self._identity_now() != self._identity:
                raise IndexUnavailable("closed") from error  # it was deleted a moment ago
            raise
        connection.generation = generation
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
        if self._identity_now() != self._identity or generation != self.generation:
            connection.close()
            raise IndexUnavailable("closed")
        return connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for writing; everything is committed at the end, or nothing."""
        with self._faults(), self._followed(), self.writer_lock:
            connection = self.writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _followed(self) -> Iterator[None]:
        """Open the file again if another process replaced it. The caller must not hold a lock."""
        if self.path != MEMORY and self._identity_now() != self._identity:
            with self.writer_lock:
                self._follow(self._identity_now())
        yield

    def _follow(self, now: tuple[tuple[int, int], ...]) -> None:
        if self._is_closed or now == self._identity:
            return
        if now[0] == self._identity[0]:
            self.reset()  # the journal was taken away, with what was only there
        else:
            self.close()
            self._open()

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason = _reason_of(error)
            if reason == "broken":
                self._mend()
            raise IndexUnavailable(reason) from error
        except OSError as error:
            raise IndexUnavailable("read-only") from error

    def _mend(self) -> None:
        with contextlib.suppress(IndexUnavailable, sqlite3.Error, OSError):
            self.reset()


def _has_our_layout(connection: sqlite3.Connection) -> bool:
    """Return whether a file has our tables and nothing else: no view that never ends, no trigger."""
    found = {name: sql for _, name, sql in _schema(connection)}
    expected = _our_schema()
    own = {name: sql for _, name, sql in expected if not name.startswith(_SHADOWS)}
    kinds = {(kind, name) for kind, name, _ in expected}
    # The tables that SQLite makes for FTS5 are written in other words by other versions.
    return all((kind, name) in kinds for kind, name, _ in _schema(connection)) and own.items() <= found.items()


@cache
def _our_schema() -> list[tuple[str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(MEMORY)) as fresh:
        fresh.executescript(_LAYOUT)
        return _schema(fresh)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    return connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()


def _check_private(folder: str) -> None:
    """Raise if another user could have written files to a folder, because the files are trusted."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise IndexUnavailable("its folder is not private")


def _number_of(path: str) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return (0, 0)
    return (state.st_dev, state.st_ino)


def _address(path: str) -> str:
    return Path(path).absolute().as_uri()


def _connected(path: str, *, is_uri: bool = False) -> FileConnection:
    connection = sqlite3.connect(
        path,
        timeout=_BUSY_MS / 1_000,
        isolation_level=None,
        check_same_thread=False,
        factory=FileConnection,
        uri=is_uri,
    )
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={_JOURNAL_BYTES}")
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA trusted_schema=OFF")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _reason_of(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return _REASONS.get(code & 0xFF, "read-only")
