"""The documents that a newcomer opens first: what the project is, how it is built, where it starts."""

import os
from collections.abc import Iterator
from typing import Final

from carrel.core.cache import BoundedCache
from carrel.outline import entry_points
from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.listing import FOLDER_COST, Entry, Listing, Pace

MOST: Final = 20
"""Maximum number of documents that come first in the list."""
_MOST_PACKAGES: Final = 8
"""Maximum number of folders that are searched for an entry point."""

_MANIFESTS: Final = frozenset(
    "pyproject.toml package.json cargo.toml go.mod pubspec.yaml pom.xml build.gradle build.gradle.kts gemfile "
    "composer.json mix.exs deno.json cmakelists.txt setup.py setup.cfg requirements.txt makefile justfile "
    "alc.toml".split()
)
_PROJECTS: Final = frozenset({".csproj", ".fsproj"})
_TEXT: Final = frozenset({"", ".md", ".markdown", ".rst", ".txt", ".adoc", ".org"})
_CODE: Final = frozenset(
    ".py .js .mjs .cjs .jsx .ts .mts .tsx .go .rs .rb .java .kt .swift .c .cc .cpp .dart .lua .php .ex".split()
)
_DOCS: Final = frozenset({"doc", "docs"})
_SOURCES: Final = frozenset({"src", "lib", "app", "cmd"})
_STARTS: Final = frozenset({"main", "index", "app", "server", "manage", "__main__", "mod"})
_README_SUFFIX: Final = 21
"""Maximum length of what may follow the word in the name of a readme, as in `README-windows.md`."""
_NAMED: Final = 5
"""The place of entry points that a manifest names: before those that only look like one."""
_FOLDERS: Final = _SOURCES | _DOCS


def place_of(path: str) -> str:
    """Return the sort key of a document among the others; empty for any other file."""
    folder, _, name = path.lower().rpartition("/")
    stem, ending = os.path.splitext(name)
    number = None
    if ending in _TEXT or not folder:
        number = _place_of_text(folder, name, stem, ending)
    if number is None and ending in _CODE:
        number = _place_of_code(folder, stem, ending)
    return "" if number is None else f"{number}{path}"


def _place_of_text(folder: str, name: str, stem: str, ending: str) -> int | None:
    if not folder:
        if _is_readme(name, ending):
            return 0
        if name in _MANIFESTS or ending in _PROJECTS:
            return 1
        if stem == "contributing" and ending in _TEXT:
            return 2
    if stem == "architecture" and ending in _TEXT and (not folder or folder in _DOCS):
        return 3
    is_index = stem in ("readme", "index") and folder in _DOCS
    return 4 if is_index or (not folder and name in ("agents.md", "claude.md")) else None


def _is_readme(name: str, ending: str) -> bool:
    """Return whether a name is `readme`, perhaps with a language or a system, as in `README_de.md`."""
    suffix = name.removeprefix("readme")
    without = suffix.removesuffix(ending) if ending in _TEXT else suffix
    fits = not without or (suffix[0] in "._-" and len(suffix) > 1 and len(without) <= _README_SUFFIX)
    return fits and suffix != name


def _place_of_code(folder: str, stem: str, ending: str) -> int | None:
    top, _, package = folder.rpartition("/")
    if not top and (not package or package in _SOURCES) and stem in _STARTS:
        return _NAMED + 1
    if (folder, stem, ending) == ("src", "lib", ".rs"):
        return _NAMED + 1
    return _NAMED + 2 if package and top in ("", "src", "cmd") and stem in ("__main__", "main") else None


def find(listing: Listing) -> list[tuple[str, Entry]]:
    """Return the listed documents of a project with their sort keys, in their order; only a few folders are read."""
    listing.compare()
    found: dict[str, Entry] = {}
    for segments in _candidates(listing, Pace()):
        place = place_of("/".join(segments))
        entry = listing.listed(segments) if place else None
        if entry is not None:
            found[place] = entry
    places = {entry.uri: place for place, entry in found.items()}
    for entry in _named(listing, [entry for entry in found.values() if len(entry.segments) == 1]):
        place = f"{_NAMED}{'/'.join(entry.segments)}"
        before = places.setdefault(entry.uri, place)
        if before > place:
            del found[before]
        found[min(before, place)] = entry
    return [(place, found[place]) for place in sorted(found)[:MOST]]


def _named(listing: Listing, documents: list[Entry]) -> Iterator[Entry]:
    """Yield the listed files that the manifests among these documents name as entry points."""
    for manifest in documents:
        if entry_points.is_manifest(manifest.segments[-1]):
            for paths in _entry_points(listing, manifest):
                found = (listing.listed(tuple(path.split("/"))) for path in paths)
                entry = next((one for one in found if one is not None), None)
                if entry is not None:
                    yield entry


def _entry_points(listing: Listing, manifest: Entry) -> list[tuple[str, ...]]:
    """Return what a manifest names; it is read once for each of its states."""
    state = manifest.state
    key = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns, state.st_size)
    known = _read_before.get(key)
    if known is None:
        text = listing.head_of(manifest, entry_points.MAX_MANIFEST_BYTES + 1)
        known = entry_points.named_in(manifest.segments[-1], text)
        _read_before.put(key, known, 1)
    return known


_read_before: Final[BoundedCache[tuple[int, ...], list[tuple[str, ...]]]] = BoundedCache(64)


def _candidates(listing: Listing, pace: Pace) -> Iterator[Segments]:
    """Yield the files in the root, in the folders that usually have an entry point, and in a few packages."""
    packages: list[Segments] = []
    for name, is_folder in _names(listing, (), pace):
        if not is_folder:
            yield (name,)
        elif name.lower() not in _FOLDERS:
            packages.append((name,))
        else:
            for inner, is_package in _names(listing, (name,), pace):
                if not is_package:
                    yield name, inner
                elif name.lower() in ("src", "cmd"):
                    packages.append((name, inner))
    for package in sorted(packages, key=len, reverse=True)[:_MOST_PACKAGES]:
        for inner, is_folder in _names(listing, package, pace):
            if not is_folder:
                yield *package, inner


def _names(listing: Listing, folder: Segments, pace: Pace) -> Iterator[tuple[str, bool]]:
    """Yield the names in a folder, and whether each is a folder."""
    pace.look(FOLDER_COST)
    for named in listing.names(folder):
        pace.look()
        yield named
