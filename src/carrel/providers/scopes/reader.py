"""Read scopes and trees from the store, and remember their fingerprints."""

from collections.abc import Callable
from typing import Final

from carrel.core.cache import BoundedCache
from carrel.core.hashing import hex_sha256
from carrel.core.model import Reading, Text
from carrel.core.provider import Document
from carrel.providers.scopes import queries, tree
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.scope_errors import not_found
from carrel.providers.scopes.uris import TreeQuery
from carrel.providers.scopes.values import SCOPE_URI, Scope, to_json

MAX_REMEMBERED: Final = 4_096
"""Maximum number of fingerprints that are kept: more than a few connections can subscribe to."""


MAX_DOCUMENTS: Final = 500_000
MAX_GIVEN: Final = 20_000
"""Maximum number of scopes that search finds, and up to which their texts are returned with them."""


class ScopeReader:
    """Reads from an open store. Safe to use from several threads.

    The settings are the maximum nodes of a tree, the maximum listed children, and how long clients may keep answers.
    """

    def __init__(self, store: ScopesStore, max_nodes: int, max_children: int, ttl_ms: int) -> None:
        self.store = store
        self._max_nodes = max_nodes
        self._max_children = max_children
        self._ttl_ms = ttl_ms
        self._tokens: BoundedCache[str, tuple[str, str | None]] = BoundedCache(MAX_REMEMBERED)

    def read(self, alias: str, query: TreeQuery | None) -> Reading:
        """Return a scope, or with a query its tree; raise `SCOPE_NOT_FOUND`."""
        reading = self._find(alias, query)
        if reading is None:
            raise not_found(alias)
        return reading

    def _find(self, alias: str, query: TreeQuery | None) -> Reading | None:
        with self.store.reading() as connection:
            scope = None if connection is None else queries.find(connection, alias)
            if connection is None or scope is None:
                return None
            if query is None:
                return self._read_scope(connection, scope)
            return self._read_tree(connection, scope, query)

    def _read_scope(self, connection: ScopesConnection, scope: Scope) -> Reading:
        described = queries.describe(connection, scope, self._max_children)
        text = to_json(described)
        return Reading(
            (Text(text),),
            mime_type="application/json",
            etag=queries.etag(scope, described, text),
            last_modified_ms=scope.updated_at,
            ttl_ms=self._ttl_ms,
        )

    def _read_tree(self, connection: ScopesConnection, scope: Scope, query: TreeQuery) -> Reading:
        shown = tree.render(connection, scope, query, self._max_nodes)
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
            ttl_ms=self._ttl_ms,
        )

    def roots(self, limit: int) -> list[Scope]:
        """Return the first roots, in order."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.children(connection, None, 0, limit)

    def children(self, alias: str | None, after: str) -> list[queries.Sibling]:
        """Return the next children of a scope, or of the top, after a sort key."""
        with self.store.reading() as connection:
            scope = None if connection is None or alias is None else queries.find(connection, alias)
            if connection is None or (alias is not None and scope is None):
                raise not_found(alias or "")
            return queries.children_after(connection, None if scope is None else scope.id, after)

    def documents(self) -> list[Document]:
        """Return every scope as search finds it: by its title and description."""
        with self.store.reading() as connection:
            found = [] if connection is None else queries.every(connection, MAX_DOCUMENTS)
        is_given = len(found) <= MAX_GIVEN  # the text of more is read when it is needed
        return [_document(scope, is_given=is_given) for scope in found]

    def aliases_from(self, prefix: str, limit: int) -> list[str]:
        """Return the aliases that begin with a text, by name."""
        with self.store.reading() as connection:
            return [] if connection is None else queries.aliases_from(connection, prefix, limit)

    def is_empty(self) -> bool:
        """Return whether nothing was ever written; raise if the store cannot be read."""
        with self.store.reading() as connection:
            return connection is None

    # Fingerprints

    def fingerprint(self, alias: str, query: TreeQuery | None) -> str | None:
        """Return the ETag of a scope, or with a query of its tree; None while no scope has the alias."""
        key = alias if query is None else f"{alias}?{query.text()}"
        return self._remembered(key, lambda: None if (reading := self._find(alias, query)) is None else reading.etag)

    def list_fingerprint(self, limit: int) -> str:
        """Return a token of the first roots."""
        return self._remembered("", lambda: hex_sha256(to_json([(s.alias, s.title) for s in self.roots(limit)]))) or ""

    def _remembered(self, key: str, compute: Callable[[], str | None]) -> str | None:
        """Return a token that is computed only when something was committed since the last time."""
        stamp = self.store.stamp()
        known = self._tokens.get(key)
        if stamp is not None and known is not None and known[0] == stamp:
            return known[1]
        token = compute()
        if stamp is not None:
            self._tokens.put(key, (stamp, token), 1)
        return token


def _document(scope: Scope, *, is_given: bool) -> Document:
    text = f"{scope.title}\n{scope.description or ''}\n{scope.status} {scope.alias}\n"
    fingerprint = f"{scope.updated_at}-{hex_sha256(text)[:16]}"
    given = text if is_given else None
    return Document(
        SCOPE_URI + scope.alias, fingerprint, scope.title, "application/json", len(text), scope.updated_at, given
    )
