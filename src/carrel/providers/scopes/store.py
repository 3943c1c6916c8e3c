"""The file the scopes are kept in: opened, created, migrated; read in snapshots, written in transactions.

A store that does not exist is empty: `reading` gives None, and nothing is created. A
writer takes SQLite's write lock first, so that what it reads and checks is what it
changes. The file comes into being complete, under its name, or not at all; one that is
replaced by another is opened anew.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import uniform
from time import monotonic, sleep
from typing import Final

from carrel.private import FILE_MODE, FOLDER_MODE
from carrel.providers.scopes import schema
from carrel.providers.scopes.faults import ScopeError, StoreFault
from carrel.value import Value

BUSY_MS: Final = 5_000
_PAUSE_S: Final = (0.000_5, 0.004)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_SAFE: Final = frozenset(b"/-._~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

Identity = tuple[int, int]
"""Device and inode: another file under the same name is another store."""


class Held(Value, frozen=True):
    """A connection, the thread it is for, and the file it was opened on."""

    thread: threading.Thread
    identity: Identity
    connection: sqlite3.Connection


class Store:
    """One store. Safe to use from several threads; each has its own connections."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._held: dict[tuple[int, str], Held] = {}
        self._lock = threading.Lock()
        self._poll: Held | None = None
        self._polling = threading.Lock()
        self._generation = 0

    def identity(self) -> Identity | None:
        """Tell which file is there now; None if there is none."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreFault(f"{self.path} cannot be opened: {error.strerror}") from None
        return found.st_dev, found.st_ino

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give a snapshot to read from, the same from the first query to the last; None for an empty store."""
        with self._translated():
            connection = self._connection("ro")
            if connection is None:
                yield None
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self, *, is_rehearsal: bool = False) -> Iterator[sqlite3.Connection]:
        """Give a transaction that holds the write lock; it is committed at the end, unless it is a rehearsal."""
        with self._translated():
            if is_rehearsal and self.identity() is None:
                with blank() as connection:
                    connection.execute("BEGIN")
                    yield connection
                return
            connection = self._begin()
            try:
                yield connection
                connection.execute("ROLLBACK" if is_rehearsal else "COMMIT")
            finally:
                connection.rollback()

    def stamp(self) -> str | None:
        """Give a token that moves with every commit, whoever made it; None for an empty store.

        SQLite counts commits for each connection by itself, so one connection serves for this alone.
        """
        with self._translated(), self._polling:
            held = self._poll
            identity = self.identity()
            if held is None or held.identity != identity:
                self._stop_polling()
                connection = None if identity is None else self._open("ro")
                if identity is None or connection is None:
                    return None
                self._generation += 1
                held = self._poll = Held(threading.current_thread(), identity, connection)
            version = held.connection.execute("PRAGMA data_version").fetchone()[0]
            return f"{self._generation}:{version}"

    def _stop_polling(self) -> None:
        held, self._poll = self._poll, None
        if held is not None:
            held.connection.close()

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        with self._polling:
            self._stop_polling()
        with self._lock:
            held, self._held = self._held, {}
        # Those that may write come last: the last one out folds the log into the file.
        for _, one in sorted(held.items(), key=lambda item: item[0][1] == "rw"):
            one.connection.close()

    # Connections

    def _connection(self, mode: str) -> sqlite3.Connection | None:
        """Give this thread's connection of a kind, opened anew where the file is another one."""
        identity = self.identity()
        place = threading.get_ident(), mode
        held = self._held.get(place)
        if held is not None:
            if held.thread is threading.current_thread() and held.identity == identity:
                return held.connection
            self._drop(place)
        if identity is None:
            return None
        connection = self._open(mode)
        if connection is not None:
            self._tidy()
            with self._lock:
                self._held[place] = Held(threading.current_thread(), identity, connection)
        return connection

    def _open(self, mode: str) -> sqlite3.Connection | None:
        """Open the file as it is, or after its migration; None if nothing was ever written to it."""
        connection = connect(self.path, mode)
        try:
            version = self._version(connection)
            if version == 0:
                connection.close()
                return None
            if version < schema.VERSION:
                self._migrate()
            connection.executescript(schema.TEMPORARY)
        except BaseException:
            connection.close()
            raise
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        """Give the store's version, 0 for a file without tables; refuse what is no store of ours."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > schema.VERSION:
            known = schema.VERSION
            raise StoreFault(
                f"{self.path} has version {version}; this Carrel knows versions up to {known}: update Carrel"
            )
        has_tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] > 0
        if version == 0 and has_tables:
            raise StoreFault(f"{self.path} is a SQLite database, but not a store of scopes")
        return version if has_tables else 0

    def _drop(self, place: tuple[int, str]) -> None:
        with self._lock:
            held = self._held.pop(place, None)
        if held is not None:
            held.connection.close()

    def _tidy(self) -> None:
        """Close the connections of threads that are gone."""
        for place, held in tuple(self._held.items()):
            if not held.thread.is_alive():
                self._drop(place)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Say in our words what SQLite refused; a connection that broke is not used again."""
        try:
            yield
        except sqlite3.Error as error:
            for mode in ("ro", "rw"):
                self._drop((threading.get_ident(), mode))
            if is_busy(error):
                raise ScopeError("BUSY", "Store is busy") from error
            raise StoreFault(f"{self.path}: {error}") from error

    # Writing

    def _begin(self) -> sqlite3.Connection:
        """Begin to write to the file that has the name now; it is made if there is none."""
        while True:
            connection = self._connection("rw")
            if connection is None:
                self._create()
                continue
            take_lock(connection)
            held = self._held[threading.get_ident(), "rw"]
            if held.identity == self.identity():
                return connection
            connection.rollback()

    def _create(self) -> None:
        """Make the store under another name, complete, and give it its own."""
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, FOLDER_MODE, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreFault(f"{folder} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            identity = self.identity()
            if identity is None:
                self._make(handle)
            elif os.path.getsize(self.path) == 0 or self._is_blank():
                with _closing(connect(self.path, "rw")) as connection:
                    _lay_out(connection)
        except OSError as error:
            raise StoreFault(f"{self.path} cannot be written: {error.strerror}") from None
        finally:
            os.close(handle)

    def _make(self, folder: int) -> None:
        made = f"{self.path}.new"
        for name in (made, f"{made}-wal", f"{made}-shm", f"{self.path}-wal", f"{self.path}-shm"):
            # What a crash left, or what belonged to a store that was removed: it would be taken for the new one's.
            with suppress(FileNotFoundError):
                os.unlink(name)
        with _closing(_connect_new(made)) as connection:
            _lay_out(connection)
        os.rename(made, self.path)
        os.fsync(folder)

    def _is_blank(self) -> bool:
        with _closing(connect(self.path, "ro")) as connection:
            return self._version(connection) == 0

    def _migrate(self) -> None:
        """Bring the store to our version, in one transaction, after a copy; whoever comes second finds it done."""
        with _closing(connect(self.path, "rw")) as connection:
            take_lock(connection)
            try:
                old = self._version(connection)
                if 0 < old < schema.VERSION:
                    self._keep_copy(old)
                    for version in range(old, schema.VERSION):
                        run_script(connection, schema.STEPS[version])
                    connection.execute(f"PRAGMA user_version = {schema.VERSION}")
                    connection.execute("COMMIT")
            finally:
                connection.rollback()

    def _keep_copy(self, old: int) -> None:
        kept = f"{self.path}.bak-v{old}"
        with suppress(FileNotFoundError):
            os.unlink(f"{kept}.new")
        with _closing(connect(self.path, "ro")) as source, _closing(_connect_new(f"{kept}.new")) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        os.rename(f"{kept}.new", kept)


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Open a file as the store wants it: foreign keys on, nothing lost in a crash, patient."""
    spelled = "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(path))
    connection = sqlite3.connect(
        f"file:{spelled}?mode={mode}",
        uri=True,
        timeout=BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_new(path: str) -> sqlite3.Connection:
    """Make a file for the user alone and open it; SQLite gives the files beside it the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
    return connect(path, "rw")


def take_lock(connection: sqlite3.Connection) -> None:
    """Begin a transaction that may write.

    SQLite itself would ask again at ever longer intervals, so that under load some wait for
    seconds while others pass them. Short and uneven ones give everybody their turn.
    """
    deadline = monotonic() + BUSY_MS / 1000
    connection.execute("PRAGMA busy_timeout = 0").close()
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or monotonic() >= deadline:
                    raise
                sleep(uniform(*_PAUSE_S))
            else:
                return
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}").close()


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether somebody else had the lock for too long."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF in _BUSY


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements inside the present transaction, which `executescript` would commit."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _lay_out(connection: sqlite3.Connection) -> None:
    """Make the tables in a new database."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL").close()
    take_lock(connection)
    try:
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0:
            run_script(connection, schema.TABLES)
            connection.execute(f"PRAGMA user_version = {schema.VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.rollback()
    connection.executescript(schema.TEMPORARY)


@contextmanager
def blank() -> Iterator[sqlite3.Connection]:
    """Give an empty store that nobody will see again."""
    with _closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _lay_out(connection)
        yield connection


@contextmanager
def _closing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    finally:
        connection.close()
