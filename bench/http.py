"""HTTP, measured: reads beside bare ASGI, and how soon a thousand listeners hear of a change.

    python -m bench.http reads      1 KB reads on 32 connections, requests a second
    python -m bench.http listen     1,000 streams on 1,000 URIs in a tree of 20,000 files

Everything runs on this machine: client and server share its processors, so only the ratios mean something.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SECONDS = 4.0
CONNECTIONS = 32
STREAMS = 1_000
FILES = 20_000
WRITES = 200

BARE = """
import uvicorn
BODY = b"x" * 1_500
async def app(scope, receive, send):
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
"""
STARLETTE = """
import json, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def mcp(request):
    message = json.loads(await request.body())
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "x" * 1_400}})
app = Starlette(routes=[Route("/mcp", mcp, methods=["POST"])])
"""
RUN = """
import socket
taken = socket.create_server(("127.0.0.1", 0))
print(taken.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")).run(sockets=[taken])
"""


@contextmanager
def running(*command: str) -> Iterator[tuple[int, int]]:
    """Start a server that says its port; yield the port and the process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        port = next(
            int(found[1]) for line in process.stdout if (found := re.search(r"(?:^|:)(\d{4,5})(?:/mcp)?$", line))
        )
        try:
            yield port, process.pid
        finally:
            process.terminate()


def desk(folder: str) -> list[str]:
    """Return the command that serves a folder."""
    carrel = str(Path(sys.executable).parent / "carrel")
    return [carrel, "serve", "--http", "0", "--no-token", "--project", folder]


def post(port: int, method: str, params: dict[str, object], name: str = "") -> bytes:
    """Spell a modern request."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}).encode()
    named = f"mcp-name: {name}\r\n" if name else ""
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
        f"mcp-method: {method}\r\n{named}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, request: bytes) -> float:
    """Ask again and again on many connections; return requests a second."""
    ends = perf_counter() + SECONDS

    async def one() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while perf_counter() < ends:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            at = head.lower().index(b"content-length:")
            await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS)))) / SECONDS


def measure_reads() -> dict[str, float]:
    """Measure every server in turn."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "k.txt").write_text("hello world\n" * 86, "utf-8")
        uri = "workspace:///k.txt"
        for name, text in (("bare ASGI", BARE), ("Starlette, no MCP", STARLETTE)):
            with running(sys.executable, "-c", text + RUN) as (port, _):
                found[name] = asyncio.run(load(port, post(port, "resources/read", {"uri": uri}, uri)))
        with running(*desk(folder)) as (port, _):
            found["Carrel, /mcp"] = asyncio.run(load(port, post(port, "resources/read", {"uri": uri}, uri)))
            plain = f"GET /workspace/k.txt HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
            found["Carrel, plain"] = asyncio.run(load(port, plain))
    return found


def seconds_of(pid: int) -> float:
    """Return the processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _change(folder: Path, number: int) -> None:
    (folder / f"d{number % 100}/f{number}.txt").write_text(f"changed {number}\n", "utf-8")


async def listen(port: int, pid: int, folder: Path) -> dict[str, float]:
    """Open all streams, write to some files, and see who hears of it and when."""
    heard: dict[int, list[tuple[str, float]]] = {}
    acknowledged = asyncio.Semaphore(0)
    told = asyncio.Event()

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        uri = f"workspace:///d{number % 100}/f{number}.txt"
        writer.write(post(port, "subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}))
        async for line in reader:
            if b"subscriptions/acknowledged" in line:
                acknowledged.release()
            elif b"resources/updated" in line:
                heard.setdefault(number, []).append((line.decode(), perf_counter()))
                told.set()

    streams = [asyncio.ensure_future(one(number)) for number in range(STREAMS)]
    began = perf_counter()
    for _ in streams:
        await acknowledged.acquire()
    opened = perf_counter() - began
    delays = []
    for number in range(0, STREAMS, STREAMS // WRITES):
        told.clear()
        at = perf_counter()
        _change(folder, number)
        async with asyncio.timeout(10):
            await told.wait()
        delays.append(heard[number][0][1] - at)
        assert set(heard) == set(range(0, number + 1, STREAMS // WRITES)), "the wrong stream was told"
    before, began = seconds_of(pid), perf_counter()
    await asyncio.sleep(5)
    idle = (seconds_of(pid) - before) / (perf_counter() - began)
    for stream in streams:
        stream.cancel()
    delays.sort()
    return {
        "streams": STREAMS,
        "opened_s": opened,
        "p50_ms": delays[len(delays) // 2] * 1e3,
        "p95_ms": delays[int(len(delays) * 0.95)] * 1e3,
        "idle_cpu_percent": idle * 100,
    }


def measure_listening() -> dict[str, float]:
    """Lay the tree out, and listen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(FILES):
            (folder / f"d{number % 100}").mkdir(exist_ok=True)
            (folder / f"d{number % 100}/f{number}.txt").write_text(f"file {number}\n", "utf-8")
        with running(*desk(name)) as (port, pid):
            return asyncio.run(listen(port, pid, folder))


def main() -> None:
    """Measure what was asked for, and print it."""
    measured = measure_listening() if sys.argv[1:] == ["listen"] else measure_reads()
    for name, value in measured.items():
        print(f"{name:20} {value:10.1f}")


if __name__ == "__main__":
    main()
