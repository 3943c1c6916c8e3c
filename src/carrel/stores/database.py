"""A Postgres database that keeps the team's records: the pool of its connections, its transactions and its schema.

A snapshot is a read-only transaction. A writer first updates the generation of its kind: the lock of that row makes it
the only writer of the kind, in all processes, until it ends. A lost server makes calls fail with `StoreUnavailable`;
later calls try again (`stores/outage.py`), and no restart is needed.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, get_args

import psycopg
from psycopg import errors as postgres
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from carrel.core.bus_address import BusAddress
from carrel.core.errors import ConfigError
from carrel.core.store_address import StoreAddress
from carrel.core.version import how_to_install
from carrel.stores import housekeeping
from carrel.stores.audit import insert_audit
from carrel.stores.bounded_connection import BoundedConnection, Hung
from carrel.stores.causes import OLDEST, RESTORE, describe, is_away, unavailable
from carrel.stores.change_count import ChangeCount
from carrel.stores.migrations import MIGRATIONS, TABLES, VERSION
from carrel.stores.outage import Outage
from carrel.stores.outbox import ChangeBell, OutboxChanges, insert_changes
from carrel.stores.session import Row, StoreSession
from carrel.stores.store_errors import StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from carrel.stores.bus import Bus

log = logging.getLogger(__name__)

Kind = Literal["scopes", "sage", "logs"]
"""The kinds of records; each has one writer at a time."""

POOL_SIZE: Final = 8
"""Maximum connections of one process: as many as a provider has worker threads."""
CONNECT_S: Final = 5
WAIT_S: Final = 3.0
"""How long a call waits for a connection; it ends at once when the server cannot be reached."""
HUNG_S: Final = 5.0
"""How long the first statement on a connection may take; a server that is stopped accepts it and never answers."""
MIGRATE_S: Final = 60.0
"""How long a start waits for a lock before it migrates: for other starts that migrate, and for long transactions."""
LOOK_S: Final = 0.05
"""How often a waiting call looks whether an attempt to connect has failed."""
IDLE_IN_TRANSACTION_MS: Final = 60_000
"""The server ends a transaction that is idle for this time, so that a stopped process does not keep its locks."""

REPEAT_S: Final = 60.0
"""How often a server logs that the store refuses its calls."""
PRUNE_S: Final = 600.0
"""How often a process that writes removes what is old."""

_OPTIONS: Final[dict[str, str | int]] = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "carrel",
}
"""Options of each connection, unless the URL sets them: a server that vanished is noticed within half a minute."""

_UNUSABLE: Final = """SELECT name, to_regclass(name) IS NULL FROM unnest(CAST(%s AS text[])) name
    WHERE to_regclass(name) IS NULL OR NOT (SELECT bool_and(has_table_privilege(to_regclass(name), needed))
      FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) needed)
    ORDER BY 2 DESC, 1 LIMIT 1"""
"""The first table that is missing, or that this user may not read and write."""

_MIGRATABLE: Final = """SELECT has_schema_privilege(current_schema(), 'CREATE'),
    (SELECT bool_or(to_regclass(name) IS NOT NULL) FROM unnest(CAST(%s AS text[])) name)"""
"""Whether this user may create tables, NULL without a schema for them; and whether any table exists."""

_LOCK_KEY: Final = 0x63_61_72_72_65_6C
"""The advisory lock of migrations."""
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)
StorePool = ConnectionPool[BoundedConnection]
_ABSENT: Final = (PoolTimeout, PoolClosed, TooManyRequests)
_AWAY: Final = (*_ABSENT, Hung)


class TooOld(Exception):
    """The server is older than any that is supported; `version` is its version."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version // 10_000


