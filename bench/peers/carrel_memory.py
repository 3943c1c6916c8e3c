"""Carrel in the same role as its peers: one text in memory, served on the standard streams.

python bench/peers/carrel_memory.py SIZE
"""

import sys
from collections.abc import Iterator

from carrel.catalog import Catalog
from carrel.model import Resource, Text
from carrel.provider import Route
from carrel.server import Server
from carrel.transports import stdio

URI = "bench://text"


class Memory:
    """One text.

    bench://text   the text
    """

    name = "memory"
    schemes: tuple[str, ...] = ("bench",)

    def __init__(self, size: int) -> None:
        self._text = "x" * size

    def routes(self) -> tuple[Route, ...]:
        """Give the one route."""
        return (Route(URI, self.read, name="text", mime_type="text/plain"),)

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the one entry."""
        if after < URI:
            yield Resource(URI, "text", mime_type="text/plain")

    def read(self) -> Text:
        """Give the text."""
        return Text(self._text)


if __name__ == "__main__":
    stdio.serve(Server(Catalog([Memory(int(sys.argv[1]))])))
