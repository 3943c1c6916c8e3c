"""`carrel serve --http`: decides from options and configuration who may connect, then listens."""

import ipaddress
import shlex
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carrel.app.app import Desk
from carrel.app.config import Config, HttpSettings
from carrel.catalog.access import EVERYTHING
from carrel.cli.stderr import say
from carrel.core.errors import ConfigError
from carrel.core.loopback import is_loopback
from carrel.transports.http.app import App, bind, serve
from carrel.transports.http.guard import AcceptedNames, Guard
from carrel.transports.http.pages import Pages
from carrel.transports.http.visits import Visits

if TYPE_CHECKING:
    from carrel.app.replica import Replica
    from carrel.cli.serve_workers import Worker
    from carrel.stores.database import Database
    from carrel.transports.http.tokens import TokenStore

DEFAULT_HOST = "127.0.0.1"

Opens = Callable[[str], object]
"""Opens an address in a browser."""


def run_http(
    desk: Desk,
    address: str,
    announced: list[str] | None,
    *,
    has_token: bool,
    opens: Opens | None = None,
    worker: "Worker | None" = None,
) -> int:
    """Serve until stopped; return the exit code. Print `announced` and how to connect on stderr, unless it is None.

    `opens` gets the address of a link that lets a browser in, once the server listens. A `worker` has its socket.
    """
    replica = _replica(desk)
    close = _once(partial(_close, desk, replica))
    try:
        if worker is not None:
            worker.refuse_processes(desk)
        host, port = parse_address(address)
        if opens is not None:
            from carrel.cli.browser import refuse_remote_browser  # only for a person

            refuse_remote_browser(host)
        lines, guard = admit(desk, desk.config.http(), host, has_token=has_token, replica=replica)
        listening = bind(host, port) if worker is None else worker.listening
        visits = Visits(listening.getsockname()[1]) if worker is None else worker.visits
        app = _app(desk, guard, visits, replica)
        if desk.store is not None:
            desk.store.logs_outages = True
        url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/mcp"

        def announce() -> None:
            if announced is not None:
                connect = (line.replace("URL", url) for line in lines)
                say("\n".join([*announced, f"carrel: listening on {url}", *connect]))
            if opens is not None:
                opens(url.removesuffix("/mcp") + visits.link(EVERYTHING))

        serve(app, listening, close, partial(_get_ready, worker, opens_browser=opens is not None), announce)
    finally:
        close()
    return 0


def _close(desk: Desk, replica: "Replica | None") -> None:
    if replica is not None:
        replica.close()
    desk.close()


def _app(desk: Desk, guard: Guard, visits: Visits, replica: "Replica | None") -> App:
    """Return the application; `replica` holds what it shares with other replicas."""
    pages = partial(_explorer, desk)
    if replica is None:
        return App(desk.server, guard, pages=pages, visits=visits)
    return App(desk.server, guard, pages=pages, visits=visits, shared=replica.sessions, allowances=replica.allowances)


def _get_ready(worker: "Worker | None", *, opens_browser: bool) -> None:
    """Report that a worker accepts connections; prepare the first pages while a browser starts."""
    if worker is not None:
        worker.report_ready()
    if opens_browser:
        from carrel.cli.browser import prepare_pages  # only for a person

        threading.Thread(target=prepare_pages, name="carrel-pages", daemon=True).start()


def _replica(desk: Desk) -> "Replica | None":
    """Return what this server shares with other replicas; None if it is the only one."""
    key = desk.config.session_key()
    if desk.store is None and key is None:
        return None
    from carrel.app.replica import Replica  # not for a server alone

    return Replica(desk.store, key, desk.server.watcher)


def _explorer(desk: Desk, app: App) -> Pages:
    from carrel.explorer.explorer import Explorer  # not before the first page

    return Explorer(desk, app)


