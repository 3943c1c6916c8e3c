"""The audit record: who changed what, and when, written in the transaction of the change.

There is no write without its rows, and no row without its write: both are committed together, or neither is. A row has
no content. Rows are kept for a number of days; a reader sees none that are older, even before they are removed.
"""

import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import psycopg

from carrel.core.printable import printable_line
from carrel.core.record import Value
from carrel.core.writer import LOCAL, current_writer
from carrel.stores.session import Row, StoreSession, Versions

MAX_NAME: Final = 200
"""Characters of a caller's name, and of a tool's, that are kept."""
_LAST: Final = chr(0x10FFFF)


class AuditRow(Value, frozen=True):
    """One change of one resource. Of a resource that did not exist before, or not afterwards, the ETag is None."""

    id: int
    time_ms: int
    caller: str
    tool: str
    uri: str
    etag_before: str | None
    etag_after: str | None


class AuditFilter(Value, frozen=True):
    """Which rows are wanted: of a caller, of URIs that begin with a text, since a time, before a row."""

    caller: str | None = None
    uri: str | None = None
    since_ms: int | None = None
    before: int | None = None


def insert_audit(connection: psycopg.Connection[Row], audited: Mapping[tuple[str, str], Versions]) -> None:
    """Write the rows of the present transaction: of each (tool, URI) its ETags; without a tool, that of the call."""
    writer = current_writer()
    caller = _shown(_with_user(writer.caller))
    rows = [(caller, _shown(tool or writer.tool), uri, *etags) for (tool, uri), etags in audited.items()]
    statement = "INSERT INTO carrel_audit (caller, tool, uri, etag_before, etag_after) VALUES (%s, %s, %s, %s, %s)"
    connection.cursor().executemany(statement, rows)


def audit_rows(session: StoreSession, wanted: AuditFilter, days: int, limit: int) -> list[AuditRow]:
    """Return the newest rows that are wanted and not too old."""
    conditions, values = ["at > now() - ? * interval '1 day'"], list[object]([days])
    if wanted.caller is not None:
        conditions, values = [*conditions, "caller = ?"], [*values, wanted.caller]
    if wanted.uri is not None:
        conditions, values = [*conditions, "uri >= ? AND uri < ?"], [*values, wanted.uri, wanted.uri + _LAST]
    if wanted.since_ms is not None:
        since = datetime.fromtimestamp(wanted.since_ms / 1000, UTC)
        conditions, values = [*conditions, "at >= ?"], [*values, since]
    if wanted.before is not None:
        conditions, values = [*conditions, "id < ?"], [*values, wanted.before]
    statement = f"""
        SELECT id, floor(extract(epoch FROM at) * 1000)::bigint, caller, tool, uri, etag_before, etag_after
        FROM carrel_audit WHERE {" AND ".join(conditions)} ORDER BY id DESC LIMIT ?"""
    return [AuditRow(*row) for row in session.execute(statement, (*values, limit))]


def prune_audit(connection: psycopg.Connection[Row], days: int) -> int:
    """Remove rows that are too old; return their number."""
    statement = "DELETE FROM carrel_audit WHERE at < now() - %s * interval '1 day'"
    return connection.execute(statement, (days,)).rowcount


def _with_user(caller: str) -> str:
    """Return the name of a caller; one on this machine has the name of the user with it."""
    if caller != LOCAL:
        return caller
    try:
        return f"{LOCAL} {getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in some containers
        return LOCAL


def _shown(name: str) -> str:
    """Return a name that every database takes: others choose the names of callers."""
    return printable_line(name)[:MAX_NAME]
