"""What the commands of `carrel scopes` share: the store, the output format, and how to find a scope."""

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
"""The values of a command's arguments and options, by name."""


@dataclass(frozen=True, slots=True)
class Session:
    """The store that a command works on, and its output format."""

    store: Store
    is_json: bool
    ceiling: int
    max_children: int

    @contextmanager
    def reading(self) -> Iterator[StoreConnection]:
        """Open a snapshot of the store; an empty one if there is no store."""
        with self.store.reading() as connection:
            if connection is not None:
                yield connection
                return
        with blank() as connection:
            yield connection

    @contextmanager
    def writing(self, scope: str, *, is_rehearsal: bool = False) -> Iterator[StoreConnection]:
        """Open a transaction to change a scope; raise "not found" instead of creating a store for it."""
        if self.store.identity() is None:
            with blank() as connection:
                find(connection, scope)
        with self.store.writing(is_rehearsal=is_rehearsal) as connection:
            yield connection

    def report(self, value: Mapping[str, Any], *lines: str) -> None:
        """Print lines; with --json, the value."""
        if self.is_json:
            output.print_json(value)
        else:
            output.print_text("\n".join(lines))


def find(connection: StoreConnection, text: str) -> Scope:
    """Return the scope with an alias or an id."""
    alias, scope_id = normalise_alias(text), text.strip().lower()
    found = queries.find(connection, alias) if is_alias(alias) else None
    if found is None and is_id(scope_id):
        found = queries.by_id(connection, scope_id)
    if found is None:
        raise not_found(scope_id if is_id(scope_id) else check_alias(text))
    return found
