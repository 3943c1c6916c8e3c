"""Let a person's browser in: by a link that works once, and by the cookie that it sets.

A link dies after its first use or `LINK_S`. The cookie is a random value; the server keeps its hash, until `COOKIE_S`
have passed or the server ends. Its name holds the port, because browsers share cookies between the ports of a host. It
counts only for GET and HEAD, never for `/mcp`, and only for requests that the browser itself or one of our own pages
made.
"""

import secrets
import threading
from collections.abc import Callable
from hmac import compare_digest
from time import monotonic, time
from typing import Final

from carrel.catalog.access import Access
from carrel.core.hashing import hex_sha256
from carrel.core.record import replace
from carrel.transports.http.asgi import MCP_PATH, Request

OPEN_PATH: Final = b"/-/open"
LINK_S: Final = 60.0
COOKIE_S: Final = 12 * 60 * 60
_MAX_KEPT: Final = 64
_SAFE_METHODS: Final = ("GET", "HEAD")

Clock = Callable[[], float]


class Visits:
    """The links that wait to be used, and the cookies that were given for them."""

    def __init__(self, port: int, clock: Clock = monotonic) -> None:
        self.cookie_name = f"carrel-{port}"
        self._clock = clock
        self._lock = threading.Lock()
        self._links: list[tuple[str, Access, float]] = []
        self._cookies: list[tuple[str, Access, float]] = []

    def link(self, access: Access) -> str:
        """Return the path and query of a new link that lets its first user in with this access."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._links = _with_unexpired(self._links, self._clock(), (hex_sha256(key), access, self._clock() + LINK_S))
        return f"{OPEN_PATH.decode()}?key={key}"

    def enter(self, query: bytes) -> bytes | None:
        """Use up a link; return the header that sets the cookie, or None if the link is not valid any more."""
        name, _, key = query.decode("latin-1").partition("=")
        value = self._exchange(key if name == "key" else "")
        flags = f"Path=/; Max-Age={COOKIE_S}; HttpOnly; SameSite=Strict"
        return None if value is None else f"{self.cookie_name}={value}; {flags}".encode()

    def find(self, request: Request) -> Access | None:
        """Return the access of a request with our cookie, if the cookie counts for it."""
        cookies = request.headers.get(b"cookie")
        if cookies is None or b"authorization" in request.headers or not _may_use_cookie(request):
            return None
        found = map(self._access_of, self._values(cookies))
        return next((access for access in found if access is not None), None)

    def _exchange(self, key: str) -> str | None:
        """Use up the link with this key; return the value of a new cookie, or None if there is no such link."""
        with self._lock:
            now = self._clock()
            found = _find(self._links, key, now)
            if found is None:
                return None
            self._links.remove(found)
            value = secrets.token_urlsafe(32)
            access = replace(found[1], expires_at=time() + COOKIE_S)
            self._cookies = _with_unexpired(self._cookies, now, (hex_sha256(value), access, now + COOKIE_S))
            return value

    def _access_of(self, value: str) -> Access | None:
        """Return what a cookie with this value gives access to; None if it is not valid."""
        with self._lock:
            found = _find(self._cookies, value, self._clock())
            return None if found is None else found[1]

    def _values(self, cookies: bytes) -> list[str]:
        pairs = (pair.strip().partition("=") for pair in cookies.decode("latin-1").replace(",", ";").split(";"))
        return [value for name, _, value in pairs if name == self.cookie_name][:4]


def _may_use_cookie(request: Request) -> bool:
    """Return whether a browser made this request by itself, or for one of our pages.

    Another port of this machine is the same site for a cookie; only a plain navigation may come from there.
    """
    if request.method not in _SAFE_METHODS or request.path == MCP_PATH or b"cookie" in request.repeated:
        return False
    origin = request.headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2].strip().lower() != request.headers[b"host"].strip().lower():
        return False
    site = request.headers.get(b"sec-fetch-site")
    if site in (None, b"none", b"same-origin"):
        return True
    goes_there = request.headers.get(b"sec-fetch-mode") == b"navigate"
    return site == b"same-site" and goes_there and request.headers.get(b"sec-fetch-dest") == b"document"


def _find(kept: list[tuple[str, Access, float]], value: str, now: float) -> tuple[str, Access, float] | None:
    """Return what is kept for a value; all are compared, so that the time reveals nothing."""
    digest = hex_sha256(value)
    found = None
    for one in kept:
        if compare_digest(one[0], digest) and now < one[2]:
            found = one
    return found


def _with_unexpired(
    kept: list[tuple[str, Access, float]], now: float, added: tuple[str, Access, float]
) -> list[tuple[str, Access, float]]:
    return [*[one for one in kept if now < one[2]][-_MAX_KEPT:], added]
