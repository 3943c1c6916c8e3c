"""The values that an object returns, checked and converted to those of the model.

Values are recognised by their attributes, so that an object need not import Carrel. All of this runs inside the
boundary of `calls`, since reading an attribute may run foreign code too.
"""

import base64
import binascii
import enum
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from typing import Any, Final, Literal, TypeVar

from carrel.core.content import without_reserved
from carrel.core.errors import BadArgument, CarrelError, TemplateError, echo
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Annotations, Blob, Completion, Item, Meta, Resource, Stored, Template, Text
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.uri import decode, is_text, normalise, pairs, quote, scheme_of, split_query
from carrel.providers.objects.protocol import Failure

MAX_DEPTH: Final = 32
"""Levels of nested JSON; a value that contains itself is refused at this depth."""

MAX_INTEGER_BITS: Final = 14_000
"""Python converts integers of at most 4,300 digits to text."""

MAX_FAILURE: Final = 200
_SPACE: Final = re.compile(r"\s")
_ROLES: Final = frozenset({"user", "assistant"})
_ABSENT: Final = object()
_Kind = TypeVar("_Kind")


class InvalidResult(CarrelError):
    """An object returned a value that cannot be served; the message is for its author."""


class Listed(Value, frozen=True):
    """The valid entries of a list, by URI or template, and what is wrong with the others.

    `outcome` is `late` if no list came in time, `failed` if the method raised or returned no list.
    """

    entries: tuple[Any, ...]
    faults: tuple[str, ...] = ()
    outcome: Literal["given", "late", "failed"] = "given"


# Lists


def facet_names(given: object) -> tuple[str, ...]:
    """Return the capabilities."""
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise InvalidResult("capabilities() returned no list of texts")
    return tuple(given)


def resources(given: object) -> Listed:
    """Return the list that `resources()` gave, in URI order."""
    listed = check_entries(given, "resources()", resource, lambda one: one.uri, identity=normalise)
    return replace(listed, entries=tuple(sorted(listed.entries, key=lambda one: one.uri)))


def templates(given: object) -> Listed:
    """Return the list that `resource_templates()` gave, in order."""
    listed = check_entries(given, "resource_templates()", template, lambda one: one.uri_template)
    return replace(listed, entries=tuple(sorted(listed.entries, key=lambda one: one.uri_template)))


def check_entries(
    given: object,
    what: str,
    read: Callable[[object], _Kind],
    name: Callable[[_Kind], str],
    *,
    noun: str = "an entry",
    identity: Callable[[str], str] = str,
) -> Listed:
    """Return the valid entries of a list; `read` converts one. The `identity` of names must differ."""
    if not isinstance(given, list | tuple):
        raise InvalidResult(f"{what} returned no list")
    found: dict[str, _Kind] = {}
    faults: list[str] = []
    for number, one in enumerate(list(given)):  # a copy, which cannot change meanwhile
        try:
            entry = read(one)
            spelled = name(entry)
            if identity(spelled) in found:
                raise InvalidResult(f"{echo(spelled)} is listed twice")
            found[identity(spelled)] = entry
        except (InvalidResult, AttributeError) as error:
            why = str(error) if isinstance(error, InvalidResult) else f"it does not have the attributes of {noun}"
            faults.append(f"entry {number} of {what} is left out: {why}")
    return Listed(tuple(found.values()), tuple(faults))


def resource(one: Any) -> Resource:
    """Return an entry of the list."""
    size = getattr(one, "size", None)
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise InvalidResult("its size is not a whole number")
    annotations = _annotations(getattr(one, "annotations", None))
    return Resource(
        check_uri(one.uri), *_described(one), title=_optional(one, "title"), annotations=annotations, size=size
    )


def template(one: Any) -> Template:
    """Return a template."""
    text = _text(one.uri_template, "uri_template")
    try:
        parsed = UriTemplate(text)
    except TemplateError as error:
        raise InvalidResult(echo(str(error))) from None
    if parsed.is_fixed:
        raise InvalidResult(f"{echo(text)} has no variable; list it as a resource")
    annotations = _annotations(getattr(one, "annotations", None))
    return Template(text, *_described(one), title=_optional(one, "title"), annotations=annotations)


def check_uri(given: object) -> str:
    """Return a URI that may be listed: absolute, well-formed, without a fragment or white space."""
    uri = _absolute(given)
    if _SPACE.search(uri):
        raise InvalidResult(f"{echo(uri)} has white space; a space is spelled %20")
    if "#" in uri:
        raise InvalidResult(f"{echo(uri)} has a fragment")
    return uri


def _absolute(given: object) -> str:
    uri = _text(given, "uri")
    try:
        scheme_of(uri)
        decode(uri)
        pairs(split_query(uri)[1] or "")
    except BadArgument as error:
        raise InvalidResult(error.message) from None
    return uri


def _described(one: Any) -> tuple[str, str, str]:
    """Return the name, description and MIME type of an entry."""
    name = _text(one.name, "name")
    if not name:
        raise InvalidResult("its name is empty")
    return name, _optional(one, "description"), _optional(one, "mime_type")


def _optional(one: Any, name: str) -> str:
    given = getattr(one, name, None)
    return "" if given is None else _text(given, name)


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidResult(f"its {what} is not a text")
    text = str.__str__(given)
    if not is_encodable(text):
        raise InvalidResult(f"its {what} has a lone surrogate")
    return text


def is_encodable(text: str) -> bool:
    """Return whether a text can be sent as UTF-8."""
    return text.isascii() or is_text(text.replace("\0", ""))


