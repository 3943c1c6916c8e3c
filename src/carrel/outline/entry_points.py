"""The files that a project's manifest names as its entry points.

A manifest is a stranger's text. Only paths below the project are returned; the caller opens them by the rules
for every other file. A manifest that is broken, too long or of another shape names nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

MAX_MANIFEST_BYTES: Final = 100_000
MOST_NAMED: Final = 8
"""Maximum number of entry points of one manifest."""
_MAX_PATH: Final = 200
_MODULE: Final = r"[A-Za-z_]\w{0,60}(?:\.[A-Za-z_]\w{0,60}){0,8}"
_NAME: Final = r"[^\x00-\x1f\x7f\\:*?]+"

Paths = Iterable[tuple[str, ...]]
"""For each entry point the files that may be meant, the most likely first."""


def named_in(manifest: str, text: bytes) -> list[tuple[str, ...]]:
    """Return for each entry point of a manifest the paths that it may mean; nothing if it names none."""
    read = _MANIFESTS.get(manifest.lower())
    if read is None or len(text) > MAX_MANIFEST_BYTES:
        return []
    found: list[tuple[str, ...]] = []
    with suppress(ValueError, RecursionError):
        for paths in read(text.decode()):
            inside = tuple(path for path in map(_inside, paths) if path)
            if inside and inside not in found:
                found.append(inside)
            if len(found) >= MOST_NAMED:
                break
    return found


def _inside(path: str) -> str:
    """Return a path that stays below the project, without `./`; empty for any other."""
    parts = path.removeprefix("./").split("/")
    is_plain = all(re.fullmatch(_NAME, part) and part not in (".", "..") for part in parts)
    return "/".join(parts) if is_plain and len(path) <= _MAX_PATH else ""


def _python(text: str) -> Paths:
    manifest = _toml(text)
    for names in (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts")):
        for target in table_in(manifest, *names).values():
            module = target.partition(":")[0].strip() if isinstance(target, str) else ""
            if re.fullmatch(_MODULE, module, re.ASCII):
                path = module.replace(".", "/")
                yield tuple(f"{folder}{path}{end}" for folder in ("src/", "") for end in (".py", "/__init__.py"))


def _node(text: str) -> Paths:
    manifest = _json(text)
    bins = manifest.get("bin")
    named = [*bins.values()] if isinstance(bins, Mapping) else [bins]
    for path in (manifest.get("main"), *named):
        if isinstance(path, str):
            bare = path.rstrip("/")
            yield bare, f"{bare}.js", f"{bare}/index.js"


def _rust(text: str) -> Paths:
    manifest = _toml(text)
    bins = manifest.get("bin")
    for table in (*(bins if isinstance(bins, list) else ()), manifest.get("lib")):
        path = table.get("path") if isinstance(table, Mapping) else None
        if isinstance(path, str):
            yield (path,)
    yield ("src/main.rs",)
    yield ("src/lib.rs",)


def _dart(text: str) -> Paths:
    yield ("lib/main.dart",)
    name = re.search(r"^name: *([a-z_][a-z0-9_]{0,60}) *$", text, re.MULTILINE)
    if name is not None:
        yield f"bin/{name[1]}.dart", f"lib/{name[1]}.dart"


def _php(text: str) -> Paths:
    bins = _json(text).get("bin")
    for path in bins if isinstance(bins, list) else [bins]:
        if isinstance(path, str):
            yield (path,)


_MANIFESTS: Final[Mapping[str, Callable[[str], Paths]]] = {
    "pyproject.toml": _python,
    "package.json": _node,
    "cargo.toml": _rust,
    "pubspec.yaml": _dart,
    "composer.json": _php,
}
"""Where a project names its entry points, and how to read that. Those of Go are found by their names alone."""


def _toml(text: str) -> Mapping[str, object]:
    from carrel.core import toml  # only for a project with such a manifest

    return toml.loads(text)


def _json(text: str) -> Mapping[str, object]:
    import json  # as above

    manifest = json.loads(text)
    return manifest if isinstance(manifest, Mapping) else {}


def table_in(manifest: object, *names: str) -> Mapping[str, object]:
    """Return a table within a manifest; an empty one if there is none."""
    for name in names:
        manifest = manifest.get(name) if isinstance(manifest, Mapping) else None
    return manifest if isinstance(manifest, Mapping) else {}


def is_manifest(name: str) -> bool:
    """Return whether a file in the root may name entry points."""
    return name.lower() in _MANIFESTS
