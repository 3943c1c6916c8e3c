"""The tokens of callers in the store: name, hash, rights (None for all) and time. Replicas are notified of changes."""

from typing import Final

from carrel.core.record import Value
from carrel.core.uri import quote
from carrel.stores.database import Database

SCHEME: Final = "carrel-tokens"
"""Stands for the scheme in the outbox when a token was added or revoked."""


class TokenRow(Value, frozen=True):
    """One token."""

    name: str
    digest: str
    rights: tuple[str, ...] | None
    created_ms: int


class TokenTable:
    """The table of tokens. Each call is one short transaction, and may raise `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self) -> list[TokenRow]:
        """Return every token, in the order of their creation."""
        with self._database.connection() as connection:
            statement = "SELECT name, digest, rights, created_ms FROM carrel_tokens ORDER BY created_ms, name"
            found = connection.execute(statement).fetchall()
        return [
            TokenRow(name, digest, None if rights is None else tuple(rights), ms) for name, digest, rights, ms in found
        ]

    def add(self, row: TokenRow) -> bool:
        """Add a token; return False if there is one of this name."""
        with self._database.changing() as session:
            statement = "INSERT INTO carrel_tokens VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            values = (row.name, row.digest, None if row.rights is None else list(row.rights), row.created_ms)
            is_new = session.count_changed(statement, values) > 0
            if is_new:
                session.changed[SCHEME, ""] = None
                session.audit(_uri(row.name))
            return is_new

    def remove(self, name: str) -> bool:
        """Remove a token; return whether there was one."""
        with self._database.changing() as session:
            has_gone = session.count_changed("DELETE FROM carrel_tokens WHERE name = ?", (name,)) > 0
            if has_gone:
                session.changed[SCHEME, ""] = None
                session.audit(_uri(name))
            return has_gone


def _uri(name: str) -> str:
    """Return what stands for a token in the audit record: its name, which is no secret."""
    return f"carrel://token/{quote(name, '')}"
