"""Packages as texts: their metadata as JSON, their narrative as Markdown, their doc comment."""

import re
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Final

from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.files import AlcFile, ParsedFiles, Stamp
from carrel.providers.alc.layout import Package
from carrel.providers.alc.lua_source import MAX_PARSED_BYTES, UNPARSED, Facts, read_facts, read_spec
from carrel.providers.alc.lua_spec import Field, Spec

MAX_KEPT: Final = 32 * 1024 * 1024
"""Bytes of source whose facts are kept; the facts are smaller than their source."""
MAX_SPECS: Final = 100
"""Number of packages whose spec is kept; only narratives need it."""
_LEAST_WEIGHT: Final = 1_024

NOT_IN_TABLE: Final = ("name", "description", "scope")
"""Keys of `M.meta` that a narrative's table leaves out, since the narrative shows them elsewhere."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class ParseBudget:
    """Seconds that a list, or a read of the index, may spend on parsing files; `with` it, time is counted."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._began = 0.0

    @property
    def is_spent(self) -> bool:
        """Return whether no more files should be parsed."""
        return self.left <= 0

    def __enter__(self) -> None:
        self._began = monotonic()

    def __exit__(self, *_: object) -> None:
        self.left = max(0.0, self.left - (monotonic() - self._began))


class PackageSource(Value, frozen=True):
    """The facts of a package's source, and the doc comment it begins with."""

    facts: Facts
    doc: tuple[str, ...]


class Sources:
    """The sources of packages, each parsed once while its file stays the same."""

    def __init__(self, max_file_bytes: int) -> None:
        self._max_file_bytes = max_file_bytes
        self._cache: ParsedFiles[PackageSource] = ParsedFiles(MAX_KEPT)
        self._specs: ParsedFiles[Spec] = ParsedFiles(MAX_SPECS)
        self.parsed = 0

    def known(self, path: str, stamp: Stamp) -> PackageSource | None:
        """Return the source of a file that was parsed in this state."""
        return self._cache.get(path, stamp)

    def read(self, path: str, file: AlcFile) -> PackageSource:
        """Return the source of a package; bad bytes become U+FFFD."""
        source = self._cache.get(path, file.stamp)
        if source is None:
            text = self._text(file)
            facts = read_facts(text) if file.size <= MAX_PARSED_BYTES else UNPARSED
            source = PackageSource(facts, tuple(doc_lines(text)))
            self.parsed += 1
            self._cache.put(path, file.stamp, source, max(_LEAST_WEIGHT, min(file.size, MAX_PARSED_BYTES)))
        return source

    def spec(self, path: str, file: AlcFile) -> Spec:
        """Return the parameters and the result that a package declares."""
        spec = self._specs.get(path, file.stamp)
        if spec is None:
            spec = Spec() if file.size > MAX_PARSED_BYTES else read_spec(self._text(file))
            self._specs.put(path, file.stamp, spec)
        return spec

    def _text(self, file: AlcFile) -> str:
        """Return the source; only the beginning if it is too large to be parsed."""
        is_small = file.size <= MAX_PARSED_BYTES
        data = file.read_all(self._max_file_bytes) if is_small else file.read(0, MAX_PARSED_BYTES)
        return data.decode("utf-8", "replace").removeprefix("\ufeff")


def doc_lines(text: str) -> Iterator[str]:
    """Yield the lines of the doc comment that a source begins with, without their `---`."""
    at = 0
    while at < len(text):
        end = _LINE_END.search(text, at)
        line = text[at : end.start() if end else len(text)].lstrip(" \t")
        at = end.end() if end else len(text)
        if line.startswith("---"):
            yield line[3:]
        elif line.strip():
            return


def docstring(doc: tuple[str, ...]) -> str | None:
    """Return the doc comment as one text."""
    text = "\n".join(line.strip() for line in doc)
    return text if text.strip() else None


def meta_text(package: Package, facts: Facts) -> str:
    """Return `M.meta` merged with the host's fields, which win."""
    host: dict[str, object] = {
        "name": package.name,
        "scope": package.scope,
        "linked": package.is_linked,
        "has_meta": facts.has_meta,
    }
    if facts.unresolved:
        host["_unresolved"] = list(facts.unresolved)
    reserved = (*host, "_unresolved", "_declared")
    declared = {
        key: value
        for key, value in facts.meta.items()
        if key in reserved and (type(value) is not type(host.get(key)) or value != host.get(key))
    }
    meta = {key: value for key, value in facts.meta.items() if key not in declared}
    if declared:
        host["_declared"] = declared
    return compact_json.dumps({**meta, **host})


def narrative(package: Package, source: PackageSource, spec: Spec) -> str:
    """Return a description of a package in Markdown."""
    lines = [line for line in source.doc if not line.startswith("@")]
    title = next((number for number, line in enumerate(lines) if line.strip()), None)
    heading, rest = package.name, ""
    if title is not None:
        first = lines[title].strip()
        heading = first if package.name in first else f"{package.name}: {first}"
        rest = _trimmed(line.removeprefix(" ").rstrip() for line in lines[title + 1 :])
    description = source.facts.meta.get("description")
    summary = _trimmed(_LINE_END.split(description)) if isinstance(description, str) else ""
    sections = _spec_sections(spec, [line.strip() for line in rest.splitlines()])
    parts = (f"# {heading}", summary, _field_table(package, source.facts.meta), rest, *sections)
    return "\n\n".join(part for part in parts if part) + "\n"


def _trimmed(lines: Iterable[str]) -> str:
    """Join lines, without the blank ones at either end."""
    kept = list(lines)
    filled = [number for number, line in enumerate(kept) if line.strip()]
    return "\n".join(kept[filled[0] : filled[-1] + 1]) if filled else ""


def _field_table(package: Package, meta: Mapping[str, object]) -> str:
    rows = ["| Field | Value |", "|---|---|", f"| scope | {package.scope} |"]
    for key, value in meta.items():
        items = value if isinstance(value, list) else [value]
        if key not in NOT_IN_TABLE and not any(isinstance(item, dict | list) for item in items):
            texts = (item if isinstance(item, str) else compact_json.dumps(item) for item in items)
            rows.append(f"| {_cell(key)} | {_cell(', '.join(texts))} |")
    return "\n".join(rows)


def _spec_sections(spec: Spec, doc: list[str]) -> Iterator[str]:
    """Yield the parameters and the result of `run` as algocline's documents do, unless the doc comment has them."""
    parameters, result = spec.parameters, spec.result
    if parameters is not None and parameters.fields is not None and "## Parameters" not in doc:
        yield "## Parameters\n\n" + _shape_table(parameters.fields, "required", "ctx.", ("**required**", "optional"))
    if result is None or "## Result" in doc:
        return
    if result.fields is not None:
        yield "## Result\n\nReturns:\n\n" + _shape_table(result.fields, "optional", "", ("—", "optional"))
    elif result.reference:
        yield f"## Result\n\nReturns `{_cell(result.reference)}`, a shape of `alc_shapes`."


def _shape_table(fields: tuple[Field, ...], heading: str, prefix: str, words: tuple[str, str]) -> str:
    rows = (
        f"| `{_cell(prefix + one.name)}` | {_cell(one.type)} | {words[one.is_optional]} | {_cell(one.doc)} |"
        for one in fields
    )
    return "\n".join([f"| key | type | {heading} | description |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return _LINE_END.sub(" ", text).replace("|", "\\|")
