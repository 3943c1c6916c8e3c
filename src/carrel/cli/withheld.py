"""The settings of a project that need trust and that a command would use: a line on stderr, or a refusal to write."""

from typing import Final

from carrel.app.config import Config
from carrel.cli.stderr import say
from carrel.core.errors import ConfigError

SERVED: Final = ("store", "workspace", "buckets", "objects", "mounts", "alc", "sage", "scopes")
"""The sections that decide what there is to list, read and find."""
_OTHER_STORE: Final = "or name the store in CARREL_STORE_URL (an empty one stands for this machine's own records)"


def say_withheld(config: Config, needed: tuple[str, ...], *, writes: bool) -> None:
    """Print which settings of the sections `needed` are not in effect.

    Raise ConfigError if a command that writes records would write them to another store than a project file names.
    """
    for one in config.withheld:
        table = one.section.partition(".")[0]
        if table not in needed or one.key == "tools" or _is_overridden(config, one.section, one.key):
            continue
        if writes and (table, one.key) == ("store", "url"):
            raise ConfigError(f"nothing was written: {one}, {_OTHER_STORE}")
        say(f"carrel: {one}")


def _is_overridden(config: Config, section: str, key: str) -> bool:
    """Return whether a layer above the project's files sets a key."""
    setting = config.sections.get(section, {}).get(key)
    return setting is not None and setting.layer in ("environment", "flag")
