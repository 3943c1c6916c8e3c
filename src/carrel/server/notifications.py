"""The notifications of one subscriber: a URI changed, the list changed, the tools changed."""

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.subscriptions import token_of
from carrel.catalog.watcher import LIST, UNCHANGED_LIST
from carrel.core.errors import ProtocolError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.core.model import Page
from carrel.protocol import results
from carrel.protocol.jsonrpc import Key
from carrel.server.dispatch import Send


class ChangeNotifier:
    """Sends a notification for each change that the watcher reports, of the requested kinds.

    A change of the list may change the tools too, as when a provider found its data. So the tools that this subscriber
    may call are compared then.
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
        """Notify of a URI or of the list, and of the tools if they changed."""
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


def is_list(page: Page, token: str) -> bool:
    """Return whether a page is the whole list with this token."""
    return page.next_cursor is None and token_of(page.entries) == token
