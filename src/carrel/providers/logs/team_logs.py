"""Logs that other machines send, in the team's store: every replica receives lines, and every replica serves them.

Each replica mirrors the logs in a private folder with the layout of a project's folder, so that the same code reads and
writes them as without a store. The only writer of logs in all replicas adds a batch to its mirror first. Then it writes
the changes of the mirror to the store in the same transaction. If that fails, the mirror is deleted.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from typing import Final

from carrel.core.errors import ProviderError, RequestError
from carrel.core.record import Value
from carrel.core.store_address import StoreAddress
from carrel.providers.logs import spool
from carrel.providers.logs.log import KINDS, Kind, Retention
from carrel.providers.logs.log_index import POLL_S, LogIndex, States
from carrel.providers.logs.pushed_logs import Added, PushedLogs
from carrel.providers.logs.spooled_log import SpoolBounds
from carrel.providers.logs.uris import ID
from carrel.stores.change_count import ChangeCount
from carrel.stores.private_folder import PrivateFolder
from carrel.stores.session import StoreSession
from carrel.stores.shared import acquire, release
from carrel.stores.store_errors import StoreUnavailable

READ_S: Final = 25.0
WRITE_S: Final = 25.0
PAUSE_S: Final = 0.05
"""Minimum time between two looks of a watcher."""
_NAME_KEY: Final = "kind = ? AND name = ?"
_NEWS: Final = """
    SELECT kind, name, version, size, is_removed, modified_ns FROM carrel_logs WHERE generation > ?
    ORDER BY generation"""

Key = tuple[Kind, str]


class MirroredLog(Value, frozen=True):
    """A log in the mirror: its version and size in the store, and the file that has them."""

    version: int
    size: int
    inode: int
    modified_ns: int


class TeamLogs:
    """The logs of the team. Safe to use from several threads."""

    def __init__(self, address: StoreAddress, bounds: SpoolBounds, retention: Retention) -> None:
        """Take the address of a database. Nothing is connected yet."""
        self._database = acquire(address)
        self._lock = threading.RLock()
        self._generation = -1
        self._known: dict[Key, MirroredLog] = {}
        self._is_closed = False
        self._folder = PrivateFolder("logs")
        self.root = self._folder.path
        self._bounds, self._retention = bounds, retention
        self._pushed = PushedLogs(self.root, bounds, retention)

    def refresh(self) -> None:
        """Bring the mirror up to date; raise `StoreUnavailable`."""
        if self._database.generation("logs") == self._generation:
            return
        with self._lock, self._database.reading(READ_S) as session:
            [(generation,)] = session.execute("SELECT generation FROM generations WHERE kind = 'logs'").fetchall()
            self._follow(session, generation)

    @property
    def changes(self) -> ChangeCount:
        """Return the number of changes by any replica, if this process hears of changes."""
        return self._database.log_changes

    def append(self, kind: Kind, name: str, data: bytes) -> Added:
        """Add a batch to a log, which is begun if it does not exist; return what became of it."""
        added: Added | ProviderError
        with self._writing() as session:
            try:
                added = self._pushed.append(kind, name, data)
                _record(session, added)
            except ProviderError as error:
                if isinstance(error.__cause__, OSError):
                    raise
                added = error  # there is no room, but old logs were removed and that is stored
        if isinstance(added, ProviderError):
            raise added
        return added

    def restore(self, kind: Kind, name: str, data: bytes, modified_ns: int) -> None:
        """Write a whole log, in place of the old one."""
        with self._writing() as session, spool.opened(self.root, kind, is_made=True) as folder:
            spool.write_mirrored(folder, name, data, is_new=True, modified_ns=modified_ns)
            session.record(f"logs://{kind}/{name}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[StoreSession]:
        """Hold the lock of all writers, with a current mirror; at the end, store the changes of the mirror."""
        with self._lock:
            try:
                with self._database.writing("logs", WRITE_S) as session:
                    # Nobody else can write now: this is all that was written before.
                    self._follow(session, session.generation - 1)
                    yield session
                    self._store_changes(session)
                self._generation = session.generation
            except RequestError:
                raise  # refused before anything was changed
            except BaseException:
                self._forget()  # it may be ahead of the store
                raise

    def close(self) -> None:
        """Remove the mirror and release the database; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._folder.close()
            release(self._database)

    # From the store

    def _follow(self, session: StoreSession, generation: int) -> None:
        """Apply the changes since the last query."""
        if generation < self._generation:  # another database under the address
            self._forget()
        rows = session.execute(_NEWS, (self._generation,)).fetchall()
        for kind, name, version, size, is_removed, modified_ns in rows:
            if kind in KINDS and ID.fullmatch(name):
                self._apply(session, (kind, name), None if is_removed else (version, size, modified_ns))
        self._generation = generation

    def _apply(self, session: StoreSession, key: Key, wanted: tuple[int, int, int] | None) -> None:
        known = self._known.pop(key, None)
        if wanted is None:
            with contextlib.suppress(OSError), spool.opened(self.root, key[0]) as folder:
                os.unlink(key[1] + spool.SUFFIX, dir_fd=folder)
            return
        version, size, modified_ns = wanted
        start = known.size if known is not None and known.version == version and known.size <= size else 0
        statement = f"SELECT data FROM carrel_log_chunks WHERE {_NAME_KEY} AND start >= ? ORDER BY start"
        data = b"".join(bytes(part) for (part,) in session.execute(statement, (*key, start)))
        with spool.opened(self.root, key[0], is_made=True) as folder:
            inode = spool.write_mirrored(folder, key[1], data, is_new=start == 0, modified_ns=modified_ns)
        self._known[key] = MirroredLog(version, size, inode, modified_ns)

    def _forget(self) -> None:
        """Delete the mirror; the next query fetches everything."""
        self._generation = -1
        self._known = {}
        self._pushed = PushedLogs(self.root, self._bounds, self._retention)
        shutil.rmtree(os.path.join(self.root, spool.FOLDER[0]), ignore_errors=True)

    # To the store

    def _store_changes(self, session: StoreSession) -> None:
        """Write what a batch changed in the mirror: lines at the end of a log, a new or rewritten log, removed logs."""
        present = self._states()
        for key in [key for key in self._known if key not in present]:
            session.execute(f"DELETE FROM carrel_log_chunks WHERE {_NAME_KEY}", key)
            statement = f"UPDATE carrel_logs SET is_removed = true, size = 0, generation = ? WHERE {_NAME_KEY}"
            session.execute(statement, (session.generation, *key))
            session.report(f"logs://{key[0]}/{key[1]}")
            session.audit(f"logs://{key[0]}/{key[1]}", tool="logs.remove")
            del self._known[key]
        for key, status in present.items():
            known = self._known.get(key)
            if known is None or (known.inode, known.size, known.modified_ns) != _state_of(status):
                self._known[key] = self._store(session, key, known, status)

    def _store(self, session: StoreSession, key: Key, known: MirroredLog | None, status: os.stat_result) -> MirroredLog:
        """Write one log, or what was added to it."""
        inode, size, modified_ns = _state_of(status)
        is_grown = known is not None and known.inode == inode and known.size <= size
        start = known.size if known is not None and is_grown else 0
        version = known.version if known is not None and is_grown else session.generation
        session.execute(
            "INSERT INTO carrel_logs (kind, name, version, size, modified_ns, generation) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, size = excluded.size, "
            "is_removed = false, modified_ns = excluded.modified_ns, generation = excluded.generation",
            (*key, version, size, modified_ns, session.generation),
        )
        if not is_grown:
            session.execute(f"DELETE FROM carrel_log_chunks WHERE {_NAME_KEY}", key)
        if size > start:
            with spool.opened(self.root, key[0]) as folder, spool.file(folder, key[1] + spool.SUFFIX) as descriptor:
                data = os.pread(descriptor, size - start, start)
            session.execute("INSERT INTO carrel_log_chunks VALUES (?, ?, ?, ?)", (*key, start, data))
        return MirroredLog(version, size, inode, modified_ns)

    def _states(self) -> dict[Key, os.stat_result]:
        """Return the state of each file of the mirror."""
        found: dict[Key, os.stat_result] = {}
        for kind in KINDS:
            with contextlib.suppress(OSError), spool.opened(self.root, kind) as folder:
                for name in os.listdir(folder):
                    if name.endswith(spool.SUFFIX) and not name.startswith("."):
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        found[kind, name.removesuffix(spool.SUFFIX)] = status
        return found


class TeamLogIndex(LogIndex):
    """The logs of the team as they are served; a watcher queries the store each time."""

    def __init__(self, logs: TeamLogs, bounds: SpoolBounds, max_logs: int) -> None:
        super().__init__(logs.root, bounds, max_logs)
        self._team = logs
        self._seen: States = {}

    def _news(self) -> int:
        return self._team.changes.number

    def _wait(self, stop: threading.Event, known: int) -> bool:
        # First a pause: while batches arrive all the time, each look asks the store and every mirrored log.
        return stop.wait(PAUSE_S) or self._team.changes.wait(known, POLL_S - PAUSE_S, stop)

    def _wake(self) -> None:
        self._team.changes.wake()

    def _states(self) -> States:
        try:
            self._team.refresh()
        except StoreUnavailable:
            return self._seen  # nothing is known to have changed
        self._seen = super()._states()
        return self._seen


def _record(session: StoreSession, added: Added) -> None:
    """Report a batch to other servers; the beginning and the end of a log go to the audit record too."""
    session.report(added.uri)
    if added.before is None:
        session.audit(added.uri, None, added.after, tool="logs.begin")
    if added.has_ended:
        session.audit(added.uri, added.before, added.after, tool="logs.end")


def _state_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