def _once(action: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls `action` once; a concurrent second call waits for the first."""
    lock = threading.Lock()
    left = [action]

    def act() -> None:
        with lock:
            if left:
                left.pop()()

    return act


def refuse_own_address(config: Config, address: str) -> None:
    """Raise ConfigError if a mount is this server itself, which would list itself without end."""
    host, port = parse_address(address)
    hosts = config.http().hosts
    for section in config.sections:
        url = config.values(section).get("url", "") if section.startswith("mounts.") else ""
        if url and is_own(url, host, port, hosts):
            raise ConfigError(f"[{section}] url: {url} is the address of this server itself")


def is_own(url: str, host: str, port: int, hosts: frozenset[str]) -> bool:
    """Return whether a URL names a server on this host and port, which also has the names `hosts`."""
    try:
        parts = urlsplit(url)
        its_port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return False  # building the mount reports the invalid URL
    address = ipaddress.ip_address(host)
    is_local = is_loopback(parts.hostname or "") and (address.is_loopback or address.is_unspecified)
    return parts.netloc.lower() in hosts or (its_port == port and (is_local or parts.hostname == host))


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of `[HOST:]PORT`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or DEFAULT_HOST
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ConfigError(f"--http {text}: write it as --http 8000 or --http 127.0.0.1:8000")
    if host == "localhost":
        host = DEFAULT_HOST
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(
            f"--http {text}: {host} is not an IP address; use one of this machine, such as 127.0.0.1"
        ) from None
    return host, int(port)


def _stored_tokens(store: "Database", replica: "Replica | None", desk: Desk) -> "TokenStore":
    from carrel.stores.token_table import TokenTable  # only where there is a store
    from carrel.transports.http.stored_tokens import StoredTokens

    tokens = StoredTokens(desk.config.environment, TokenTable(store))
    if replica is not None:
        replica.follow_tokens(tokens)
    tokens.begin()
    return tokens


def admit(
    desk: Desk, settings: HttpSettings, host: str, *, has_token: bool, replica: "Replica | None" = None
) -> tuple[list[str], Guard]:
    """Decide who may connect; return lines that say how, and the guard."""
    address = ipaddress.ip_address(host)
    hosts = settings.hosts if address.is_unspecified else settings.hosts | {f"[{host}]" if ":" in host else host}
    accepted = AcceptedNames(address.is_loopback, frozenset(hosts), settings.origins)
    if not address.is_loopback:
        desk.catalog.is_remote = True
        _refuse_unsafe(host, has_token=has_token, has_hosts=bool(hosts))
    if not has_token:
        lines = ["carrel: no token is required: every program on this machine can read everything served"]
        return lines, Guard(accepted)
    from carrel.catalog.groups import Groups  # not without tokens
    from carrel.transports.http.tokens import Keyring, TokenStore

    store = TokenStore(desk.config.environment) if desk.store is None else _stored_tokens(desk.store, replica, desk)
    groups = Groups(desk.config.groups())
    issuer = None
    if settings.issuer:
        from carrel.transports.http.jwt import Issuer  # only with an issuer

        issuer = Issuer(settings.issuer, settings.audience, settings.jwks, groups)
    token = None  # the local token is valid on loopback only
    if address.is_loopback:
        token, is_new = store.local()
        lines = _connect_lines(store.local_path, token, is_new=is_new)
    elif issuer is None and not store.all():
        raise ConfigError(
            f"--http {host}: other machines can reach this address, and there is no token. Create one with "
            "`carrel token add NAME`, or set an issuer in [http]"
        )
    else:
        lines = ["carrel: connect with a token from `carrel token add`"]
    return lines, Guard(accepted, Keyring(store, token, groups), issuer)


def _refuse_unsafe(host: str, *, has_token: bool, has_hosts: bool) -> None:
    """Raise ConfigError for an address that other machines can reach without a token or a known host name."""
    if not has_token:
        raise ConfigError(f"--no-token works on loopback only, and other machines can reach {host}: remove --no-token")
    if not has_hosts:
        raise ConfigError(
            f"--http {host}: name the hosts that clients use, such as --set http.hosts=desk.example:8000; "
            "requests for other hosts are refused"
        )


def _connect_lines(path: str, token: str, *, is_new: bool) -> list[str]:
    """Return lines that show how to connect. Only the first start shows the token; later ones read it from its file."""
    kept = f"carrel: the token is stored in {path}"
    shown = token if is_new else f"$(cat {shlex.quote(path)})"
    connect = f"CARREL_TOKEN={shown} carrel connect HOST --http URL"
    return [kept, f"carrel: connect with: {connect}"]
