"""The documents that a newcomer opens first: what the project is, how it is built, where it starts."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from carrel.providers.workspace.ignore_rules import Segments
from carrel.providers.workspace.listing import FOLDER_COST, Entry, Listing, Pace

MOST: Final = 20
"""Maximum number of documents that come first in the list."""
_MOST_PACKAGES: Final = 8
"""Maximum number of folders that are searched for an entry point."""

_MANIFESTS: Final = (
    "pyproject.toml package.json cargo.toml go.mod pubspec.yaml pom.xml build.gradle build.gradle.kts gemfile "
    "composer.json mix.exs deno.json cmakelists.txt setup.py setup.cfg requirements.txt makefile justfile alc.toml"
).split()
_TEXT: Final = r"(\.(md|markdown|rst|txt|adoc|org))?"
_CODE: Final = r"\.(py|js|mjs|cjs|jsx|ts|mts|tsx|go|rs|rb|java|kt|swift|c|cc|cpp|dart|lua|php|ex)"
_PLACES: Final = (
    rf"readme{_TEXT}",
    "|".join(map(re.escape, _MANIFESTS)),
    rf"contributing{_TEXT}",
    rf"(docs?/)?architecture{_TEXT}",
    rf"(agents|claude)\.md|docs?/(readme|index){_TEXT}",
    rf"((src|lib|app|cmd)/)?(main|index|app|server|manage|__main__|mod){_CODE}|src/lib\.rs",
    rf"(src/|cmd/)?[^/]+/(__main__|main){_CODE}",
)
"""Patterns of their paths, in the order of the list."""
_FOLDERS: Final = frozenset({"src", "lib", "app", "cmd", "doc", "docs"})


def place_of(path: str) -> str:
    """Return the sort key of a document among the others; empty for any other file."""
    for number, pattern in enumerate(_patterns()):
        if pattern.fullmatch(path):
            return f"{number}{path}"
    return ""


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Compile the patterns for the first list; a server starts without them."""
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PLACES)


def find(listing: Listing) -> list[Entry]:
    """Return the listed documents of a project, in their order; only a few folders are read."""
    listing.compare()
    found: dict[str, Entry] = {}
    for segments in _candidates(listing, Pace()):
        place = place_of("/".join(segments))
        entry = listing.listed(segments) if place else None
        if entry is not None:
            found[place] = entry
    return [found[place] for place in sorted(found)[:MOST]]


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
