"""A catalogue, served: where resources and the protocol meet. One server has many connections."""

from carrel.catalog.access import EVERYTHING, Access
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.search.lazy import LazySearch
from carrel.server.connection import Connection
from carrel.server.dispatch import Dispatch, Send
from carrel.server.ratelimit import Allowance
from carrel.server.requests import Work


class Server:
    """A catalogue and its watcher, and the connections to them."""

    def __init__(self, catalog: Catalog, watcher: Watcher | None = None, search: LazySearch | None = None) -> None:
        self.catalog = catalog
        self.search = search
        self.watcher = watcher or Watcher(catalog)
        self.dispatch = Dispatch(catalog)

    def connect(self, send: Send, access: Access = EVERYTHING, allowance: Allowance | None = None) -> Connection:
        """Return a new connection for a caller with this access; `send` gets every message that is not an answer."""
        return Connection(self.dispatch, self.watcher, send, access, allowance or Allowance())

    def answer(self, message: bytes) -> bytes | None:
        """Answer one message on this thread, on a new connection."""
        connection = self.connect(lambda _: None)
        given = connection.accept(message)
        encoded = given.run() if isinstance(given, Work) else given
        endings = connection.close()
        return endings[0] if endings else encoded

    def close(self) -> None:
        """Stop watching, then close every provider."""
        self.watcher.close()
        self.catalog.close()