class Database:
    """One store. Safe to use from several threads."""

    def __init__(self, address: StoreAddress) -> None:
        """Take a checked address. Nothing is connected yet."""
        self.address = address
        self.audit_days: int | None = None
        """How long the audit record is kept; None in a process that does not know, and so removes nothing of it."""
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its warnings repeat libpq's texts
        self._pool: StorePool | None = None
        self._lock = threading.Lock()
        self.logs_outages = False
        """Whether failures are logged, as a server does; a command ends with its error instead."""
        self._outage = Outage()
        self._is_well = True
        self._log_refusals_at = 0.0
        self._failures = 0
        self._why: BaseException | None = None
        """Why the last attempt to connect failed."""
        self._used = 0
        self._turns: dict[Kind, threading.Lock] = {kind: threading.Lock() for kind in get_args(Kind)}
        self.log_changes = ChangeCount()
        """Counts changes of logs by any process, if this one hears of changes."""
        self._prune_at = monotonic() + PRUNE_S
        self._bell = ChangeBell(self.ring)
        self.bus = None if address.bus is None else _bus(address.bus)

    # Start and end

    def prepare(self) -> None:
        """Connect, check the server, its tables and this user's rights, and migrate the schema; raise ConfigError."""
        with self._checked() as connection:
            self._migrate(connection)
            _check_tables(self.address, connection)

    def examine(self) -> int:
        """Return the version of the schema, -1 if there is none; check all that `prepare` does, and change nothing."""
        with self._checked() as connection:
            version = self._known_version(connection)
            if version == VERSION:
                _check_tables(self.address, connection)
            else:
                _check_can_migrate(connection, version)
            return version

    @contextmanager
    def _checked(self) -> Iterator[BoundedConnection]:
        """Yield a connection to a server that can be written; turn errors into ConfigError."""
        try:
            with closing(self._connect()) as connection:
                if connection.execute_within(HUNG_S, "SHOW transaction_read_only").fetchone() == ("on",):
                    raise postgres.ReadOnlySqlTransaction
                yield connection
        except TooOld as error:
            running = f"the store {self.address.shown} runs Postgres {error.version}"
            raise ConfigError(f"{running}; Carrel needs Postgres {OLDEST} or newer") from None
        except (psycopg.Error, UnicodeError) as error:
            raise ConfigError(describe(self.address, error)) from None

    def _migrate(self, connection: psycopg.Connection[Row]) -> None:
        if _version(connection) == VERSION:
            return
        # Before the transaction: only its beginning shows tables that another process created meanwhile. The lock ends
        # with the connection.
        connection.execute(f"SET lock_timeout = {int(MIGRATE_S * 1000)}".encode())
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK_KEY,))
        with connection.transaction():
            version = self._known_version(connection)
            if version < 0:
                connection.execute("CREATE TABLE carrel_schema (version integer NOT NULL)")
                connection.execute("INSERT INTO carrel_schema VALUES (0)")
            for statements in MIGRATIONS[max(version, 0) :]:
                for statement in statements:
                    connection.execute(statement.encode())
            if version < VERSION:
                connection.execute("UPDATE carrel_schema SET version = %s", (VERSION,))

    def _known_version(self, connection: psycopg.Connection[Row]) -> int:
        """Return the version of the schema, -1 if there is none; raise ConfigError if this code cannot use it."""
        version = _version(connection)
        if version > VERSION:
            raise ConfigError(
                f"the store {self.address.shown} has schema version {version}; "
                f"this Carrel knows versions up to {VERSION}: update Carrel"
            )
        if version == 0:
            raise ConfigError(
                f"the store {self.address.shown} has tables but no version: its table carrel_schema is empty; {RESTORE}"
            )
        return version

    def begin_serving(self) -> None:
        """Begin as a server without a feed: log failures, and start the bus, if there is one; raise ConfigError."""
        if self.bus is not None:
            self.bus.start()
        self.logs_outages = True

    def close(self) -> None:
        """Notify listeners of the last changes, and close every connection; a second call does nothing."""
        self._bell.close()
        if self.bus is not None:
            self.bus.close()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=1.0)

    # Transactions

    @contextmanager
    def reading(self, seconds: float) -> Iterator[StoreSession]:
        """Yield a session with one snapshot from the first query to the last."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
        with self._translated(), self._begun(begin + _bounds(seconds)) as (connection, _):
            yield StoreSession(connection)
            connection.execute("COMMIT")

    @contextmanager
    def writing(self, kind: Kind, seconds: float, *, is_rehearsal: bool = False) -> Iterator[StoreSession]:
        """Yield a session of the only writer of a kind, and commit it unless it is a rehearsal.

        When the block ends without an error, everything is on the server's disk, with the changes that were recorded
        and their rows of the audit record.
        """
        # All in one message: each round trip is time during which other writers wait.
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED; {_bounds(seconds)}; {_claim(kind)}"
        with self._turn(kind, seconds), self._translated(), self._begun(begin, seconds) as (connection, cursor):
            session = StoreSession(connection, _last_number(cursor))
            yield session
            end = "ROLLBACK" if is_rehearsal else "COMMIT"
            with connection.pipeline():
                if session.changed:
                    insert_changes(connection, session.changed)
                if session.audited:
                    insert_audit(connection, session.audited)
                ended = connection.execute(end)
            if ended.statusmessage != end:
                # After a failed statement the server turns COMMIT into ROLLBACK without an error.
                raise AssertionError("a failed statement was ignored: nothing was written")
        if session.changed and not is_rehearsal:
            self._bell.ring()

    @contextmanager
    def _turn(self, kind: Kind, seconds: float) -> Iterator[None]:
        """Wait until no other thread writes this kind: writers that wait for a lock must not take all connections."""
        turn = self._turns[kind]
        if not turn.acquire(timeout=seconds):
            raise StoreBusy("The store is busy; try again")
        try:
            yield
        finally:
            turn.release()

    def generation(self, kind: Kind) -> int:
        """Return a number that grows with every write of a kind."""
        statement = f"SELECT generation FROM carrel_generations WHERE kind = '{kind}'"
        with self._translated(), self._begun(statement) as (_, cursor):
            return _generation(cursor)

    def dedicated(self) -> psycopg.Connection[Row]:
        """Return a connection outside the pool, for a thread that listens; raise `StoreUnavailable`."""
        with self._translated():
            connection = self._connect()
            self._outage.end()
            return connection

    @contextmanager
    def changing(self) -> Iterator[StoreSession]:
        """Yield a session that writes without being the writer of a kind; commit it with the changes it recorded."""
        with self.connection() as connection, connection.transaction():
            session = StoreSession(connection)
            yield session
            insert_changes(connection, session.changed)
            insert_audit(connection, session.audited)
        if session.changed:
            self._bell.ring()

    def ring(self) -> None:
        """Notify all listeners that there are changes; now and then, remove what is old."""
        if self.bus is not None:
            self.bus.signal()
            if monotonic() <= self._prune_at:
                return
        signal = "NOTIFY carrel_changes" if self.bus is None else "SELECT 1"
        with suppress(psycopg.Error, *_ABSENT), self._begun(signal) as (connection, _):
            if monotonic() > self._prune_at:
                self._prune_at = monotonic() + PRUNE_S
                housekeeping.tidy(connection, self.audit_days)

    def note(self, changes: OutboxChanges) -> None:
        """Note the changes that this process hears of."""
        if changes.is_all or any(scheme == "logs" for scheme, _ in changes.uris):
            self.log_changes.add()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Row]]:
        """Yield a connection without a transaction; raise `StoreUnavailable`."""
        with self._translated(), self._begun("SELECT 1") as (connection, _):
            yield connection

    # Connections

    def _connect(self) -> BoundedConnection:
        """Return a new connection outside the pool."""
        connection = BoundedConnection.connect(_conninfo(self.address.url), autocommit=True)
        try:
            _configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _begun(self, begin: str, lock_s: float = 0.0) -> Iterator[tuple[BoundedConnection, psycopg.Cursor[Row]]]:
        """Yield a connection after its first statement, which may wait `lock_s` for a lock.

        A connection that was lost while it was idle is replaced.
        """
        pool = self._opened()
        connection, cursor = self._try(pool, begin, lock_s)
        try:
            yield connection, cursor
        except BaseException:
            if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.rollback()
            raise
        finally:
            self._give_back(pool, connection)

    def _give_back(self, pool: StorePool, connection: BoundedConnection) -> None:
        with self._lock:
            self._used -= 1
        pool.putconn(connection)

    def _try(self, pool: StorePool, begin: str, lock_s: float) -> tuple[BoundedConnection, psycopg.Cursor[Row]]:
        """Take a connection, unless another call has just found that there is none."""
        patience_s = self._outage.patience_s(WAIT_S)
        if not patience_s:
            raise PoolTimeout("a call failed a moment ago")
        self._why = None
        started = monotonic()
        try:
            taken = self._take(pool, begin, started + patience_s, lock_s)
        except _AWAY:
            self._outage.begin(started)
            raise
        except psycopg.Error:
            self._outage.end()  # it answers
            raise
        self._outage.end()
        return taken

    def _take(
        self, pool: StorePool, begin: str, until: float, lock_s: float
    ) -> tuple[BoundedConnection, psycopg.Cursor[Row]]:
        while True:
            connection = self._get(pool, until)
            try:
                cursor = connection.execute_within(HUNG_S + lock_s, begin)
            except Hung:
                connection.close()
                self._drop(pool)
                self._give_back(pool, connection)
                raise
            except _LOST:
                is_lost = connection.closed
                self._give_back(pool, connection)
                if not is_lost:
                    raise
            except BaseException:
                self._give_back(pool, connection)
                raise
            else:
                return connection, cursor

    def _drop(self, pool: StorePool) -> None:
        """Close all idle connections: if one hangs, the others do as well."""
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.close(timeout=0)

    def _get(self, pool: StorePool, until: float) -> BoundedConnection:
        """Wait for a free connection until the given time, or until it is clear that there will be none."""
        failures = self._failures
        while True:
            try:
                connection = pool.getconn(timeout=LOOK_S)
            except PoolTimeout:
                if monotonic() > until and self._used >= POOL_SIZE:
                    raise StoreBusy("The store is busy; try again") from None
                if monotonic() > until or (self._failures != failures and not self._used):
                    raise
            else:
                with self._lock:
                    self._used += 1
                return connection

    def _note_failure(self, _: StorePool) -> None:
        self._why = sys.exc_info()[1]  # the pool calls this while it handles the error
        self._failures += 1

    def _opened(self) -> StorePool:
        with self._lock:
            if self._pool is None:
                # A failed attempt ends at once: the next call makes the next one.
                self._pool = ConnectionPool(
                    _conninfo(self.address.url),
                    connection_class=BoundedConnection,
                    kwargs={"autocommit": True},
                    min_size=0,
                    max_size=POOL_SIZE,
                    max_idle=300,
                    reconnect_timeout=0,
                    reconnect_failed=self._note_failure,
                    num_workers=1,
                    configure=_configure,
                    open=True,
                    name="carrel",
                )
            return self._pool

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into `StoreUnavailable`."""
        try:
            yield
        except (psycopg.Error, TooOld, *_ABSENT) as given:
            error = self._why if isinstance(given, _ABSENT) and isinstance(self._why, psycopg.Error) else given
            failure = unavailable(self.address, error)
            if failure.word == "unavailable":
                self._log_failure(failure, is_outage=is_away(error))
            raise failure from None
        if not self._is_well:
            self._is_well = True
            self._log("the store %s answers again", self.address.shown)

    def _log_failure(self, failure: StoreUnavailable, *, is_outage: bool) -> None:
        """Log the beginning of an outage; now and then, that a store which answers refuses what is asked of it."""
        if is_outage:
            if self._is_well:
                self._log("%s", failure.detail)
            self._is_well = False
        elif monotonic() >= self._log_refusals_at:
            self._log_refusals_at = monotonic() + REPEAT_S
            self._log("%s", failure.detail)

    def _log(self, text: str, named: str) -> None:
        if self.logs_outages:
            log.warning(text, named)


