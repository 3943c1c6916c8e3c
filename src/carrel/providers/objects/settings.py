"""What `[objects.NAME]` may say."""

from typing import Any

from carrel.core.errors import ConfigError
from carrel.core.provider import Section
from carrel.providers.objects.protocol import Facet


class ObjectSettings(Section, frozen=True):
    """One section `[objects.NAME]`; `import` is spelled with a closing underscore here only."""

    import_: str = ""
    provider: str = ""
    args: dict[str, Any] | None = None
    facets: list[Facet] | None = None
    timeout_s: float = 10.0
    start_timeout_s: float = 5.0
    concurrency: int = 1
    list_ttl_s: float = 2.0
    poll_s: float = 30.0
    ttl_ms: int = 0

    def __post_init__(self) -> None:
        if bool(self.import_) == bool(self.provider):
            raise ConfigError('give either import = "module:attribute" or provider = "NAME"')
        if self.import_ and not all(self.import_.partition(":")):
            raise ConfigError(f"import: expected module:attribute, got {self.import_!r}")
        self.check(0.1, 300, "timeout_s", "start_timeout_s")
        self.check(1, 64, "concurrency")
        self.check(0, 86_400, "list_ttl_s", "poll_s")
        self.check(0, 86_400_000, "ttl_ms")

    @property
    def told(self) -> str:
        """Say what is served."""
        return self.import_ or f"the entry point {self.provider}"
