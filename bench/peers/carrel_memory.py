"""Carrel in the role of its peers: what they serve from memory, as a provider.

python bench/peers/carrel_memory.py FOLDER ENTRIES PORT
"""

from bisect import bisect_right
from collections.abc import Iterator

from bench.peers.served import BLOB_TYPE, MEMORY, TEMPLATES, TEXT_TYPE, Folder, Options, entries, options
from carrel.catalog.catalog import Catalog
from carrel.core.model import Blob, Resource, Text
from carrel.core.provider import Provider, Route
from carrel.server.server import Server


class Memory(Provider):
    """Files that are read once and kept, and a list of any length.

    bench://memory/{name}   a file
    """

    name = "memory"
    speed = "instant"
    schemes: tuple[str, ...] = ("bench",)

    def __init__(self, given: Options) -> None:
        self._folder = Folder(given.folder)
        self._entries = [Resource(*entry, TEXT_TYPE) for entry in entries(given.entries)]
        self._keys = [entry.uri for entry in self._entries]

    def routes(self) -> tuple[Route, ...]:
        """Return a route for each template; only the first is ever read."""
        return tuple(Route(template, self.read, name=template.split("/")[2]) for template in TEMPLATES)

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the list from a place on."""
        for number in range(bisect_right(self._keys, after), len(self._entries)):
            yield self._entries[number]

    def read(self, name: str) -> Text | Blob:
        """Return a file."""
        kept = self._folder.read(MEMORY + name)
        return Text(kept, TEXT_TYPE) if isinstance(kept, str) else Blob(kept, BLOB_TYPE)


def main() -> None:
    """Serve until input ends, or on the port until the process is ended."""
    given = options()
    server = Server(Catalog([Memory(given)]))
    if not given.port:
        from carrel.transports import stdio

        stdio.serve(server)
        return
    from carrel.transports.http.app import App, bind, serve
    from carrel.transports.http.guard import AcceptedNames, Guard

    serve(App(server, Guard(AcceptedNames(is_loopback=True))), bind("127.0.0.1", given.port))


if __name__ == "__main__":
    main()
