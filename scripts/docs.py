"""Writes the generated pages: python -m scripts.docs. A test fails when one is out of date.

docs/tools.md is made from the tools' own schemas, docs/promises.md from tests/promises.toml, docs/doctor.md from the
checks of `carrel doctor`, docs/hosts.md from what the hosts in tests/hosts were seen to do.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from carrel.catalog.catalog import Catalog
from carrel.core.model import Tool
from carrel.core.provider import Program
from carrel.providers.guide import Guide
from carrel.providers.logs import tools as processes
from carrel.providers.logs.settings import CommandSettings
from carrel.providers.mirror import Mirror
from carrel.providers.sage import tools as sage
from carrel.providers.scopes.tool_schemas import tools_of
from carrel.providers.search import SearchFace
from carrel.search.lazy import LazySearch
from carrel.search.search import Search
from scripts import doctor, hosts, promises

DOCS = Path(__file__).resolve().parents[1] / "docs"
INTRODUCTION = """\
# Tools

Generated from the tools' own schemas by `make docs`; a test fails when it is out of date.
"""


def _never() -> Search:
    raise AssertionError("a page about tools searches nothing")


def sections() -> dict[str, Iterable[Tool]]:
    """Return every tool Carrel can have, by what brings it."""
    example = {"web": CommandSettings([Program("npm"), Program("start")])}
    return {
        "Search": SearchFace(LazySearch(_never)).tools(),
        "The mirror: the same resources, for hosts that know only tools": Mirror(Catalog([Guide(Catalog())])).tools(),
        'Sage: an assistant\'s memory (`tools = "write"` for those that write)': [one.tool for one in sage.TOOLS],
        'Scopes; those that write exist with `[scopes] tools = "write"`': tools_of("write"),
        "Logs: Flutter": processes.flutter_tools(),
        "Logs: processes": (processes.start_tool(example), *processes.process_tools()),
    }


def render_tools() -> str:
    """Return the page of tools."""
    parts = [INTRODUCTION]
    for heading, tools in sections().items():
        parts.append(f"## {heading}\n")
        parts += [_describe(tool) for tool in tools]
    return "\n".join(parts)


def _describe(tool: Tool) -> str:
    kind = "reads only" if tool.read_only else "writes"
    lines = [f"### `{tool.name}`", "", f"{tool.description} ({kind})", "", *_parameters(dict(tool.input_schema)), ""]
    return "\n".join(lines)


def _parameters(schema: dict[str, Any]) -> Iterator[str]:
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        yield "It takes no parameters."
        return
    yield "| parameter | type | |"
    yield "| --- | --- | --- |"
    for name, told in properties.items():
        required = ", required" if name in schema.get("required", ()) else ""
        kind = told.get("type", "any")
        spelled = " or ".join(kind) if isinstance(kind, list) else kind
        yield f"| `{name}` | {spelled}{required} | {told.get('description', '')} |"


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "tools.md": render_tools,
    DOCS / "doctor.md": doctor.render,
    DOCS / "promises.md": promises.render,
    DOCS / "hosts.md": hosts.render,
}
"""The generated pages, and what each holds now."""


if __name__ == "__main__":
    for page, render in PAGES.items():
        page.write_text(render(), encoding="utf-8")
