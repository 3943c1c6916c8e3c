"""What a server shares with the other replicas of a desk: sealed sessions, allowances, and their changes."""

from typing import TYPE_CHECKING, Final

from carrel.app.registration import BUILT_IN
from carrel.catalog.watcher import Watcher
from carrel.core.errors import ConfigError
from carrel.core.provider import Secret
from carrel.stores.store_errors import StoreUnavailable

if TYPE_CHECKING:
    from carrel.server.shared_ratelimit import SharedAllowances
    from carrel.stores.database import Database
    from carrel.stores.feed import ChangeFeed
    from carrel.stores.outbox import OutboxChanges
    from carrel.transports.http.stored_tokens import StoredTokens

LEAST_KEY: Final = 16
STORED: Final = tuple(scheme for one in BUILT_IN if one.is_stored for scheme in one.schemes)
"""The schemes whose records are kept in the team's store."""


class SessionSettings:
    """The section `[session]`: the key that seals the ids of sessions, the same for every replica."""

    def __init__(self, key: Secret | None = None) -> None:
        if key is not None and len(key) < LEAST_KEY:
            raise ConfigError(f"key: expected at least {LEAST_KEY} characters, best made at random")
        self.key = key


class Replica:
    """One server of several that serve the same desk."""

    def __init__(self, store: "Database | None", key: str | None, watcher: Watcher) -> None:
        """Take the key from the settings, or else from the store."""
        from carrel.transports.http.session_seal import SessionSeal  # only where sessions are shared
        from carrel.transports.http.shared_sessions import SharedSessions

        self._watcher = watcher
        self.allowances = None if store is None else _allowances_of(store)
        self._feed = None if store is None else _feed_of(store)
        if store is None or self._feed is None:
            self.sessions = SharedSessions(SessionSeal((key or "").encode()))
            return
        from carrel.stores.session_registry import SessionRegistry  # only where there is a store

        registry = SessionRegistry(store)
        try:
            seal = SessionSeal(registry.key() if key is None else key.encode())
            self.sessions = SharedSessions(seal, registry, self._feed.old_token, STORED)
            self._feed.add(self._hear)
            self._feed.add_overdue(self.sessions.end_overdue)
            self._feed.start()  # before the ended sessions are read: one that ends meanwhile is heard of
            self.sessions.start()
        except StoreUnavailable as error:
            self._feed.close()
            raise ConfigError(error.detail) from None

    def _hear(self, changes: "OutboxChanges") -> None:
        """Notify the clients of this server of what another one changed."""
        changed = set(STORED) if changes.is_all else {scheme for scheme, _ in changes.uris}
        for scheme in changed.intersection(STORED):
            self._watcher.look_again(scheme, frozenset(uri for its, uri in changes.uris if its == scheme))
        self.sessions.hear(changes)

    def follow_tokens(self, tokens: "StoredTokens") -> None:
        """Keep the tokens of this server current."""
        if self._feed is not None:
            self._feed.add(tokens.hear)

    def close(self) -> None:
        """Stop listening to the other replicas."""
        if self._feed is not None:
            self._feed.close()
        if self.allowances is not None:
            self.allowances.close()


def _allowances_of(store: "Database") -> "SharedAllowances":
    from carrel.server.shared_ratelimit import SharedAllowances  # only where there is a store
    from carrel.stores.allowance_table import AllowanceTable

    return SharedAllowances(AllowanceTable(store).exchange)


def _feed_of(store: "Database") -> "ChangeFeed":
    from carrel.stores.feed import ChangeFeed  # only where there is a store

    return ChangeFeed(store)
