"""Sealed session ids: what a legacy session has agreed on, encrypted in its id, so that any replica can read it.

The id is a JWE with a key that all replicas share. A client can neither read nor change it, and it is valid only for
the caller who opened the session.
"""

import json
import secrets
from time import time
from typing import Final

from carrel.catalog.access import Access
from carrel.core.hashing import sha256
from carrel.core.record import Value

LIFE_S: Final = 86_400
"""How long a session lasts: its id is not valid afterwards."""
MAX_ID: Final = 8_192
MAX_CLIENT: Final = 100
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}


class SessionState(Value, frozen=True):
    """What is sealed in an id: a name of the session, the caller, the protocol's version, and the client's name."""

    name: str
    caller: str
    version: str
    client: str
    expires_at: int


class SessionSeal:
    """Makes and reads session ids."""

    def __init__(self, key: bytes) -> None:
        from joserfc.jwk import OctKey  # loads the cryptography library; only where sessions are shared

        self._key = OctKey.import_key(bytes(sha256(b"carrel session " + key).digest()))

    def seal(self, access: Access, version: str, client: str) -> tuple[str, SessionState]:
        """Return the id of a new session, and what is sealed in it."""
        from joserfc import jwe

        state = SessionState(
            secrets.token_hex(16), caller_of(access), version, client[:MAX_CLIENT], int(time()) + LIFE_S
        )
        packed = [state.name, state.caller, state.version, state.client, state.expires_at]
        return jwe.encrypt_compact(_HEADER, json.dumps(packed), self._key), state

    def open(self, session_id: str, access: Access) -> SessionState | None:
        """Return what is sealed in an id; None for one that is not ours, of another caller, or too old."""
        from joserfc import jwe
        from joserfc.errors import JoseError

        if len(session_id) > MAX_ID or session_id.count(".") != 4:
            return None
        try:
            opened = jwe.decrypt_compact(session_id, self._key, algorithms=list(_HEADER.values()))
            name, caller, version, client, expires_at = json.loads(opened.plaintext or b"")
            state = SessionState(name, caller, version, client, expires_at)
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        is_valid = state.expires_at > time() and secrets.compare_digest(state.caller, caller_of(access))
        return state if is_valid else None


def caller_of(access: Access) -> str:
    """Return a hash of a caller's name and rights: with other rights, a session is another one."""
    rights = "everything" if access.scopes is None else " ".join(sorted(access.scopes))
    return str(sha256(f"{access.name}\n{rights}".encode()).hexdigest())
