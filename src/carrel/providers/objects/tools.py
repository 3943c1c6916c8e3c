"""Methods as tools: a schema from the signature, arguments checked against it, results made into blocks."""

import enum
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from carrel.core.errors import echo
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.record import Value
from carrel.providers.objects.conversion import InvalidResult, Listed, as_failure, as_json, as_list, is_encodable

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_KINDS: Final[Mapping[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TIMES: Final[Mapping[Any, str]] = {datetime: "date-time", date: "date"}
_HIDDEN: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ARGUMENT: Final = re.compile(r"\s*\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


class Method(Value, frozen=True):
    """A tool as it is offered, and the method behind it."""

    tool: Tool
    method: str | Callable[..., object]
    parameters: Mapping[str, tuple[Any, bool]]
    """For each parameter its annotation, and whether it must be given."""

    def function(self, owner: object) -> Callable[..., object]:
        """Return what is called: the method of the object, or the function itself."""
        called = getattr(owner, self.method) if isinstance(self.method, str) else self.method
        assert callable(called)
        return called


# Offering


def methods(given: object, owner: object) -> Listed:
    """Read the list that `tools` gave."""
    found: dict[str, Method] = {}
    faults: list[str] = []
    for number, one in enumerate(as_list(given, "tools()")):
        try:
            method = _method(one, owner)
            if method.tool.name in found:
                raise InvalidResult(f"{method.tool.name} stands there twice")
            found[method.tool.name] = method
        except (InvalidResult, AttributeError) as error:
            why = str(error) if isinstance(error, InvalidResult) else "it has not the attributes of a tool"
            faults.append(f"entry {number} of tools() is left out: {why}")
    return Listed(tuple(found.values()), tuple(faults))


def _method(named: Any, owner: object) -> Method:
    name, method = named.name, named.method
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidResult("its name is not 1 to 128 of A-Z a-z 0-9 _ . -")
    if isinstance(method, str) and method.startswith("_"):
        raise InvalidResult(f"the method of {name} is none that may be called")
    called = getattr(owner, method, None) if isinstance(method, str) else method
    if not callable(called):
        raise InvalidResult(f"{name} names the method {echo(str(method))}, which is not there")
    described = _described(inspect.getdoc(called) or "")
    properties: dict[str, object] = {}
    parameters: dict[str, tuple[Any, bool]] = {}
    hints = hints_of(called)
    for parameter in _parameters(called):
        kind = hints.get(parameter.name, Any)
        schema = schema_of(kind)
        if parameter.name in described:
            schema = {**schema, "description": described[parameter.name]}
        properties[parameter.name] = schema
        parameters[parameter.name] = kind, parameter.default is inspect.Parameter.empty
    required = [name for name, (_, is_required) in parameters.items() if is_required]
    title = getattr(named, "title", "")
    read_only = getattr(named, "read_only", False) is True
    schema = _object_schema(properties, required)
    tool = Tool(name, described[""], schema, title=title if isinstance(title, str) else "", read_only=read_only)
    return Method(tool, method, parameters)


def _parameters(called: Any) -> list[inspect.Parameter]:
    try:
        every = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in every if one.kind not in _HIDDEN]


def hints_of(called: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(called if inspect.isroutine(called) else type(called).__call__)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _described(doc: str) -> dict[str, str]:
    """Give the first paragraph, under the empty name, and what `Args:` says of each parameter."""
    first, _, rest = doc.partition("\n\n")
    found = {"": " ".join(first.split()) if is_encodable(first) else ""}
    _, _, section = f"\n{doc}".partition("\nArgs:\n")
    last = ""
    for line in section.splitlines() if rest or section else ():
        if line and not line[0].isspace():
            break
        argument = _ARGUMENT.fullmatch(line)
        if argument is not None:
            last = argument[1]
            found[last] = argument[2].strip()
        elif last and line.strip():
            found[last] += f" {line.strip()}"
    return found


def schema_of(kind: Any, within: tuple[type, ...] = ()) -> dict[str, Any]:
    """Give the JSON Schema of an annotation; of an unknown one, that which takes anything.

    `within` are the dataclasses whose fields these are: one that holds itself is not looked into twice.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _KINDS:
        return {"type": _KINDS[kind]}
    if kind in _TIMES:
        return {"type": "string", "format": _TIMES[kind]}
    if kind is list or origin is list:
        return {"type": "array", "items": schema_of(inner[0], within)} if inner else {"type": "array"}
    if kind is dict or origin is dict or kind in within:
        return {"type": "object"}
    choices = choices_of(kind)
    if choices is not None:
        return {"enum": [sent for sent, _ in choices]}
    if isinstance(kind, type) and is_dataclass(kind):
        members = {name: schema_of(hint, (*within, kind)) for name, (hint, _) in _members(kind).items()}
        return _object_schema(members, [name for name, (_, is_required) in _members(kind).items() if is_required])
    if _or_none(kind) is not None:
        return {"anyOf": [schema_of(_or_none(kind), within), {"type": "null"}]}
    return {}


def _object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _members(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields that a dataclass is built from: the annotation of each, and whether it must be given."""
    hints = hints_of(kind.__init__)
    return {
        field.name: (hints.get(field.name, Any), field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
        if field.init
    }


def _or_none(kind: Any) -> Any:
    """Give the X of `X | None`."""
    if get_origin(kind) not in (Union, UnionType):
        return None
    others = [part for part in get_args(kind) if part is not NoneType]
    return others[0] if len(others) == 1 and len(get_args(kind)) == 2 else None


# Calling


def fitted(method: Method, arguments: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Give the declared parameters as the method wants them, or say which one is wrong."""
    values: dict[str, object] = {}
    for name, (kind, is_required) in method.parameters.items():
        if name in arguments:
            try:
                values[name] = fit(kind, arguments[name])
            except (TypeError, ValueError):
                return {}, f"Invalid argument: {name} must be {in_words(kind)}"
        elif is_required:
            return {}, f"Missing argument: {name}"
    return values, ""


_JSON_SCALAR: Final = re.compile(r"true|false|-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")


def is_text_kind(kind: Any) -> bool:
    """Return whether a text in a URI can become a value of this annotation."""
    plain = _or_none(kind) or kind
    return plain in _KINDS or plain in _TIMES or plain in (Any, object) or choices_of(plain) is not None


def fit_text(kind: Any, text: str) -> object:
    """Return the value that a text in a URI means for an annotation; raise TypeError or ValueError if it means none."""
    try:
        return fit(kind, text)
    except (TypeError, ValueError):
        if not _JSON_SCALAR.fullmatch(text):
            raise
        return fit(kind, json.loads(text))


def fit(kind: Any, value: object) -> object:
    """Give a JSON value as an annotation wants it, or raise TypeError or ValueError."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _KINDS or kind in _TIMES:
        return _fit_plain(kind, value)
    if kind is list or origin is list:
        if not isinstance(value, list):
            raise TypeError
        return [fit(inner[0], one) for one in value] if inner else value
    if kind is dict or origin is dict:
        if not isinstance(value, dict):
            raise TypeError
        return value
    choices = choices_of(kind)
    if choices is not None:
        return _chosen(choices, value)
    if isinstance(kind, type) and is_dataclass(kind):
        return _fit_record(kind, value)
    if _or_none(kind) is not None:
        return None if value is None else fit(_or_none(kind), value)
    return value


def _fit_record(kind: type, value: object) -> object:
    if not isinstance(value, dict):
        raise TypeError
    members = _members(kind)
    missing = [name for name, (_, is_required) in members.items() if is_required and name not in value]
    if missing:
        raise ValueError
    return kind(**{name: fit(hint, value[name]) for name, (hint, _) in members.items() if name in value})


def _fit_plain(kind: Any, value: object) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in _TIMES and isinstance(value, str):
        return kind.fromisoformat(value)
    if type(value) is not kind:
        raise TypeError
    return value


def choices_of(kind: Any) -> list[tuple[object, object]] | None:
    """Give what may be sent and what the method gets for it, where there is a choice of these."""
    if get_origin(kind) is Literal:
        return [(one, one) for one in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return [(member.value, member) for member in kind]
    return None


def _chosen(choices: list[tuple[object, object]], value: object) -> object:
    for sent, got in choices:
        if type(sent) is type(value) and sent == value:
            return got
    raise ValueError


def in_words(kind: Any) -> str:
    schema = schema_of(kind)
    choices = choices_of(kind)
    if choices is not None:
        return "one of " + ", ".join(json.dumps(sent, default=str) for sent, _ in choices)
    if "anyOf" in schema:
        return f"{in_words(_or_none(kind))} or null"
    if schema.get("format"):
        return f"a string with a {schema['format']} of ISO 8601"
    article = "an" if schema.get("type", "")[:1] in ("a", "i", "o") else "a"
    return f"{article} {schema.get('type', 'value')}"


# Results


def result(given: Any) -> ToolResult:
    """Make a tool's result of what a method gave."""
    if isinstance(given, str):
        return ToolResult((_block(given),))
    if given is None:
        return ToolResult(("Success",))
    failure = None if isinstance(given, dict) else as_failure(given)
    if failure is not None:
        return ToolResult((failure.message or "Tool execution failed",), is_error=True)
    if isinstance(given, list | tuple) and all(_is_block(one) for one in given):
        return ToolResult(tuple(_block(one) for one in given))
    if isinstance(given, dict):
        return _structured(given, ())
    if hasattr(given, "value") and hasattr(given, "items"):
        return _structured(given.value, given.items)
    plain = as_json(given)
    return ToolResult((_spelled(plain),), plain if isinstance(plain, dict) else {"result": plain})


def _structured(value: object, items: object) -> ToolResult:
    if not isinstance(items, list | tuple) or not all(_is_block(one) for one in items):
        raise InvalidResult("a tool gave items that are neither texts nor links")
    plain = as_json(value)
    return ToolResult(tuple(_block(one) for one in items) or (_spelled(plain),), plain)


def _is_block(one: object) -> bool:
    return isinstance(one, str) or (hasattr(one, "uri") and hasattr(one, "name"))


def _block(one: Any) -> str | ResourceLink:
    if isinstance(one, str):
        if not is_encodable(one):
            raise InvalidResult("a tool gave a text with a lone surrogate")
        return one
    parts = (one.uri, one.name, getattr(one, "description", None), getattr(one, "mime_type", None))
    if not all(isinstance(part, str) for part in parts[:2]):
        raise InvalidResult("a tool gave a link without a URI or a name")
    return ResourceLink(*as_json(parts))


def _spelled(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
