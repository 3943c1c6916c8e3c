"""HTTP as one ASGI application: `/mcp`, every resource by its path, and `/-/` about the server.

`serve` runs it on uvicorn. Every request passes the guard first. Imported only for `serve --http`.

    /mcp                       Streamable HTTP (`mcp`)
    /{scheme}/{rest}           a resource (`plain`); /-/read?uri= reads any; POST adds lines to a log
    /-/search?q=               search over everything that is served
    /-/health                  state, sessions and open streams; without a token, only that the server runs
    /-/ready                   whether a balancer should send requests here; needs no token
    /-/providers               the served providers
    /-/limits                  the limits of this server
    /, and any of these        pages for people (`pages`), if there are any, where `Accept` prefers HTML
    /-/open?key=               a link that lets a browser in (`visits`)
    /.well-known/…             the authorization server (RFC 9728)
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from time import time
from types import ModuleType
from typing import TYPE_CHECKING, Final

from carrel.catalog.access import Access, ActingAs
from carrel.core import limits
from carrel.core.errors import ConfigError, ProtocolError, ProviderError, RequestError
from carrel.core.version import __version__
from carrel.server.ratelimit import Allowances
from carrel.server.server import Server
from carrel.transports.http.asgi import BEGUN, MCP_PATH, WRITE, Answered, Event, Gone, Receive, Request, Send
from carrel.transports.http.guard import Guard, Refusal
from carrel.transports.http.mcp import Endpoint, OpenPost, problem_with
from carrel.transports.http.pages import Pages, is_page, may_be_twin, open_visit
from carrel.transports.http.plain import Plain, refuse
from carrel.transports.http.shared_sessions import SharedSessions
from carrel.transports.http.sse import Outbox
from carrel.transports.http.threads import Threads
from carrel.transports.http.unauthenticated import NewConnections
from carrel.transports.http.visits import OPEN_PATH, Visits
from carrel.transports.shutdown import Ending

if TYPE_CHECKING:
    import uvicorn

_HEALTH: Final = b"/-/health"
_READY: Final = b"/-/ready"
_ABOUT: Final = (_HEALTH, b"/-/providers", b"/-/limits")
_GRACE_S: Final = 1
DRAIN_S: Final = 0.5
"""How long a replica still accepts requests after a signal, so that none is cut off."""


class App:
    """The ASGI application. `pages` is called when the first page is asked for; its result answers with HTML."""

    def __init__(
        self,
        server: Server,
        guard: Guard,
        deadline_s: float = limits.REQUEST_DEADLINE_S,
        *,
        pages: "Callable[[App], Pages] | None" = None,
        visits: Visits | None = None,
        shared: SharedSessions | None = None,
        allowances: Allowances | None = None,
    ) -> None:
        self._server = server
        self._guard = guard
        self.threads = Threads(deadline_s)
        self._endpoint = Endpoint(server, self.threads, self.is_shut_out, allowances or Allowances(), shared)
        self.accept = self._endpoint.accept
        """Accepts the message of a POST; returns its answer, or what `__call__` needs to wait for it."""
        self.sessions = self._endpoint.sessions
        self.plain = Plain(server, self.threads)
        self.is_replica = shared is not None
        self._make_pages = pages
        self._pages: Pages | None = None
        self._visits = visits
        self.outboxes: set[Outbox] = set()
        """The event streams of pages."""
        self.new_connections: NewConnections[object] = NewConnections()
        self._is_ending = False

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request; `accept` may have accepted its message already."""
        if scope["type"] != "http":
            await self._take_other(scope, receive, send)
            return
        begun: tuple[Request, Answered | OpenPost] | None = scope.get(BEGUN)
        request = Request(scope, receive, send) if begun is None else begun[0]
        request.receive, request.send = receive, send
        request.write_whole = scope.pop(WRITE, None)  # which leads back to the scope: nothing is left to collect
        try:
            if begun is None:
                await self._answer(request)
            else:
                await self._endpoint.finish(*begun)
        except (RequestError, ProviderError, ProtocolError) as error:
            await refuse(request, error)
        except Gone:
            return
        except asyncio.CancelledError:
            if not (self.threads.is_closed and request.tcp):
                raise
            request.tcp.abort()  # the server stops, and the client did not read its answer in time

    def lets_in(self, request: Request) -> bool:
        """Return whether a POST to `/mcp` has valid headers and a caller who is known without waiting."""
        access = None if self._guard.refusal(request) is not None else self._guard.known(request)
        if not isinstance(access, Access) or problem_with(request) is not None:
            return False
        self._let_in(request, access)
        return True

    def announce_end(self) -> None:
        """Tell balancers from now on to send no more requests."""
        self._is_ending = True

    def end(self) -> None:
        """End every stream and session properly."""
        self.announce_end()
        self._endpoint.close()
        for outbox in tuple(self.outboxes):
            outbox.finish()
        self.threads.close()

    async def _answer(self, request: Request) -> None:
        if request.path == _READY:
            await self._reply_ready(request)
            return
        refusal = self._guard.refusal(request)
        if refusal is None and self._guard.is_metadata(request.path):
            await self._reply_metadata(request)
            return
        if refusal is None and request.path == OPEN_PATH and self._visits is not None:
            await open_visit(request, self._visits, self._pages_for(request))
            return
        pages = self._pages_for(request)
        if refusal is None and pages is not None and await pages.answer_public(request):
            return
        visitor = None if self._visits is None else self._visits.find(request)
        access = refusal or visitor or await self._guard.identify(request, self.threads)
        if isinstance(access, Refusal):
            if request.path == _HEALTH and access.status in (401, 421):
                await request.reply_json(200, {"status": "ok"})
            elif pages is not None and access.status == 401:
                await pages.refuse_unauthenticated(request, access)
            else:
                await request.refuse(access.status, access.problem, *access.headers)
            return
        self._let_in(request, access)
        if pages is not None:
            await pages.answer(request)
        else:
            await self._answer_plainly(request)

    async def _answer_plainly(self, request: Request) -> None:
        if request.path == MCP_PATH:
            await self._endpoint.answer(request)
        elif request.path in _ABOUT:
            await self._reply_about(request)
        elif request.path == b"/-/search":
            await self.plain.search(request)
        elif request.method == "POST":
            await self.plain.append(request)
        elif self._make_pages is not None and may_be_twin(request.path):
            await self.plain.answer(request, lambda error: self._opened_pages().answer_twin(request, error))
        else:
            await self.plain.answer(request)

    def _pages_for(self, request: Request) -> Pages | None:
        """Return what answers with pages, if a page is asked for."""
        return self._opened_pages() if self._make_pages is not None and is_page(request) else None

    def _opened_pages(self) -> Pages:
        if self._pages is None:
            assert self._make_pages is not None
            self._pages = self._make_pages(self)
        return self._pages

    def is_shut_out(self, request: Request) -> bool:
        """Return whether an accepted token or cookie is no longer valid, as far as that is known without waiting."""
        ends_at = request.access.expires_at
        if ends_at is not None and time() >= ends_at:
            return True
        visitor = None if self._visits is None else self._visits.find(request)
        known = visitor or self._guard.known(request)
        return known is not None and not (isinstance(known, Access) and known.is_like(request.access))

    def _let_in(self, request: Request, access: Access) -> None:
        request.access = access
        if request.tcp is not None:
            request.tcp.let_in()
        request.metadata_url = self._guard.metadata_url(request)

    async def _reply_metadata(self, request: Request) -> None:
        schemes = {scheme for mounted in self._server.catalog.mounted for scheme in mounted.permissions}
        metadata = self._guard.metadata(f"{scheme}:read" for scheme in schemes)
        if metadata is None:
            await request.refuse(404, "No authorization server is configured")
        elif await request.is_reading():
            await request.reply_json(200, metadata)

    async def _reply_ready(self, request: Request) -> None:
        """Answer a load balancer, which has no token, whether to send requests here."""
        if not await request.is_reading():
            return
        if self._is_ending:
            await request.reply_json(503, {"status": "ending"}, (b"retry-after", b"1"))
        else:
            await request.reply_json(200, {"status": "ok"})

    async def _reply_about(self, request: Request) -> None:
        if not await request.is_reading():
            return
        if request.path == b"/-/health":
            state = {"status": "ok", "version": __version__, "sessions": len(self.sessions)}
            await request.reply_json(200, {**state, "streams": self.threads.open_streams})
        elif request.path == b"/-/providers":
            with ActingAs(request.access):
                visible = self._server.catalog.visible()
            await request.reply_json(
                200,
                [
                    {"name": one.provider.name, "schemes": list(one.provider.schemes), "summary": one.provider.summary}
                    for one in visible
                ],
            )
        else:
            named = {name: value for name, value in vars(limits).items() if name.isupper()}
            chosen = {"MAX_MESSAGE_BYTES": self._server.catalog.max_bytes, "PAGE_SIZE": self._server.catalog.page_size}
            await request.reply_json(200, {name.lower(): value for name, value in {**named, **chosen}.items()})

    async def _take_other(self, scope: Event, receive: Receive, send: Send) -> None:
        """Refuse web sockets; take part in an ASGI server's start and stop."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        while True:
            event = await receive()
            if event["type"] == "lifespan.shutdown":
                self.end()
            await send({"type": f"{event['type']}.complete"})
            if event["type"] == "lifespan.shutdown":
                return


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; raise ConfigError if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(2_048)
    except OSError as error:
        taken.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another port") from None
    taken.setblocking(False)
    return taken


def import_uvicorn() -> None:
    """Import uvicorn without its command line (a tenth of the start, and 3 MB), until `uvicorn.run` is used."""
    if "uvicorn" in sys.modules:
        return
    main = sys.modules["uvicorn.main"] = ModuleType("uvicorn.main")
    vars(main)["__getattr__"] = lambda _: None
    package = vars(import_module("uvicorn"))
    del sys.modules["uvicorn.main"], package["main"], package["run"]
    package["Server"] = import_module("uvicorn.server").Server

    def find(name: str) -> object:
        whole = import_module("uvicorn.main")
        package.update(main=whole.main, run=whole.run)
        return getattr(whole, name)

    package["__getattr__"] = find


def runner(
    app: App,
    ending: Ending | None = None,
    on_ready: Callable[[], object] = lambda: None,
    *,
    drain_s: float = DRAIN_S,
) -> "uvicorn.Server":
    """Return the server that runs the application; `run(sockets=[…])` starts it, `should_exit` ends it.

    `on_ready` is called once it accepts connections. A replica accepts requests for another `drain_s` before it ends.
    """
    import_uvicorn()  # only to serve; the application does not need it
    import uvicorn

    class Runner(uvicorn.Server):
        """Ends the streams first: uvicorn waits for them."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            if ending is not None:
                ending.claim_signals()  # uvloop redirects them to itself
                self.should_exit = self.should_exit or ending.is_asked  # before uvicorn had its handlers
            await super().startup(sockets)
            on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if ending is not None:
                ending.notice()
                ending.begin()
            if app.is_replica:
                from carrel.transports.http.draining import drain  # not for a server alone

                app.announce_end()
                await drain(self, sockets or [], drain_s)
            app.end()
            await super().shutdown(sockets)

    return Runner(_configuration(app))


def _configuration(app: App) -> "uvicorn.Config":
    """Return the configuration of uvicorn: our connections, no log, and no header of its own."""
    import uvicorn

    from carrel.transports.http.wire import Wire

    return uvicorn.Config(
        app,
        http=Wire,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )


def serve(
    app: App,
    listening: socket.socket,
    close: Callable[[], object] = lambda: None,
    on_ready: Callable[[], object] = lambda: None,
    announce: Callable[[], object] = lambda: None,
) -> None:
    """Serve until a signal, then `close`. The process ends `FORCED_END_S` after the signal at the latest.

    `announce` prints where the server listens: from then on, others may send a signal. `on_ready` is called once the
    server accepts connections.
    """
    _raise_file_limit()
    # uvicorn raises the signal again when it is done; `Ending` ignores it then.
    with Ending(close, raises=False) as ending:
        prepared = runner(app, ending, on_ready)
        announce()
        prepared.run(sockets=[listening])
        close()


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows: each connection is one."""
    try:
        import resource  # not on every system

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ImportError, ValueError, OSError):
        pass
