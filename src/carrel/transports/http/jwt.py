"""Tokens of an outside authorization server: signed, for this server, and not expired.

Carrel is a resource server only. Keys come from a file or an address; a key that is not
known is looked for again, at most once a minute. Verifying may wait for the network, so it
belongs on a worker thread, and few may wait there; what was verified is remembered until it
expires, and whoever is known never waits.
"""

import json
import logging
import threading
from collections import OrderedDict
from http.client import HTTPException
from time import monotonic, time
from typing import Any, Final
from urllib.parse import urlsplit

from carrel.catalog.access import Access
from carrel.core.errors import ConfigError, ProviderError
from carrel.core.hashing import sha256
from carrel.core.loopback import is_in_clear

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Public keys only: with a shared secret, whoever can verify could sign."""

REFRESH_S: Final = 60.0
MAX_AGE_S: Final = 3_600.0
FETCH_S: Final = 5.0
"""How long a fetch may take, all of it."""
MAX_WAITING: Final = 4
"""Tokens of unknown keys that wait for a fetch: half of the threads, so that those of known keys are verified."""
MAX_TRIED: Final = 16
"""Keys tried for a token that does not name its own."""
MAX_JWKS_BYTES: Final = 1 << 20
MAX_KNOWN: Final = 1_024
LEEWAY_S: Final = 30
_LAST_S: Final = 253_402_300_799
"""The end of the year 9999: no token holds longer."""
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class Issuer:
    """An authorization server that may send people here."""

    def __init__(self, issuer: str, audience: str, jwks: str) -> None:
        self.issuer = issuer
        self.audience = audience
        if not _is_safe(jwks):
            raise ConfigError(
                f"[http] jwks: {jwks} is not https; keys that anybody can change on the way prove nothing"
            )
        self._keys = _Keys(jwks)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Access] = OrderedDict()

    def known(self, token: str) -> Access | None:
        """Return the access of a token that was verified before and still holds."""
        digest = _hash(token)
        with self._lock:
            access = self._known.get(digest)
            if access is None or access.expires_at is None or access.expires_at > time():
                return access
            del self._known[digest]
        return None

    def verify(self, token: str) -> Access | None:
        """Return the access of a token, or None for one that is not good; may wait for the keys, or be too busy to."""
        claims = self._claims(token)
        access = None if claims is None else _access(claims, token)
        if access is not None:
            with self._lock:
                self._known[_hash(token)] = access
                while len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
        return access

    def _claims(self, token: str) -> dict[str, Any] | None:
        from joserfc import jwt  # loads the cryptography library; only where tokens come from an issuer
        from joserfc.errors import JoseError

        rules = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.audience},
            exp={"essential": True},
        )
        try:
            claims: dict[str, Any] = self._decoded(token).claims
            rules.validate(claims)
        except (JoseError, ValueError, TypeError, OSError) as error:
            log.info("a token was refused: %s", error)
            return None
        return claims

    def _decoded(self, token: str) -> Any:
        """Verify a signature with the keys that fit; look for new ones only where none is known."""
        from joserfc import jws, jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        header = jws.extract_compact(token.encode()).headers()
        if header.get("alg") not in ALGORITHMS:
            raise ValueError("its algorithm is none of ours")
        tried: list[Any] | None = None
        for look in (self._keys.known, self._keys.latest):
            keys = look()
            if keys is tried:
                break
            tried = keys
            fitting = [key for key in keys if _fits(key, header)][:MAX_TRIED]
            for key in fitting:
                try:
                    return jwt.decode(token, key, algorithms=ALGORITHMS)
                except (JoseError, ValueError) as error:
                    log.debug("a key does not verify a token: %s", error)
            if fitting and header.get("kid") is not None:
                raise ValueError("its signature is not that of the key it names")
        raise InvalidKeyIdError("no key of the issuer verifies it")


class _Keys:
    """An issuer's public keys. They are fetched by one thread at a time, and nothing is locked meanwhile."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._changed = threading.Condition()
        self._keys: list[Any] | None = None
        self._asked_at = float("-inf")
        self._is_fetching = False
        self._waiting = 0

    def known(self) -> list[Any]:
        """Return the keys; wait only while there are none yet."""
        with self._changed:
            self._refresh(MAX_AGE_S)
            if self._keys is None:
                self._wait()
            return self._found()

    def latest(self) -> list[Any]:
        """Return the keys as the issuer has them now, unless it was asked a moment ago."""
        with self._changed:
            self._refresh(REFRESH_S)
            if self._keys is not None and self._is_fetching and self._waiting >= MAX_WAITING:
                raise ProviderError("Server is busy: too many tokens wait", word="busy", data={"retryAfterMs": 1_000})
            self._wait()
            return self._found()

    def _refresh(self, max_age_s: float) -> None:
        age_s = monotonic() - self._asked_at
        # A failed look counts too: an issuer that is away must not be asked for every request.
        if age_s > (REFRESH_S if self._keys is None else max_age_s) and not self._is_fetching:
            self._asked_at = monotonic()
            self._is_fetching = True
            threading.Thread(target=self._fetch, name="carrel-keys", daemon=True).start()

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: not self._is_fetching, self._asked_at + FETCH_S - monotonic())
        finally:
            self._waiting -= 1

    def _found(self) -> list[Any]:
        if self._keys is None:
            raise OSError("the issuer's keys cannot be had")
        return self._keys

    def _fetch(self) -> None:
        keys = None
        try:
            keys = [key for row in json.loads(self._read())["keys"] for key in _imported(row)]
        except (ValueError, TypeError, KeyError, OSError, HTTPException) as error:
            log.warning("the issuer's keys cannot be had: %s", error)
        finally:
            with self._changed:
                self._keys = keys or self._keys
                self._is_fetching = False
                self._changed.notify_all()

    def _read(self) -> bytes:
        if urlsplit(self._place).scheme not in ("http", "https"):
            with open(self._place, "rb") as file:
                return file.read(MAX_JWKS_BYTES)
        from carrel.transports.http.fetch import fetch  # only for keys from an address

        with fetch(self._place, FETCH_S) as answer:
            if not _is_safe(answer.geturl()):
                raise OSError("the issuer sends us to an address that is not https")
            body: bytes = answer.read(MAX_JWKS_BYTES)
            return body


