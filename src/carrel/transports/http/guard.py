"""Decide which requests are accepted: by the server's names, the origins of web pages, and tokens.

`Host` and `Origin` are checked on every request, before anything else, for every bind address: a web page that rebinds
its name to this machine cannot change them. A header that is repeated with different values is refused, because a proxy
may have used the other value.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

from carrel.catalog.access import EVERYTHING, Access
from carrel.core.loopback import LOOPBACK
from carrel.core.record import Value
from carrel.transports.http.asgi import MCP_PATH, Request, header, quoted
from carrel.transports.http.threads import Threads

_OWN_NAMES: Final = frozenset(f"[{host}]" if ":" in host else host for host in LOOPBACK)
"""The names of this machine, as spelled in `Host` and `Origin`."""
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_MAX_REMEMBERED: Final = 64
_SINGLE: Final = (b"host", b"origin", b"authorization", b"content-type", b"mcp-session-id", b"sec-fetch-site")
"""Headers that may have one value only. `protocol.headers` compares those that repeat the body of a message."""
_VERIFIER: Final = Access("tokens", frozenset())
"""Identity used while a token is being verified."""

Header = tuple[bytes, bytes]


class Keys(Protocol):
    """The tokens of this machine."""

    def find(self, token: str) -> Access | None:
        """Return the access of a token; must not wait."""


class Issuers(Protocol):
    """The tokens of an outside authorization server."""

    issuer: str
    audience: str

    def known(self, token: str) -> Access | None:
        """Return the access of a token that was verified before; must not wait."""

    def verify(self, token: str) -> Access | None:
        """Return the access of a token; may wait."""


class AcceptedNames(Value, frozen=True):
    """The accepted names and origins; on loopback also the loopback names, with any port."""

    is_loopback: bool
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()


class Refusal(Value, frozen=True):
    """Why a request is refused."""

    status: int
    problem: str
    headers: tuple[Header, ...] = ()


class Guard:
    """Checks every request. Without `keys` and `issuer`, no token is required."""

    def __init__(self, accepted: AcceptedNames, keys: Keys | None = None, issuer: Issuers | None = None) -> None:
        self._accepted = accepted
        self._keys = keys
        self._issuer = issuer
        self._good_hosts: set[bytes] = set()
        self._metadata_url = "" if issuer is None else _well_known(issuer.audience)
        path = urlsplit(self._metadata_url).path or METADATA_PATH
        self._metadata_paths = frozenset({METADATA_PATH.encode(), METADATA_PATH.encode() + MCP_PATH, path.encode()})

    def refusal(self, request: Request) -> Refusal | None:
        """Return why a request is refused before its token is checked, or None."""
        headers = request.headers
        if request.repeated and (repeated := _wrongly_repeated(request)):
            return Refusal(400, f"{repeated} stands on several lines")
        host = headers.get(b"host")
        if host not in self._good_hosts:
            if host is None or not self._is_our_name(host):
                return Refusal(421, "Host is not a name of this server; add it to [http] hosts")
            if len(self._good_hosts) < _MAX_REMEMBERED:
                self._good_hosts.add(host)
        origin = headers.get(b"origin")
        if origin is not None and not self._is_allowed_origin(origin):
            return Refusal(403, "Origin is not allowed; add it to [http] origins")
        if origin is None and headers.get(b"sec-fetch-site") == b"cross-site":
            return Refusal(403, "Requests from other sites are refused")
        return None

    async def identify(self, request: Request, threads: Threads) -> Access | Refusal:
        """Return the access of the caller, or the refusal."""
        known = self.known(request)
        if known is None and self._issuer is not None:
            verify = partial(self._issuer.verify, _token_of(request) or "")
            known = await threads.call(_VERIFIER, verify, owner="tokens")
        return known or Refusal(401, "The token is not valid", self._challenge(request, "invalid_token"))

    def known(self, request: Request) -> Access | Refusal | None:
        """Return the access of the caller, or the refusal; None if that is not known without waiting."""
        if self._keys is None and self._issuer is None:
            return EVERYTHING
        token = _token_of(request)
        if token is None:
            advice = "" if self._keys is None else "; `carrel token add NAME` makes one where the server runs"
            message = f"A token is needed, in the header `Authorization: Bearer TOKEN`{advice}"
            return Refusal(401, message, self._challenge(request))
        if not token or " " in token or (request.repeated and b"authorization" in request.repeated):
            return Refusal(400, "Authorization must be one bearer token", self._challenge(request, "invalid_request"))
        access = None if self._keys is None else self._keys.find(token)
        if access is not None:
            return access
        if self._issuer is not None and token.count(".") == 2:
            return self._issuer.known(token)
        return Refusal(401, "The token is not valid", self._challenge(request, "invalid_token"))

    def metadata(self, scopes: Iterable[str]) -> dict[str, object] | None:
        """Return the metadata of RFC 9728; None without an authorization server."""
        if self._issuer is None:
            return None
        return {
            "resource": self._issuer.audience,
            "authorization_servers": [self._issuer.issuer],
            "bearer_methods_supported": ["header"],
            "scopes_supported": sorted(scopes),
            "resource_name": "Carrel",
        }

    def is_metadata(self, path: bytes) -> bool:
        """Return whether a path is that of the metadata."""
        return path.startswith(b"/.well-known/") and path.rstrip(b"/") in self._metadata_paths

    def metadata_url(self, request: Request) -> str:
        """Return the address of the metadata; empty without an authorization server."""
        if self._issuer is None or self._metadata_url:
            return self._metadata_url
        return f"http://{request.headers[b'host'].decode('latin-1')}{METADATA_PATH}/mcp"

    def _challenge(self, request: Request, error: str = "") -> tuple[Header, ...]:
        parts = ['realm="carrel"']
        if error:
            parts.append(f"error={quoted(error)}")
        if self._issuer is not None:
            parts.append(f"resource_metadata={quoted(self.metadata_url(request))}")
            parts.append('scope="*:read"')
        return (header(b"www-authenticate", f"Bearer {', '.join(parts)}"),)

    def _is_our_name(self, host: bytes) -> bool:
        named = host.decode("latin-1").strip().lower()
        bare = _without_port(named)
        if bare is None:
            return False
        return (
            (self._accepted.is_loopback and bare in _OWN_NAMES)
            or named in self._accepted.hosts
            or bare in self._accepted.hosts
        )

    def _is_allowed_origin(self, origin: bytes) -> bool:
        """Compare whole origins, never beginnings: `http://localhost.evil` is not localhost."""
        named = origin.decode("latin-1").strip().lower()
        if named in self._accepted.origins:
            return True
        scheme, separator, authority = named.partition("://")
        if not separator or scheme not in ("http", "https") or not self._accepted.is_loopback:
            return False
        return _without_port(authority) in _OWN_NAMES


def _wrongly_repeated(request: Request) -> str:
    """Return the name of a header that is repeated and must not be; empty if there is none.

    `Host` may never be repeated (RFC 9112, 3.2), the others only with the same value.
    """
    for name in _SINGLE:
        values = request.repeated.get(name, ())
        if len(values) > 1 or (values and name == b"host"):
            return name.decode().title()
    return ""


def _well_known(audience: str) -> str:
    """Return where RFC 9728 places the metadata of a resource; empty if the resource is not a URL."""
    resource = urlsplit(audience)
    if resource.scheme not in ("http", "https") or not resource.netloc:
        return ""
    query = f"?{resource.query}" if resource.query else ""
    return f"{resource.scheme}://{resource.netloc}{METADATA_PATH}{resource.path.rstrip('/')}{query}"


def _token_of(request: Request) -> str | None:
    """Return the bearer token of a request, or None."""
    given = request.headers.get(b"authorization")
    if given is None:
        return None
    scheme, _, token = given.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _without_port(authority: str) -> str | None:
    """Return the name of `name:port`; None if it is not valid."""
    name, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        name, port = authority, "0"
    is_sound = port.isascii() and port.isdigit() and name and not set(name) & set("/@?#\\ \t")
    return name if is_sound else None
