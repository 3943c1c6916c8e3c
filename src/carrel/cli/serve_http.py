"""`carrel serve --http`: who may connect is decided here, from flags and configuration, before anything listens."""

import ipaddress
import shlex
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from carrel.app.app import Desk
from carrel.app.config import Config, HttpSettings
from carrel.cli.stderr import say
from carrel.core.errors import ConfigError
from carrel.core.loopback import is_loopback
from carrel.transports.http.app import App, bind, serve
from carrel.transports.http.guard import Doors, Guard

DEFAULT_HOST = "127.0.0.1"


def run_http(desk: Desk, address: str, told: list[str] | None, *, has_token: bool) -> int:
    """Serve until asked to stop; give the exit code. `told` is said on stderr, and how to connect; None: nothing."""
    close = _once(desk.close)
    try:
        host, port = parse_address(address)
        lines, guard = admit(desk, desk.config.http(), host, has_token=has_token)
        listening = bind(host, port)
        url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/mcp"
        if told is not None:
            said = [*told, f"carrel: listening on {url}", *(line.replace("URL", url) for line in lines)]
            say("\n".join(said))
        serve(App(desk.server, guard), listening, close)
    finally:
        close()
    return 0


def _once(action: Callable[[], object]) -> Callable[[], None]:
    """Return a function that acts at its first call only; a second thread waits for the first."""
    lock = threading.Lock()
    left = [action]

    def act() -> None:
        with lock:
            if left:
                left.pop()()

    return act


def refuse_own_address(config: Config, address: str) -> None:
    """Say which mount is this server itself: it would serve its own list again and again."""
    host, port = parse_address(address)
    hosts = config.http().hosts
    for section in config.sections:
        url = config.values(section).get("url", "") if section.startswith("mounts.") else ""
        if url and is_own(url, host, port, hosts):
            raise ConfigError(f"[{section}] url: {url} is the address of this server itself")


def is_own(url: str, host: str, port: int, hosts: frozenset[str]) -> bool:
    """Tell whether a server on this host and port, also known by other names, has the URL."""
    try:
        parts = urlsplit(url)
        its_port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return False  # whoever builds the mount says so
    address = ipaddress.ip_address(host)
    is_local = is_loopback(parts.hostname or "") and (address.is_loopback or address.is_unspecified)
    return parts.netloc.lower() in hosts or (its_port == port and (is_local or parts.hostname == host))


def parse_address(text: str) -> tuple[str, int]:
    """Read `[HOST:]PORT`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or DEFAULT_HOST
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ConfigError(f"--http {text}: write it as --http 8000 or --http 127.0.0.1:8000")
    if host == "localhost":
        host = DEFAULT_HOST
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(f"--http {text}: {host} is no address; give one of this machine, as 127.0.0.1") from None
    return host, int(port)


def admit(desk: Desk, settings: HttpSettings, host: str, *, has_token: bool) -> tuple[list[str], Guard]:
    """Decide who may connect; give the guard, and what the user should be told."""
    address = ipaddress.ip_address(host)
    hosts = settings.hosts if address.is_unspecified else settings.hosts | {f"[{host}]" if ":" in host else host}
    doors = Doors(address.is_loopback, frozenset(hosts), settings.origins)
    if not address.is_loopback:
        desk.catalog.is_remote = True
        if not has_token:
            raise ConfigError(f"--no-token is for loopback only, and {host} can be reached by others: leave it out")
        if not hosts:
            raise ConfigError(
                f"--http {host}: say by which names it is reached, as --set http.hosts=desk.example:8000; "
                "requests for other names are refused"
            )
    if not has_token:
        return ["carrel: no token is asked for: every program on this machine can read what is served"], Guard(doors)
    from carrel.transports.http.tokens import Keyring, TokenStore  # not without tokens

    store = TokenStore(desk.config.environment)
    issuer = None
    if settings.issuer:
        from carrel.transports.http.jwt import Issuer  # only with an issuer

        issuer = Issuer(settings.issuer, settings.audience, settings.jwks)
    if not address.is_loopback:
        # What the local token may do is for this machine only.
        if issuer is None and not store.all():
            raise ConfigError(
                f"--http {host}: others can reach this address, and nobody has a token. Make one with "
                "`carrel token add NAME`, or name an issuer in [http]"
            )
        return ["carrel: connect with a token of `carrel token add`"], Guard(doors, Keyring(store, None), issuer)
    token, is_new = store.local()
    return _connect_lines(store.local_path, token, is_new=is_new), Guard(doors, Keyring(store, token), issuer)


def _connect_lines(path: str, token: str, *, is_new: bool) -> list[str]:
    """Give a line to paste; the token itself is shown once, later ones read it from where it is kept."""
    kept = f"carrel: the token is kept in {path}"
    shown = token if is_new else f"$(cat {shlex.quote(path)})"
    connect = f'claude mcp add --transport http carrel URL --header "Authorization: Bearer {shown}"'
    return [kept, f"carrel: connect with: {connect}"]