def _bus(address: BusAddress) -> "Bus":
    try:
        from carrel.stores.bus import Bus  # imports nats, which most stores do without
    except ImportError:
        raise ConfigError(f"[bus] url needs packages that are not installed: {how_to_install('team')}") from None
    return Bus(address)


def _conninfo(url: str) -> str:
    """Return a URL with the options that it does not set itself."""
    given = psycopg.conninfo.conninfo_to_dict(url)
    return psycopg.conninfo.make_conninfo(url, **{name: one for name, one in _OPTIONS.items() if name not in given})


def _configure(connection: BoundedConnection) -> None:
    """Check the server's version, and set what every connection needs."""
    if connection.info.server_version < OLDEST * 10_000:
        raise TooOld(connection.info.server_version)
    connection.execute_within(
        HUNG_S,
        f"SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS}; SET client_min_messages = warning; "
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
    )


def _claim(kind: Kind) -> str:
    """Return the statement that makes a transaction the only writer of a kind."""
    return f"UPDATE carrel_generations SET generation = generation + 1 WHERE kind = '{kind}' RETURNING generation"


def _last_number(cursor: psycopg.Cursor[Row]) -> int:
    """Return the number that the last of several statements returned."""
    while cursor.nextset():
        pass
    return _generation(cursor)


