"""The SQLite file that holds the scopes: open, create and migrate it; read snapshots, write transactions.

A store that does not exist is empty: `reading` yields None, and nothing is created. A writer first takes SQLite's write
lock, so that nothing changes between its checks and its changes. A new file gets its name only when it is complete. A
file that was replaced is opened again.

The file may be hostile. It is queried only while its schema is the right one, and every statement has a limit
(`sqlite`).
"""

import fcntl
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from random import uniform
from time import monotonic, sleep
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.core.limits import STORE_READ_S, STORE_WRITE_S
from carrel.core.record import Value
from carrel.files.atomic import FILE_MODE
from carrel.files.sandbox import Root
from carrel.providers.scopes import schema, sqlite
from carrel.providers.scopes.location import BESIDE, Identity, Location, StoreFile, named, open_descriptors
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault
from carrel.providers.scopes.sqlite import StoreConnection, connect

_PAUSE_S: Final = (0.000_5, 0.004)
_TRIES: Final = 4
_NOT_OURS: Final = "The store is not read: its schema is not that of a store of scopes"


class HeldConnection(Value, frozen=True):
    """A connection, the thread that uses it, and its file."""

    thread: threading.Thread
    found: StoreFile
    connection: StoreConnection


class Store:
    """One store. Safe to use from several threads: each has its own connections."""

    def __init__(self, place: str | Location, *, read_s: float = STORE_READ_S, write_s: float = STORE_WRITE_S) -> None:
        """Take a location, or a path that the user gave. Nothing is opened yet."""
        self.location = named(place) if isinstance(place, str) else place
        self.path = self.location.path
        self.read_s = read_s
        self.write_s = write_s
        self._held: dict[tuple[int, str], HeldConnection] = {}
        self._lock = threading.Lock()
        self._threads: Counter[int] = Counter()
        self._poll: HeldConnection | None = None
        self._polling = threading.Lock()
        self._generation = 0
        self._is_closed = False

    def identity(self) -> Identity | None:
        """Return which file is there now, or None."""
        return self.location.identity()

    @property
    def is_frozen(self) -> bool:
        """Whether the file is frozen, so that changes by other programs may not be seen."""
        found = self.location.look()
        return found is not None and found.is_frozen

    @contextmanager
    def reading(self) -> Iterator[StoreConnection | None]:
        """Yield a connection with one snapshot from the first query to the last; None for an empty store."""
        with self._translated(), self._busy():
            connection = self._begin_reading()
            if connection is None:
                yield None
                return
            try:
                yield connection
            finally:
                self._end(connection)

    @contextmanager
    def writing(self, *, is_rehearsal: bool = False, is_long: bool = False) -> Iterator[StoreConnection]:
        """Yield a connection with a transaction that holds the write lock, and commit it unless it is a rehearsal.

        Other writers wait for a transaction that `is_long`, such as an import, as long as it takes.
        """
        with self._translated():
            if is_rehearsal and self.identity() is None:
                with empty_store() as connection:
                    connection.execute("BEGIN")
                    yield connection
                return
            if self.identity() is None:
                self._create()
            with self._announced() if is_long else nullcontext(), self._busy():
                connection = self._begin_writing()
                try:
                    yield connection
                    connection.execute("ROLLBACK" if is_rehearsal else "COMMIT")
                finally:
                    self._end(connection)

    def stamp(self) -> str | None:
        """Return a token that changes with every commit of any process; None for an empty store.

        SQLite counts the commits of others for each connection, so one connection serves only for this.
        """
        with self._translated(), self._polling:
            try:
                held = self._poll
                if held is None or not self._is_current(held):
                    self._stop_polling()
                    opened = self._open("ro")
                    if opened is None:
                        return None
                    self._generation += 1
                    held = self._poll = opened
                held.connection.allow_time(self.read_s)
                version = held.connection.execute("PRAGMA data_version").fetchone()[0]
                return f"{self._generation}:{version}"
            finally:
                if self._is_closed:
                    self._stop_polling()
                    self.location.close()

    def _stop_polling(self) -> None:
        held, self._poll = self._poll, None
        if held is not None:
            held.connection.close()

    def close(self) -> None:
        """Close every connection, and interrupt running statements; a second call does nothing.

        A thread that still uses the store afterwards gets an answer, and leaves nothing open.
        """
        with self._lock:
            self._is_closed = True
            idle = {place: held for place, held in self._held.items() if place[0] not in self._threads}
            used = [held for place, held in self._held.items() if place not in idle]
            self._held = {}
        for held in used:
            held.connection.interrupt()  # its own thread closes it: to close it meanwhile would crash the process
        with self._polling:
            self._stop_polling()
        # Connections that may write come last: the last one folds the write-ahead log into the file.
        for _, held in sorted(idle.items(), key=lambda item: item[0][1] == "rw"):
            held.connection.close()
        self.location.close()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Mark this thread as one that uses its connections: `close` leaves them to it."""
        thread = threading.get_ident()
        with self._lock:
            self._threads[thread] += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= Counter([thread])
            if self._is_closed:
                self.location.close()

    def _end(self, connection: StoreConnection) -> None:
        """End a transaction; close its connection if the store was closed meanwhile."""
        connection.rollback()
        if all(held.connection is not connection for held in tuple(self._held.values())):
            connection.close()

    # Connections

    def _begin_reading(self) -> StoreConnection | None:
        """Begin a snapshot of a store with the right schema."""
        for _ in range(_TRIES):
            connection = self._connection("ro")
            if connection is None:
                return None
            connection.allow_time(self.read_s)
            connection.execute("BEGIN")
            if self._is_unchanged(connection):
                return connection
        raise StoreFault(f"{self.path} changes all the time")

    def _is_unchanged(self, connection: StoreConnection) -> bool:
        """Return whether the schema is still the one that was checked; else drop the connection."""
        if connection.execute("PRAGMA schema_version").fetchone()[0] == connection.checked:
            return True
        self._drop_own()
        return False

    def _connection(self, mode: str) -> StoreConnection | None:
        """Return this thread's connection for a mode; open it again if the file was replaced.

        The connections of threads that have ended are closed.
        """
        place = threading.get_ident(), mode
        held = self._held.get(place)
        if held is not None:
            if held.thread is threading.current_thread() and self._is_current(held):
                return held.connection
            self._drop(place)
        opened = self._open(mode)
        if opened is None:
            return None
        for other, held in tuple(self._held.items()):
            if not held.thread.is_alive():
                self._drop(other)
        with self._lock:
            if not self._is_closed:
                self._held[place] = opened
        return opened.connection

    def _is_current(self, held: HeldConnection) -> bool:
        """Return whether a connection belongs to the file that has the name now."""
        if held.found.is_frozen:
            return self.location.look() == held.found
        try:
            now = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == held.found.identity

    def _open(self, mode: str) -> HeldConnection | None:
        """Open the file, after a migration if it needs one; None if nothing was ever written to it."""
        found = self.location.look()
        if found is None:
            return None
        connection = self._connect(found, mode)
        try:
            version = self._checked_version(connection)
            if 0 < version < schema.VERSION:
                self._migrate(found)
            connection.executescript(schema.TEMPORARY)
        except BaseException:
            connection.close()
            raise
        if version == 0:
            connection.close()
            return None
        connection.watch_time()
        return HeldConnection(threading.current_thread(), found, connection)

    def _connect(self, found: StoreFile, mode: str) -> StoreConnection:
        """Connect to a file, and check that it still has its name afterwards."""
        if mode == "rw" and found.is_frozen:
            raise StoreFault(f"{self.path} cannot be written: its folder is read-only")
        with self._limited_steps():
            connection = _connect_to(found.identity[:2], found.path, mode, is_frozen=found.is_frozen)
        if self.location.identity() != found.identity[:2]:
            connection.close()
            raise StoreFault(f"{self.path} was replaced while it was opened")
        return connection

    @contextmanager
    def _limited_steps(self) -> Iterator[None]:
        """Refuse a store whose schema takes more steps to read than the right one."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if not sqlite.is_ended(error):
                raise
            raise StoreFault(f"{self.path} is not a store of scopes: its schema is too large", _NOT_OURS) from None

    def _checked_version(self, connection: StoreConnection) -> int:
        """Return the store's version, 0 for a file without tables; raise `StoreFault` for any other file."""
        connection.allow_steps(sqlite.OPENING_STEPS)
        with self._limited_steps(), _snapshot(connection):
            connection.checked = int(connection.execute("PRAGMA schema_version").fetchone()[0])
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > schema.VERSION:
                raise StoreFault(
                    f"{self.path} has version {version}; this Carrel knows versions up to {schema.VERSION}: "
                    "update Carrel"
                )
            if not schema.parts(connection):
                return 0
            if version < 1:
                raise StoreFault(f"{self.path} is a SQLite database, but not a store of scopes")
            if not schema.is_ours(connection, version):
                reason = f"its tables, views or triggers differ from those of version {version}"
                raise StoreFault(f"{self.path} is not a store of scopes: {reason}", _NOT_OURS)
            return version

    def _drop(self, place: tuple[int, str]) -> None:
        with self._lock:
            held = self._held.pop(place, None)
        if held is not None:
            held.connection.close()

    def _drop_own(self) -> None:
        for place in self._own_places():
            self._drop(place)

    def _own_places(self) -> list[tuple[int, str]]:
        return [(threading.get_ident(), mode) for mode in ("ro", "rw")]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into errors of scopes, and drop the connections of this thread."""
        try:
            yield
        except sqlite3.Error as error:
            own = [self._held[place].connection for place in self._own_places() if place in self._held]
            self._drop_own()
            if sqlite.is_busy(error):
                raise ScopeError("BUSY", "Store is busy") from error
            if sqlite.is_ended(error):
                check_cancelled()
                is_main = threading.current_thread() is threading.main_thread()
                if is_main and own and not any(one.deadline.is_over() for one in own):
                    raise KeyboardInterrupt from None  # SQLite swallowed it while it worked
                raise StoreFault(f"{self.path}: a query took too long; the store may be damaged") from error
            raise StoreFault(f"{self.path}: {error}") from error

    # Writing

    def _begin_writing(self) -> StoreConnection:
        """Begin to write to the file that has the name now; create it if there is none."""
        until = monotonic() + self.write_s
        while monotonic() < until:
            connection = self._connection("rw")
            if connection is None:
                self._create()
                continue
            self._take_lock(connection, until)
            connection.deadline.until = until
            if not self._is_current(self._held[threading.get_ident(), "rw"]):
                connection.rollback()
            elif self._is_unchanged(connection):
                return connection
        raise StoreFault(f"{self.path} changes all the time")

    def _take_lock(self, connection: StoreConnection, until: float) -> None:
        """Take the write lock; wait for a running import until the given time."""
        while True:
            try:
                take_lock(connection)
            except sqlite3.OperationalError as error:
                if not sqlite.is_busy(error) or monotonic() >= until or not self._is_announced():
                    raise
            else:
                return

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Hold a lock on the folder, which shows other writers that a long transaction runs."""
        with self.location.open_folder() as folder, _locked(folder):
            yield

    def _is_announced(self) -> bool:
        with self.location.open_folder() as folder:
            handle = _listing(folder)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(handle)
        return False

    def _create(self) -> None:
        """Create a complete store under a temporary name, and rename it."""
        with self.location.make() as folder:
            try:
                with _locked(folder) as handle:
                    found = self.location.look()
                    if found is None or self._is_blank(found):
                        self._make(folder, handle)
            except OSError as error:
                raise StoreFault(f"{self.path} cannot be written: {error.strerror}") from None

    def _make(self, folder: Root, handle: int) -> None:
        name = self.location.name
        for left in (f"{name}.new", *(f"{name}{end}{suffix}" for end in ("", ".new") for suffix in BESIDE)):
            # Left by a crash, or by a store that was removed: SQLite would take it for part of the new store.
            with suppress(FileNotFoundError):
                os.unlink(left, dir_fd=folder.fd)
        with closing(_connect_new(folder, f"{name}.new")) as connection:
            _create_tables(connection)
        os.rename(f"{name}.new", name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        os.fsync(handle)

    def _is_blank(self, found: StoreFile) -> bool:
        with closing(self._connect(found, "ro")) as connection:
            return self._checked_version(connection) == 0

    def _migrate(self, found: StoreFile) -> None:
        """Bring the store to the present version in one transaction, after a copy; the first process does it."""
        with closing(self._connect(found, "rw")) as connection:
            connection.allow_time(self.write_s)
            take_lock(connection)
            try:
                old = int(connection.execute("PRAGMA user_version").fetchone()[0])
                if 0 < old < schema.VERSION:
                    self._keep_copy(found, old)
                    _migrate_tables(connection, old)
                    connection.execute("COMMIT")
            finally:
                connection.rollback()

    def _keep_copy(self, found: StoreFile, old: int) -> None:
        kept = f"{self.location.name}.bak-v{old}"
        with self.location.open_folder() as folder:
            with suppress(FileNotFoundError):
                os.unlink(f"{kept}.new", dir_fd=folder.fd)
            with (
                closing(self._connect(found, "ro")) as source,
                closing(_connect_new(folder, f"{kept}.new")) as target,
            ):
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
            os.rename(f"{kept}.new", kept, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


@contextmanager
def _snapshot(connection: StoreConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


def _connect_new(folder: Root, name: str) -> StoreConnection:
    """Create a private file and open it; SQLite gives the files beside it the same mode."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, FILE_MODE, dir_fd=folder.fd)
    made = os.fstat(handle)
    os.close(handle)
    return _connect_to((made.st_dev, made.st_ino), os.path.join(folder.path, name), "rw")


def _connect_to(identity: Identity, path: str, mode: str, *, is_frozen: bool = False) -> StoreConnection:
    """Connect to this file; raise `StoreFault` if SQLite, which opens a path, opened another one."""
    connection = connect(path, mode, is_frozen=is_frozen)
    if open_descriptors(identity) == []:
        connection.close()
        raise StoreFault(f"{path} was replaced while it was opened")
    return connection


@contextmanager
def _locked(folder: Root) -> Iterator[int]:
    """Hold the lock of a folder; yield its handle."""
    handle = _listing(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _listing(folder: Root) -> int:
    """Open a folder again, for a lock that ends when this handle is closed."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.fd)


def take_lock(connection: sqlite3.Connection) -> None:
    """Begin a transaction that may write.

    SQLite itself waits at ever longer intervals, so that some writers starve under load. Short random pauses are fair.
    """
    deadline = monotonic() + sqlite.BUSY_MS / 1000
    connection.execute("PRAGMA busy_timeout = 0").close()
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not sqlite.is_busy(error) or monotonic() >= deadline:
                    raise
                sleep(uniform(*_PAUSE_S))
            else:
                return
    finally:
        connection.execute(f"PRAGMA busy_timeout = {sqlite.BUSY_MS}").close()


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements inside the present transaction; `executescript` would commit it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def _migrate_tables(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables of a version to the present version, inside the present transaction."""
    for older in range(version, schema.VERSION):
        run_script(connection, schema.STEPS[older])
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in a new database."""
    connection.execute("PRAGMA journal_mode = WAL").close()
    take_lock(connection)
    try:
        run_script(connection, schema.TABLES)
        _migrate_tables(connection, 1)
        connection.execute("COMMIT")
    finally:
        connection.rollback()
    connection.executescript(schema.TEMPORARY)


@contextmanager
def empty_store() -> Iterator[StoreConnection]:
    """Yield an empty store in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=StoreConnection)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        _create_tables(connection)
        yield connection
