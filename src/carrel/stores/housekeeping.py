"""Remove what is old from the store: now and then, in every process that writes to it."""

from typing import Final

import psycopg

from carrel.stores.audit import prune_audit
from carrel.stores.outbox import prune
from carrel.stores.session import Row

SESSIONS_KEPT: Final = "2 days"
"""How long sessions that ended, and subscriptions, are remembered: longer than any session lasts."""


def tidy(connection: psycopg.Connection[Row], audit_days: int | None) -> None:
    """Remove old changes, rows of the audit record, sessions, and allowances that are whole again."""
    prune(connection)
    if audit_days is not None:
        prune_audit(connection, audit_days)
    prune_sessions(connection)
    connection.execute("DELETE FROM carrel_allowances WHERE at < now() - interval '1 hour'")


def prune_sessions(connection: psycopg.Connection[Row]) -> None:
    """Remove sessions that ended long ago, and the subscriptions of sessions that nobody ended."""
    connection.execute(
        f"DELETE FROM carrel_ended_sessions WHERE ended_at < now() - interval '{SESSIONS_KEPT}'".encode()
    )
    connection.execute(f"DELETE FROM carrel_session_uris WHERE added_at < now() - interval '{SESSIONS_KEPT}'".encode())
