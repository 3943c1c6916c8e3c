"""The version of Carrel, and the command that installs it."""

from typing import Final

__version__: Final = "0.1.0"


def how_to_install(extra: str = "") -> str:
    """Return the command that installs Carrel, with an extra if one is named; no package index has it yet."""
    what = f"'.[{extra}]'" if extra else "."
    return f"pipx install --force {what} in a checkout of Carrel"
