"""The address of a bus: NATS URLs that may hold a password, and the part of them that may be shown."""

import re
from typing import Final

from carrel.core.errors import ConfigError
from carrel.core.record import Value

SUBJECT: Final = "carrel.changes"
_EXAMPLE: Final = "expected a URL such as nats://user:password@host:4222, or tls://…, or several with commas"
_URL: Final = (
    r"(?P<scheme>nats|tls)://(?:(?P<login>[^@/?#\s,]*)@)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?/?"
)
_LOGIN: Final = r"(?:[\w.~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+(?::(?:[\w.~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)?"
_SUBJECT: Final = r"[\w-]+(?:\.[\w-]+)*"
"""Patterns that are compiled on use: most desks have no bus."""


class BusAddress(Value, frozen=True):
    """Checked URLs without their login. `shown` names the servers. Signals are sent on `subject`.

    `login` is a user and a password, or a token alone, with nothing percent-encoded.
    """

    urls: tuple[str, ...]
    shown: str
    login: tuple[str, ...] = ()
    subject: str = SUBJECT

    def __repr__(self) -> str:
        return f"BusAddress({self.shown!r})"

    @property
    def needs_tls(self) -> bool:
        """Whether nothing may be sent unencrypted."""
        return self.urls[0].startswith("tls://")


def parse_bus(text: str, subject: str = SUBJECT) -> BusAddress:
    """Return the address; raise ConfigError, which never repeats the text: it may hold a password."""
    found = [one for part in text.split(",") if (one := re.fullmatch(_URL, part.strip()))]
    if len(found) != text.count(",") + 1 or any(int(one["port"] or 0) > 65_535 for one in found):
        raise ConfigError(f"[bus] url: {_EXAMPLE}")
    logins = {one["login"] for one in found if one["login"]}
    if any(not re.fullmatch(_LOGIN, login) for login in logins):
        raise ConfigError("[bus] url: percent-encode special characters of the password, such as %40 for @")
    schemes = {one["scheme"] for one in found}
    if len(logins) > 1 or len(schemes) > 1:
        raise ConfigError("[bus] url: all servers need the same login, and all nats:// or all tls://")
    if not re.fullmatch(_SUBJECT, subject) or len(subject) > 200:
        raise ConfigError("[bus] subject: expected names with dots between them, such as carrel.changes")
    from urllib.parse import unquote  # only where there is a bus

    places = [f"{one['host']}:{one['port'] or 4222}" for one in found]
    login = tuple(unquote(part) for one in logins for part in one.split(":", 1))
    return BusAddress(tuple(f"{schemes.copy().pop()}://{place}" for place in places), ",".join(places), login, subject)
