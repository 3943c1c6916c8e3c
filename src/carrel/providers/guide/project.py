"""What a newcomer asks first about a project: its size, languages and main folders, and how to run and test it.

Everything is read through the catalogue, so that a caller learns nothing here that it may not read. A manifest is a
stranger's text: only short names without spaces are repeated.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.core import toml
from carrel.core.errors import CarrelError
from carrel.core.model import Range, Resource, Text
from carrel.core.record import Value
from carrel.core.uri import decode_loosely
from carrel.outline.entry_points import table_in

MAX_COUNTED: Final = 10_000
"""Files that are counted: counting more would delay the guide."""
MAX_MANIFEST_BYTES: Final = 100_000
_MOST_NAMED: Final = 5
_NAME_LENGTH: Final = 30
_EXAMPLE_BYTES: Final = 100_000
"""Size of a file that serves as an example, at most."""
_EXAMPLE_LENGTH: Final = 60
"""Characters of its path: the guide repeats it."""
_ROOT: Final = "workspace:///"
_NOT_CODE: Final = frozenset({"", "make", "markdown", "text", "json", "yaml", "toml", "xml", "html", "css", "log"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.@/-]{0,39}")
_TARGET: Final = re.compile(r"^(test|check|run|start|dev|demo|build) *::?(?!=)", re.MULTILINE)
_WANTED: Final = ("test", "check", "start", "dev", "run", "demo", "build")
"""Commands that are named, the most useful first."""

Commands = Iterable[str]


class ProjectFacts(Value, frozen=True):
    """Lines about a project, and the path of a file that serves as an example: of code, if there is any."""

    lines: tuple[str, ...]
    example: str = ""


class ProjectSurvey:
    """Facts about a project's files. They can be read while it still counts, which may take long in a large project."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._commands: list[str] = []
        self._languages: Counter[str] = Counter()
        self._folders: Counter[str] = Counter()
        self._largest: dict[str, tuple[int, str]] = {}
        self._size = self._count = 0
        self._is_whole = False

    def run(self) -> None:
        """Read the manifests, then count the files."""
        from carrel.search.languages import language_of  # only for the guide

        self._commands = list(dict.fromkeys(_commands(self._catalog)))[:_MOST_NAMED]
        with suppress(CarrelError):
            for entry in islice(_files(self._catalog), MAX_COUNTED):
                path, size = entry.uri[len(_ROOT) :], entry.size or 0
                self._add(path, size, language_of(path))
        self._is_whole = self._count < MAX_COUNTED

    def _add(self, path: str, size: int, language: str) -> None:
        self._languages[language] += 1
        self._folders[path.partition("/")[0] if "/" in path else ""] += 1
        if size <= _EXAMPLE_BYTES and len(path) <= _EXAMPLE_LENGTH:
            self._largest[language] = max(self._largest.get(language, (0, "")), (size, path))
        self._size += size
        self._count += 1

    def facts(self) -> ProjectFacts:
        """Return what is known so far; no facts if no files are served."""
        if not self._count:
            return ProjectFacts(tuple(_commands_line(self._commands)))
        # Copied at once: another thread may still be counting.
        languages, folders, largest = Counter(dict(self._languages)), Counter(dict(self._folders)), dict(self._largest)
        del folders[""], languages[""]
        more = "" if self._is_whole else " or more"
        named = ", ".join(f"{name} {number:,}" for name, number in languages.most_common(_MOST_NAMED))
        files = "file" if self._count == 1 and self._is_whole else "files"
        lines = [f"{self._count:,}{more} {files}, {_megabytes(self._size)}{f': {named}' if named else ''}"]
        if folders:
            shown = folders.most_common(_MOST_NAMED)
            names = (f"`{decode_loosely(name)[:_NAME_LENGTH]}/` {number:,}" for name, number in shown)
            lines.append(f"Files by folder: {', '.join(names)}")
        example = _example(languages, largest)
        return ProjectFacts((*lines, *_commands_line(self._commands)), _ROOT + example if example else "")


def _commands_line(commands: list[str]) -> list[str]:
    return [f"Run and test: {', '.join(f'`{command}`' for command in commands)}"] if commands else []


def _example(languages: Counter[str], largest: Mapping[str, tuple[int, str]]) -> str:
    """Return the largest file of the most frequent language of code, or of any; empty if all paths are long."""
    named = [name for name, _ in languages.most_common() if name in largest]
    code = [name for name in named if name not in _NOT_CODE]
    return largest[(code or named)[0]][1] if named else ""


def _files(catalog: Catalog) -> Iterable[Resource]:
    return (entry for entry in catalog.entries("workspace") if entry.uri.startswith(_ROOT))


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{max(1, size // 1_000)} KB"


def _commands(catalog: Catalog) -> Iterable[str]:
    """Yield the commands that the project's manifests name."""
    for name, commands_of in _MANIFESTS.items():
        with suppress(CarrelError, ValueError, RecursionError):
            text = _text_of(catalog, name)
            if text is not None:
                yield from commands_of(text)


def _text_of(catalog: Catalog, name: str) -> str | None:
    [item, *_] = catalog.read(_ROOT + name, Range(0, MAX_MANIFEST_BYTES)).items
    return item.text if isinstance(item, Text) else None


def _make(text: str) -> Commands:
    targets = set(_TARGET.findall(text))
    return [f"make {name}" for name in _WANTED if name in targets]


def _npm(text: str) -> Commands:
    scripts = table_in(json.loads(text), "scripts")
    names = [name for name in _WANTED if name in scripts]
    return [f"npm {name}" if name in ("test", "start") else f"npm run {name}" for name in names]


def _python(text: str) -> Commands:
    manifest = toml.loads(text)
    scripts = [name for name in table_in(manifest, "project", "scripts") if _NAME.fullmatch(name)]
    tests = ["pytest"] if "pytest" in table_in(manifest, "tool") else []
    return [*tests, *scripts[:2]]


def _composer(text: str) -> Commands:
    scripts = table_in(json.loads(text), "scripts")
    return [f"composer {name}" for name in _WANTED if name in scripts]


def _flutter(text: str) -> Commands:
    tool = "flutter" if re.search(r"^\s+sdk: *flutter\b", text, re.MULTILINE) else "dart"
    return [f"{tool} test", f"{tool} run"]


def _always(*commands: str) -> Callable[[str], Commands]:
    return partial(lambda given, _: given, commands)


_MANIFESTS: Final[Mapping[str, Callable[[str], Commands]]] = {
    "Makefile": _make,
    "package.json": _npm,
    "pyproject.toml": _python,
    "Cargo.toml": _always("cargo test", "cargo run"),
    "go.mod": _always("go test ./..."),
    "pubspec.yaml": _flutter,
    "pom.xml": _always("mvn test"),
    "build.gradle": _always("gradle test"),
    "build.gradle.kts": _always("gradle test"),
    "mix.exs": _always("mix test"),
    "composer.json": _composer,
}
"""Where a project says how it is run, and how to read that."""
