"""A client for MCP servers of both eras: list, read, templates, complete, call, listen.

Synchronous, and safe to use from several threads at once. It raises `RemoteError` for an error of the server,
`ProviderError` with the word `timeout` for a request without an answer and with `bad_result` for an answer that cannot
be used, and `Disconnected` for a server that is gone.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from carrel.client.rpc import OnProgress, Peer, Transport
from carrel.client.subscription import Listening
from carrel.core.errors import CarrelError, Disconnected, ProviderError, RemoteError
from carrel.core.limits import REQUEST_DEADLINE_S
from carrel.core.model import Completion, Page, Range, Reading, Resource, Template, Tool, ToolResult
from carrel.protocol import client_requests, client_results, eras
from carrel.protocol.client_requests import Notice, Params

if TYPE_CHECKING:
    from carrel.client.child import OnLine
    from carrel.server.server import Server

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Maximum size of one message. Foreign servers do not know our smaller limit."""

MAX_PAGES: Final = 10_000
"""Maximum number of pages of one list, for servers whose cursors never end."""

PROBE_S: Final = 2.0
"""Time that a server has to answer `server/discover` before it counts as a legacy one."""

EraName = Literal["modern", "legacy"]
EraChoice = Literal["auto", "modern", "legacy"]
_Entry = TypeVar("_Entry")


