"""Tokens of an outside authorization server: signed, for this server, and not expired.

Carrel is a resource server only. Keys come from a file or an address; a key that is not
known is looked for again, at most once a minute. Verifying may wait for the network, so it
belongs on a worker thread; what was verified is remembered until it expires.
"""

import json
import logging
import threading
from collections import OrderedDict
from time import monotonic, time
from typing import Any, Final
from urllib.parse import urlsplit

from carrel.addresses import is_in_clear
from carrel.digest import sha256
from carrel.errors import ConfigError
from carrel.permissions import Access

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Public keys only: with a shared secret, whoever can verify could sign."""

REFRESH_S: Final = 60.0
MAX_AGE_S: Final = 3_600.0
FETCH_S: Final = 5.0
MAX_JWKS_BYTES: Final = 1 << 20
MAX_KNOWN: Final = 1_024
LEEWAY_S: Final = 30


class Issuer:
    """An authorization server that may send people here."""

    def __init__(self, issuer: str, audience: str, jwks: str) -> None:
        self.issuer = issuer
        self.audience = audience
        self._jwks = jwks
        self._lock = threading.Lock()
        self._keys: Any = None
        self._fetched_at = float("-inf")
        self._known: OrderedDict[bytes, Access] = OrderedDict()
        if is_in_clear(urlsplit(jwks)):
            raise ConfigError(
                f"[http] jwks: {jwks} is not https; keys that anybody can change on the way prove nothing"
            )

    def known(self, token: str) -> Access | None:
        """Give the access of a token that was verified before and still holds."""
        digest = _hash(token)
        with self._lock:
            access = self._known.get(digest)
            if access is None or access.expires_at is None or access.expires_at > time():
                return access
            del self._known[digest]
        return None

    def verify(self, token: str) -> Access | None:
        """Give the access of a token, or None for one that is not good; may wait for the keys."""
        claims = self._claims(token)
        if claims is None:
            return None
        scope = claims.get("scope", claims.get("scp", ""))
        words = scope.split() if isinstance(scope, str) else [word for word in scope if isinstance(word, str)]
        access = Access(f"jwt {claims.get('sub', '')}", frozenset(words), float(claims["exp"]) + LEEWAY_S)
        with self._lock:
            self._known[_hash(token)] = access
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return access

    def _claims(self, token: str) -> dict[str, Any] | None:
        from joserfc import jwt  # loads the cryptography library; only where tokens come from an issuer
        from joserfc.errors import InvalidKeyIdError, JoseError

        rules = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.audience},
            exp={"essential": True},
        )
        try:
            try:
                decoded = jwt.decode(token, self._key_set(MAX_AGE_S), algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                decoded = jwt.decode(token, self._key_set(REFRESH_S), algorithms=ALGORITHMS)
            rules.validate(decoded.claims)
        except (JoseError, ValueError, TypeError, OSError) as error:
            log.info("a token was refused: %s", error)
            return None
        return decoded.claims

    def _key_set(self, max_age_s: float) -> Any:
        from joserfc.jwk import KeySet

        with self._lock:
            age_s = monotonic() - self._fetched_at
            # A failed look counts too: an issuer that is away must not be asked for every request.
            if age_s > (REFRESH_S if self._keys is None else max_age_s):
                self._fetched_at = monotonic()
                self._keys = KeySet.import_key_set(json.loads(self._read()))
            if self._keys is None:
                raise OSError("the issuer's keys cannot be had")
            return self._keys

    def _read(self) -> bytes:
        if urlsplit(self._jwks).scheme not in ("http", "https"):
            with open(self._jwks, "rb") as file:
                return file.read(MAX_JWKS_BYTES)
        from urllib.request import Request, urlopen  # only for keys from an address

        request = Request(self._jwks, headers={"accept": "application/json"})
        with urlopen(request, timeout=FETCH_S) as answer:
            body: bytes = answer.read(MAX_JWKS_BYTES)
            return body


def _hash(token: str) -> bytes:
    return bytes(sha256(token.encode("utf-8", "surrogatepass")).digest())
