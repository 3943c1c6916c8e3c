"""Asking Carrel's HTTP application: in this process as an ASGI server would, or over real sockets."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from carrel.catalog.catalog import Catalog
from carrel.core.provider import Provider
from carrel.server.server import Server
from carrel.transports.http.app import App, bind, runner
from carrel.transports.http.asgi import Event
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.wire import Wire
from tests.support.waiting import PATIENCE_S

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
OPEN = Guard(AcceptedNames(is_loopback=True))
"""Lets everybody in who comes by a loopback name."""


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, as JSON."""
        return json.loads(self.body)


def application(*providers: Provider, guard: Guard = OPEN, deadline_s: float = PATIENCE_S, **options: int) -> App:
    """Make an application that serves these providers."""
    return App(Server(Catalog(providers, **options)), guard, deadline_s)


class Exchange:
    """One request on its way: what the application sends is here as it comes."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.left = asyncio.Event()
        self._text = b""

    async def send(self, event: Event) -> None:
        """Take what the application sends."""
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = {name.decode(): value.decode() for name, value in event["headers"]}
        else:
            self.parts.put_nowait(event.get("body", b""))
            if not event.get("more_body"):
                self.parts.put_nowait(None)

    async def message(self) -> Any:
        """Wait for the next message of an event stream; None at its end."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                head, found, rest = self._text.partition(b"\n\n")
                if found:
                    self._text = rest
                    data = [line[6:] for line in head.split(b"\n") if line.startswith(b"data: ")]
                    if data:
                        return json.loads(b"".join(data))
                    continue
                part = await self.parts.get()
                if part is None:
                    return None
                self._text += part

    async def body(self) -> bytes:
        """Wait for all of it."""
        parts = []
        async with asyncio.timeout(PATIENCE_S):
            while (part := await self.parts.get()) is not None:
                parts.append(part)
        return b"".join(parts)


@asynccontextmanager
async def asking(
    app: App, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> AsyncIterator[Exchange]:
    """Make a request; leaving the `with` is the client leaving. A header of several lines is sent as several."""
    exchange = Exchange()
    given = {"host": "127.0.0.1:8000", **(headers or {})}
    parts = urlsplit("http://x" + target) if target.startswith("/") else urlsplit(target)
    scope: Event = {
        "type": "http",
        "method": method,
        "raw_path": target.partition("?")[0].encode(),
        "path": parts.path,
        "query_string": target.partition("?")[2].encode(),
        "headers": [
            (name.lower().encode(), line.encode("latin-1"))
            for name, value in given.items()
            for line in value.split("\n")
        ],
    }
    is_sent = False

    async def receive() -> Event:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await exchange.left.wait()
        return {"type": "http.disconnect"}

    task = asyncio.ensure_future(app(scope, receive, exchange.send))
    try:
        yield exchange
    finally:
        exchange.left.set()
        async with asyncio.timeout(PATIENCE_S):
            await task


async def ask(app: App, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Reply:
    """Make a request and wait for the whole answer."""
    async with asking(app, method, target, headers, body) as exchange:
        whole = await exchange.body()
        return Reply(exchange.status, exchange.headers, whole)


def get(app: App, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Reply:
    """Make one request by itself."""
    return asyncio.run(ask(app, method, target, headers))


def modern(method: str, params: Mapping[str, object] | None = None, *, request_id: object = 1) -> bytes:
    """Spell a modern request."""
    given = {"_meta": META, **(params or {})}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": given}).encode()


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers that belong to a modern request."""
    made = {**JSON, "mcp-protocol-version": MODERN, "mcp-method": method}
    return made if name is None else {**made, "mcp-name": name}


def legacy(method: str, params: Mapping[str, object] | None = None, *, request_id: object = 1) -> bytes:
    """Spell a legacy request; without an id, a notification."""
    message = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
    return json.dumps(message if request_id is None else {**message, "id": request_id}).encode()


JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def post(app: App, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    """Post one message by itself."""
    return asyncio.run(ask(app, "POST", "/mcp", JSON if headers is None else headers, body))


def run(talk: Callable[[], Awaitable[None]]) -> None:
    """Run a conversation of several requests on one event loop."""

    async def whole() -> None:
        await talk()

    asyncio.run(whole())


@contextmanager
def listening(app: App, wire: type[Wire] = Wire) -> Iterator[int]:
    """Serve on a real port of this machine, on a thread; yield the port."""
    taken = bind("127.0.0.1", 0)
    server = runner(app)
    server.config.http = wire
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    port: int = taken.getsockname()[1]
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def raw(port: int, data: bytes) -> bytes:
    """Send bytes over a socket and give all that comes back until it is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        parts = []
        # Who is refused while still sending may find the connection reset.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            while part := connection.recv(65_536):
                parts.append(part)
    return b"".join(parts)
