"""The errors of a store, each as one sentence that holds no secret.

libpq's texts are never passed on: they may repeat parts of the URL. At the start of a program an error is a
`ConfigError`; later it is `StoreUnavailable`, and the next call tries again.
"""

from typing import Final

import psycopg
from psycopg import errors as postgres
from psycopg_pool import PoolTimeout, TooManyRequests

from carrel.core.errors import ProviderError
from carrel.core.store_address import StoreAddress

OLDEST: Final = 14
"""The oldest version of Postgres that is supported."""


class StoreUnavailable(ProviderError):
    """The store cannot be used now. The message is for clients; `detail` names the server and is for the log."""

    def __init__(self, message: str, detail: str = "", *, word: str = "unavailable") -> None:
        super().__init__(message, word=word)
        self.detail = detail or message


class StoreBusy(StoreUnavailable):
    """Another writer held the lock for too long, or a statement took too long."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message, detail, word="busy")


_AT_CONNECT: Final = (
    ("password authentication failed", "refused the login: the user or the password is wrong"),
    ("no password supplied", "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass"),
    ("fe_sendauth", "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass"),
    ("authentication failed", "refused the login: the user or the password is wrong"),
    ("role ", "refused the login: the user or the password is wrong"),
    ("no pg_hba.conf entry", "does not accept this user from this machine: see its pg_hba.conf"),
    ("database ", "has no database of that name, or this user may not open it"),
    ("starting up", "is starting up: try again in a moment"),
    ("shutting down", "is shutting down: try again in a moment"),
    ("recovery mode", "is starting up: try again in a moment"),
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

_BY_STATE: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (postgres.InsufficientPrivilege, "does not give this user the rights: let it create tables in its schema"),
    (postgres.DiskFull, "has no room left: its disk is full"),
    (postgres.OutOfMemory, "is out of memory"),
    (postgres.ReadOnlySqlTransaction, "is read-only: name the primary server, not a standby"),
    (postgres.InvalidCatalogName, "has no database of that name"),
    (postgres.InvalidSchemaName, "has no schema to create tables in: see its search_path"),
    (postgres.TooManyConnections, "has no connection free: raise max_connections, or run fewer replicas"),
    (postgres.UndefinedTable, "lacks tables of its version: restore it from a backup"),
    (postgres.IoError, "cannot write to its disk"),
)


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
    full = "The store's disk is full; nothing was changed" if isinstance(error, postgres.DiskFull) else ""
    return StoreUnavailable(full or "The store cannot be reached now; try again later", describe(address, error))
