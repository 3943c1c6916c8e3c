"""What is told of a package: its metadata as JSON, its narrative as Markdown, its doc comment."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.cache import Cache
from carrel.providers.alc.files import HeldFile, Stamp
from carrel.providers.alc.layout import Package
from carrel.providers.alc.lua_source import MAX_PARSED_BYTES, Facts, give_up, read_facts, read_spec
from carrel.providers.alc.lua_spec import Field, Spec

MAX_KEPT: Final = 32 * 1024 * 1024
"""How much source the facts kept may come from: they are smaller than it."""
MAX_SPECS: Final = 100
"""Of how many packages it is kept what they take and give; only their narratives tell it."""
_LEAST_WEIGHT: Final = 1_024

TOLD_BEFORE: Final = ("name", "description", "scope")
"""What a narrative's table does not repeat of `M.meta`: the heading, the text before it, its first row."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class PackageSource(Value, frozen=True):
    """What was read of a package's source, and the doc comment it begins with."""

    facts: Facts
    doc: tuple[str, ...]


class Sources:
    """Packages' sources, each read once as long as its file stays as it is."""

    def __init__(self, max_file_bytes: int) -> None:
        self._max_file_bytes = max_file_bytes
        self._cache: Cache[PackageSource] = Cache(MAX_KEPT)
        self._specs: Cache[Spec] = Cache(MAX_SPECS)
        self.parsed = 0

    def known(self, path: str, stamp: Stamp) -> PackageSource | None:
        """Give what is known of a file that is as it was."""
        return self._cache.get(path, stamp)

    def read(self, path: str, held: HeldFile) -> PackageSource:
        """Read a package's source; bad bytes become U+FFFD."""
        source = self._cache.get(path, held.stamp)
        if source is None:
            source = self._parse(held)
            self.parsed += 1
            self._cache.put(path, held.stamp, source, max(_LEAST_WEIGHT, min(held.size, MAX_PARSED_BYTES)))
        return source

    def spec(self, path: str, held: HeldFile) -> Spec:
        """Return what a package takes and gives."""
        spec = self._specs.get(path, held.stamp)
        if spec is None:
            spec = Spec() if held.size > MAX_PARSED_BYTES else read_spec(self._text(held))
            self._specs.put(path, held.stamp, spec)
        return spec

    def _text(self, held: HeldFile) -> str:
        """Return the source, or of a large one the beginning."""
        is_parsed = held.size <= MAX_PARSED_BYTES
        data = held.read_all(self._max_file_bytes) if is_parsed else held.read(0, MAX_PARSED_BYTES)
        return data.decode("utf-8", "replace").removeprefix("\ufeff")

    def _parse(self, held: HeldFile) -> PackageSource:
        is_parsed = held.size <= MAX_PARSED_BYTES
        text = self._text(held)
        return PackageSource(read_facts(text) if is_parsed else give_up(), tuple(doc_lines(text)))


def doc_lines(text: str) -> Iterator[str]:
    """Give the lines of the doc comment a source begins with, without their `---`."""
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
    """Give the doc comment as one text."""
    text = "\n".join(line.strip() for line in doc)
    return text if text.strip() else None


def meta_text(package: Package, facts: Facts) -> str:
    """Give `M.meta` merged with what the host knows; the host's fields win."""
    host: dict[str, object] = {
        "name": package.name,
        "scope": package.scope,
        "linked": package.is_linked,
        "has_meta": facts.has_meta,
    }
    if facts.unresolved:
        host["_unresolved"] = list(facts.unresolved)
    declared = {
        key: value
        for key, value in facts.meta.items()
        if key in (*host, "_unresolved", "_declared") and not _same(value, host.get(key))
    }
    meta = {key: value for key, value in facts.meta.items() if key not in declared}
    if declared:
        host["_declared"] = declared
    return compact_json.dumps({**meta, **host})


def _same(declared: object, told: object) -> bool:
    return type(declared) is type(told) and declared == told


def narrative(package: Package, source: PackageSource, spec: Spec) -> str:
    """Tell of a package in Markdown."""
    lines = [line for line in source.doc if not line.startswith("@")]
    title = next((number for number, line in enumerate(lines) if line.strip()), None)
    heading, rest = package.name, ""
    if title is not None:
        first = lines[title].strip()
        heading = first if package.name in first else f"{package.name}: {first}"
        rest = _blank_trimmed(line.removeprefix(" ").rstrip() for line in lines[title + 1 :])
    description = source.facts.meta.get("description")
    told = _blank_trimmed(_LINE_END.split(description)) if isinstance(description, str) else ""
    sections = _spec_sections(spec, [line.strip() for line in rest.splitlines()])
    parts = (f"# {heading}", told, _field_table(package, source.facts.meta), rest, *sections)
    return "\n\n".join(part for part in parts if part) + "\n"


def _blank_trimmed(lines: Iterator[str] | list[str]) -> str:
    """Join lines, without the empty ones at either end."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    start = next((number for number, line in enumerate(kept) if line.strip()), 0)
    return "\n".join(kept[start:])


def _field_table(package: Package, meta: Mapping[str, object]) -> str:
    rows = [("scope", str(package.scope))]
    for key, value in meta.items():
        if key not in TOLD_BEFORE:
            items = value if isinstance(value, list) else [value]
            if not any(isinstance(item, dict | list) for item in items):
                rows.append((key, ", ".join(map(_spelled, items))))
    return "\n".join(["| Field | Value |", "|---|---|", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in rows)])


def _spec_sections(spec: Spec, told: list[str]) -> Iterator[str]:
    """Yield what `M.spec` says of the entry `run` as algocline's own documents do, unless the doc comment says it."""
    takes, gives = spec.takes, spec.gives
    if takes is not None and takes.fields is not None and "## Parameters" not in told:
        yield "## Parameters\n\n" + _shape_table(takes.fields, "required", "ctx.", ("**required**", "optional"))
    if gives is None or "## Result" in told:
        return
    if gives.fields is not None:
        yield "## Result\n\nReturns:\n\n" + _shape_table(gives.fields, "optional", "", ("—", "optional"))
    elif gives.reference:
        yield f"## Result\n\nReturns `{_cell(gives.reference)}`, a shape of `alc_shapes`."


def _shape_table(fields: tuple[Field, ...], heading: str, prefix: str, words: tuple[str, str]) -> str:
    rows = (
        f"| `{_cell(prefix + one.name)}` | {_cell(one.type)} | {words[one.is_optional]} | {_cell(one.doc)} |"
        for one in fields
    )
    return "\n".join([f"| key | type | {heading} | description |", "|---|---|---|---|", *rows])


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else compact_json.dumps(value)


def _cell(text: str) -> str:
    return _LINE_END.sub(" ", text).replace("|", "\\|")
