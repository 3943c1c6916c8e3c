"""A peer: the limit over HTTP in Python, the bare loop behind uvloop and httptools with nothing between.

python bench/peers/raw.py FOLDER ENTRIES PORT
"""

import asyncio
from typing import cast

import httptools
import uvloop

from bench.peers.bare import Loop
from bench.peers.served import options


class Connection(asyncio.Protocol):
    """Answers every request, whatever its path and headers."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to write."""
        self._write = cast("asyncio.WriteTransport", transport).write

    def data_received(self, data: bytes) -> None:
        """Parse what came in."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Answer; head and body leave together."""
        answer = self._loop.answer(self._body)
        self._body = b""
        if answer is None:
            self._write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
            self._write(head + answer)


async def serve(loop: Loop, port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(loop), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    given = options()
    uvloop.run(serve(Loop(given), given.port))
