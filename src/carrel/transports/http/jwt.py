"""Verify tokens of an outside authorization server: signed, for this server, and not expired.

Carrel is a resource server only. Keys come from a file or an address; for an unknown key they are fetched again, at
most once a minute. Verifying may wait for the network, so it runs on a worker thread, and only a few calls may wait
there. A verified token is remembered until it expires and does not wait.
"""

import json
import logging
import threading
from collections import OrderedDict
from http.client import HTTPException
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from carrel.catalog.access import Access
from carrel.catalog.groups import NO_GROUPS, Groups
from carrel.core.errors import ConfigError, ProviderError
from carrel.core.hashing import sha256
from carrel.core.loopback import is_in_clear

if TYPE_CHECKING:
    from joserfc.jwk import Key
    from joserfc.jwt import Token

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Public keys only: with a shared secret, every server that verifies could also sign."""

REFRESH_S: Final = 60.0
MAX_AGE_S: Final = 3_600.0
FETCH_S: Final = 5.0
"""Time limit for a whole fetch."""
MAX_WAITING: Final = 4
"""Tokens with an unknown key that may wait for a fetch: half of the threads, so that other tokens are verified."""
MAX_TRIED: Final = 16
"""Keys tried for a token that names none."""
MAX_JWKS_BYTES: Final = 1 << 20
MAX_KNOWN: Final = 1_024
LEEWAY_S: Final = 30
_LAST_S: Final = 253_402_300_799
"""The end of the year 9999: no token is valid longer."""
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class Issuer:
    """An authorization server whose tokens are accepted here."""

    def __init__(self, issuer: str, audience: str, jwks: str, groups: Groups = NO_GROUPS) -> None:
        self._groups = groups
        self.issuer = issuer
        self.audience = audience
        if not _is_safe(jwks):
            raise ConfigError(f"[http] jwks: {jwks} is not https; the keys could be changed on their way here")
        self._keys = _Keys(jwks)
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Access] = OrderedDict()

    def known(self, token: str) -> Access | None:
        """Return the access of a token that was verified before and has not expired."""
        digest = _hash(token)
        with self._lock:
            access = self._known.get(digest)
            if access is None or access.expires_at is None or access.expires_at > time():
                return access
            del self._known[digest]
        return None

    def verify(self, token: str) -> Access | None:
        """Return the access of a token, or None for an invalid one. May wait for keys; raises if too many wait."""
        claims = self._claims(token)
        access = None if claims is None else _access(claims, token, self._groups)
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
            claims = self._decoded(token).claims
            rules.validate(claims)
        except (JoseError, ValueError, TypeError, OSError) as error:
            log.info("a token was refused: %s", error)
            return None
        return claims

    def _decoded(self, token: str) -> "Token":
        """Return the token, verified with a fitting key; fetch new keys only if no known key fits."""
        from joserfc import jws, jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        header = jws.extract_compact(token.encode()).headers()
        if header.get("alg") not in ALGORITHMS:
            raise ValueError("its algorithm is not accepted")
        tried: list[Key] | None = None
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
    """An issuer's public keys. One thread at a time fetches them, without holding the lock."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._changed = threading.Condition()
        self._keys: list[Key] | None = None
        self._asked_at = float("-inf")
        self._is_fetching = False
        self._waiting = 0

    def known(self) -> "list[Key]":
        """Return the keys; wait only for the first fetch."""
        with self._changed:
            self._refresh(MAX_AGE_S)
            if self._keys is None:
                self._wait()
            return self._found()

    def latest(self) -> "list[Key]":
        """Return the keys after a new fetch, unless the last one was within `REFRESH_S`."""
        with self._changed:
            self._refresh(REFRESH_S)
            if self._keys is not None and self._is_fetching and self._waiting >= MAX_WAITING:
                raise ProviderError("Server is busy: too many tokens wait", word="busy", data={"retryAfterMs": 1_000})
            self._wait()
            return self._found()

    def _refresh(self, max_age_s: float) -> None:
        age_s = monotonic() - self._asked_at
        # A failed fetch counts too: an issuer that is down must not be asked for every request.
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

    def _found(self) -> "list[Key]":
        if self._keys is None:
            raise OSError("the issuer's keys are not available")
        return self._keys

    def _fetch(self) -> None:
        keys = None
        try:
            keys = [key for row in json.loads(self._read())["keys"] for key in _imported(row)]
        except (ValueError, TypeError, KeyError, OSError, HTTPException) as error:
            log.warning("the issuer's keys cannot be fetched: %s", error)
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
                raise OSError("the issuer redirects to an address that is not https")
            return answer.read(MAX_JWKS_BYTES)


def _imported(row: dict[str, Any]) -> "list[Key]":
    """Return the key of a row, or nothing for one of an unknown kind, so that the other keys still work."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return list(KeySet.import_key_set({"keys": [row]}).keys)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("a key of the issuer is ignored: %s", error)
        return []


def _access(claims: dict[str, Any], token: str, groups: Groups) -> Access | None:
    """Return the access that verified claims and groups give, or None if a claim has the wrong type."""
    scope = claims.get("scope", claims.get("scp", ""))
    words = scope.split() if isinstance(scope, str) else scope
    if not isinstance(words, list):
        log.info("a token was refused: its scope is not text")
        return None
    # Without a subject, each token is its own identity.
    name = f"jwt {claims['sub']}" if claims.get("sub") else f"jwt-token {_hash(token).hex()[:32]}"
    scopes = frozenset(word for word in words if isinstance(word, str))
    scopes |= groups.rights_of(str(claims.get("sub", "")), claims)
    return Access(name, scopes, float(min(_LAST_S, claims["exp"])) + LEEWAY_S)


def _fits(key: "Key", header: dict[str, Any]) -> bool:
    """Return whether a key may have signed a token with this header."""
    is_named = header.get("kid") in (None, key.kid)
    is_kind = key.key_type == _KEY_TYPES[header["alg"][:2]] and key.get("alg") in (None, header["alg"])
    return is_named and is_kind and key.get("use") in (None, "sig")


def _is_safe(address: str) -> bool:
    """Return whether the keys of an address cannot be replaced on the network."""
    return not is_in_clear(urlsplit(address))


def _hash(token: str) -> bytes:
    return bytes(sha256(token.encode("utf-8", "surrogatepass")).digest())
