"""Checks of the installation: Python, the command `carrel` on PATH, and the packages that Carrel needs."""

import importlib.metadata
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from carrel.core.version import __version__
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.setup import Setup
from carrel.files.sandbox import is_inside

OLDEST_PYTHON: Final = (3, 11)
VERSION_S: Final = 10.0
"""How long another `carrel` has to tell its version."""
_NAME: Final = "carrel"
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<bounds>[^;\[]*)(?:;(?P<marker>.*))?")
_BOUND: Final = re.compile(r"(>=|<|==)\s*([0-9.]+)")
_INSTALL: Final = "pipx install carrel"


@check("installation", "python", "Carrel runs on a Python that is too old", "install Carrel with Python 3.11 or newer")
def python(setup: Setup) -> Iterator[Finding]:
    """Yield the versions, as a problem if Python is too old or was removed."""
    version = ".".join(map(str, setup.python_version))
    wanted = ".".join(map(str, OLDEST_PYTHON))
    if setup.python_version < OLDEST_PYTHON:
        yield problem(
            f"Python {version} is too old: Carrel needs {wanted} or newer",
            f"install Carrel again with Python {wanted} or newer: {_INSTALL}",
        )
    elif not os.path.exists(sys.executable):
        yield problem(f"the Python that runs this was removed: {setup.short(sys.executable)}", _INSTALL)
    else:
        yield ok(f"Carrel {__version__} on Python {version}, {setup.short(sys.executable)}")


@check(
    "installation",
    "command",
    "there is no carrel on PATH: a host finds it only by its full path",
    "link it into ~/.local/bin",
    repairs=True,
)
def command(setup: Setup) -> Iterator[Finding]:
    """Yield a note if `carrel` is not on PATH."""
    if setup.programs(_NAME):
        return
    ours = os.path.join(os.path.dirname(sys.executable), _NAME)
    folder = os.path.join(setup.home, ".local", "bin")
    is_linkable = folder in setup.environment.get("PATH", "").split(os.pathsep) and os.access(ours, os.X_OK)
    if not is_linkable or os.path.lexists(os.path.join(folder, _NAME)):
        yield note("no carrel on PATH: hosts need its full path", _INSTALL)
        return

    def link() -> None:
        os.makedirs(folder, exist_ok=True)
        os.symlink(ours, os.path.join(folder, _NAME))

    what = f"ln -s {shlex.quote(setup.short(ours))} ~/.local/bin/carrel"
    yield note("no carrel on PATH: hosts need its full path", what, Repair(what, link))


