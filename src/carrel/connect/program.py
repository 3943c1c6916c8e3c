"""The command that starts this Carrel from any folder, with a minimal PATH, and keeps working."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from carrel.connect.errors import NotWritten

BARE_PATH: Final = "/usr/bin:/bin"
"""The PATH of a program that was not started in a terminal."""

_ALWAYS_CLEARED: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/folders")


def lasting_program(environment: Mapping[str, str]) -> list[str]:
    """Return the command with an absolute path; raise NotWritten if it is in a folder that is cleared."""
    program = program_of(environment)
    for path in (program[0], os.path.realpath(program[0]), sys.prefix):
        folder = passing_folder(path, environment)
        if folder is not None:
            raise NotWritten(
                f"this Carrel runs from {path}, in the temporary or cache folder {folder}, and may be gone tomorrow; "
                "install it with `pipx install .` or `uv tool install .` in a checkout of Carrel, "
                "then run `carrel connect` again"
            )
    return program


def program_of(environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts this Carrel: its name if that is enough, else the path of its launcher."""
    ours = os.path.join(os.path.dirname(sys.executable), "carrel")
    if _is_same(shutil.which("carrel", path=BARE_PATH), ours):
        return ["carrel"]
    # The launcher on PATH, such as ~/.local/bin/carrel, outlives the environment that an upgrade replaces.
    found = shutil.which("carrel", path=environment.get("PATH", ""))
    if found is not None and _is_same(found, ours):
        return [os.path.abspath(found)]
    return [ours] if os.access(ours, os.X_OK) else [sys.executable, "-P", "-m", "carrel"]


def passing_folder(path: str, environment: Mapping[str, str]) -> str | None:
    """Return the temporary or cache folder that contains a path; None if there is none."""
    for folder in _passing_folders(environment):
        for spelling in {folder, os.path.realpath(folder)}:
            if os.path.isabs(path) and path.startswith(spelling.rstrip("/") + "/"):
                return folder
    return None


def _passing_folders(environment: Mapping[str, str]) -> Iterator[str]:
    home = environment.get("HOME") or os.path.expanduser("~")
    named = ("TMPDIR", "XDG_CACHE_HOME", "UV_CACHE_DIR", "npm_config_cache", "NPM_CONFIG_CACHE")
    yield from (environment[name] for name in named if os.path.isabs(environment.get(name, "")))
    yield from _ALWAYS_CLEARED
    below_home = (".cache", "Library/Caches", ".npm", ".local/pipx/.cache", ".local/share/pipx/.cache")
    yield from (os.path.join(home, name) for name in below_home)
    pipx = environment.get("PIPX_HOME", "")
    if os.path.isabs(pipx):
        yield os.path.join(pipx, ".cache")


def _is_same(found: str | None, ours: str) -> bool:
    return found is not None and os.path.realpath(found) == os.path.realpath(ours)
