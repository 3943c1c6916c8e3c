"""Tokens in the team's store: added and revoked once, for every replica.

A server keeps a copy, which the feed of changes keeps current: a request never waits for the database, and tokens stay
valid while it is away.
"""

from collections.abc import Mapping

from carrel.core.errors import ConfigError
from carrel.core.hashing import hex_sha256
from carrel.core.isotime import now_ms
from carrel.stores.store_errors import StoreUnavailable
from carrel.stores.token_table import SCHEME, TokenRow, TokenTable
from carrel.transports.http.shared_sessions import Missed
from carrel.transports.http.tokens import Token, TokenStore, make_token


class StoredTokens(TokenStore):
    """The tokens in the store. The local token of each machine stays in its own folder."""

    def __init__(self, environment: Mapping[str, str], table: TokenTable) -> None:
        super().__init__(environment)
        self._table = table
        self._copy: list[Token] = []
        self._version = 0

    def add(self, name: str, scopes: frozenset[str] | None) -> str:
        """Create a token and return it; only its hash is stored."""
        secret = make_token()
        row = TokenRow(name, hex_sha256(secret), None if scopes is None else tuple(sorted(scopes)), now_ms())
        if not self._table.add(row):
            raise ConfigError(f"there is a token {name!r} already; revoke it first, or choose another name")
        return secret

    def revoke(self, name: str) -> bool:
        """Revoke a token; return whether it existed."""
        return self._table.remove(name)

    def all(self) -> list[Token]:
        """Return every added token, in order, from the store."""
        return [Token(row.name, row.digest, row.rights, row.created_ms) for row in self._table.rows()]

    def kept(self) -> list[Token]:
        """Return the copy of the tokens, without waiting."""
        return self._copy

    def state(self) -> tuple[int, int]:
        """Return a value that changes with the copy."""
        return self._version, 0

    def refresh(self) -> None:
        """Read the tokens again; may wait, and raise `StoreUnavailable`."""
        self._copy = self.all()
        self._version += 1

    def begin(self) -> None:
        """Make the first copy; raise ConfigError if the store does not answer."""
        try:
            self.refresh()
        except StoreUnavailable as error:
            raise ConfigError(error.detail) from None

    def hear(self, changes: Missed) -> None:
        """Learn from the feed that tokens were added or revoked."""
        if changes.is_all or any(scheme == SCHEME for scheme, _ in changes.uris):
            self.refresh()