@check(
    "installation",
    "command-broken",
    "the carrel on PATH does not start, since its Python was moved, removed or is too old",
    "install Carrel again",
)
def command_broken(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each `carrel` on PATH whose interpreter is missing, and for the first if it fails."""
    for place in setup.programs(_NAME):
        missing = _missing_interpreter(place)
        if missing:
            yield problem(
                f"{setup.short(place)} needs {setup.short(missing)}, which is not there", f"remove it, then {_INSTALL}"
            )
    first = next(iter(setup.programs(_NAME)), None)
    if first is not None and not _missing_interpreter(first) and not _is_ours(first) and not _version_of(first):
        yield problem(f"{setup.short(first)}, the first on PATH, does not start", f"remove it, then {_INSTALL}")


@check(
    "installation",
    "command-version",
    "the carrel on PATH is another version than the one that runs",
    "update one of them",
)
def command_version(setup: Setup) -> Iterator[Finding]:
    """Yield a note if hosts that start `carrel` get another version."""
    first = next(iter(setup.programs(_NAME)), None)
    if first is None or _missing_interpreter(first) or _is_ours(first):
        return
    version = _version_of(first)
    if version and version != __version__:
        yield note(
            f"{setup.short(first)} on PATH is Carrel {version}, this one is {__version__}",
            "update it: pipx upgrade carrel, or: uv tool upgrade carrel",
        )


@check(
    "installation",
    "command-shadowed",
    "several programs named carrel are on PATH",
    "remove those that you do not use",
)
def command_shadowed(setup: Setup) -> Iterator[Finding]:
    """Yield a note if there are several programs of the name."""
    places = list({os.path.realpath(place): place for place in reversed(setup.programs(_NAME))}.values())
    if len(places) > 1:
        first, *others = reversed(places)
        shown = ", ".join(map(setup.short, others))
        yield note(f"several carrel are on PATH; {setup.short(first)} is used, not {shown}", f"remove {shown}")


def _is_ours(place: str) -> bool:
    """Return whether a program runs with this Python, and so is this Carrel."""
    words = _shebang(place)
    return bool(words) and os.path.realpath(os.path.dirname(words[0])) == os.path.realpath(
        os.path.dirname(sys.executable)
    )


def _missing_interpreter(place: str) -> str:
    words = _shebang(place)
    return words[0] if words and not os.path.exists(words[0]) else ""


def _shebang(place: str) -> list[str]:
    try:
        with open(place, "rb") as file:
            line = file.readline(4_096)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def _version_of(place: str) -> str:
    """Return the version that a program tells; empty if it tells none."""
    try:
        ran = subprocess.run(
            [place, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(rb"\d+\.\d+\S*", ran.stdout) if ran.returncode == 0 else None
    return found[0].decode(errors="replace") if found else ""


@check(
    "installation",
    "dependencies",
    "a package that Carrel needs is missing or has the wrong version",
    "install Carrel again in its environment",
)
def dependencies(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each requirement that is not met."""
    del setup
    for line in importlib.metadata.requires(_NAME) or ():
        found = _REQUIREMENT.match(line)
        if found is None or "extra" in (found["marker"] or "") or "win32" in (found["marker"] or ""):
            continue
        try:
            version = importlib.metadata.version(found["name"])
        except importlib.metadata.PackageNotFoundError:
            version = ""
        if not version or not _is_within(version, found["bounds"]):
            has = f"{found['name']} {version} is installed" if version else f"{found['name']} is not installed"
            install = (
                f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(found['name'] + found['bounds'].strip())}"
            )
            yield problem(f"{has}; Carrel needs {found['name']} {found['bounds'].strip()}".rstrip(), install)


def _is_within(version: str, bounds: str) -> bool:
    numbers = _numbers(version)
    for sign, bound in _BOUND.findall(bounds):
        limit = _numbers(bound)
        if (sign == ">=" and numbers < limit) or (sign == "<" and numbers >= limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


@check(
    "installation",
    "temporary",
    "Carrel is installed in a temporary folder or a cache, which will be emptied",
    "install it properly",
)
def temporary(setup: Setup) -> Iterator[Finding]:
    """Yield a note if this installation will not last."""
    places = {
        tempfile.gettempdir(),
        "/var/tmp",
        setup.environment.get("XDG_CACHE_HOME") or os.path.join(setup.home, ".cache"),
        *filter(None, map(setup.environment.get, ("UV_CACHE_DIR", "PIPX_TRASH", "npm_config_cache"))),
    }
    for place in places:
        if is_inside(setup.prefix, place):
            yield note(f"Carrel runs from {setup.short(setup.prefix)}, which is temporary: hosts lose it", _INSTALL)
            return


@check("installation", "sqlite", "Python's SQLite has no full-text search (FTS5)", "use a Python with FTS5")
def sqlite(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if search cannot work with this Python."""
    del setup
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (terms)")
    except sqlite3.Error as error:
        yield problem(
            f"search does not work: SQLite {sqlite3.sqlite_version} of this Python has no FTS5 ({error})",
            f"install Carrel with a Python from python.org, your system or uv: {_INSTALL}",
        )


CHECKS: Final[tuple[Check, ...]] = (
    python,
    command,
    command_broken,
    command_version,
    command_shadowed,
    dependencies,
    temporary,
    sqlite,
)