def _imported(row: dict[str, Any]) -> list[Any]:
    """Make a key of one of a set; of a kind that is not known, nothing: the others count all the same."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return list(KeySet.import_key_set({"keys": [row]}).keys)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("a key of the issuer is passed over: %s", error)
        return []


def _access(claims: dict[str, Any], token: str) -> Access | None:
    """Return what verified claims mean; None where one is not what it should be."""
    scope = claims.get("scope", claims.get("scp", ""))
    words = scope.split() if isinstance(scope, str) else scope
    if not isinstance(words, list):
        log.info("a token was refused: its scope is no text")
        return None
    # Who has no name is nobody but the bearer of this very token.
    name = f"jwt {claims['sub']}" if claims.get("sub") else f"jwt-token {_hash(token).hex()[:32]}"
    scopes = frozenset(word for word in words if isinstance(word, str))
    return Access(name, scopes, float(min(_LAST_S, claims["exp"])) + LEEWAY_S)


def _fits(key: Any, header: dict[str, Any]) -> bool:
    """Return whether a key may have signed what has this header."""
    is_named = header.get("kid") in (None, key.kid)
    is_kind = key.key_type == _KEY_TYPES[header["alg"][:2]] and key.get("alg") in (None, header["alg"])
    return is_named and is_kind and key.get("use") in (None, "sig")


def _is_safe(address: str) -> bool:
    """Return whether keys from there are the issuer's."""
    return not is_in_clear(urlsplit(address))


def _hash(token: str) -> bytes:
    return bytes(sha256(token.encode("utf-8", "surrogatepass")).digest())
