"""The settings of `[objects.NAME]`."""

import os
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
        if self.import_ and not split_target(self.import_)[0]:
            raise ConfigError(f"import: expected module:attribute or a file.py, got {self.import_!r}")
        self.check(0.1, 300, "timeout_s", "start_timeout_s")
        self.check(1, 64, "concurrency")
        self.check(0, 86_400, "list_ttl_s", "poll_s")
        self.check(0, 86_400_000, "ttl_ms")

    @property
    def source(self) -> str:
        """What is served, in words; a file without its folder."""
        return os.path.basename(self.import_) if self.import_ else f"the entry point {self.provider}"


def split_target(target: str) -> tuple[str, str]:
    """Return the module or file, and the attribute, of `module:attribute`, `file.py` or `file.py:attribute`.

    Both are empty if the target is none of these.
    """
    if target.endswith(".py"):
        return target, ""
    module, _, attribute = target.rpartition(":")
    return (module, attribute) if module and attribute else ("", "")
