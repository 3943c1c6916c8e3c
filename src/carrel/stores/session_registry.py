"""The data about legacy sessions that replicas share: the key of their ids, their subscriptions, the ended ones."""

import secrets
from collections.abc import Iterable
from typing import Final

import psycopg

from carrel.stores.database import Database
from carrel.stores.housekeeping import prune_sessions
from carrel.stores.outbox import OutboxChanges, changes_since

SCHEME: Final = "carrel-session"
"""Stands for the scheme in the outbox, where the id of a session stands for the URI."""
_KEY_BYTES: Final = 32


class SessionRegistry:
    """The sessions in the store. Each call is one short transaction, and may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def key(self) -> bytes:
        """Return the key that all replicas of this store use; the first replica creates it."""
        with self._database.changing() as session:
            made = secrets.token_bytes(_KEY_BYTES)
            statement = "INSERT INTO carrel_secrets (name, value) VALUES ('sessions', ?) ON CONFLICT DO NOTHING"
            session.execute(statement, (made,))
            [(key,)] = session.execute("SELECT value FROM carrel_secrets WHERE name = 'sessions'").fetchall()
            return bytes(key)

    def subscribe(self, session_id: str, uri: str) -> None:
        """Remember that a session is subscribed to a URI, and tell the other replicas."""
        with self._database.changing() as session:
            statement = "INSERT INTO carrel_session_uris (session, uri) VALUES (?, ?) ON CONFLICT DO NOTHING"
            if session.count_changed(statement, (session_id, uri)):
                session.changed[SCHEME, session_id] = None

    def unsubscribe(self, session_id: str, uri: str) -> None:
        """Forget a subscription, and tell the other replicas."""
        with self._database.changing() as session:
            statement = "DELETE FROM carrel_session_uris WHERE session = ? AND uri = ?"
            if session.count_changed(statement, (session_id, uri)):
                session.changed[SCHEME, session_id] = None

    def uris(self, session_id: str) -> list[str]:
        """Return the URIs that a session is subscribed to, in order."""
        with self._database.connection() as connection:
            statement = "SELECT uri FROM carrel_session_uris WHERE session = %s ORDER BY added_at, uri"
            return [str(uri) for (uri,) in connection.execute(statement, (session_id,))]

    def end(self, session_ids: Iterable[str]) -> None:
        """End sessions on all replicas, in one transaction."""
        with self._database.changing() as session:
            ids = sorted(session_ids)
            session.execute("DELETE FROM carrel_session_uris WHERE session = ANY(?)", (ids,))
            statement = "INSERT INTO carrel_ended_sessions (session) SELECT unnest(?::text[]) ON CONFLICT DO NOTHING"
            session.execute(statement, (ids,))
            session.changed.update(dict.fromkeys((SCHEME, one) for one in ids))

    def ended(self, among: Iterable[str] | None = None) -> frozenset[str]:
        """Return the ended sessions, all or those in `among`; for all, first delete old records."""
        with self._database.connection() as connection:
            if among is None:
                prune_sessions(connection)
                rows = connection.execute("SELECT session FROM carrel_ended_sessions").fetchall()
            else:
                statement = "SELECT session FROM carrel_ended_sessions WHERE session = ANY(%s)"
                rows = connection.execute(statement, (list(among),)).fetchall()
            return frozenset(str(session_id) for (session_id,) in rows)

    def changes_since(self, token: str) -> OutboxChanges:
        """Return the changes since a token that a client sent; `is_all` if the token is not valid."""
        with self._database.connection() as connection:
            try:
                return changes_since(connection, token)
            except psycopg.DataError:
                return OutboxChanges((), "", is_all=True)
