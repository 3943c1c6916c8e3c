"""The return value of a function as the items of a resource, and the MIME type that it announces."""

import types
from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike, fspath, path
from typing import IO, Any, BinaryIO, Final, Union, get_args, get_origin

from carrel.core.content import close_sources
from carrel.core.errors import ProviderError
from carrel.core.model import Blob, Item, Stored, Text
from carrel.core.record import replace, to_json
from carrel.providers.objects.calls import attempt
from carrel.providers.objects.conversion import InvalidResult
from carrel.providers.objects.local_files import open_path, take_file
from carrel.providers.objects.protocol import Contents, Failure
from carrel.providers.objects.tools import hints_of

JSON: Final = "application/json"
_MAGIC: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b": "application/gzip",
    b"SQLite format 3\0": "application/vnd.sqlite3",
}
_TEXTUAL: Final = ("json", "xml", "yaml", "toml", "javascript", "x-ndjson")
_BY_CONTENT: Final = (bytes, bytearray, memoryview, PathLike, IO, BinaryIO, Text, Blob, Stored, Contents, Failure)
_ALLOWED: Final = "text, bytes, JSON, a path, an open binary file, or a list of these"
_ITEMS: Final = (Text, Blob, Stored, bytes, bytearray, memoryview, PathLike)


def declared_type(function: Callable[..., object]) -> str:
    """Return the MIME type that the return annotation promises; empty if only the value tells."""
    return _type_of(hints_of(function).get("return", Any))


def _type_of(kind: object) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        promised = {_type_of(one) for one in inner if one is not types.NoneType}
        return promised.pop() if len(promised) == 1 else ""
    if kind is str:
        return "text/plain"
    if kind in (Any, object, None, list, tuple):
        return ""
    if origin in (list, tuple):
        return JSON if all(_type_of(one) for one in inner if one is not ...) else ""
    held = origin or kind
    is_by_content = isinstance(held, type) and issubclass(held, (*_BY_CONTENT,))
    return "" if is_by_content or hasattr(held, "readinto") else JSON


def items_of(given: object, mime_type: str, folder: str, label: str) -> tuple[Item, ...]:
    """Return the items of a resource; raise a ProviderError that names the function if there are none to make.

    A list is a list of items if one of them is bytes, a file, a path, a `Text` or a `Blob`; else it is JSON.
    """
    many = given if isinstance(given, list | tuple) and any(_is_item(one) for one in given) else (given,)
    items: list[Item] = []
    with ExitStack() as until_complete:
        until_complete.callback(close_sources, items)
        try:
            items.extend(_item(one, mime_type, folder) for one in many)
        except InvalidResult as error:
            message = f"{label} returned a value that cannot be served; return {_ALLOWED}"
            raise ProviderError(message, word="bad_result") from error
        until_complete.pop_all()
    return tuple(items)


def _is_item(one: object) -> bool:
    return isinstance(one, _ITEMS) or hasattr(one, "read")


def _item(one: Any, mime_type: str, folder: str) -> Item:
    if isinstance(one, Text):
        return replace(one, mime_type=one.mime_type or mime_type or "text/plain")
    if isinstance(one, Blob):
        return replace(one, mime_type=one.mime_type or mime_type or _sniffed(one.data))
    if isinstance(one, Stored):
        return one
    if isinstance(one, str):
        return Text(one, mime_type or "text/plain")
    if isinstance(one, bytes | bytearray | memoryview):
        return _from_bytes(bytes(one), mime_type)
    if isinstance(one, PathLike):
        return open_path(path.join(folder, path.expanduser(fspath(one))), mime_type)
    if hasattr(one, "read"):
        return take_file(one, mime_type)
    text, error = attempt(lambda: to_json(one).decode())
    if error is not None or one is None:
        raise InvalidResult(f"a value of the class {type(one).__name__} is not JSON") from error
    return Text(text, mime_type or JSON)


def _from_bytes(data: bytes, mime_type: str) -> Text | Blob:
    if mime_type.startswith("text/") or mime_type.endswith(_TEXTUAL):
        try:
            return Text(data.decode(), mime_type)
        except UnicodeDecodeError:
            pass
    return Blob(data, mime_type or _sniffed(data))


def _sniffed(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _MAGIC.items() if data.startswith(start)), "application/octet-stream")