class Client:
    """A connection to one server, made by `start`, `at`, `to`, or for any transport. Use it in a `with`.

    `version`, `server_info`, `capabilities` and `instructions` are what the server declared.
    """

    def __init__(
        self,
        transport: Transport,
        era: EraChoice = "auto",
        timeout_s: float = REQUEST_DEADLINE_S,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        """Connect over a transport, which is closed with the client."""
        self.timeout_s = timeout_s
        self.on_end: Callable[[], None] = lambda: None
        """Called on the reader's thread when the server is gone."""
        self._lock = threading.Lock()
        self._listenings: dict[Listening, int | None] = {}
        self._subscribed: Counter[str] = Counter()
        self._peer = Peer(transport, self._hear, max_message_bytes)
        with contextlib.ExitStack() as unless_open:
            unless_open.callback(self._peer.close)
            opening = self._open(era)
            unless_open.pop_all()
        self.version = opening.version
        self.era: EraName = "modern" if opening.version == eras.MODERN_VERSION else "legacy"
        self.server_info = opening.server_info
        self.capabilities = opening.capabilities
        self.instructions = opening.instructions

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        era: EraChoice = "auto",
        timeout_s: float = REQUEST_DEADLINE_S,
        stderr: "OnLine | None" = None,
    ) -> "Client":
        """Start a program and connect to it on its standard streams.

        `stderr` gets the lines that it writes there; by default they go to our stderr.
        """
        from carrel.client.child import ChildServer

        def started() -> ChildServer:
            return ChildServer(command, cwd=cwd, env=env, stderr=stderr, max_message_bytes=MAX_MESSAGE_BYTES)

        def begin(child: ChildServer, era: EraChoice) -> Client:
            try:
                return cls(child, era, timeout_s)
            except Disconnected as error:
                raise Disconnected(f"{error}: {child.ending}") from None

        first = started()
        try:
            return begin(first, era)
        except Disconnected:
            if era != "auto":
                raise
        # Some legacy servers die of the probe, because they do not know its method.
        return begin(started(), "legacy")

    @classmethod
    def at(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        era: EraChoice = "auto",
        timeout_s: float = REQUEST_DEADLINE_S,
    ) -> "Client":
        """Connect to a server over HTTP. A token goes in `headers`: `{"Authorization": "Bearer …"}`.

        Plain http is refused for other machines.
        """
        from carrel.client.http import Http

        return cls(Http(url, headers, max_message_bytes=MAX_MESSAGE_BYTES), era, timeout_s)

    @classmethod
    def to(cls, server: "Server", era: EraChoice = "auto", *, timeout_s: float = REQUEST_DEADLINE_S) -> "Client":
        """Connect to a server in this process. Its providers are not closed with the client."""
        from carrel.client.memory import Memory

        return cls(Memory(server), era, timeout_s)

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return self._peer.is_gone

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; calls that still wait raise `Disconnected`. A second call does nothing."""
        with self._lock:
            self._subscribed.clear()
            listenings = tuple(self._listenings)
        for listening in listenings:
            listening.close()
        self._peer.close()

    # Resources

    def page(self, cursor: str | None = None) -> Page:
        """Return one page of the list."""
        return client_results.page(self._ask("resources/list", client_requests.listing(cursor)))

    def resources(self, prefix: str | None = None) -> Iterator[Resource]:
        """Yield the entries of all pages; a repeated cursor ends the list.

        A Carrel lists the most useful entries. With a prefix, even an empty one, it lists all URIs that begin with it.
        """

        def decode(result: client_results.Result) -> tuple[tuple[Resource, ...], str | None]:
            page = client_results.page(result)
            return page.entries, page.next_cursor

        entries = self._pages("resources/list", decode, prefix)
        return entries if not prefix else (entry for entry in entries if entry.uri.startswith(prefix))

    def template_page(self, cursor: str | None = None) -> tuple[tuple[Template, ...], str | None]:
        """Return one page of the templates, and the cursor of the next."""
        return client_results.templates(self._ask("resources/templates/list", client_requests.listing(cursor)))

    def templates(self) -> list[Template]:
        """Return all templates."""
        return list(self._pages("resources/templates/list", client_results.templates))

    def read(self, uri: str, *, wanted: Range | None = None, if_none_match: str | None = None) -> Reading:
        """Read a URI or a range of it; the reading is `unchanged` if it still has the ETag `if_none_match`."""
        return client_results.reading(self._ask("resources/read", client_requests.read(uri, wanted, if_none_match)))

    def complete(
        self, reference: str, variable: str, value: str, context: Mapping[str, str] | None = None
    ) -> Completion:
        """Return values for a template's variable; `context` holds the variables already chosen."""
        params = client_requests.complete(reference, variable, value, context or {})
        return client_results.completion(self._ask("completion/complete", params))

    def listen(self, uris: Iterable[str] = (), list_changes: bool = False) -> Listening:
        """Subscribe to changes of these URIs and, with `list_changes`, of the list."""
        listening = Listening(tuple(uris), self._leave, list_changes=list_changes)
        with contextlib.ExitStack() as unless_open:
            unless_open.callback(listening.close)
            if self.era == "modern":
                self._listen(listening)
            else:
                self._subscribe(listening)
            unless_open.pop_all()
        return listening

    # Tools, and everything else

    def tools(self) -> list[Tool]:
        """Return all tools."""
        return list(self._pages("tools/list", client_results.tools))

    def call(
        self, name: str, arguments: Mapping[str, object] | None = None, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool. `on_progress` is called with value, total and message, on this thread."""
        params = client_requests.call(name, arguments or {})
        return client_results.tool_result(self._ask("tools/call", params, on_progress=on_progress))

    def ping(self) -> None:
        """Check that the server answers. Legacy only."""
        self._ask("ping", {})

    def request(self, method: str, params: Params | None = None) -> Any:
        """Send any request and return its result as plain JSON values; the `_meta` of a modern one is added."""
        return client_results.plain(self._ask(method, params or {}))

    # Opening

    def _open(self, era: EraChoice) -> client_results.Opening:
        opening = None if era == "legacy" else self._discover(era)
        if opening is not None:
            return opening
        try:
            return self._initialize()
        except RemoteError:
            # A modern server that started slowly answered the probe too late, and refuses the handshake.
            opening = None if era == "legacy" else self._discover("modern")
            if opening is None:
                raise
            return opening

    def _discover(self, era: EraChoice) -> client_results.Opening | None:
        """Return what a modern server declares; None for a legacy one."""
        is_probe = era == "auto"
        timeout_s = min(PROBE_S, self.timeout_s) if is_probe else self.timeout_s
        try:
            params = client_requests.modern({})
            return client_results.discovered(self._peer.request("server/discover", params, timeout_s, cancels=False))
        except (RemoteError, ProviderError) as error:
            if isinstance(error, RemoteError) and client_results.names_our_version(error):
                return client_results.Opening(eras.MODERN_VERSION)
            if not is_probe:
                raise
        return None

    def _initialize(self) -> client_results.Opening:
        result = self._peer.request("initialize", client_requests.initialize(), self.timeout_s, cancels=False)
        opening = client_results.initialized(result)
        self._peer.notify("notifications/initialized", {})
        return opening

    # Asking

    def _ask(self, method: str, params: Params, *, on_progress: OnProgress | None = None) -> client_results.Result:
        spelled = client_requests.modern(params) if self.era == "modern" else params
        return self._peer.request(method, spelled, self.timeout_s, on_progress=on_progress)

    def _pages(
        self,
        method: str,
        decode: Callable[[client_results.Result], tuple[tuple[_Entry, ...], str | None]],
        prefix: str | None = None,
    ) -> Iterator[_Entry]:
        cursor = None
        seen: set[str] = set()
        while len(seen) < MAX_PAGES:
            entries, cursor = decode(self._ask(method, client_requests.listing(cursor, prefix)))
            yield from entries
            if cursor is None or cursor in seen:
                return
            seen.add(cursor)

    # Listening

    def _listen(self, listening: Listening) -> None:
        """Subscribe the modern way: one request that stays open."""
        params = client_requests.modern(client_requests.listen(listening.uris, list_changes=listening.list_changes))
        number = self._peer.begin("subscriptions/listen", params, listening.take, self.timeout_s)
        with self._lock:
            self._listenings[listening] = number
        if not listening.wait_until_open(self.timeout_s):
            raise ProviderError("Request timed out: subscriptions/listen", word="timeout")

    def _subscribe(self, listening: Listening) -> None:
        """Subscribe the legacy way: URI by URI; those that the server refuses are not honoured."""
        with self._lock:
            self._listenings[listening] = None
        for uri in listening.uris:
            # Counted before the request, so that another subscription that ends meanwhile does not unsubscribe it.
            with self._lock:
                self._subscribed[uri] += 1
            try:
                self._ask("resources/subscribe", {"uri": uri})
                listening.open((*listening.honoured, uri))
            except RemoteError:
                with self._lock:
                    self._subscribed[uri] -= 1

    def _leave(self, listening: Listening) -> None:
        """End a subscription; URIs of other subscriptions stay subscribed."""
        with self._lock, contextlib.suppress(CarrelError):
            if listening not in self._listenings:
                return
            number = self._listenings.pop(listening)
            if number is not None:
                if self._peer.forget(number):
                    self._peer.cancel(number)
                return
            for uri in listening.honoured:
                self._subscribed[uri] -= 1
                if self._subscribed[uri] == 0:
                    self._peer.begin("resources/unsubscribe", {"uri": uri}, lambda _: None, timeout_s=0.0)

    def _hear(self, notice: Notice | CarrelError) -> None:
        """Pass on a notification that belongs to no request, or the end of the connection."""
        if isinstance(notice, CarrelError):
            self.on_end()
        with self._lock:
            listenings = [listening for listening, number in self._listenings.items() if number is None]
        for listening in listenings:
            listening.hear(notice)
