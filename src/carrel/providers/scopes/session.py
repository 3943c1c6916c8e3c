"""The store, asked and changed as the provider's resources and tools want it."""

import threading
from collections.abc import Mapping
from typing import Final

from carrel.core.model import ToolResult
from carrel.core.record import Value
from carrel.providers.scopes import queries, tool_calls, tree
from carrel.providers.scopes.location import Location
from carrel.providers.scopes.scope_errors import not_found
from carrel.providers.scopes.sqlite import StoreConnection
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.tree import Rendered
from carrel.providers.scopes.uris import ScopesTarget, TreeQuery
from carrel.providers.scopes.values import Scope, hex_sha256, to_json

MAX_REMEMBERED: Final = 4_096
"""Fingerprints kept: more than can be subscribed on a few connections; past that they are asked for again."""


class Told(Value, frozen=True, gc=False):
    """One scope, as its resource shows it."""

    text: str
    etag: str
    last_modified_ms: int


def _told(connection: StoreConnection, scope: Scope, max_children: int) -> Told:
    told = queries.describe(connection, scope, max_children)
    text = to_json(told)
    return Told(text, queries.etag(scope, told, text), scope.updated_at)


class Ledger:
    """An open store. Safe to use from several threads."""

    def __init__(self, location: Location) -> None:
        self.store = Store(location)
        self._tokens: dict[str, tuple[str, str | None]] = {}
        self._lock = threading.Lock()

    def scope(self, alias: str, max_children: int) -> Told:
        """Give one scope."""
        with self.store.reading() as connection:
            scope = None if connection is None else queries.find(connection, alias)
            if connection is None or scope is None:
                raise not_found(alias)
            return _told(connection, scope, max_children)

    def tree(self, alias: str, query: TreeQuery, ceiling: int) -> Rendered:
        """Give a scope's tree."""
        with self.store.reading() as connection:
            scope = None if connection is None else queries.find(connection, alias)
            if connection is None or scope is None:
                raise not_found(alias)
            return tree.render(connection, scope, query, ceiling)

    def roots(self, limit: int) -> list[Scope]:
        """Give the first roots, in order."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.children(connection, None, 0, limit)

    def aliases_from(self, prefix: str, limit: int) -> list[str]:
        """Give aliases that begin with a text, by name."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.aliases_from(connection, prefix, limit)

    def fingerprint(self, uri: str, target: ScopesTarget, ceiling: int, max_children: int) -> str | None:
        """Give the ETag of a URI, or None while no scope has the alias; looked up only after a commit."""
        stamp = self.store.stamp()
        known = self._tokens.get(uri)
        if stamp is not None and known is not None and known[0] == stamp:
            return known[1]
        with self.store.reading() as connection:
            scope = None if connection is None else queries.find(connection, target.alias)
            if connection is None or scope is None:
                token = None
            elif target.kind == "scope":
                token = _told(connection, scope, max_children).etag
            else:
                token = tree.render(connection, scope, target.query, ceiling).etag
        self._remember(uri, stamp, token)
        return token

    def survey(self, limit: int) -> str:
        """Give a token of the first roots; looked up only after a commit."""
        stamp = self.store.stamp()
        known = self._tokens.get("")
        if stamp is not None and known is not None and known[0] == stamp:
            return known[1] or ""
        listed = [(scope.alias, scope.title) for scope in self.roots(limit)]
        token = hex_sha256(to_json(listed))
        self._remember("", stamp, token)
        return token

    def _remember(self, uri: str, stamp: str | None, token: str | None) -> None:
        with self._lock:
            if len(self._tokens) >= MAX_REMEMBERED:
                self._tokens.clear()
            if stamp is not None:
                self._tokens[uri] = stamp, token

    def check(self) -> bool:
        """Tell whether anything was ever written; raise if the store cannot be read."""
        with self.store.reading() as connection:
            return connection is not None

    def call(self, name: str, arguments: Mapping[str, object], max_children: int) -> ToolResult:
        """Run a tool."""
        return tool_calls.call(self.store, name, arguments, max_children)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
