"""Checks of the installation: Python, the command `carrel` on PATH, and the packages that Carrel needs."""

import importlib.metadata
import os
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from carrel.connect.program import passing_folder
from carrel.core.version import __version__, how_to_install
from carrel.doctor.checks import Check, Finding, Repair, check, note, ok, problem
from carrel.doctor.programs import is_ours, missing_interpreter, version_of
from carrel.doctor.setup import Setup

OLDEST_PYTHON: Final = (3, 11)
_NAME: Final = "carrel"
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?(?P<bounds>[^;]*)(?:;(?P<marker>.*))?")
_BOUND: Final = re.compile(r"(>=|<|==)\s*([0-9.]+)")
_INSTALL: Final = how_to_install()


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
        missing = missing_interpreter(place)
        if missing:
            yield problem(
                f"{setup.short(place)} needs {setup.short(missing)}, which is not there", f"remove it, then {_INSTALL}"
            )
    first = next(iter(setup.programs(_NAME)), None)
    if first is not None and not missing_interpreter(first) and not is_ours(first) and not version_of([first]):
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
    if first is None or missing_interpreter(first) or is_ours(first):
        return
    version = version_of([first])
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
    if passing_folder(setup.prefix, setup.environment) is not None:
        yield note(f"Carrel runs from {setup.short(setup.prefix)}, which is temporary: hosts lose it", _INSTALL)


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
