"""One HTTP request and its answer, shared by the HTTP modules.

Plain ASGI without a framework: a framework needs more steps to wrap a request than we need to answer a read of a
kilobyte (`docs/decisions/0010-http.md` has the measurement).
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from carrel.catalog.access import EVERYTHING, Access
from carrel.protocol import jsonrpc

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
HeaderList = Iterable[tuple[bytes, bytes]]

MCP_PATH: Final = b"/mcp"
TCP: Final = "carrel.tcp"
"""Key of the scope: the TCP connection of the request, a `TcpConnection`."""
BEGUN: Final = "carrel.begun"
"""Key of the scope: a request whose message is accepted already, and its outcome."""
WRITE: Final = "carrel.write"
"""Key of the scope: writes a whole answer, an `Answered`; returns False if the answer has to go through `send`."""
_UNSAFE: Final = re.compile(rb"[^\t -~]")
_UNQUOTABLE: Final = re.compile(rb"[^!#-\[\]-~ ]")
JSON: Final = (b"content-type", b"application/json")
_NOTHING: Final[Mapping[bytes, frozenset[bytes]]] = {}


class Answered(NamedTuple):
    """A whole answer: status, headers except the length, and body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class TcpConnection(Protocol):
    """The TCP connection of a request; `is_lost` when it is closed."""

    is_lost: bool

    def let_in(self) -> None:
        """Note that the caller of a request was accepted."""

    def abort(self) -> None:
        """Close the connection at once."""


class Gone(Exception):
    """The client has closed the connection."""


class TooLong(Exception):
    """The body is longer than one message may be."""


def header(name: bytes, value: str | bytes) -> tuple[bytes, bytes]:
    """Return a header with control and non-ASCII characters of its value percent-encoded.

    Every header that is sent passes through here.
    """
    spelled = value.encode() if isinstance(value, str) else value
    return name, _UNSAFE.sub(_percent, spelled) if _UNSAFE.search(spelled) else spelled


def quoted(value: str) -> str:
    """Return a quoted string for the value of a header; invalid characters are percent-encoded."""
    return '"' + _UNQUOTABLE.sub(_percent, value.encode()).decode("ascii") + '"'


def _percent(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


class Request:
    """One HTTP request and its caller.

    The values of a header on several lines are joined; `repeated` has the separate values. `metadata_url` is the
    address of the metadata about tokens, if there is one.
    """

    __slots__ = (
        "access",
        "has_begun",
        "headers",
        "metadata_url",
        "method",
        "path",
        "query",
        "receive",
        "repeated",
        "send",
        "tcp",
        "write_whole",
    )

    def __init__(self, scope: Event, receive: Receive, send: Send) -> None:
        given = scope["headers"]
        self.method: str = scope["method"]
        self.path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(given)
        self.repeated = _NOTHING
        if len(self.headers) != len(given):
            self.repeated = _join_lines(given, self.headers)
        self.receive = receive
        self.send = send
        self.access: Access = EVERYTHING
        self.metadata_url = ""
        self.tcp: TcpConnection | None = scope.get(TCP)
        self.write_whole: Callable[[Answered], bool] | None = None
        self.has_begun = False

    async def reply(self, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
        """Answer with a whole body."""
        if self.write_whole is not None and self.write_whole(Answered(status, headers, body)):
            return
        all_headers = [header(*one) for one in headers]
        if status not in (204, 304):
            all_headers.append((b"content-length", b"%d" % len(body)))
        await self.send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def reply_json(self, status: int, value: object, *headers: tuple[bytes, bytes]) -> None:
        """Answer with a JSON value."""
        await self.reply(status, jsonrpc.plain(value), JSON, *headers)

    async def refuse(self, status: int, problem: str, *headers: tuple[bytes, bytes]) -> None:
        """Answer with an error."""
        await self.reply_json(status, {"error": problem}, *headers)

    async def is_reading(self) -> bool:
        """Return whether the request only reads; refuse any other."""
        if self.method in ("GET", "HEAD"):
            return True
        await self.refuse(405, "Use GET or HEAD", (b"allow", b"GET, HEAD"))
        return False

    def scope_challenge(self, scope: str) -> tuple[bytes, bytes]:
        """Return the header that names the missing scope, and where to ask for it."""
        where = f", resource_metadata={quoted(self.metadata_url)}" if self.metadata_url else ""
        return header(b"www-authenticate", f'Bearer error="insufficient_scope", scope={quoted(scope)}{where}')

    async def begin(self, status: int, headers: HeaderList) -> None:
        """Start an answer whose body follows in parts."""
        self.has_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": [header(*one) for one in headers]})

    async def write(self, part: bytes, *, is_last: bool = False) -> None:
        """Send a part of the body; wait while the client does not read."""
        await self.send({"type": "http.response.body", "body": part, "more_body": not is_last})

    async def write_to_reader(self, part: bytes, *, is_last: bool = False) -> None:
        """Send a part of the body as `write` does; raise `Gone` if the client has disconnected."""
        if self.tcp is not None and self.tcp.is_lost:
            raise Gone
        await self.write(part, is_last=is_last)

    async def break_off(self) -> NoReturn:
        """Close the connection in the middle of an answer, so that the client does not take it for a whole one."""
        if self.tcp is None:
            raise ConnectionAbortedError("an answer could not be finished")
        self.tcp.abort()
        await self.until_gone()
        raise Gone

    async def body(self, limit: int) -> bytes:
        """Return the body; raise `TooLong` if it is longer than `limit`."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise TooLong
        event = await self.receive()
        body: bytes = event.get("body", b"")
        if event.get("more_body"):
            parts, size = [body], len(body)
            while event.get("more_body") and size <= limit:
                event = await self.receive()
                parts.append(event.get("body", b""))
                size += len(parts[-1])
            body = b"".join(parts)
        if event["type"] == "http.disconnect":
            raise Gone
        if len(body) > limit:
            raise TooLong
        return body

    async def until_gone(self) -> None:
        """Wait until the client leaves."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _join_lines(given: HeaderList, headers: dict[bytes, bytes]) -> Mapping[bytes, frozenset[bytes]]:
    """Join the different lines of each repeated header; return the values by name."""
    lines: dict[bytes, list[bytes]] = {}
    for name, value in given:
        lines.setdefault(name, []).append(value)
    several = {name: values for name, values in lines.items() if len(values) > 1}
    headers.update({name: b", ".join(values) for name, values in several.items() if len(set(values)) > 1})
    return {name: frozenset(values) for name, values in several.items()}
