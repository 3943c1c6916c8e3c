"""Build the results that are sent: the only place with `mimeType`, base64 and ISO times.

Modern results have `resultType`, server info and, where the specification asks for them, cache hints. Legacy results
have none of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from carrel.core.isotime import iso
from carrel.core.limits import DISCOVER_TTL_MS
from carrel.core.model import (
    Annotations,
    Blob,
    Completion,
    Item,
    Page,
    Reading,
    Resource,
    ResourceLink,
    Skill,
    Template,
    Text,
    Tool,
    ToolResult,
)
from carrel.core.token_counts import TOKENS
from carrel.core.version import __version__
from carrel.protocol import eras
from carrel.protocol.eras import Era
from carrel.protocol.jsonrpc import GAP, Frame, Key, notification
from carrel.protocol.methods import Filter

SERVER_INFO: Final = {"name": "carrel", "title": "Carrel", "version": __version__}
_META: Final = {eras.SERVER_INFO_KEY: SERVER_INFO}
_RAW_META: Final = Raw(msgspec.json.encode(_META))
_encode: Final = msgspec.json.Encoder().encode

PLAIN_ENTRY_BYTES: Final = 180
"""Maximum size of an entry without a description: hosts keep the whole list in their context."""


class _Wire(Struct, gc=False, rename="camel"):
    pass


class _Resource(_Wire, gc=False, omit_defaults=True):
    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    annotations: dict[str, object] | None = None
    meta: object = msgspec.field(default=None, name="_meta")


class _Template(_Wire, gc=False):
    uri_template: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    annotations: dict[str, object] | UnsetType = UNSET


class _Contents(_Wire, gc=False):
    uri: str
    mime_type: str | UnsetType = UNSET
    text: str | Raw | UnsetType = UNSET
    blob: bytes | UnsetType = UNSET
    meta: object = msgspec.field(default=UNSET, name="_meta")


class _Result(_Wire, gc=False, kw_only=True):
    result_type: str | UnsetType = UNSET
    ttl_ms: int | UnsetType = UNSET
    cache_scope: str | UnsetType = UNSET
    meta: object = msgspec.field(default=UNSET, name="_meta")


class _ReadResult(_Result, gc=False):
    contents: list[_Contents]
    content: object = UNSET
    encoding: str | UnsetType = UNSET
    total: int | UnsetType = UNSET
    start: int | UnsetType = UNSET
    length: int | UnsetType = UNSET


class _ListResult(_Result, gc=False):
    resources: list[_Resource]
    next_cursor: str | UnsetType = UNSET
    items: list[dict[str, object]] | UnsetType = UNSET
    total: int | UnsetType = UNSET
    page: int | UnsetType = UNSET
    page_size: int | UnsetType = UNSET


class _TemplatesResult(_Result, gc=False):
    resource_templates: list[_Template]
    next_cursor: str | UnsetType = UNSET


def read_result(reading: Reading, uri: str, era: Era, *, is_fly: bool = False) -> object:
    """Return the result of a read. A single item has the ETag; otherwise the result has it."""
    result = _read_result(reading, uri, era)
    if is_fly and _is_one(reading):
        item = reading.items[0]
        assert isinstance(item, Text | Blob)
        meta: dict[str, Any] = dict(item.meta or {})
        whole = len(item.text.encode() if isinstance(item, Text) else item.data)
        result.content = item.text if isinstance(item, Text) else item.data
        result.encoding = meta.get("dev.carrel/encoding") or ("utf-8" if isinstance(item, Text) else "base64")
        result.start = meta.get("dev.carrel/start", 0)
        result.length = meta.get("dev.carrel/length", whole)
        result.total = meta.get("dev.carrel/total", whole)
    return result


def read_frame(reading: Reading, uri: str, era: Era) -> Frame:
    """Return the encoded answer to a read of one text, without the text."""
    result = _read_result(reading, uri, era)
    result.contents[0].text = GAP
    return Frame(result)


def _read_result(reading: Reading, uri: str, era: Era) -> _ReadResult:
    given = _reading_meta(reading)
    if _is_one(reading):
        contents = [_contents(reading.items[0], uri, reading.mime_type, given)]
        meta: dict[str, object] = {}
    else:
        contents = [_contents(item, uri, reading.mime_type, {}) for item in reading.items]
        meta = given
    if reading.meta:
        meta.update(reading.meta)
    if reading.error is not None:
        meta["dev.carrel/error"] = reading.error
    if era is Era.LEGACY:
        return _ReadResult(contents=contents, meta=meta or UNSET)
    return _ReadResult(
        contents=contents,
        result_type="complete",
        ttl_ms=reading.ttl_ms,
        cache_scope=reading.cache_scope,
        meta={**meta, **_META} if meta else _RAW_META,
    )


def _is_one(reading: Reading) -> bool:
    return len(reading.items) == 1 and (not reading.is_folder or reading.items[0].uri is None)


def _reading_meta(reading: Reading) -> dict[str, object]:
    meta: dict[str, object] = {}
    if reading.error is not None:
        meta["dev.carrel/error"] = reading.error
    elif reading.etag is not None:
        meta["dev.carrel/etag"] = reading.etag
    if reading.last_modified_ms is not None:
        meta["dev.carrel/last-modified"] = iso(reading.last_modified_ms)
    if reading.unchanged:
        meta["dev.carrel/status"] = 304
    return meta


def _contents(item: Item, uri: str, mime_type: str, given: dict[str, object]) -> _Contents:
    meta = ({**item.meta, **given} if item.meta else given) or UNSET
    spelled = item.mime_type or mime_type or UNSET
    if isinstance(item, Text):
        return _Contents(item.uri or uri, spelled, item.text, UNSET, meta)
    assert isinstance(item, Blob)
    return _Contents(item.uri or uri, spelled, UNSET, item.data, meta)


def list_result(page: Page, era: Era, tokens: Sequence[int | None] = (), *, is_brief: bool = True) -> object:
    """Return a page of the list. With `is_brief`, long entries without a description are shortened.

    `tokens` are what the entries cost, as far as that is known: one number for each of them, or none at all.
    """
    result, has_plain = _list_result(page, era)
    for entry, count in zip(result.resources, tokens, strict=bool(tokens)):
        if count is not None:
            entry.meta = {**(entry.meta if isinstance(entry.meta, dict) else {}), TOKENS: count}
    if is_brief and has_plain:
        for entry in [one for one in result.resources if not one.description]:
            if len(_encode(entry)) >= PLAIN_ENTRY_BYTES:
                _shorten(entry)
    return result


def _shorten(entry: _Resource) -> None:
    """Remove what repeats the name or is known otherwise, until it is short enough.

    First a title that repeats the end of the name, then the date, which a read returns too, then the tokens.
    """
    if entry.name.endswith(entry.title):
        entry.title = ""
    if len(_encode(entry)) >= PLAIN_ENTRY_BYTES and entry.annotations is not None:
        rest = {name: value for name, value in entry.annotations.items() if name != "lastModified"}
        entry.annotations = rest or None
    if len(_encode(entry)) >= PLAIN_ENTRY_BYTES and isinstance(entry.meta, dict):
        entry.meta = {name: value for name, value in entry.meta.items() if name != TOKENS} or None


def skills_result(skills: Iterable[Skill], next_cursor: str | None, ttl_ms: int, era: Era) -> object:
    """Return a page of the skills."""
    spelled: dict[str, object] = {"skills": [_skill(skill) for skill in skills]}
    if next_cursor is not None:
        spelled["nextCursor"] = next_cursor
    return _cacheable(spelled, ttl_ms, era)


def skill_result(skill: Skill, ttl_ms: int, era: Era) -> object:
    """Return one skill."""
    return _cacheable({"skill": _skill(skill)}, ttl_ms, era)


def _skill(skill: Skill) -> dict[str, object]:
    files = [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in skill.files]
    spelled: dict[str, object] = {"uri": skill.uri, "frontmatter": dict(skill.frontmatter), "resources": files}
    return {**spelled, "_meta": dict(skill.meta)} if skill.meta else spelled


def fly_list_result(page: Page, total: int, number: int, page_size: int, era: Era) -> object:
    """Return a page of the list with the fields of the Fly documents added."""
    result, _ = _list_result(page, era)
    result.items = [_item(entry) for entry in page.entries]
    result.total, result.page, result.page_size = total, number, page_size
    return result


def _item(entry: Resource) -> dict[str, object]:
    """Return an entry in the form of the Fly documents; an unknown size is left out."""
    item: dict[str, object] = {"uri": entry.uri} if entry.size is None else {"uri": entry.uri, "size": entry.size}
    entries = (entry.meta or {}).get("dev.carrel/entries")
    return item if entries is None else {**item, "entries": entries}


def _list_result(page: Page, era: Era) -> tuple[_ListResult, bool]:
    """Return a page of the list, and whether an entry has no description: a second look would take a tenth as long."""
    missing: str | None = None
    result = _ListResult(
        resources=[
            # One expression: a function call for each entry would take half as long again.
            _Resource(
                entry.uri,
                entry.name,
                entry.title and (entry.title if entry.title != entry.name else ""),
                entry.description or (missing := ""),
                entry.mime_type,
                entry.size,
                None if entry.annotations is None else _annotations(entry.annotations),
                dict(entry.meta) if entry.meta else None,
            )
            for entry in page.entries
        ],
        next_cursor=UNSET if page.next_cursor is None else page.next_cursor,
    )
    if era is Era.MODERN:
        result.result_type, result.meta = "complete", _RAW_META
        result.ttl_ms, result.cache_scope = page.ttl_ms, page.cache_scope
    return result, missing is not None


def _annotations(annotations: Annotations) -> dict[str, object]:
    spelled: dict[str, object] = {}
    if annotations.audience:
        spelled["audience"] = annotations.audience
    if annotations.priority is not None:
        spelled["priority"] = annotations.priority
    if annotations.last_modified_ms is not None:
        spelled["lastModified"] = iso(annotations.last_modified_ms)
    return spelled


def templates_result(templates: Iterable[Template], next_cursor: str | None, ttl_ms: int, era: Era) -> object:
    """Return a page of the templates."""
    result = _TemplatesResult(
        resource_templates=[
            _Template(
                template.uri_template,
                template.name,
                template.title or UNSET,
                template.description or UNSET,
                template.mime_type or UNSET,
                UNSET if template.annotations is None else _annotations(template.annotations),
            )
            for template in templates
        ],
        next_cursor=UNSET if next_cursor is None else next_cursor,
    )
    if era is Era.MODERN:
        result.result_type, result.meta = "complete", _RAW_META
        result.ttl_ms, result.cache_scope = ttl_ms, "private"
    return result


def completion_result(completion: Completion, era: Era) -> object:
    """Return the result of a completion."""
    spelled: dict[str, object] = {"values": completion.values}
    if completion.total is not None:
        spelled["total"] = completion.total
    if completion.has_more is not None:
        spelled["hasMore"] = completion.has_more
    return _plain({"completion": spelled}, era)


def tools_result(tools: Iterable[Tool], ttl_ms: int, era: Era) -> object:
    """Return the list of tools."""
    return _cacheable({"tools": [_tool(tool, era) for tool in tools]}, ttl_ms, era)


def _tool(tool: Tool, era: Era) -> dict[str, object]:
    spelled: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.title:
        spelled["title"] = tool.title
    spelled["inputSchema"] = dict(tool.input_schema)
    if tool.output_schema is not None and (era is Era.MODERN or tool.output_schema.get("type") == "object"):
        spelled["outputSchema"] = dict(tool.output_schema)
    spelled["annotations"] = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive and not tool.read_only,
        "idempotentHint": tool.idempotent,
        "openWorldHint": tool.open_world,
    }
    if tool.meta:
        spelled["_meta"] = dict(tool.meta)
    return spelled


def call_result(result: ToolResult, era: Era) -> object:
    """Return the result of a tool call."""
    spelled: dict[str, object] = {"content": [_block(block) for block in result.blocks]}
    if result.structured is not None and (era is Era.MODERN or isinstance(result.structured, dict)):
        spelled["structuredContent"] = result.structured
    if result.is_error:
        spelled["isError"] = True
    return _plain(spelled, era, result.meta)


def _block(block: str | ResourceLink) -> dict[str, str]:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    spelled = {"type": "resource_link", "uri": block.uri, "name": block.name}
    if block.description:
        spelled["description"] = block.description
    if block.mime_type:
        spelled["mimeType"] = block.mime_type
    return spelled


def initialize_result(version: str, capabilities: Mapping[str, object], instructions: str) -> object:
    """Return the result of `initialize`."""
    spelled = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": SERVER_INFO}
    return {**spelled, "instructions": instructions} if instructions else spelled


def discover_result(capabilities: Mapping[str, object], instructions: str) -> object:
    """Return the result of `server/discover`."""
    spelled = _plain(
        {
            "supportedVersions": list(eras.VERSIONS.modern),
            "capabilities": capabilities,
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "private",
        },
        Era.MODERN,
    )
    return {**spelled, "instructions": instructions} if instructions else spelled


def empty_result(era: Era) -> object:
    """Return a result without content."""
    return _plain({}, era)


def listen_result(subscription: object) -> object:
    """Return the result that ends a subscription."""
    return _plain({}, Era.MODERN, {eras.SUBSCRIPTION_KEY: subscription})


def acknowledged(subscription: Key, wanted: Filter, honoured: list[str], *, tools: bool) -> bytes:
    """Return the first message of a subscription: what it will report."""
    kinds: dict[str, object] = {}
    if wanted.resources_list_changed:
        kinds["resourcesListChanged"] = True
    if wanted.tools_list_changed and tools:
        kinds["toolsListChanged"] = True
    if wanted.resource_subscriptions:
        kinds["resourceSubscriptions"] = honoured
    params = {"notifications": kinds, "_meta": {eras.SUBSCRIPTION_KEY: subscription}}
    return notification("notifications/subscriptions/acknowledged", params)


def changed(uri: str, subscription: Key | None = None) -> bytes:
    """Return the notification that a resource changed or, with an empty URI, the list."""
    method = "notifications/resources/updated" if uri else "notifications/resources/list_changed"
    return _change(method, {"uri": uri} if uri else {}, subscription)


def tools_changed(subscription: Key | None = None) -> bytes:
    """Return the notification that the tools changed."""
    return _change("notifications/tools/list_changed", {}, subscription)


def _change(method: str, params: dict[str, object], subscription: Key | None) -> bytes:
    meta = {} if subscription is None else {"_meta": {eras.SUBSCRIPTION_KEY: subscription}}
    return notification(method, {**params, **meta})


def _cacheable(spelled: dict[str, object], ttl_ms: int, era: Era) -> dict[str, object]:
    """Return a result with cache hints, which the legacy era does not have."""
    result = _plain(spelled, era)
    return {**result, "ttlMs": ttl_ms, "cacheScope": "private"} if era is Era.MODERN else result


def _plain(spelled: dict[str, object], era: Era, meta: Mapping[str, object] | None = None) -> dict[str, object]:
    if era is Era.MODERN:
        return {**spelled, "resultType": "complete", "_meta": {**(meta or {}), **_META}}
    return {**spelled, "_meta": dict(meta)} if meta else spelled
