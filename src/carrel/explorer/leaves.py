"""A page: its data, its templates, its ETag; and how it is sent as HTML, JSON or Markdown."""

import gzip
from collections.abc import Mapping
from email.utils import formatdate
from typing import Final, Literal

from carrel.core.content import matches
from carrel.core.hashing import blake2b
from carrel.core.isotime import clamp
from carrel.core.record import Value
from carrel.explorer.templating import environment
from carrel.protocol import jsonrpc
from carrel.transports.http.asgi import Request

Form = Literal["html", "json", "md"]
Header = tuple[bytes, bytes]

TYPES: Final[Mapping[Form, bytes]] = {
    "html": b"text/html; charset=utf-8",
    "json": b"application/json",
    "md": b"text/markdown; charset=utf-8",
}
POLICY: Final = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFETY: Final[tuple[Header, ...]] = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_VARY: Final = (b"vary", b"Accept, Accept-Encoding, Authorization, Cookie")
_WORTH_PACKING: Final = 1_024
_LEVEL: Final = 4


class Leaf(Value, frozen=True):
    """A page. `data` is what the page says, ready for JSON; `view` is what only its HTML needs.

    `template` names the templates `{template}.html` and `{template}.md`. `json` and `md` are the addresses of the data.
    Without `etag`, it has one of its data. `live` is the URI whose changes the page shows, `model` the one that a model
    reads to learn the same.
    """

    template: str
    title: str
    data: Mapping[str, object]
    json: str
    md: str
    view: Mapping[str, object] = {}
    etag: str = ""
    last_modified_ms: int | None = None
    status: int = 200
    live: str = ""
    model: str = ""
    headers: tuple[Header, ...] = ()


async def send(request: Request, leaf: Leaf, form: Form) -> None:
    """Send a page; only its headers if the client has it already."""
    etag = leaf.etag or _tag_of(leaf.data)
    headers = [(b"content-type", TYPES[form]), (b"cache-control", b"private, no-cache"), *SAFETY, *leaf.headers]
    if leaf.status == 200:
        headers.append((b"etag", f'"{etag}"'.encode()))
    if leaf.last_modified_ms is not None:
        headers.append((b"last-modified", formatdate(clamp(leaf.last_modified_ms) // 1000, usegmt=True).encode()))
    condition = request.headers.get(b"if-none-match")
    if leaf.status == 200 and condition is not None and matches(condition.decode("latin-1"), etag):
        await request.reply(304, b"", *headers[1:], _VARY)
        return
    await reply_packed(request, leaf.status, spell(leaf, form), *headers)


def spell(leaf: Leaf, form: Form) -> bytes:
    """Return the body of a page."""
    if form == "json":
        return jsonrpc.plain(leaf.data)
    template = environment().get_template(f"{leaf.template}.{form}")
    etag = leaf.etag or _tag_of(leaf.data)
    given = {"page": leaf, "title": leaf.title, "data": leaf.data, "page_etag": etag, **leaf.view}
    return template.render(given).encode("utf-8", "replace")


async def reply_packed(request: Request, status: int, body: bytes, *headers: Header) -> None:
    """Answer with a body, compressed if the client accepts that and it saves enough."""
    accepted = request.headers.get(b"accept-encoding", b"").lower()
    if len(body) < _WORTH_PACKING or b"gzip" not in accepted or b"gzip;q=0" in accepted.replace(b" ", b""):
        await request.reply(status, body, *headers, _VARY)
        return
    packed = gzip.compress(body, _LEVEL, mtime=0)
    await request.reply(status, packed, *headers, (b"content-encoding", b"gzip"), _VARY)


def _tag_of(data: Mapping[str, object]) -> str:
    return blake2b(jsonrpc.plain(data), digest_size=8).hexdigest()
