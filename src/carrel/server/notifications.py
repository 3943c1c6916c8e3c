"""What one subscriber is told: that a URI changed, or the list, or which tools there are."""

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import LIST, UNCHANGED_LIST
from carrel.core.errors import ProtocolError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.protocol import results
from carrel.protocol.jsonrpc import Key
from carrel.server.dispatch import Send


class News:
    """Spells changes as they come from the watcher; only the kinds that were asked for.

    A change of the list may be one of the tools too, as when a provider found its data: they
    are compared then, as this subscriber may see them.
    """

    def __init__(
        self, catalog: Catalog, access: Access, send: Send, key: Key | None = None, *, lists: bool, tools: bool
    ) -> None:
        self._catalog = catalog
        self._access = access
        self._send = send
        self._key = key
        self._lists = lists
        self._tools = self._names() if tools else None

    def __call__(self, what: str) -> None:
        """Tell of a URI, or of the list; the tools may be others even where the list is not."""
        if what != UNCHANGED_LIST and (what or self._lists):
            self._send(results.changed(what, self._key))
        if what in (LIST, UNCHANGED_LIST) and self._tools is not None:
            before, self._tools = self._tools, self._names()
            if self._tools != before:
                self._send(results.tools_changed(self._key))

    def _names(self) -> tuple[str, ...]:
        try:
            with ActingAs(self._access):
                return tuple(tool.name for tool in attempt("tools/list", self._catalog.tools))
        except (RequestError, ProviderError, ProtocolError):
            return ()
