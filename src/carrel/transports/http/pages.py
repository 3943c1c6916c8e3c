"""Decide whether a request is for a page, and declare what answers it: the explorer, which is not imported here.

A page is asked for by an `Accept` that prefers HTML, or by a path that only pages have. A path that ends in `.json` or
`.md` may be the twin of a page: that is looked for after the resource with exactly this path.
"""

from typing import Final, Protocol

from carrel.transports.http.accept import prefers_html
from carrel.transports.http.asgi import MCP_PATH, Request
from carrel.transports.http.guard import Refusal
from carrel.transports.http.threads import Failure
from carrel.transports.http.visits import Visits

HOME: Final = (b"/", b"/index.json", b"/index.md")
STATIC: Final = b"/-/static/"
_OWN: Final = frozenset(
    b"/-/" + name + twin
    for name in (b"explain", b"events", b"index", b"model", b"subscriptions", b"callers", b"raw")
    for twin in (b"", b".json", b".md")
) | {
    b"/-/" + name + twin
    for name in (b"read", b"search", b"health", b"providers", b"limits")
    for twin in (b".json", b".md")
}
_TWINS: Final = (b".json", b".md")


class Pages(Protocol):
    """Answers with pages. The guard has accepted every request."""

    async def answer_public(self, request: Request) -> bool:
        """Answer what needs no token, such as the style sheet; return whether it did."""

    async def refuse_unauthenticated(self, request: Request, refusal: Refusal) -> None:
        """Answer a request without a valid token, or with a link that was used up."""

    async def answer(self, request: Request) -> None:
        """Answer a request for a page."""

    async def answer_twin(self, request: Request, error: Failure) -> bool:
        """Answer with the data of a page, if the path is one of a page with `.json` or `.md`; return whether it did."""


def is_page(request: Request) -> bool:
    """Return whether a request is one for a page."""
    path = request.path
    if path == MCP_PATH or request.method not in ("GET", "HEAD"):
        return False
    if path in HOME or path in _OWN or path.startswith(STATIC):
        return True
    return prefers_html(request.headers.get(b"accept", b""))


def may_be_twin(path: bytes) -> bool:
    """Return whether a path may be that of the data of a page."""
    return path.endswith(_TWINS)


async def open_visit(request: Request, visits: Visits, pages: Pages | None) -> None:
    """Let a browser in by a link; HEAD, as of a preview, does not use the link up.

    With `pages`, a dead link is answered with a page.
    """
    if not await request.is_reading():
        return
    cookie = visits.enter(request.query) if request.method == "GET" else None
    if request.method == "HEAD":
        await request.reply(204, b"", *_NOT_KEPT)
    elif cookie is None and pages is not None:
        await pages.refuse_unauthenticated(request, Refusal(410, _DEAD))
    elif cookie is None:
        await request.reply(410, f"{_DEAD}\n".encode(), (b"content-type", b"text/plain; charset=utf-8"), *_NOT_KEPT)
    else:
        await request.reply(303, b"", (b"location", b"/"), (b"set-cookie", cookie), *_NOT_KEPT)


_DEAD: Final = "This link was used before or is older than 60 seconds. Run `carrel open` again for a new one."
_NOT_KEPT: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
