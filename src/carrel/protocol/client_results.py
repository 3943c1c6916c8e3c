"""Decode the results of another server.

The counterpart of `results`. A result that cannot be used raises `ProviderError` with the word `bad_result`; a small
mistake (an invalid time, an entry without a name) is left out, because foreign servers make them.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import DecodeError, Raw, Struct

from carrel.core.content import without_reserved
from carrel.core.errors import ProviderError, RemoteError, echo
from carrel.core.isotime import parse_iso
from carrel.core.model import (
    Annotations,
    Blob,
    CacheScope,
    Completion,
    Page,
    Reading,
    Resource,
    ResourceLink,
    Template,
    Text,
    Tool,
    ToolResult,
)
from carrel.protocol.eras import MODERN_VERSION, SERVER_INFO_KEY, UNSUPPORTED_VERSION, VERSIONS

Result = Raw
"""The result of a request, not yet decoded."""


class Opening(Struct, frozen=True):
    """What a server declares when a client connects."""

    version: str
    capabilities: dict[str, object] = {}
    server_info: dict[str, object] = {}
    instructions: str = ""


class _Received(Struct, rename="camel"):
    pass


class _ReceivedError(Struct):
    code: int
    message: str
    data: object = None


class _ReceivedResult(_Received, kw_only=True):
    result_type: str = "complete"
    ttl_ms: object = 0
    cache_scope: object = "private"
    next_cursor: str | None = None
    meta: dict[str, object] | None = msgspec.field(default=None, name="_meta")


class _Opening(_ReceivedResult, kw_only=True):
    protocol_version: str = ""
    supported_versions: tuple[str, ...] = ()
    capabilities: dict[str, object]
    server_info: dict[str, object] = {}
    instructions: str | None = None


class _Entry(_Received):
    name: str
    uri: str = ""
    uri_template: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: object = None
    annotations: object = None
    meta: dict[str, object] | None = msgspec.field(default=None, name="_meta")


class _Resources(_ReceivedResult, kw_only=True):
    resources: list[Raw]


class _Templates(_ReceivedResult, kw_only=True):
    resource_templates: list[Raw]


class _ReceivedContents(_Received):
    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = None
    meta: dict[str, object] | None = msgspec.field(default=None, name="_meta")


class _Read(_ReceivedResult, kw_only=True):
    contents: list[_ReceivedContents]


class _Completed(Struct, rename="camel"):
    values: tuple[str, ...]
    total: int | None = None
    has_more: bool | None = None


class _Completion(_ReceivedResult, kw_only=True):
    completion: _Completed


class _Tool(_Received):
    name: str
    input_schema: dict[str, object]
    description: str | None = None
    title: str | None = None
    output_schema: dict[str, object] | None = None
    annotations: dict[str, object] | None = None


class _Tools(_ReceivedResult, kw_only=True):
    tools: list[_Tool]


class _Called(_ReceivedResult, kw_only=True):
    content: list[dict[str, object]]
    structured_content: object = None
    is_error: bool = False


_Kind = TypeVar("_Kind", bound=Struct)
_decode_any: Final = msgspec.json.Decoder().decode


def remote_error(error: Raw) -> RemoteError:
    """Return the error of an answer."""
    received = _as(_ReceivedError, error)
    return RemoteError(received.code, received.message, received.data if isinstance(received.data, dict) else None)


def plain(result: Result) -> object:
    """Return a result as plain JSON values: dictionaries, lists and so on."""
    try:
        return _decode_any(result)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise _malformed() from None


def names_our_version(error: RemoteError) -> bool:
    """Return whether a server that refused the requested version supports the modern one."""
    supported = error.data.get("supported")
    return error.code == UNSUPPORTED_VERSION and isinstance(supported, list) and MODERN_VERSION in supported


def discovered(result: Result) -> Opening:
    """Return the declaration in the answer to `server/discover`."""
    received = _as_result(_Opening, result)
    if MODERN_VERSION not in received.supported_versions:
        raise _unsupported_version(received.supported_versions)
    given = (received.meta or {}).get(SERVER_INFO_KEY)
    server_info = given if isinstance(given, dict) else {}
    return Opening(MODERN_VERSION, received.capabilities, server_info, received.instructions or "")


def initialized(result: Result) -> Opening:
    """Return the declaration in the answer to `initialize`."""
    received = _as_result(_Opening, result)
    if received.protocol_version not in VERSIONS.legacy:
        raise _unsupported_version((received.protocol_version,))
    return Opening(received.protocol_version, received.capabilities, received.server_info, received.instructions or "")


def page(result: Result) -> Page:
    """Return a page of the list. Entries without URI or name are left out."""
    received = _as_result(_Resources, result)
    entries = tuple(_resource(entry) for entry in _entries(received.resources) if entry.uri and entry.name)
    return Page(entries, received.next_cursor, _ttl_ms(received), _cache_scope(received))


def templates(result: Result) -> tuple[tuple[Template, ...], str | None]:
    """Return a page of the templates, and the cursor of the next."""
    received = _as_result(_Templates, result)
    entries = (entry for entry in _entries(received.resource_templates) if entry.uri_template and entry.name)
    return tuple(_template(entry) for entry in entries), received.next_cursor


def reading(result: Result) -> Reading:
    """Return the reading of a read, with the facts in `dev.carrel/*`."""
    received = _as_result(_Read, result)
    meta = without_reserved(received.meta)
    facts = meta or {}
    if len(received.contents) == 1:
        facts = {**facts, **(received.contents[0].meta or {})}
    return Reading(
        tuple(_item(contents) for contents in received.contents),
        etag=_text(facts.get("dev.carrel/etag")),
        last_modified_ms=parse_iso(facts.get("dev.carrel/last-modified")),
        ttl_ms=_ttl_ms(received),
        cache_scope=_cache_scope(received),
        error=_text(facts.get("dev.carrel/error")),
        unchanged=facts.get("dev.carrel/status") == 304,
        meta=meta,
    )


def completion(result: Result) -> Completion:
    """Return the values for a variable."""
    received = _as_result(_Completion, result).completion
    return Completion(received.values, received.total, received.has_more)


def tools(result: Result) -> tuple[tuple[Tool, ...], str | None]:
    """Return a page of the tools, and the cursor of the next."""
    received = _as_result(_Tools, result)
    return tuple(_tool(tool) for tool in received.tools), received.next_cursor


def tool_result(result: Result) -> ToolResult:
    """Return the result of a tool. An embedded resource becomes a link; of an image or sound, only the kind is kept."""
    received = _as_result(_Called, result)
    blocks = tuple(_block(block) for block in received.content)
    meta = without_reserved(received.meta)
    return ToolResult(blocks, received.structured_content, is_error=received.is_error, meta=meta)


def _as(kind: type[_Kind], text: Raw) -> _Kind:
    try:
        return msgspec.json.decode(text, type=kind)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        raise _malformed() from None


def _as_result(kind: type[_Kind], text: Raw) -> _Kind:
    try:
        return _as(kind, text)
    except ProviderError:
        if _as(_ReceivedResult, text).result_type == "input_required":
            raise ProviderError("The server asks for input, but there is no user to ask", word="unavailable") from None
        raise


def _malformed() -> ProviderError:
    return ProviderError("The server's answer is malformed", word="bad_result")


def _unsupported_version(versions: tuple[str, ...]) -> ProviderError:
    message = f"The server's protocol version is not supported: {echo(', '.join(versions))}"
    return ProviderError(message, word="unavailable")


def _entries(received: list[Raw]) -> list[_Entry]:
    entries = []
    for text in received:
        try:
            entries.append(msgspec.json.decode(text, type=_Entry))
        except (DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return entries


def _resource(entry: _Entry) -> Resource:
    return Resource(
        entry.uri,
        entry.name,
        entry.description or "",
        entry.mime_type or "",
        title=entry.title or "",
        annotations=_annotations(entry.annotations),
        size=_count(entry.size),
        meta=entry.meta,
    )


def _template(entry: _Entry) -> Template:
    return Template(
        entry.uri_template,
        entry.name,
        entry.description or "",
        entry.mime_type or "",
        title=entry.title or "",
        annotations=_annotations(entry.annotations),
    )


def _annotations(received: object) -> Annotations | None:
    if not isinstance(received, dict):
        return None
    audience, priority = received.get("audience"), received.get("priority")
    return Annotations(
        tuple(role for role in audience if isinstance(role, str)) if isinstance(audience, list) else (),
        float(priority) if isinstance(priority, int | float) and 0 <= priority <= 1 else None,
        parse_iso(received.get("lastModified")),
    )


def _item(contents: _ReceivedContents) -> Text | Blob:
    if contents.text is not None and contents.blob is None:
        return Text(contents.text, contents.mime_type or "", uri=contents.uri, meta=contents.meta)
    if contents.blob is not None and contents.text is None:
        return Blob(contents.blob, contents.mime_type or "", uri=contents.uri, meta=contents.meta)
    raise _malformed()


def _tool(received: _Tool) -> Tool:
    hints: Mapping[str, object] = received.annotations or {}
    return Tool(
        received.name,
        received.description or "",
        received.input_schema,
        title=received.title or "",
        output_schema=received.output_schema,
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is not False,
        idempotent=hints.get("idempotentHint") is True,
        open_world=hints.get("openWorldHint") is not False,
    )


def _block(received: dict[str, object]) -> str | ResourceLink:
    kind, inner = received.get("type"), received.get("resource")
    if kind == "text":
        return str(received.get("text", ""))
    if kind == "resource" and isinstance(inner, dict):
        return ResourceLink(str(inner.get("uri")), str(inner.get("uri")), None, _text(inner.get("mimeType")))
    if kind == "resource_link":
        description, mime_type = _text(received.get("description")), _text(received.get("mimeType"))
        return ResourceLink(str(received.get("uri")), str(received.get("name")), description, mime_type)
    return f"[{kind}]"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ttl_ms(received: _ReceivedResult) -> int:
    return _count(received.ttl_ms) or 0


def _cache_scope(received: _ReceivedResult) -> CacheScope:
    return "public" if received.cache_scope == "public" else "private"
