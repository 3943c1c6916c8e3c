"""One transaction of a store, with the small interface that SQLite connections have too.

Statements are written once for both databases: placeholders are question marks, and the tables have their plain names.
Here they are translated for PostgreSQL, once for each statement.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from typing import Any, Final

import psycopg
from psycopg import errors as postgres

from carrel.stores.constraints import ConstraintViolated

Row = tuple[Any, ...]
Versions = tuple[str | None, str | None]
"""The ETags of a resource before and after a change; None where it did not exist."""

_TABLES: Final = re.compile(r"(?<!')\b(scopes|aliases|idempotency|documents|generations|outbox)\b(?! ?=|\.)")


class StoreSession:
    """A running transaction.

    `changed` are the (scheme, URI) that it reports when it is committed, `audited` the ETags of what it changed, by
    (tool, URI). `audited_children` is for scopes: how many children the ETag of a scope names.
    """

    audited_children: int | None = None

    def __init__(self, connection: psycopg.Connection[Row], generation: int = 0) -> None:
        self._connection = connection
        self.generation = generation
        self.changed: dict[tuple[str, str], None] = {}
        self.audited: dict[tuple[str, str], Versions] = {}

    def execute(self, statement: str, values: Sequence[object] = (), /) -> psycopg.Cursor[Row]:
        """Run a statement; raise `ConstraintViolated` if it breaks a constraint."""
        with _constraints():
            return self._connection.execute(translated(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> None:
        """Run a statement for each row, in few round trips."""
        with _constraints():
            self._connection.cursor().executemany(translated(statement), rows)

    def count_changed(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return the number of rows that it changed."""
        return self.execute(statement, values).rowcount

    def defer_constraints(self) -> None:
        """Check foreign keys when the transaction ends, not after each statement."""
        self.execute("SET CONSTRAINTS ALL DEFERRED")

    def ranked(self, ids: Sequence[str]) -> tuple[str, tuple[object, ...]]:
        """Return a source of rows (id, rank) for a FROM clause, and its values."""
        source = "(SELECT id, n - 1 AS rank FROM unnest(CAST(? AS text[])) WITH ORDINALITY AS given(id, n))"
        return source, (list(ids),)

    def size(self) -> float:
        """Return infinity: the store is trusted, and has no limit for the size of its data."""
        return inf

    def allow_time(self, seconds: float) -> None:
        """Do nothing: each statement has the whole time of its transaction."""

    @contextmanager
    def long_texts(self) -> Iterator[None]:
        """Allow long texts, which PostgreSQL always does."""
        yield

    def report(self, uri: str) -> None:
        """Report to other servers that a resource changes with this transaction."""
        self.changed[uri.partition(":")[0], uri] = None

    def record(self, uri: str, before: str | None = None, after: str | None = None) -> None:
        """Report a change, and keep it in the audit record with the ETags before and after."""
        self.report(uri)
        self.audit(uri, before, after)

    def audit(self, uri: str, before: str | None = None, after: str | None = None, tool: str = "") -> None:
        """Keep a change in the audit record; without a `tool`, with the one that is called."""
        first = self.audited.get((tool, uri), (before, None))[0]
        self.audited[tool, uri] = first, after


@contextmanager
def _constraints() -> Iterator[None]:
    try:
        yield
    except postgres.IntegrityError as error:
        raise ConstraintViolated(error.diag.constraint_name or "") from error


@lru_cache(maxsize=512)
def translated(statement: str) -> str:
    """Return a statement of the common form in that of PostgreSQL and psycopg."""
    named = _TABLES.sub(r"carrel_\1", statement.replace("CROSS JOIN", "JOIN"))
    return named.replace("%", "%%").replace("?", "%s")
