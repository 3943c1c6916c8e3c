"""A small HTTP balancer for trials: every request goes to a replica at random.

Each client connection carries one request. A request that a replica cannot take (refused, or cut off before the first
byte of its answer) goes to another one, unless it may have changed something: those of the method `tools/call`.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence

_MAX_HEAD = 65_536
_CHUNK = 65_536
_TRIES = 12
_PAUSE_S = 0.1


class Balancer:
    """Listens on loopback and passes requests on to the replicas that `ports` returns."""

    def __init__(self, ports: Callable[[], Sequence[int]], seed: int = 0) -> None:
        self._ports = ports
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self.served: dict[int, int] = {}
        """Requests by the port that answered them."""

    async def start(self, port: int = 0) -> int:
        """Begin to listen; return the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_HEAD, backlog=1_024)
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._pass_on(await _request(client), client, answer)
        finally:
            answer.close()

    async def _pass_on(self, request: bytes, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        is_safe = b'"tools/call"' not in request
        for _ in range(_TRIES):
            ports = self._ports()
            port = self._random.choice(ports)
            try:
                upstream, to_upstream = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(_PAUSE_S)
                continue
            try:
                to_upstream.write(request)
                await to_upstream.drain()
                first = await upstream.read(_CHUNK)
            except OSError:
                first = b""
            if first:
                self.served[port] = self.served.get(port, 0) + 1
                try:
                    await _relay(first, upstream, client, answer)
                finally:
                    to_upstream.close()
                return
            to_upstream.close()
            if not is_safe:
                break
        answer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await answer.drain()


async def _request(client: asyncio.StreamReader) -> bytes:
    """Return one request with its body, which asks for the connection to be closed after the answer."""
    head = await client.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    fields = [line.partition(b":") for line in lines]
    lengths = [int(value) for name, _, value in fields if name.lower() == b"content-length"]
    kept = [line for line, (name, _, _) in zip(lines, fields, strict=True) if name.lower() != b"connection"]
    body = await client.readexactly(lengths[0]) if lengths else b""
    return b"\r\n".join([first, *kept, b"Connection: close", b"", body])


async def _relay(
    first: bytes, upstream: asyncio.StreamReader, client: asyncio.StreamReader, answer: asyncio.StreamWriter
) -> None:
    """Copy an answer until it ends, or the client leaves."""
    gone = asyncio.ensure_future(client.read(1))
    part = first
    try:
        while part and not gone.done():
            answer.write(part)
            await answer.drain()
            reading = asyncio.ensure_future(upstream.read(_CHUNK))
            await asyncio.wait((reading, gone), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                return
            with contextlib.suppress(OSError):
                part = b""
                part = reading.result()
    finally:
        gone.cancel()
