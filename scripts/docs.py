"""Writes docs/tools.md from the tools' own schemas: python -m scripts.docs. A test fails when it is out of date."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from carrel.catalog.catalog import Catalog
from carrel.core.model import Tool
from carrel.core.provider import Program
from carrel.providers.guide import Guide
from carrel.providers.logs import tools as processes
from carrel.providers.logs.settings import Command
from carrel.providers.mirror import Mirror
from carrel.providers.sage import tool_schemas as sage
from carrel.providers.scopes.tool_schemas import tools_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tools.md"
INTRODUCTION = """\
# Tools

Generated from the tools' own schemas by `make docs`; a test fails when it is out of date.
"""


def sections() -> dict[str, Iterable[Tool]]:
    """Give every tool Carrel can have, by what brings it."""
    example = {"web": Command([Program("npm"), Program("start")])}
    return {
        "The mirror: the same resources, for hosts that know only tools": Mirror(Catalog([Guide(Catalog())])).tools(),
        'Sage: an assistant\'s memory (`tools = "write"` for those that write)': (*sage.READING, *sage.WRITING),
        'Scopes; those that write exist with `[scopes] tools = "write"`': tools_of("write"),
        "Logs: Flutter": processes.flutter_tools(),
        "Logs: processes": (processes.start_tool(example), *processes.process_tools()),
    }


def render() -> str:
    """Give the page."""
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


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
