"""The interface of a store of scopes. The SQLite file (`store`) and the team's database (`team_store`) implement it.

A statement is written once, with question marks and the plain names of tables, in SQL that both databases accept. Where
their SQL differs, the connection has a method.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class ScopeRows(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class ScopesConnection(Protocol):
    """A running transaction."""

    @property
    def audited_children(self) -> int | None:
        """How many children the ETag of a scope names, where changes are kept with their ETags; else None."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> ScopeRows: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...

    def count_changed(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return the number of rows that it changed."""
        ...

    def defer_constraints(self) -> None:
        """Check foreign keys when the transaction ends, not after each statement."""
        ...

    def ranked(self, ids: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
        """Return a source of rows (id, rank) for a FROM clause, and its values."""
        ...

    def size(self) -> float:
        """Return the size of the store in bytes; infinity for a store that is trusted."""
        ...

    def allow_time(self, seconds: float) -> None:
        """End every statement at this time from now."""
        ...

    def long_texts(self) -> AbstractContextManager[None]:
        """Allow long texts inside the block."""
        ...

    def record(self, uri: str, before: str | None = None, after: str | None = None) -> None:
        """Report to other servers that a resource changes with this transaction, and others of scopes with it.

        `before` and `after` are its ETags, for the audit record of a team.
        """
        ...

    def audit(self, uri: str, before: str | None = None, after: str | None = None) -> None:
        """Keep a further change in the audit record of a team; it is reported with another one."""
        ...


class ScopesStore(Protocol):
    """A store. Safe to use from several threads."""

    @property
    def path(self) -> str:
        """Its place, for messages on this machine."""
        ...

    @property
    def is_frozen(self) -> bool:
        """Whether changes by other programs may not be seen."""
        ...

    def identity(self) -> object | None:
        """Return which store is there now; None if nothing was ever written."""
        ...

    def reading(self) -> AbstractContextManager[ScopesConnection | None]:
        """Yield a connection with one snapshot from the first query to the last; None for an empty store."""
        ...

    def writing(self, *, is_rehearsal: bool = False, is_long: bool = False) -> AbstractContextManager[ScopesConnection]:
        """Yield the connection of the only writer, and commit its changes unless it is a rehearsal."""
        ...

    def stamp(self) -> str | None:
        """Return a token that changes with every commit of any process; None for an empty store."""
        ...

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        ...
