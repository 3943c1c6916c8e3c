"""What `[objects.NAME]` may say."""

from typing import Any

from carrel.errors import ConfigError
from carrel.facets import Facet


class ObjectSettings:
    """One section `[objects.NAME]`; `import` is spelled with a closing underscore here only."""

    def __init__(
        self,
        import_: str = "",
        provider: str = "",
        args: dict[str, Any] | None = None,
        facets: list[Facet] | None = None,
        timeout_s: float = 10.0,
        start_timeout_s: float = 5.0,
        concurrency: int = 1,
        list_ttl_s: float = 2.0,
        poll_s: float = 30.0,
        ttl_ms: int = 0,
    ) -> None:
        if bool(import_) == bool(provider):
            raise ConfigError('give either import = "module:attribute" or provider = "NAME"')
        if import_ and not all(import_.partition(":")):
            raise ConfigError(f"import: expected module:attribute, got {import_!r}")
        _check("timeout_s", timeout_s, 0.1, 300)
        _check("start_timeout_s", start_timeout_s, 0.1, 300)
        _check("concurrency", concurrency, 1, 64)
        _check("list_ttl_s", list_ttl_s, 0, 86_400)
        _check("poll_s", poll_s, 0, 86_400)
        _check("ttl_ms", ttl_ms, 0, 86_400_000)
        self.target = import_
        self.entry_point = provider
        self.args = dict(args or {})
        self.facets = None if facets is None else frozenset(facets)
        self.timeout_s = timeout_s
        self.start_timeout_s = start_timeout_s
        self.concurrency = concurrency
        self.list_ttl_s = list_ttl_s
        self.poll_s = poll_s
        self.ttl_ms = ttl_ms

    @property
    def told(self) -> str:
        """Say what is served."""
        return self.target or f"the entry point {self.entry_point}"


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{name}: expected a number from {least} to {most}, got {value}")
