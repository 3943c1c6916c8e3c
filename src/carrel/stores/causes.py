"""What is wrong with a store, by the driver's error: one sentence for the operator, and one for clients.

libpq's texts are never passed on: they may repeat parts of the URL. At the start of a program an error is a
`ConfigError`; later it is `StoreUnavailable`, and the next call tries again.
"""

from typing import Final

import psycopg
from psycopg import errors as postgres
from psycopg_pool import PoolTimeout, TooManyRequests

from carrel.core.store_address import StoreAddress
from carrel.stores.store_errors import StoreBusy, StoreUnavailable

OLDEST: Final = 14
"""The oldest version of Postgres that is supported."""


_AT_CONNECT: Final = (
    ("starting up", "is starting up: try again in a moment"),
    ("shutting down", "is shutting down: try again in a moment"),
    ("recovery mode", "is starting up: try again in a moment"),
    ("password authentication failed", "refused the login: the user or the password is wrong"),
    ("no password supplied", "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass"),
    ("fe_sendauth", "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass"),
    ("authentication failed", "refused the login: the user or the password is wrong"),
    ("role ", "refused the login: the user or the password is wrong"),
    ("no pg_hba.conf entry", "does not accept this user from this machine: see its pg_hba.conf"),
    ("database ", "has no database of that name, or this user may not open it"),
    ("too many", "has no connection free: raise max_connections, or run fewer replicas"),
    ("remaining connection slots", "has no connection free: raise max_connections, or run fewer replicas"),
    ("ssl", "cannot agree on TLS: check sslmode and the certificates"),
    ("certificate", "cannot agree on TLS: check sslmode and the certificates"),
    ("translate host name", "cannot be found: check the name of the host"),
    ("name or service not known", "cannot be found: check the name of the host"),
    ("resolve", "cannot be found: check the name of the host"),
    ("no such file", "cannot be reached: is Postgres running there?"),
    ("refused", "cannot be reached: is Postgres running there?"),
    ("timeout", "does not answer: check the host, the port and the firewall"),
    ("timed out", "does not answer: check the host, the port and the firewall"),
)
"""Parts of libpq's messages when a connection cannot be made, for which it has no codes; the first that fits counts."""

_NO_RIGHTS: Final = (
    "does not give this user the rights: let it create tables in its schema, or read and write its tables"
)
_BY_STATE: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (postgres.InsufficientPrivilege, _NO_RIGHTS),
    (postgres.DiskFull, "has no room left: its disk is full"),
    (postgres.OutOfMemory, "is out of memory"),
    (postgres.ReadOnlySqlTransaction, "is read-only: name the primary server, not a standby"),
    (postgres.InvalidCatalogName, "has no database of that name"),
    (postgres.InvalidSchemaName, "has no schema to create tables in: see its search_path"),
    (postgres.TooManyConnections, "has no connection free: raise max_connections, or run fewer replicas"),
    (postgres.UndefinedTable, "lacks tables of its version: restore it from a backup"),
    (postgres.IoError, "cannot write to its disk"),
)

_FOR_CLIENTS: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (postgres.InsufficientPrivilege, "The store does not give this desk the rights for that; nothing was changed"),
    (postgres.DiskFull, "The store's disk is full; nothing was changed"),
    (postgres.ReadOnlySqlTransaction, "The store is read-only; nothing was changed"),
    (postgres.UndefinedTable, "The store lacks tables that it should have; nothing was changed"),
)
"""What clients get for errors that will not go away by themselves."""


def cause(error: Exception) -> str:
    """Return what is wrong with a store, as the end of a sentence whose subject is the store."""
    if isinstance(error, PoolTimeout | TooManyRequests):
        return "cannot be reached"
    for kind, text in _BY_STATE:
        if isinstance(error, kind):
            return text
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return "has a URL with an option that libpq does not know"
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        lowered = str(error).lower()
        return next((text for part, text in _AT_CONNECT if part in lowered), "cannot be reached")
    return f"failed (SQLSTATE {getattr(error, 'sqlstate', None) or 'unknown'})"


def describe(address: StoreAddress, error: Exception) -> str:
    """Return one sentence about an error, for the operator."""
    return f"the store {address.shown} {cause(error)}"


def unavailable(address: StoreAddress, error: Exception) -> StoreUnavailable:
    """Return the error that a caller gets: without the address."""
    if isinstance(error, postgres.LockNotAvailable | postgres.DeadlockDetected | postgres.QueryCanceled):
        return StoreBusy("The store is busy; try again", describe(address, error))
    text = next((text for kind, text in _FOR_CLIENTS if isinstance(error, kind)), "")
    return StoreUnavailable(text or "The store cannot be reached now; try again later", describe(address, error))


def is_away(error: Exception) -> bool:
    """Return whether the server could not be reached at all, or ended the connection; False if it refused a call."""
    state = getattr(error, "sqlstate", None)
    return state is None or state[:2] in ("08", "57")


def without_rights(address: StoreAddress) -> str:
    """Return the sentence about a user who may not read and write the tables."""
    return f"the store {address.shown} {_NO_RIGHTS}"
