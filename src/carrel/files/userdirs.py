"""The user's folders for configuration, state and caches, as the XDG specification defines them."""

import os
from collections.abc import Mapping


def state_folder(environment: Mapping[str, str]) -> str:
    """Return the folder for data that Carrel keeps between runs."""
    return os.path.join(_folder(environment, "XDG_STATE_HOME", ".local/state"), "carrel")


def config_folder(environment: Mapping[str, str]) -> str:
    """Return the folder of the user's configuration of Carrel."""
    return os.path.join(_folder(environment, "XDG_CONFIG_HOME", ".config"), "carrel")


def cache_folder(environment: Mapping[str, str]) -> str | None:
    """Return the folder for data that can be made again; None if the user has no home."""
    named = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return named
    home = environment.get("HOME", "")
    return os.path.join(home, ".cache") if os.path.isabs(home) else None


def _folder(environment: Mapping[str, str], variable: str, default: str) -> str:
    named = environment.get(variable, "")
    if os.path.isabs(named):
        return named
    return os.path.join(environment.get("HOME") or os.path.expanduser("~"), default)
