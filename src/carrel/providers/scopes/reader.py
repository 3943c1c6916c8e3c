"""Read scopes and trees from the store, and remember their fingerprints."""

import threading
from collections.abc import Callable
from typing import Final

from carrel.core.model import Reading, Text
from carrel.core.record import Value
from carrel.providers.scopes import queries, tree
from carrel.providers.scopes.location import Location
from carrel.providers.scopes.scope_errors import not_found
from carrel.providers.scopes.sqlite import StoreConnection
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.uris import ScopesTarget, TreeQuery
from carrel.providers.scopes.values import Scope, hex_sha256, to_json

MAX_REMEMBERED: Final = 4_096
"""Fingerprints that are kept: more than a few connections can subscribe to. Past that all are computed again."""


class ReadingBounds(Value, frozen=True):
    """Settings of the provider: nodes of a tree, children listed of a scope, time that a copy stays fresh."""

    ceiling: int
    max_children: int
    ttl_ms: int


class ScopeReader:
    """Reads from an open store. Safe to use from several threads."""

    def __init__(self, location: Location, bounds: ReadingBounds) -> None:
        self.store = Store(location)
        self._bounds = bounds
        self._tokens: dict[str, tuple[str, str | None]] = {}
        self._lock = threading.Lock()

    def read(self, target: ScopesTarget) -> Reading:
        """Return a scope or a tree, or raise `SCOPE_NOT_FOUND`."""
        reading = self._find(target)
        if reading is None:
            raise not_found(target.alias)
        return reading

    def _find(self, target: ScopesTarget) -> Reading | None:
        with self.store.reading() as connection:
            scope = None if connection is None else queries.find(connection, target.alias)
            if connection is None or scope is None:
                return None
            if target.kind == "scope":
                return self._read_scope(connection, scope)
            return self._read_tree(connection, scope, target.query)

    def _read_scope(self, connection: StoreConnection, scope: Scope) -> Reading:
        described = queries.describe(connection, scope, self._bounds.max_children)
        text = to_json(described)
        return Reading(
            (Text(text),),
            mime_type="application/json",
            etag=queries.etag(scope, described, text),
            last_modified_ms=scope.updated_at,
            ttl_ms=self._bounds.ttl_ms,
        )

    def _read_tree(self, connection: StoreConnection, scope: Scope, query: TreeQuery) -> Reading:
        shown = tree.render(connection, scope, query, self._bounds.ceiling)
        meta: dict[str, object] = {
            "dev.carrel/depth": shown.depth,
            "dev.carrel/nodes": shown.nodes,
            "dev.carrel/truncated": shown.is_truncated,
        }
        if shown.next_uri is not None:
            meta["dev.carrel/next"] = shown.next_uri
        return Reading(
            (Text(shown.text, meta=meta),),
            mime_type="text/plain",
            etag=shown.etag,
            last_modified_ms=shown.last_modified_ms,
            ttl_ms=self._bounds.ttl_ms,
        )

    def roots(self, limit: int) -> list[Scope]:
        """Return the first roots, in order."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.children(connection, None, 0, limit)

    def aliases_from(self, prefix: str, limit: int) -> list[str]:
        """Return the aliases that begin with a text, by name."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.aliases_from(connection, prefix, limit)

    def is_empty(self) -> bool:
        """Return whether nothing was ever written; raise if the store cannot be read."""
        with self.store.reading() as connection:
            return connection is None

    # Fingerprints

    def fingerprint(self, uri: str, target: ScopesTarget) -> str | None:
        """Return the ETag of a URI; None while no scope has the alias."""
        return self._remembered(uri, lambda: None if (reading := self._find(target)) is None else reading.etag)

    def survey(self, limit: int) -> str:
        """Return a token of the first roots."""
        return self._remembered("", lambda: hex_sha256(to_json([(s.alias, s.title) for s in self.roots(limit)]))) or ""

    def _remembered(self, key: str, compute: Callable[[], str | None]) -> str | None:
        """Return a token that is computed only when something was committed since the last time."""
        stamp = self.store.stamp()
        known = self._tokens.get(key)
        if stamp is not None and known is not None and known[0] == stamp:
            return known[1]
        token = compute()
        with self._lock:
            if len(self._tokens) >= MAX_REMEMBERED:
                self._tokens.clear()
            if stamp is not None:
                self._tokens[key] = stamp, token
        return token
