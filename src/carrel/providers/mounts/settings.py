"""The settings of `[mounts.NAME]`."""

import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from carrel.core.errors import ConfigError
from carrel.core.loopback import is_in_clear
from carrel.core.provider import Section

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PASSED_ON: Final = frozenset({"PATH", "HOME", "USER", "TMPDIR", "LANG"})

EraChoice = Literal["auto", "modern", "legacy"]


class MountSettings(Section, frozen=True):
    """One section `[mounts.NAME]`."""

    command: list[str] | None = None
    url: str = ""
    cwd: str = "."
    env: dict[str, str] | None = None
    inherit_env: bool = False
    headers: dict[str, str] | None = None
    insecure: bool = False
    era: EraChoice = "auto"
    prefix: Literal["auto"] | bool = "auto"
    refresh_s: float = 60.0
    ttl_ms: int = 0
    poll_s: float = 30.0
    start_timeout_s: float = 15.0
    timeout_s: float = 30.0
    max_entries: int = 10_000
    max_message_bytes: int = 33_554_432

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ConfigError('give either command = ["program", "argument"] or url = "https://…"')
        if self.url:
            _check_url(self.url, is_insecure=self.insecure)
        self.check(0.1, 300, "start_timeout_s", "timeout_s")
        self.check(0, 86_400, "refresh_s", "poll_s")
        self.check(0, 86_400_000, "ttl_ms")
        self.check(1, 1_000_000, "max_entries")
        self.check(1_024, 1 << 30, "max_message_bytes")

    @property
    def source(self) -> str:
        """The address or the program that is mounted."""
        return self.url or (self.command or [""])[0]

    def identity(self, ours: Mapping[str, str]) -> tuple[object, ...]:
        """Return the values on which the lists depend: the server, and the identity it sees."""
        env = {name: fill(value, f"env.{name}", ours) for name, value in (self.env or {}).items()}
        headers = {name: fill(value, f"headers.{name}", ours) for name, value in (self.headers or {}).items()}
        return self.command, self.url, self.cwd, sorted(env.items()), sorted(headers.items()), self.prefix

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the child: a part of ours, and `env`."""
        passed = {
            name: value
            for name, value in ours.items()
            if self.inherit_env or name in _PASSED_ON or name.startswith("LC_")
        }
        return {**passed, **{name: fill(value, f"env.{name}", ours) for name, value in (self.env or {}).items()}}


def fill(text: str, where: str, ours: Mapping[str, str]) -> str:
    """Replace each `${NAME}` by its value in our environment; raise ConfigError if it is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in ours:
            raise ConfigError(f"{where}: the environment has no {found[1]}")
        return ours[found[1]]

    return _VARIABLE.sub(value, text)


def _check_url(url: str, *, is_insecure: bool) -> None:
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError
    except ValueError:
        raise ConfigError(f"url: expected https://…, got {url!r}") from None
    if is_in_clear(parts) and not is_insecure:
        raise ConfigError(f"url: {url} is plain http to another machine; use https, or say insecure = true")
