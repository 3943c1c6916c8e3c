"""The same resources for any HTTP client: `GET /{scheme}/{rest}?query`.

`/logs/run/web_1` is `logs://run/web_1`. For a scheme whose URIs have an empty authority, such as workspace,
`/workspace/x` is `workspace:///x`. The path is used as sent and decoded once, with the rest of the URI. Bodies are sent
in parts and never kept in memory.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import lru_cache, partial
from typing import Final

from carrel.catalog.access import SCOPE_REASON, ActingAs
from carrel.catalog.routes import Found
from carrel.core.content import close_sources, takes_long
from carrel.core.errors import BadArgument, NotFound, ProtocolError, ProviderError, RequestError, UnknownScheme, echo
from carrel.core.faults import attempt
from carrel.core.isotime import clamp
from carrel.core.model import Range, Reading, Source, Stored, Unread
from carrel.core.provider import Given
from carrel.core.uri import decode, pairs
from carrel.protocol import jsonrpc, results, wire_errors
from carrel.protocol.eras import Era
from carrel.server.dispatch import Unfinished
from carrel.server.server import Server
from carrel.transports.http.asgi import JSON, Answered, Request, TooLong
from carrel.transports.http.threads import Failure, Stopping, Threads

log = logging.getLogger(__name__)

CHUNK: Final = 1 << 18
SMALL: Final = 1 << 16
"""Up to this size, a body is read on the event loop and sent in one piece: a switch of threads costs more."""

_SAFETY: Final = (
    (b"cache-control", b"private, no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'; style-src 'unsafe-inline'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"Accept"),
)
"""What a browser must not do with a resource: guess its type, run it as a page of ours, or show it to another site."""

_NOTHING_HERE: Final = (
    "Nothing is here: MCP is at /mcp, a resource at /{scheme}/…, search at /-/search?q=…, health at /-/health"
)

_LINES: Final = b"application/x-ndjson"
_NO_BYTES: Final = Range(0, 0)

_WHERE: Final = "a resource is at /{scheme}/…, such as /workspace/README.md"

Header = tuple[bytes, bytes]
Otherwise = Callable[[Failure], Awaitable[bool]]
"""Answers a request that would be refused; returns whether it did."""
Part = Callable[[int, int], Awaitable[bytes]]
"""Returns bytes from a position on, at most the given number."""


class Plain:
    """Answers reads on plain HTTP."""

    def __init__(self, server: Server, threads: Threads) -> None:
        self._server = server
        self._catalog = server.catalog
        self._threads = threads

    async def answer(self, request: Request, otherwise: Otherwise | None = None) -> None:
        """Answer a read, by the path or by `/-/read?uri=`; `otherwise` is asked before a read is refused."""
        if not await request.is_reading():
            return
        try:
            uri = self.uri_of(request)
            found, reading = await self._open(request, uri)
            try:
                if reading.error is not None and otherwise is not None and await otherwise(NotFound(uri)):
                    return
                await self._send(request, reading, found, uri)
            finally:
                close_sources(reading.items)
        except (RequestError, ProviderError, ProtocolError) as error:
            is_refused = isinstance(error, RequestError) and otherwise is not None and not request.has_begun
            if is_refused and otherwise is not None and await otherwise(error):
                return
            await refuse(request, UnknownScheme(error.uri or "", _WHERE) if isinstance(error, UnknownScheme) else error)

    async def append(self, request: Request) -> None:
        """Add the lines of a POST to a resource, which is a log; answer with its URI and what it has now."""
        try:
            given = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if given != _LINES:
                message = f"Send lines of JSON with the content type {_LINES.decode()}"
                raise BadArgument(message, data={"parameter": "content-type"})
            uri = self.uri_of(request)
            body = await request.body(self._catalog.max_bytes)
            append = partial(self._catalog.append, uri, body)
            added = await self._threads.call(request.access, append, owner=uri.partition(":")[0])
            await request.reply_json(200, added)
        except TooLong:
            limit = self._catalog.max_bytes
            await request.refuse(413, f"Message too large: one message holds {limit} bytes", (b"connection", b"close"))
        except (RequestError, ProviderError, ProtocolError) as error:
            await refuse(request, error)

    async def search(self, request: Request) -> None:
        """Answer a search with JSON; its parameters are those of `carrel://search`."""
        if not await request.is_reading():
            return
        try:
            found = await self._threads.call(request.access, partial(self._search, request.query), owner="search")
            await request.reply(200, jsonrpc.plain(found), JSON, *_SAFETY)
        except (RequestError, ProviderError, ProtocolError) as error:
            await refuse(request, error)

    def _search(self, query: bytes) -> Mapping[str, object]:
        from carrel.search import rendering, requests  # not before the first search

        if self._server.search is None:
            raise NotFound("/-/search", "There is no search here: it is turned off in the configuration")
        try:
            # Browsers and curl write a space as a plus.
            asked = requests.from_query(pairs(query.replace(b"+", b"%20").decode()))
        except UnicodeDecodeError:
            raise BadArgument("The query is not UTF-8", data={"parameter": "q"}) from None
        return rendering.as_json(self._server.search.opened().search(asked.request()), asked)

    def uri_of(self, request: Request) -> str:
        """Return the URI of a request, from its path exactly as sent."""
        return self.uri_at(request.path, request.query)

    def uri_at(self, raw_path: bytes, raw_query: bytes) -> str:
        """Return the URI at a path, exactly as sent."""
        try:
            path, query = raw_path.decode(), raw_query.decode()
        except UnicodeDecodeError:
            raise BadArgument("The path is not UTF-8", data={"parameter": "uri"}) from None
        if path in ("/-/read", "/-/raw"):
            return _asked_for(query)
        head, _, rest = path[1:].partition("/")
        if head in ("", "-"):
            raise NotFound(path, _NOTHING_HERE)
        scheme = decode(head).lower()
        start = f"{scheme}:///" if self.has_no_authority(scheme) else f"{scheme}://"
        return f"{start}{rest}?{query}" if query else start + rest

    def has_no_authority(self, scheme: str) -> bool:
        """Return whether the URIs of a scheme begin with three slashes."""
        for mounted in self._catalog.mounted:
            if scheme in mounted.provider.schemes:
                return any(route.template.startswith(f"{scheme}:///") for route, _ in mounted.routes)
        return False

    async def _open(self, request: Request, uri: str) -> tuple[Found, Reading]:
        """Find and open a resource: here if that is quick, else on a worker thread, with what is open already."""
        given = request.headers.get(b"if-none-match")
        condition = None if given is None else given.decode("latin-1")
        opened: Given | Unread | None = None
        if self._catalog.finds_at_once(uri):
            with ActingAs(request.access):
                found = attempt("a plain read", self._catalog.find, uri)
                if not self._server.dispatch.needs_thread(found, on_loop=True):
                    opened = attempt("a plain read", found.open)
                    if not takes_long(opened, _NO_BYTES):
                        return found, attempt("a plain read", self._catalog.open, found, condition, opened)
        else:  # a provider is asked
            find = partial(self._catalog.find, uri)
            found = await self._threads.call(request.access, find, owner=f"resources/read {uri.partition(':')[0]}")
        unfinished, asked = Unfinished(opened), found.mounted.provider
        try:
            return found, await self._threads.call(
                request.access,
                lambda: self._catalog.open(found, condition, unfinished.take()),
                lambda late: close_sources(late.items),
                owner=asked.name,
                deadline_s=asked.deadline_s,
            )
        finally:
            unfinished.close()

    async def _send(self, request: Request, reading: Reading, found: Found, uri: str) -> None:
        described = _headers_of(reading)
        if reading.unchanged:
            await request.reply(304, b"", *described)
            return
        if len(reading.items) != 1 or reading.is_folder:
            # A folder: its children, as in the result of an MCP read.
            await request.reply(200, jsonrpc.plain(results.read_result(reading, uri, Era.LEGACY)), JSON, *described)
            return
        item = reading.items[0]
        assert isinstance(item, Stored)
        size = item.source.size
        if reading.error is not None:
            text = (await self._part(request, found, item.source, 0, size)).decode(errors="replace")
            status = wire_errors.plain_status(reading.error)
            await request.reply(status, jsonrpc.plain({"error": text}), JSON, *described)
            return
        status = 200
        start, end = 0, size
        kind = (b"content-type", _content_type(item.encoding, item.mime_type or reading.mime_type))
        wanted = _range_of(request, reading, size)
        if wanted == "unsatisfiable":
            beyond = (b"content-range", b"bytes */%d" % size)
            await request.refuse(416, f"The range is past the end: there are {size} bytes", beyond, *described)
            return
        if isinstance(wanted, tuple):
            status, (start, end) = 206, wanted
            described = [*described, (b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size))]
        part = partial(self._part, request, found, item.source)
        await self._send_bytes(request, status, part, start, end, [kind, (b"accept-ranges", b"bytes"), *described])

    async def _part(self, request: Request, found: Found, source: Source, start: int, length: int) -> bytes:
        """Read a part of a source: on a worker thread unless that is quick."""
        read = partial(source.read, start, length)
        if length <= SMALL and not self._server.dispatch.needs_thread(found, on_loop=True):
            return attempt("a plain read", read)
        asked = found.mounted.provider
        return await self._threads.call(request.access, read, owner=asked.name, deadline_s=asked.deadline_s)

    async def _send_bytes(
        self, request: Request, status: int, part: Part, start: int, end: int, headers: list[Header]
    ) -> None:
        """Send a range of a source: in one piece if it is small, else part by part."""
        length = end - start
        if length <= SMALL and request.method != "HEAD":
            body = await part(start, length)
            if len(body) != length:
                raise ProviderError("The resource changed while it was read", word="unavailable")
            await request.reply(status, body, *headers)
            return
        await request.begin(status, [*headers, (b"content-length", b"%d" % length)])
        while start < end and request.method != "HEAD":
            sent = await part(start, min(CHUNK, end - start))
            if not sent:
                break
            start += len(sent)
            await request.write_to_reader(sent, is_last=start >= end)
        if start < end and request.method != "HEAD":
            raise ProviderError("The resource became shorter while it was sent", word="unavailable")
        if request.method == "HEAD" or not length:
            await request.write(b"", is_last=True)


_SENT_AS_HEADERS: Final = frozenset(
    {"encoding", "error", "etag", "last-modified", "length", "start", "status", "total"}
)
"""Keys of `_meta` that HTTP sends in headers of its own or in the status."""


async def refuse(request: Request, error: Failure) -> None:
    """Answer with an error; in the middle of an answer, close the connection."""
    if request.has_begun:
        if not isinstance(error, Stopping):
            log.warning("%s: an answer broke off: %s", echo(request.path.decode("latin-1")), error.message)
        await request.break_off()
    answered = refusal(request, error)
    await request.reply(answered.status, answered.body, *answered.headers)


def refusal(request: Request, error: Failure) -> Answered:
    """Return an error as a plain HTTP answer."""
    status, body = wire_errors.plain(error)
    extra: list[Header] = []
    if isinstance(error, RequestError) and error.data.get("reason") == SCOPE_REASON:
        extra.append(request.scope_challenge(str(error.data.get("scope"))))
    if status in (429, 503):
        extra.append((b"retry-after", b"1"))
    return Answered(status, (JSON, *_SAFETY, *extra), jsonrpc.plain(body))


def _asked_for(query: str) -> str:
    asked = [value for name, value in pairs(query) if name == "uri"]
    if len(asked) != 1:
        raise BadArgument("Invalid parameter: uri (give it once, as /-/read?uri=…)", data={"parameter": "uri"})
    return asked[0]


def _headers_of(reading: Reading) -> list[Header]:
    """Return the headers that describe a reading."""
    described = list(_SAFETY)
    if reading.error is None and reading.etag and _is_plain(reading.etag):
        described.append((b"etag", f'"{reading.etag}"'.encode()))
    if reading.last_modified_ms is not None:
        described.append((b"last-modified", _http_date(clamp(reading.last_modified_ms) // 1000)))
    return described + _meta_headers(reading)


@lru_cache(maxsize=1_024)
def _http_date(unix_s: int) -> bytes:
    return formatdate(unix_s, usegmt=True).encode()


def _meta_headers(reading: Reading) -> list[Header]:
    """Return what a provider adds to its one item, such as whether it is cut and what comes next, as `carrel-*`."""
    meta = reading.items[0].meta if len(reading.items) == 1 else None
    extra = []
    for key, value in (meta or {}).items():
        prefix, _, name = key.rpartition("/")
        if prefix == "dev.carrel" and name not in _SENT_AS_HEADERS and isinstance(value, (str, int)):
            spelled = str(value).lower() if isinstance(value, bool) else str(value)
            if _is_plain(spelled):
                extra.append((f"carrel-{name}".encode(), spelled.encode()))
    return extra


@lru_cache(maxsize=256)
def _content_type(encoding: str, named: str) -> bytes:
    is_binary = encoding == "binary"
    kind = named if named and _is_plain(named.replace(" ", "")) else ""
    kind = kind or ("application/octet-stream" if is_binary else "text/plain")
    if is_binary or "charset" in kind or not (kind.startswith("text/") or encoding != "utf-8"):
        return kind.encode()
    return f"{kind}; charset={encoding}".encode()


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and " " not in text


def _range_of(request: Request, reading: Reading, size: int) -> tuple[int, int] | str | None:
    """Return the one range asked for; None if the whole is to be sent."""
    if b"range" not in request.headers:
        return None
    asked = request.headers[b"range"].decode("latin-1").strip().lower()
    unless = request.headers.get(b"if-range")
    if unless is not None and unless.decode("latin-1").strip() != f'"{reading.etag}"':
        return None
    if request.method != "GET" or not asked.startswith("bytes=") or "," in asked or b"range" in request.repeated:
        return None
    first, dash, last = asked.removeprefix("bytes=").strip().partition("-")
    is_sound = dash and (first or last) and all(part == "" or _is_number(part) for part in (first, last))
    if not is_sound or (first and last and int(last) < int(first)):
        return None
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    return (start, end) if start < end else "unsatisfiable"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
