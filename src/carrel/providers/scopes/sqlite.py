"""Connect to SQLite files that may be hostile.

A file may contain endless views, cycles of pages, or texts of a gigabyte. So a connection has small limits, does not
trust the schema, and ends each statement at a deadline, or after a number of steps while the file is opened.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any, Final

from carrel.core.cancellation import check_cancelled

BUSY_MS: Final = 5_000
"""How long to wait for the locks of other processes."""

OPENING_STEPS: Final = 5_000
"""Maximum steps of one statement until the schema is checked; to read the right schema takes about 300."""
_STEPS_BETWEEN_LOOKS: Final = 50_000

MAX_TEXT: Final = 16_384
"""Maximum bytes of one value; a description has at most 4,000."""
MAX_SQL: Final = 4_096
"""Maximum bytes of one statement; the largest here, in the schema, has 1,000."""
_MAX_RESULT: Final = 128 * 1024 * 1024
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_TEXT,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_SQL,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 64,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 8,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETTINGS: Final = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    "PRAGMA foreign_keys = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
)
PARENTS: Final = "temp.parents"
"""The table of `StoreConnection.ranked`, which `schema.TEMPORARY` creates."""
_SAFE: Final = frozenset(b"/-._~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class StatementDeadline:
    """The time at which a statement ends; SQLite asks for it while it works."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = inf

    def is_over(self) -> bool:
        """Return whether it has passed; raise `Cancelled` if the caller gave up. Either ends the statement."""
        check_cancelled()
        return monotonic() > self.until


class StoreConnection(sqlite3.Connection):
    """A connection with bounded statements; `checked` is the version of the schema that was checked."""

    audited_children: int | None = None
    """A file of one machine keeps no audit record."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.deadline = StatementDeadline()
        self.checked: int | None = None
        for limit, value in _LIMITS.items():
            self.setlimit(limit, value)

    def allow_steps(self, steps: int) -> None:
        """End each statement after this number of steps.

        The callback is no Python function: the exception of a signal that arrives inside one would be lost.
        """
        self.set_progress_handler((1).__abs__, steps)

    def allow_time(self, seconds: float) -> None:
        """End every statement at this time from now."""
        self.deadline.until = monotonic() + seconds

    def count_changed(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return the number of rows that it changed."""
        self.execute(statement, values)
        return int(self.execute("SELECT changes()").fetchone()[0])

    def defer_constraints(self) -> None:
        """Check foreign keys when the transaction ends, not after each statement."""
        self.execute("PRAGMA defer_foreign_keys = ON").close()

    def ranked(self, ids: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
        """Return a source of rows (id, rank) for a FROM clause, and its values."""
        self.execute("DELETE FROM temp.parents")
        self.executemany("INSERT INTO temp.parents VALUES (?, ?)", enumerate(ids))
        return PARENTS, ()

    def size(self) -> float:
        """Return the size of the store in bytes."""
        pages, size = (self.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return float(pages * size)

    def record(self, uri: str, before: str | None = None, after: str | None = None) -> None:
        """Do nothing: other servers notice the commit itself."""

    def audit(self, uri: str, before: str | None = None, after: str | None = None) -> None:
        """Do nothing: a file of one machine keeps no audit record."""

    @contextmanager
    def long_texts(self) -> Iterator[None]:
        """Allow long texts inside the block: the result of a tool may name many children."""
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_RESULT)
        try:
            yield
        finally:
            self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)

    def watch_time(self) -> None:
        """Bound statements by the deadline instead of by steps."""
        self.set_progress_handler(self.deadline.is_over, _STEPS_BETWEEN_LOOKS)


def connect(
    path: str, mode: str = "rw", *, is_frozen: bool = False, max_text: int = MAX_TEXT, max_sql: int = MAX_SQL
) -> StoreConnection:
    """Open a file with small limits, foreign keys and full synchronisation. A frozen file must not change."""
    quoted = "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(path))
    connection = sqlite3.connect(
        f"file:{quoted}?mode={mode}{'&immutable=1' if is_frozen else ''}",
        uri=True,
        timeout=BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=StoreConnection,
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_text)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, max_sql)
        connection.allow_steps(OPENING_STEPS)
        _defend(connection)
        for setting in _SETTINGS:
            connection.execute(setting).close()
        connection.watch_time()
    except BaseException:
        connection.close()
        raise
    return connection


def _defend(connection: sqlite3.Connection) -> None:
    """Turn on SQLite's defensive mode and turn off views, from Python 3.12 on."""
    configure: Callable[[int, bool], None] | None = getattr(connection, "setconfig", None)
    if configure is not None:
        known = vars(sqlite3)
        configure(known["SQLITE_DBCONFIG_DEFENSIVE"], True)
        configure(known["SQLITE_DBCONFIG_ENABLE_VIEW"], False)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection held the lock for too long."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_ended(error: sqlite3.Error) -> bool:
    """Return whether a statement was ended at its bound or interrupted."""
    return _code(error) == sqlite3.SQLITE_INTERRUPT


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
