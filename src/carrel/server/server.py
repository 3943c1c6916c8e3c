"""A catalogue, served: where resources and the protocol meet. One server has many connections."""

from threading import Lock
from typing import TYPE_CHECKING

from carrel.catalog.access import EVERYTHING, Access
from carrel.catalog.catalog import Catalog
from carrel.search.lazy import LazySearch
from carrel.server.connection import Connection
from carrel.server.dispatch import Dispatch, Send
from carrel.server.ratelimit import Allowances
from carrel.server.requests import Work

if TYPE_CHECKING:
    from carrel.catalog.watcher import Watcher


class Server:
    """A catalogue and its watcher, and the connections to them."""

    def __init__(self, catalog: Catalog, watcher: "Watcher | None" = None, search: LazySearch | None = None) -> None:
        self.catalog = catalog
        self.search = search
        self.dispatch = Dispatch(catalog)
        self._watcher = watcher
        self._making_watcher = Lock()

    @property
    def watcher(self) -> "Watcher":
        """The watcher of the catalogue, made when a client first wants to hear of changes."""
        with self._making_watcher:
            if self._watcher is None:
                from carrel.catalog.watcher import Watcher  # after the first answers

                self._watcher = Watcher(self.catalog)
            return self._watcher

    def connect(self, send: Send, access: Access = EVERYTHING, allowances: Allowances | None = None) -> Connection:
        """Return a new connection for a caller with this access; `send` gets every message that is not an answer."""
        return Connection(self.dispatch, lambda: self.watcher, send, access, allowances or Allowances())

    def answer(self, message: bytes) -> bytes | None:
        """Answer one message on this thread, on a new connection."""
        connection = self.connect(lambda _: None)
        given = connection.accept(message)
        encoded = given.run() if isinstance(given, Work) else given
        endings = connection.close()
        return endings[0] if endings else encoded

    def close(self) -> None:
        """Stop watching, then close every provider."""
        if self._watcher is not None:
            self._watcher.close()
        self.catalog.close()
