"""Where a host's settings file is on this machine."""

import os
import sys
from collections.abc import Mapping

from carrel.connect.hosts import HostFacts, Scope, System
from carrel.core.record import Value


class Surroundings(Value, frozen=True):
    """What determines where settings files are: the system, the environment and the project's folder."""

    system: System
    environment: Mapping[str, str]
    folder: str

    @property
    def home(self) -> str:
        """The user's home folder."""
        named = self.environment.get("HOME" if self.system != "windows" else "USERPROFILE", "")
        return named if os.path.isabs(named) else os.path.expanduser("~")


def surroundings(folder: str) -> Surroundings:
    """Return the surroundings of this process, with the folder that is to be served."""
    names: dict[str, System] = {"darwin": "macos", "win32": "windows"}
    return Surroundings(names.get(sys.platform, "linux"), os.environ, os.path.abspath(folder))


def settings_path(host: HostFacts, scope: Scope, around: Surroundings) -> str | None:
    """Return the path of a host's settings file; None if the host has no file of that scope."""
    if scope == "project":
        candidates = [os.path.join(around.folder, name) for name in host.project]
    else:
        candidates = _user_candidates(host, around)
    return next((path for path in candidates if os.path.lexists(path)), candidates[0] if candidates else None)


def _user_candidates(host: HostFacts, around: Surroundings) -> list[str]:
    if host.override is not None:
        variable, name = host.override
        named = around.environment.get(variable, "")
        if os.path.isabs(named):
            return [os.path.join(named, name) if name else named]
    folders = _folders(around)
    return [pattern.format_map(folders) for pattern in host.user.get(around.system, ())]


def _folders(around: Surroundings) -> dict[str, str]:
    home = around.home

    def named(variable: str, *default: str) -> str:
        value = around.environment.get(variable, "")
        return value if os.path.isabs(value) else os.path.join(home, *default)

    return {
        "home": home,
        "config": named("XDG_CONFIG_HOME", ".config"),
        "support": os.path.join(home, "Library", "Application Support"),
        "appdata": named("APPDATA", "AppData", "Roaming"),
        "localappdata": named("LOCALAPPDATA", "AppData", "Local"),
    }
