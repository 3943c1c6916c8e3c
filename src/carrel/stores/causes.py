"""What is wrong with a store, by the driver's error: one sentence for the operator, and one for clients.

libpq's texts are never passed on: they may repeat parts of the URL. At the start of a program an error is a
`ConfigError`; later it is `StoreUnavailable`, and the next call tries again.
"""

import re
from typing import Final

import psycopg
from psycopg import errors as postgres

from carrel.core.record import Value
from carrel.core.store_address import StoreAddress
from carrel.stores.store_errors import StoreBusy, StoreUnavailable

OLDEST: Final = 14
"""The oldest version of Postgres that is supported."""
RESTORE: Final = "restore it from a backup"
AWAY: Final = "The store cannot be reached now; try again later"


class Cause(Value, frozen=True):
    """The end of a sentence whose subject is the store, a sentence for clients, and the errors that mean this.

    `states` are SQLSTATEs, or their first two characters; `parts` are parts of libpq's messages.
    """

    text: str
    states: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    for_clients: str = AWAY


_OPTION: Final = Cause(
    "has a URL with an option that libpq or Postgres does not accept",
    parts=(
        "connection is bad: invalid",
        "invalid value for",
        "invalid integer value",
        "unrecognized configuration parameter",
        "definition of service",
    ),
)
_REFUSES: Final = Cause("refuses the connection: see its log", parts=("fatal:",))
CAUSES: Final = (
    Cause(
        "is starting up: try again in a moment",
        ("57P03",),
        ("starting up", "recovery mode", "not yet accepting connections"),
        "The store is starting up; try again in a moment",
    ),
    Cause(
        "is shutting down or restarting: try again in a moment",
        ("57P01", "57P02"),
        ("shutting down", "administrator command"),
        "The store is restarting; try again in a moment",
    ),
    Cause(
        "has no connection free: raise max_connections or the limit of this user or database, or run fewer replicas",
        ("53300",),
        ("too many", "remaining connection slots"),
        "The store has no connection free now; try again later",
    ),
    Cause(
        "has no room left: its disk is full",
        ("53100",),
        ("no space left",),
        "The store's disk is full; nothing was changed",
    ),
    Cause("is out of memory", ("53200",), ("out of memory",)),
    Cause("has used up one of its limits: see its log", ("53",)),
    Cause(
        "is read-only: name the primary server, or see default_transaction_read_only",
        ("25006",),
        ("session is read-only", "server is in hot standby mode", "hot standby mode is disabled"),
        "The store is read-only; nothing was changed",
    ),
    Cause(
        "does not give this user the rights: let it create tables in its schema, or SELECT, INSERT, UPDATE and DELETE "
        "in its tables",
        ("42501",),
        for_clients="The store does not give this desk the rights for that; nothing was changed",
    ),
    Cause(
        f"lacks tables of its version: {RESTORE}",
        ("42P01", "42703"),
        for_clients="The store lacks tables that it should have; nothing was changed",
    ),
    Cause(
        f"lacks rows of its table carrel_generations: {RESTORE}",
        ("02000",),
        for_clients="The store lacks rows that it should have; nothing was changed",
    ),
    Cause(f"has tables, but not carrel_schema, which says their version: {RESTORE}", ("42P07",)),
    Cause("has no schema to create tables in: see its search_path", ("3F000",)),
    Cause("is busy: another program keeps it waiting; try again", ("55P03", "40P01", "57014")),
    Cause("cannot read or write its files: see its log", ("58",)),
    Cause(f"has damaged data: see its log, and {RESTORE}", ("XX001", "XX002")),
    Cause(
        "is not Postgres: another program answers at this port",
        parts=("invalid response to", "expected authentication request", "unencrypted data after"),
    ),
    _OPTION,
    Cause(
        "is not as its URL demands: see channel_binding, require_auth, gssencmode and target_session_attrs",
        parts=(
            "channel binding required",
            "authentication method requirement",
            "gssapi encryption required",
            "is not read-only",
            "is not in hot standby",
        ),
    ),
    Cause(
        "expects a user of the operating system, and not this one: see its pg_hba.conf",
        parts=("peer authentication failed", "ident authentication failed"),
    ),
    Cause("does not let this user log in: give it the attribute LOGIN", parts=("is not permitted to log in",)),
    Cause(
        "refused the login: the user or the password is wrong",
        ("28P01", "28000"),
        ("authentication failed", "role "),
    ),
    Cause(
        "wants a password: put it into the URL, PGPASSWORD or ~/.pgpass", parts=("no password supplied", "fe_sendauth")
    ),
    Cause(
        "does not accept this user from this machine without TLS: set sslmode=require, or see its pg_hba.conf",
        parts=("no encryption",),
    ),
    Cause("does not accept this user from this machine: see its pg_hba.conf", parts=("pg_hba.conf",)),
    Cause("has a database that takes no connections: see its datallowconn", parts=("not currently accepting",)),
    Cause(
        "has no database of that name, or this user may not open it",
        ("3D000", "57P04"),
        ("database  does not exist", "permission denied for database"),
    ),
    Cause(
        "closes the connection: is it Postgres, and what does its log say?",
        parts=("closed the connection", "ssl connection has been closed", "syscall error", "connection reset"),
    ),
    Cause(
        "cannot agree on TLS: check sslmode and the certificates",
        parts=("ssl", "tls", "certificate", "private key"),
    ),
    Cause("cannot be found: check the name of the host", parts=("resolve", "translate host name", "idna")),
    Cause("cannot be reached: is Postgres running there?", parts=("no such file", "refused")),
    Cause("does not answer: check the host, the port and the firewall", parts=("timeout", "timed out")),
    _REFUSES,
)
"""The first one that fits counts. Parts of messages are compared where there is no SQLSTATE, as while connecting."""
_UNREACHABLE: Final = Cause("cannot be reached", ("08",))
_NAMES: Final = re.compile(r"\"[^\"\n]*\"|[»«„“][^»«„“”\n]*[»«“”]|host(?:addr)?: '[^'\n]*'|host '[^'\n]*'")
"""Names of hosts, users and databases in libpq's messages: a user may be called `timeout`."""


def cause(error: Exception) -> Cause:
    """Return what is wrong with a store."""
    state = getattr(error, "sqlstate", None)
    if state is not None:
        found = (one for part in (state, state[:2]) for one in (*CAUSES, _UNREACHABLE) if part in one.states)
        return next(found, Cause(f"failed (SQLSTATE {state})"))
    if isinstance(error, psycopg.ProgrammingError):
        return _OPTION
    message = _NAMES.sub("", str(error)).lower()
    # While it connects, libpq gives no SQLSTATE. Its own texts are English; those of a server may be in any language.
    unknown = _UNREACHABLE if message.isascii() else _REFUSES
    return next((one for one in CAUSES if any(part in message for part in one.parts)), unknown)


def describe(address: StoreAddress, error: Exception) -> str:
    """Return one sentence about an error, for the operator."""
    return f"the store {address.shown} {cause(error).text}"


def unavailable(address: StoreAddress, error: Exception) -> StoreUnavailable:
    """Return the error that a caller gets: without the address."""
    if isinstance(error, postgres.LockNotAvailable | postgres.DeadlockDetected | postgres.QueryCanceled):
        return StoreBusy("The store is busy; try again", describe(address, error))
    return StoreUnavailable(cause(error).for_clients, describe(address, error))


def is_away(error: Exception) -> bool:
    """Return whether the server could not be reached at all, or ended the connection; False if it refused a call."""
    state = getattr(error, "sqlstate", None)
    return state is None or state[:2] in ("08", "57")
