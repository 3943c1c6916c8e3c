"""What the commands of `carrel scopes` share: the store they work on, how they print, how a scope is named."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from carrel.cli import output
from carrel.providers.scopes import queries
from carrel.providers.scopes.scope_errors import not_found
from carrel.providers.scopes.sqlite import StoreConnection
from carrel.providers.scopes.store import Store, blank
from carrel.providers.scopes.values import Scope, check_alias, is_alias, is_id, normalise_alias

Given = Mapping[str, Any]
"""What a command was given, by the names of its arguments and options."""


@dataclass(frozen=True, slots=True)
class Session:
    """The store a command works on, and how it prints."""

    store: Store
    is_json: bool
    ceiling: int
    max_children: int

    @contextmanager
    def reading(self) -> Iterator[StoreConnection]:
        """Give a snapshot; of a store that is not there, an empty one."""
        with self.store.reading() as connection:
            if connection is not None:
                yield connection
                return
        with blank() as connection:
            yield connection

    @contextmanager
    def writing(self, scope: str, *, is_rehearsal: bool = False) -> Iterator[StoreConnection]:
        """Give a transaction in which that scope may be changed; no store is made for one that cannot be there."""
        if self.store.identity() is None:
            with blank() as connection:
                find(connection, scope)
        with self.store.writing(is_rehearsal=is_rehearsal) as connection:
            yield connection

    def tell(self, told: Mapping[str, Any], *lines: str) -> None:
        """Print lines, or the value where JSON is wanted."""
        if self.is_json:
            output.print_json(told)
        else:
            output.print_text("\n".join(lines))


def find(connection: StoreConnection, text: str) -> Scope:
    """Give the scope that an alias or an id names."""
    alias, scope_id = normalise_alias(text), text.strip().lower()
    found = queries.find(connection, alias) if is_alias(alias) else None
    if found is None and is_id(scope_id):
        found = queries.by_id(connection, scope_id)
    if found is None:
        raise not_found(scope_id if is_id(scope_id) else check_alias(text))
    return found