def _annotations(given: Any) -> Annotations | None:
    if given is None:
        return None
    audience = tuple(getattr(given, "audience", None) or ())
    priority = getattr(given, "priority", None)
    modified = getattr(given, "last_modified_ms", None)
    if not all(isinstance(role, str) and role in _ROLES for role in audience):
        raise InvalidResult("its audience is neither user nor assistant")
    if priority is not None and not (isinstance(priority, int | float) and 0 <= priority <= 1):
        raise InvalidResult("its priority is not a number from 0 to 1")
    if modified is not None and (not isinstance(modified, int) or isinstance(modified, bool)):
        raise InvalidResult("its last_modified_ms is not a whole number")
    return Annotations(audience, None if priority is None else float(priority), modified)


# Contents


def contents(given: Any, read: str, is_ours: Callable[[str], bool]) -> tuple[Item, ...] | Failure | None:
    """Return the items that `resource_read` gave for the URI `read`."""
    if given is None:
        return None
    failure = as_failure(given)
    if failure is not None:
        return failure
    items = getattr(given, "items", None)
    if not isinstance(items, list | tuple):
        raise InvalidResult("resource_read() returned no Contents")
    return tuple(_item(one, read, is_ours) for one in list(items))


def as_failure(given: Any) -> Failure | None:
    """Return a value as a failure, with its message on one line and cut; None if it is not one."""
    message = getattr(given, "message", _ABSENT)
    if message is _ABSENT or isinstance(given, BaseException) or hasattr(given, "items"):
        return None
    if is_dataclass(given) and [field.name for field in fields(given)] != ["message"]:
        return None  # a record that happens to have a message
    return Failure(echo(" ".join(_text(message, "message").split())[:MAX_FAILURE]))


def _item(one: Any, read: str, is_ours: Callable[[str], bool]) -> Item:
    if isinstance(one, Text | Blob | Stored):
        if isinstance(one, Text):
            _text(one.text, "text")
        return one if one.uri is None else replace(one, uri=_item_uri(one.uri, read, is_ours))
    text, data = getattr(one, "text", _ABSENT), getattr(one, "base64_data", _ABSENT)
    if not hasattr(one, "uri") or (text is _ABSENT) == (data is _ABSENT):
        raise InvalidResult("an item is neither a TextContent nor a BlobContent")
    uri = _item_uri(one.uri, read, is_ours)
    mime_type, meta = _optional(one, "mime_type"), _meta(getattr(one, "meta", None))
    if text is not _ABSENT:
        return Text(_text(text, "text"), mime_type, uri=uri, meta=meta)
    return Blob(_decoded(data), mime_type, uri=uri, meta=meta)


def _item_uri(given: object, read: str, is_ours: Callable[[str], bool]) -> str | None:
    """Return the URI of an item, None if it is the one that was read; raise InvalidResult for a foreign one."""
    # A client may have asked with raw spaces, and the object repeats them.
    uri = check_uri(_SPACE.sub(lambda space: quote(space[0]), _absolute(given)))
    if normalise(uri) == normalise(read):
        return None
    if not _is_beneath(uri, read) and not is_ours(uri):
        raise InvalidResult(f"an item has the foreign URI {echo(uri)}")
    return uri


def _is_beneath(uri: str, read: str) -> bool:
    folder = normalise(split_query(read)[0]).rstrip("/") + "/"
    path = normalise(split_query(uri)[0])
    return path.startswith(folder) and not {".", ".."} & set(path[len(folder) :].split("/"))


def _decoded(data: object) -> bytes:
    if not isinstance(data, str):
        raise InvalidResult("its base64_data is not a text")
    try:
        decoded = base64.b64decode(data.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise InvalidResult("its base64_data is not base64") from None
    if base64.b64encode(decoded) != data.encode("ascii"):
        raise InvalidResult("its base64_data is not strict base64")
    return decoded


def _meta(given: object) -> Meta | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidResult("its meta is not a JSON object")
    return without_reserved(as_json(given))


# Completions and JSON


def completion(given: Any) -> Completion:
    """Return the values that `completion` gave."""
    values = given if isinstance(given, list | tuple) else getattr(given, "values", None)
    if not isinstance(values, list | tuple) or not all(isinstance(one, str) and is_encodable(one) for one in values):
        raise InvalidResult("completion() returned no list of texts")
    is_plain = isinstance(given, list | tuple)
    total = len(values) if is_plain else getattr(given, "total", None)
    has_more = False if is_plain else getattr(given, "has_more", None)
    if total is not None and (not isinstance(total, int) or isinstance(total, bool) or total < 0):
        raise InvalidResult("its total is not a whole number")
    if has_more is not None and not isinstance(has_more, bool):
        raise InvalidResult("its has_more is neither true nor false")
    return Completion(tuple(values[:MAX_COMPLETIONS]), total, has_more or len(values) > MAX_COMPLETIONS)


def as_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value as plain JSON: dataclasses as objects, times in ISO 8601; raise InvalidResult for any other."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or (isinstance(value, str) and is_encodable(value)):
        return value
    if isinstance(value, int) and value.bit_length() <= MAX_INTEGER_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if depth > 0 and isinstance(value, list | tuple):
        return [as_json(one, depth - 1) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if depth > 0 and isinstance(value, dict) and all(isinstance(key, str) and is_encodable(key) for key in value):
        return {key: as_json(one, depth - 1) for key, one in value.items()}
    raise InvalidResult("a value is not JSON")


def sorted_schemes(uris: Sequence[str]) -> tuple[str, ...]:
    """Return the schemes of URIs and templates, each once."""
    return tuple(dict.fromkeys(scheme_of(uri.partition("{")[0]) for uri in uris))
