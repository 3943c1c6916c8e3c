"""The same resources as tools, for hosts that know only tools.

    list_resources   a page of the list
    read_resource    one resource, or a part of it

A read stays within a budget and says in-band how to get the next part.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from carrel.catalog import Catalog
from carrel.content import OPEN_ENDED, OTHER_PARTS
from carrel.errors import ProviderError, RequestError
from carrel.model import Blob, Item, Range, Reading, Resource, ResourceLink, Text, Tool, ToolResult
from carrel.provider import Call, Route
from carrel.uri import pairs, split_query, with_query, without
from carrel.value import replace

PART_BYTES: Final = 65_536
"""What one read gives, in bytes of UTF-8: what a model takes in at a time."""
_SHORTER: Final = (PART_BYTES - 3, PART_BYTES // 3)
"""What is read where that was too long: the last character is given whole, and one byte may become three of UTF-8."""
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


def _without_guide(value: object) -> object:
    """Return a JSON value whose texts name no guide: with `--only` there may be none."""
    if isinstance(value, str):
        return value.replace(" Read carrel://guide first; it explains the URIs.", "").replace(" in the guide", "")
    if isinstance(value, dict):
        return {name: _without_guide(one) for name, one in value.items()}
    return value


_WITHOUT_GUIDE: Final = tuple(
    replace(tool, description=_without_guide(tool.description), input_schema=_without_guide(tool.input_schema))
    for tool in (_LIST, _READ)
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
        if any("carrel" in mounted.provider.schemes for mounted in self._catalog.mounted):
            return (_LIST, _READ)
        return _WITHOUT_GUIDE

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
        reading = self._catalog.read_part(uri, wanted, PART_BYTES)
        is_single = len(reading.items) == 1 and reading.more is None
        for shorter in _SHORTER:
            if is_single and _size(_blocks(reading.items[0], uri)[0]) > PART_BYTES:
                reading = self._catalog.read_part(uri, wanted, shorter)
        blocks = _part(reading.items[0], uri) if is_single else _several(reading, uri)
        return ToolResult(tuple(blocks), is_error=reading.error is not None)


def _size(block: str | ResourceLink) -> int:
    """Give the bytes that a block has when it is sent, but for its frame."""
    text = block if isinstance(block, str) else block.uri + block.name
    return len(text.encode("utf-8", "surrogatepass"))


def _part(item: Item, uri: str) -> list[str | ResourceLink]:
    """Show one item, and say what comes after it."""
    start, length, total = (_number(item, name) for name in ("start", "length", "total"))
    block, *links = _blocks(item, uri)
    if not isinstance(item, Text):
        return [block, *links]
    told = (item.meta or {}).get("dev.carrel/next")
    is_own = isinstance(told, str) and "start" not in _names(told)
    if start + length >= total:
        return [f"{block}\n[next: {told}]" if is_own else block]
    if is_own:
        advice = f"next: {told}"
    elif _names(uri) & OPEN_ENDED:
        advice = f"ask for less, or for the whole in parts: {with_query(without(uri, OTHER_PARTS), start=0)}"
    else:
        advice = f"next: {with_query(without(uri, OTHER_PARTS), start=start + length, length=PART_BYTES)}"
    return [f"{block}\n[bytes {start} to {start + length} of {total}; {advice}]"]


def _names(uri: str) -> set[str]:
    return {name for name, _ in pairs(split_query(uri)[1] or "")}


def _several(reading: Reading, uri: str) -> list[str | ResourceLink]:
    """Show as many items as fit, and say how to get the others."""
    blocks: list[str | ResourceLink] = []
    left = PART_BYTES
    for count, item in enumerate(reading.items):
        shown = _blocks(item, uri)
        left -= sum(map(_size, shown))
        if left < 0:
            rest = reading.items[count:]
            following = reading.more(count) if reading.more is not None else rest[0].uri or f"{uri}, as a resource"
            return [*blocks, f"[{count} of {len(reading.items)} shown; next: {following}]"]
        blocks += shown
    told = (reading.items[-1].meta or {}).get("dev.carrel/next") if reading.items else None
    return blocks if told is None else [*blocks, f"[next: {told}]"]


def _blocks(item: Item, uri: str) -> list[str | ResourceLink]:
    if isinstance(item, Text):
        return [item.text if item.uri is None else f"{item.uri}  {item.text}"]
    assert isinstance(item, Blob)
    name = (item.uri or uri).rpartition("/")[2] or uri
    note = f"Binary content of {_number(item, 'total') or len(item.data)} bytes; read it as a resource."
    return [note, ResourceLink(item.uri or uri, name, None, item.mime_type or None)]


def _number(item: Item, name: str) -> int:
    return _whole((item.meta or {}).get(f"dev.carrel/{name}"))


def _problem(tool: Tool, arguments: Mapping[str, object]) -> str:
    """Say which argument is wrong, if one is: the schemas above, checked."""
    known = tool.input_schema["properties"]
    assert isinstance(known, dict)
    for name, value in arguments.items():
        if name not in known:
            return f"Unknown argument: {json.dumps(name)}; known: {', '.join(known)}"
        is_right = isinstance(value, str) if known[name]["type"] == "string" else _is_count(value)
        if not is_right:
            expected = "a string" if known[name]["type"] == "string" else "an integer, 0 or more"
            return f"Invalid argument: {name} must be {expected}"
    if tool is _READ and not arguments.get("uri"):
        return "Missing argument: uri"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