def _generation(cursor: psycopg.Cursor[Row]) -> int:
    """Return the generation that a statement returned; raise `NoData` if the store lost the row of this kind."""
    row = cursor.fetchone()
    if row is None:
        raise postgres.NoData
    return int(row[0])


def _bounds(seconds: float) -> str:
    """Return the statement that bounds the time of all others in a transaction."""
    return f"SET LOCAL statement_timeout = {int(seconds * 1000)}; SET LOCAL lock_timeout = {int(seconds * 1000)}"


def _check_tables(address: StoreAddress, connection: psycopg.Connection[Row]) -> None:
    """Raise an error if a table is missing, if this user may not read and write it, or if a generation is missing."""
    for table, is_missing in connection.execute(_UNUSABLE, (list(TABLES),)):
        if is_missing:
            raise ConfigError(f"the store {address.shown} lacks the table {table}: {RESTORE}")
        raise postgres.InsufficientPrivilege
    kinds = list(get_args(Kind))
    [(found,)] = connection.execute("SELECT count(*) FROM carrel_generations WHERE kind = ANY(%s)", (kinds,)).fetchall()
    if found < len(kinds):
        raise postgres.NoData


def _check_can_migrate(connection: psycopg.Connection[Row], version: int) -> None:
    """Raise the error that a migration from a version would meet."""
    [(may_create, has_tables)] = connection.execute(_MIGRATABLE, (list(TABLES),)).fetchall()
    if may_create is None:
        raise postgres.InvalidSchemaName
    if not may_create:
        raise postgres.InsufficientPrivilege
    if version < 0 and has_tables:
        raise postgres.DuplicateTable


def _version(connection: psycopg.Connection[Row]) -> int:
    """Return the version of the schema; -1 for a database without one, 0 if its table is empty."""
    found = connection.execute("SELECT to_regclass('carrel_schema') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return -1
    row = connection.execute("SELECT coalesce(max(version), 0) FROM carrel_schema").fetchone()
    return 0 if row is None else int(row[0])
