"""Folders of skills in installed packages: entry points of the group `carrel.skills`.

    [project.entry-points."carrel.skills"]
    acme = "acme_tools.skills"

The value is the dotted path of a folder in a package. Neither the package nor `importlib.metadata` is imported: the
entry points are read from the files that installers write, and again only when a folder of packages changes. Whether
it did is looked at every few seconds, since every list asks.
"""

import os
import re
import sys
from time import monotonic
from typing import Final

from carrel.core.record import Value

_SECTION: Final = b"[carrel.skills]"
_ROW: Final = r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*([A-Za-z_]\w*(?:\.[A-Za-z_][\w-]*)*)\s*"
"""A pattern that is compiled on first use: few packages have skills, and every first list looks for them."""
_MAX_BYTES: Final = 65_536
_FRESH_S: Final = 5.0


class PackagedSkills(Value, frozen=True):
    """A folder of skills: the name of its entry point, the distribution it comes with, and where it is."""

    name: str
    package: str
    folder: str


_known: dict[str, tuple[int, tuple[tuple[str, str, str], ...]]] = {}
"""For each folder of packages, when it changed last, and the entry points in it: name, distribution, value."""


_answers: dict[str, tuple[float, list[PackagedSkills]]] = {}
"""For each project, when it asked last, and the answer."""


def find(root: str) -> list[PackagedSkills]:
    """Return the folders of skills of all installed packages, by name; a project's own folder installs nothing."""
    asked_at, answer = _answers.get(root, (0.0, []))
    if not asked_at or monotonic() - asked_at > _FRESH_S:
        answer = _find(os.path.realpath(root))
        _answers[root] = monotonic(), answer
    return answer


def _find(project: str) -> list[PackagedSkills]:
    found: dict[str, PackagedSkills] = {}
    for place in dict.fromkeys(sys.path):
        if not place or os.path.realpath(place) == project:
            continue
        for name, package, value in _rows(place):
            folder = _folder(value)
            if folder is not None:
                found.setdefault(name, PackagedSkills(name, package, folder))
    return [found[name] for name in sorted(found)]


def _rows(place: str) -> tuple[tuple[str, str, str], ...]:
    """Return the entry points in a folder of packages."""
    try:
        changed = os.stat(place).st_mtime_ns
    except OSError:
        return ()
    known = _known.get(place)
    if known is None or known[0] != changed:
        known = _known[place] = changed, tuple(_look(place))
    return known[1]


def _look(place: str) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    try:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".dist-info"))
    except OSError:
        return found
    for name in names:
        data = _read(os.path.join(place, name, "entry_points.txt"))
        if _SECTION in data:
            package = name.removesuffix(".dist-info").partition("-")[0].replace("_", "-")
            found += [(row, package, value) for row, value in _section(data.decode(errors="replace"))]
    return found


def _read(path: str) -> bytes:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, _MAX_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _section(text: str) -> list[tuple[str, str]]:
    """Return the names and values in the section of skills."""
    is_ours, rows = False, []
    for line in text.splitlines():
        if line.startswith("["):
            is_ours = line.strip() == _SECTION.decode()
        elif is_ours and (row := re.fullmatch(_ROW, line, re.ASCII)):
            rows.append((row[1], row[2]))
    return rows


def _folder(value: str) -> str | None:
    """Return the folder that a dotted path names, without importing anything."""
    from importlib.machinery import PathFinder  # most installations have no package with skills

    package, *below = value.split(".")
    spec = PathFinder.find_spec(package)
    if spec is None:
        for finder in sys.meta_path:  # an editable install has a finder of its own
            look = getattr(finder, "find_spec", None)
            spec = look(package, None) if look is not None and finder is not PathFinder else None
            if spec is not None:
                break
    places = None if spec is None else spec.submodule_search_locations
    for place in places or ():
        folder = os.path.join(place, *below)
        if os.path.isdir(folder):
            return folder
    return None
