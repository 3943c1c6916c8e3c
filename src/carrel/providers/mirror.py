"""The same resources as tools, for hosts that know only tools.

    list_resources   a page of the list
    read_resource    one resource, or a part of it

A read stays within a budget and says in-band how to get the next part.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from carrel.catalog import Catalog
from carrel.errors import ProviderError, RequestError, TooLarge
from carrel.model import Blob, Range, Reading, Resource, ResourceLink, Text, Tool, ToolResult
from carrel.provider import Call, Route
from carrel.uri import with_query

PART_BYTES: Final = 65_536
LIST_LENGTH: Final = 100

_LIST: Final = Tool(
    "list_resources",
    "List what this server can read, a page at a time: one URI and description a line. "
    "Read carrel://guide first; it explains the URIs.",
    {
        "type": "object",
        "properties": {
            "cursor": {"type": "string", "description": "Where to go on: the cursor of the page before."},
            "prefix": {"type": "string", "description": "Only URIs that begin with this, as workspace:///src/."},
        },
        "additionalProperties": False,
    },
    title="List resources",
    read_only=True,
    idempotent=True,
    open_world=False,
)
_READ: Final = Tool(
    "read_resource",
    "Read one resource by its URI. A long text comes in parts; the answer's last line names the next one.",
    {
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "The URI, as listed or made from a template in the guide."},
            "start": {"type": "integer", "minimum": 0, "description": "First byte to give."},
            "length": {"type": "integer", "minimum": 0, "description": "How many bytes to give."},
        },
        "required": ["uri"],
        "additionalProperties": False,
    },
    title="Read a resource",
    read_only=True,
    idempotent=True,
    open_world=False,
)


class Mirror:
    """Tools over the catalogue; it has no resources of its own."""

    name = "mirror"
    schemes: tuple[str, ...] = ()
    mirrors = True

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def routes(self) -> Sequence[Route]:
        return ()

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield nothing: the mirror only shows what others have."""
        del after
        return iter(())

    def tools(self) -> Sequence[Tool]:
        return (_LIST, _READ)

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        del call
        tool = _LIST if name == _LIST.name else _READ
        problem = _problem(tool, arguments)
        if problem:
            return ToolResult((problem,), is_error=True)
        try:
            return self._list(arguments) if tool is _LIST else self._read(arguments)
        except (RequestError, ProviderError) as error:
            return ToolResult((error.message,), is_error=True, meta={"dev.carrel/error": error.word})

    def _list(self, arguments: Mapping[str, object]) -> ToolResult:
        prefix = str(arguments.get("prefix", ""))
        cursor = str(arguments.get("cursor", "")) or None
        listed: list[Resource] = []
        while True:
            page = self._catalog.page(cursor, LIST_LENGTH)
            listed += [entry for entry in page.entries if entry.uri.startswith(prefix)]
            cursor = page.next_cursor
            if cursor is None or len(listed) >= LIST_LENGTH:
                break
        lines = [f"{entry.uri}  {entry.description or entry.title or entry.name}" for entry in listed]
        if cursor is not None:
            lines.append(f"More: list_resources with cursor {cursor}")
        structured = {"uris": [entry.uri for entry in listed], "nextCursor": cursor}
        return ToolResult(("\n".join(lines) or "Nothing.",), structured)

    def _read(self, arguments: Mapping[str, object]) -> ToolResult:
        uri = str(arguments["uri"])
        wanted = None
        if "start" in arguments or "length" in arguments:
            length = arguments.get("length")
            wanted = Range(_whole(arguments.get("start")), None if length is None else _whole(length))
        try:
            reading = self._catalog.read(uri, wanted)
        except TooLarge:
            reading = self._catalog.read(uri, Range(_whole(arguments.get("start")), PART_BYTES))
        if wanted is None and _size(reading) > PART_BYTES:
            reading = self._catalog.read(uri, Range(0, PART_BYTES))
        blocks: list[str | ResourceLink] = []
        for item in reading.items:
            blocks += _blocks(item, uri)
        return ToolResult(tuple(blocks), is_error=reading.error is not None)


def _size(reading: Reading) -> int:
    only = reading.items[0] if len(reading.items) == 1 else None
    return len(only.text) if isinstance(only, Text) else 0


def _blocks(item: object, uri: str) -> list[str | ResourceLink]:
    if isinstance(item, Blob):
        name = (item.uri or uri).rpartition("/")[2] or uri
        note = f"Binary content of {len(item.data)} bytes; read it as a resource."
        return [note, ResourceLink(item.uri or uri, name, None, item.mime_type or None)]
    assert isinstance(item, Text)
    text = item.text if item.uri is None else f"{item.uri}  {item.text}"
    meta = item.meta or {}
    start, length, total = (meta.get(f"dev.carrel/{name}") for name in ("start", "length", "total"))
    if isinstance(start, int) and isinstance(length, int) and isinstance(total, int) and start + length < total:
        following = with_query(uri, start=start + length, length=PART_BYTES)
        text += f"\n[bytes {start} to {start + length} of {total}; next: {following}]"
    return [text]


def _problem(tool: Tool, arguments: Mapping[str, object]) -> str:
    """Say which argument is wrong, if one is: the schemas above, checked."""
    known = tool.input_schema["properties"]
    assert isinstance(known, dict)
    for name, value in arguments.items():
        if name not in known:
            return f"Unknown argument: {json.dumps(name)}; known: {', '.join(known)}"
        is_right = isinstance(value, str) if known[name]["type"] == "string" else _is_count(value)
        if not is_right:
            return f"Invalid argument: {name} must be a {known[name]['type']}"
    if tool is _READ and not arguments.get("uri"):
        return "Missing argument: uri"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
