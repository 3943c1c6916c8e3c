"""Many requests, good and bad, and clients that vanish or do not read: afterwards the server is as it was.

`CARREL_SOAK=300000` makes it longer, and then less than a megabyte an hour is asked for.
"""

import asyncio
import json
import os
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from carrel.core.limits import MAX_WORKER_THREADS, WORKER_THREADS
from tests.e2e.http_desk import serving
from tests.support.flatness import Flatness, State, state_of
from tests.support.http_asking import INITIALIZE, JSON, legacy, modern, modern_headers
from tests.support.waiting import PATIENCE_S

MANY = 4 * MAX_WORKER_THREADS
"""Handles that providers open with the first reads, and keep: some of them on each worker thread."""
REQUESTS = int(os.environ.get("CARREL_SOAK", "12000"))
WARM_UP = 6_000
"""Requests until every table of the server that has a bound is full, or nearly."""
IS_LONG = "CARREL_SOAK" in os.environ
LOOK_S = 0.2
HEAP_KB = 6_000
"""By how much the process may be larger afterwards: the server keeps up to 8 MB of its heap that are free."""
CLIENTS = 16
SETTLED_S = 20
URI = "workspace:///lib/main.dart"


def spelled(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Spell a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


READ = spelled("POST", "/mcp", modern_headers("resources/read", URI), modern("resources/read", {"uri": URI}))
LIST = spelled("POST", "/mcp", modern_headers("resources/list"), modern("resources/list"))
CALL = spelled(
    "POST", "/mcp", modern_headers("tools/call", "list_resources"), modern("tools/call", {"name": "list_resources"})
)
PLAIN = spelled("GET", "/workspace/lib/main.dart", {})
LARGE = spelled("GET", "/workspace/large.txt", {})
LISTEN = spelled(
    "POST",
    "/mcp",
    modern_headers("subscriptions/listen"),
    modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [URI], "resourcesListChanged": True}}),
)
WRONG = (
    spelled("POST", "/mcp", JSON, b"{"),
    spelled("POST", "/mcp", JSON, b"[" * 5_000),
    spelled("POST", "/mcp", {}, b""),
    spelled("GET", "/workspace/%2e%2e/%00", {}),
    spelled("GET", "/nobody/x", {}),
    spelled("DELETE", "/mcp", {"Mcp-Session-Id": "0" * 32}),
    spelled("POST", "/mcp", modern_headers("resources/read", "x"), modern("resources/read", {"uri": URI})),
)


class Connection:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Send, and return head and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        async with asyncio.timeout(PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        length = int(
            next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        )
        body = await reader.readexactly(length)
        if b"connection: close" in head.lower():
            await self.close()
        return head, body

    async def close(self) -> None:
        """Close it properly."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def vanish(port: int, request: bytes, enough: int = 0) -> None:
    """Ask, and reset the connection without reading the answer, or after a little of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    if enough:
        await reader.read(enough)
    taken = writer.get_extra_info("socket")
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


async def hold_a_session(connection: Connection) -> None:
    """Open a legacy session, use it and end it."""
    head, _ = await connection.ask(spelled("POST", "/mcp", JSON, legacy("initialize", INITIALIZE)))
    session = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"mcp-session-id"))
    headers = {**JSON, "Mcp-Session-Id": session.decode()}
    await connection.ask(spelled("POST", "/mcp", headers, legacy("notifications/initialized", request_id=None)))
    _, body = await connection.ask(spelled("POST", "/mcp", headers, legacy("resources/subscribe", {"uri": URI})))
    assert json.loads(body)["result"] == {}
    await connection.ask(spelled("DELETE", "/mcp", headers))


async def keep_asking(port: int, count: int, seed: int) -> int:
    """Run one client that does everything, mostly reading."""
    chance = random.Random(seed)
    connection = Connection(port)
    rare: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: vanish(port, LARGE, chance.choice((0, 100_000))),
        lambda: vanish(port, CALL, chance.choice((0, 100))),
        lambda: vanish(port, LISTEN, chance.choice((0, 100))),
        lambda: vanish(port, READ[:-5]),
        lambda: hold_a_session(connection),
        lambda: connection.ask(chance.choice(WRONG)),
        lambda: connection.ask(CALL),
    )
    good = 0
    for number in range(count):
        if number % 10 == 9:
            await chance.choice(rare)()
        else:
            head, _ = await connection.ask(chance.choice((READ, READ, PLAIN, LIST)))
            good += head.startswith(b"HTTP/1.1 200")
    await connection.close()
    return good


async def load(port: int, requests: int, seed: int) -> None:
    """Run many clients at once, while some others request large answers and read nothing."""
    slow = [await asyncio.open_connection("127.0.0.1", port, limit=1_024) for _ in range(4)]
    for _, writer in slow:
        writer.write(LARGE * 3)
    share = requests // CLIENTS
    good = await asyncio.gather(*(keep_asking(port, share, seed + number) for number in range(CLIENTS)))
    assert all(one == share - share // 10 for one in good), good
    for _, writer in slow:
        writer.transport.abort()


async def watched_load(port: int, flatness: Flatness) -> None:
    """Load the server, and look at its memory meanwhile."""

    async def look() -> None:
        while True:
            flatness.look()
            await asyncio.sleep(LOOK_S)

    looking = asyncio.create_task(look())
    await load(port, REQUESTS, seed=1_000)
    looking.cancel()


async def wake_every_worker(port: int) -> None:
    """Ask for much at one moment, so that every thread the server may have is there, with what it holds open."""
    requests = (CALL, LIST, PLAIN, READ) * 4 * WORKER_THREADS
    connections = [Connection(port) for _ in requests]
    await asyncio.gather(*(one.ask(request) for one, request in zip(connections, requests, strict=True)))
    for connection in connections:
        await connection.close()


async def settled(port: int, pid: int, handles: int, threads: int) -> State:
    """Wait until nobody is connected or listened to any more, and no more is open than that."""
    connection = Connection(port)
    now = state_of(pid)
    try:
        async with asyncio.timeout(SETTLED_S):
            while True:
                _, body = await connection.ask(spelled("GET", "/-/health", {}))
                told, now = json.loads(body), state_of(pid)
                if not told["streams"] and not told["sessions"] and now.handles <= handles and now.threads <= threads:
                    return now
    except TimeoutError:
        raise AssertionError(f"{now}, and not {handles} handles and {threads} threads") from None
    finally:
        await connection.close()


@pytest.mark.alone
def test_nothing_grows(carrel: str, project: Path) -> None:
    (project / "large.txt").write_text("x" * 3_000_000, "utf-8")
    with serving(carrel, project, "--no-token") as desk:
        port = int(desk.origin.rpartition(":")[2])

        flatness = Flatness(desk.pid)

        async def soak() -> tuple[State, State]:
            fresh = state_of(desk.pid)
            await load(port, WARM_UP, seed=1)
            await wake_every_worker(port)
            # A thread that was not needed before may be now, and keeps a database open.
            few = WORKER_THREADS
            before = await settled(port, desk.pid, fresh.handles + MANY, fresh.threads + MAX_WORKER_THREADS + few)
            await watched_load(port, flatness)
            return before, await settled(port, desk.pid, before.handles + 3 * few, before.threads + few)

        before, after = asyncio.run(soak())

    assert after.kilobytes - before.kilobytes < HEAP_KB, (before, after)
    if IS_LONG:
        assert flatness.mb_an_hour < 1.0, str(flatness)
    else:
        assert flatness.growth_kb < 1_500, str(flatness)
