"""Bearer tokens of this machine: the local token, made at the first start, and those that the user adds.

The local token may do everything. It is stored as plain text in the user's state folder, readable only by the user:
a program that can read it there can also read the served files. Other tokens are stored as hashes. A comparison
takes the same time for every token.
"""

import json
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from hmac import compare_digest
from time import monotonic
from typing import Final

from carrel.catalog.access import Access
from carrel.catalog.groups import NO_GROUPS, Groups
from carrel.core.errors import ConfigError
from carrel.core.hashing import hex_sha256
from carrel.core.isotime import now_ms
from carrel.core.record import Value
from carrel.files.atomic import FILE_MODE, locked, replace_private
from carrel.files.userdirs import state_folder

log = logging.getLogger(__name__)

PREFIX: Final = "carrel_"
_LOOK_S: Final = 1.0
"""Interval at which a running server looks for added and revoked tokens."""


class Token(Value, frozen=True):
    """A stored token. Without `scopes`, it may do everything."""

    name: str
    digest: str
    scopes: tuple[str, ...] | None
    created_ms: int


class TokenStore:
    """The tokens in the user's state folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        folder = state_folder(environment)
        self._path = os.path.join(folder, "tokens.json")
        self.local_path = os.path.join(folder, "local-token")

    def local(self) -> tuple[str, bool]:
        """Return the local token, and whether it was created just now."""
        if os.path.exists(self.local_path):
            return self._read_local(), False
        with locked(self.local_path):
            if os.path.exists(self.local_path):
                return self._read_local(), False
            token = make_token()
            replace_private(self.local_path, token + "\n")
        return token, True

    def _read_local(self) -> str:
        with open(self.local_path, encoding="ascii", errors="replace") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                os.fchmod(file.fileno(), FILE_MODE)
            token = file.read().strip()
        if len(token) < len(PREFIX) + 32:
            raise ConfigError(f"{self.local_path}: contains no token; remove the file to get a new one")
        return token

    def add(self, name: str, scopes: frozenset[str] | None) -> str:
        """Create a token and return it; only its hash is stored."""
        secret = make_token()
        kept = None if scopes is None else tuple(sorted(scopes))
        with locked(self._path):
            tokens = self.all()
            if any(token.name == name for token in tokens):
                raise ConfigError(f"there is a token {name!r} already; revoke it first, or choose another name")
            self._save([*tokens, Token(name, hex_sha256(secret), kept, now_ms())])
        return secret

    def revoke(self, name: str) -> bool:
        """Revoke a token; return whether it existed."""
        with locked(self._path):
            tokens = self.all()
            rest = [token for token in tokens if token.name != name]
            if len(rest) != len(tokens):
                self._save(rest)
        return len(rest) != len(tokens)

    def all(self) -> list[Token]:
        """Return every added token, in order."""
        try:
            with open(self._path, encoding="utf-8") as file:
                known = json.load(file)
            return [
                Token(
                    row["name"], row["sha256"], None if row["scopes"] is None else tuple(row["scopes"]), row["created"]
                )
                for row in known["tokens"]
            ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(f"{self._path}: cannot be read as a list of tokens") from None

    def kept(self) -> list[Token]:
        """Return every added token, for a server that checks them; must not wait long."""
        return self.all()

    def state(self) -> tuple[int, int]:
        """Return a value that changes when the file changes."""
        try:
            found = os.stat(self._path)
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino

    def _save(self, tokens: list[Token]) -> None:
        rows = [
            {"name": one.name, "sha256": one.digest, "scopes": one.scopes, "created": one.created_ms} for one in tokens
        ]
        replace_private(self._path, json.dumps({"tokens": rows}, indent=2))


class Keyring:
    """The tokens of a running server: the local one, and those that are added meanwhile."""

    def __init__(self, store: TokenStore, local: str | None, groups: Groups = NO_GROUPS) -> None:
        self._store = store
        self._groups = groups
        self._local = [] if local is None else [(hex_sha256(local), Access("local"))]
        self._lock = threading.Lock()
        self._state = (-1, -1)
        self._looked_at = float("-inf")
        self._known: list[tuple[str, Access]] = []

    def find(self, token: str) -> Access | None:
        """Return the access of a token. All tokens are compared, so that the time reveals nothing."""
        self._look()
        digest = hex_sha256(token)
        found = None
        for known, access in self._known:
            if compare_digest(known, digest):
                found = access
        return found

    def _look(self) -> None:
        now = monotonic()
        if now - self._looked_at < _LOOK_S:
            return
        with self._lock:
            state = self._store.state()
            if state != self._state:
                self._known, self._state = [*self._local, *self._added()], state
            # Last: other threads see it without the lock, and then use `_known`.
            self._looked_at = now

    def _added(self) -> list[tuple[str, Access]]:
        """Return the tokens of the file; none if it cannot be read."""
        try:
            tokens = self._store.kept()
        except ConfigError as error:
            log.warning("%s", error)
            return []
        return [(token.digest, Access(f"token {token.name}", self._rights_of(token))) for token in tokens]

    def _rights_of(self, token: Token) -> frozenset[str] | None:
        return None if token.scopes is None else self._groups.rights_of(token.name).union(token.scopes)


def make_token() -> str:
    """Return a new token."""
    return PREFIX + secrets.token_urlsafe(32)
