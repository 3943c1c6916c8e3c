"""The address of a team's store: a Postgres URL that may hold a password, and the part of it that may be shown."""

import re
from typing import TYPE_CHECKING, Final

from carrel.core.errors import ConfigError
from carrel.core.record import Value

if TYPE_CHECKING:
    from carrel.core.bus_address import BusAddress

_EXAMPLE: Final = "expected a URL such as postgresql://user@host:5432/database"
_ENCODE: Final = "percent-encode special characters of the password, such as %40 for @, %2F for / and %25 for %"
_URL: Final = r"postgres(?:ql)?://(?P<place>[^/?#\s]*)(?:/(?P<database>[^?#\s]*))?(?:\?(?P<query>[^#\s]*))?"
_HOSTS: Final = r"(?:(?:[\w.%-]*|\[[0-9A-Fa-f:.%]+\])(?::\d{1,5})?(?:,|$))*"
_HALF_ENCODED: Final = r"%(?![0-9A-Fa-f]{2})"
"""Patterns that are compiled on use: most desks have no store."""

_LAST_PORT: Final = 65_535


class StoreAddress(Value, frozen=True):
    """A checked URL. `shown` names the server and the database without user, password and options.

    `bus` carries the signals of changes, if it is not the database itself.
    """

    url: str
    shown: str
    bus: "BusAddress | None" = None

    def __repr__(self) -> str:
        return f"StoreAddress({self.shown!r})"


def parse_address(text: str) -> StoreAddress:
    """Return the address; raise ConfigError, which never repeats the text: it may hold a password."""
    found = re.fullmatch(_URL, text)
    if found is None:
        is_ours = text.startswith(("postgres://", "postgresql://"))
        raise ConfigError(f"[store] url: {f'this URL cannot be read; {_ENCODE}' if is_ours else _EXAMPLE}")
    place, database = found["place"], found["database"] or ""
    hosts = place.rpartition("@")[2]
    is_broken = "@" in database or ":" in database or "@" in place.rpartition("@")[0] or re.search(_HALF_ENCODED, text)
    if is_broken or not re.fullmatch(_HOSTS, hosts):
        raise ConfigError(f"[store] url: this URL cannot be read; {_ENCODE}")
    if any(int(port) > _LAST_PORT for port in re.findall(r":(\d+)(?:,|$)", hosts)):
        raise ConfigError(f"[store] url: a port is a number from 1 to {_LAST_PORT}")
    return StoreAddress(text, f"{hosts or _socket(found['query'] or '')}/{database}".rstrip("/"))


def _socket(query: str) -> str:
    """Return the host that the options name."""
    found = re.search(r"(?:^|&)host=([\w./%-]*)", query)
    return found[1].replace("%2F", "/").replace("%2f", "/") if found else "localhost"
