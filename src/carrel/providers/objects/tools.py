"""Methods and functions as tools: a schema from the signature, arguments checked against it, results as blocks."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, Final, get_args, get_type_hints

from carrel.core.arguments import Argument, Schema, convert, schema_of
from carrel.core.errors import echo
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.record import Value
from carrel.providers.objects.conversion import InvalidResult, Listed, as_failure, as_json, check_entries, is_encodable

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_DATE_TIME: Final = Annotated[datetime, Argument(extra_json_schema={"format": "date-time"})]
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ARGUMENT: Final = re.compile(r"\s*\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


class OfferedTool(Value, frozen=True):
    """A tool as clients see it, and the method or function that it calls."""

    tool: Tool
    method: str | Callable[..., object]
    parameters: Mapping[str, tuple[object, bool]]
    """For each parameter its annotation, and whether it is required."""

    def function(self, owner: object) -> Callable[..., object]:
        """Return what is called: the method of the object, or the function itself."""
        called: Callable[..., object] = getattr(owner, self.method) if isinstance(self.method, str) else self.method
        return called

    def check(self, arguments: Mapping[str, object]) -> tuple[dict[str, object], str]:
        """Return the declared arguments as the function wants them, or a message about the first wrong one."""
        values: dict[str, object] = {}
        for name, (kind, is_required) in self.parameters.items():
            if name in arguments:
                try:
                    values[name] = convert(kind, arguments[name])
                except ValueError as error:
                    return {}, f"Invalid argument: {name} ({error})"
            elif is_required:
                return {}, f"Missing argument: {name}"
        return values, ""


# Offering


def offered_tools(given: object, owner: object) -> Listed:
    """Return the list that `tools()` gave."""
    return check_entries(given, "tools()", partial(_offered, owner=owner), lambda one: one.tool.name, noun="a tool")


def _offered(named: Any, owner: object) -> OfferedTool:
    name, method = named.name, named.method
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidResult("its name is not 1 to 128 of A-Z a-z 0-9 _ . -")
    if isinstance(method, str) and method.startswith("_"):
        raise InvalidResult(f"{name} names a private method")
    called = getattr(owner, method, None) if isinstance(method, str) else method
    if not callable(called):
        raise InvalidResult(f"{name} names the method {echo(str(method))}, which does not exist")
    described = _described(inspect.getdoc(called) or "")
    properties: dict[str, Schema] = {}
    parameters: dict[str, tuple[object, bool]] = {}
    hints = hints_of(called)
    for parameter in _parameters(called):
        kind, schema = _kind_and_schema(hints.get(parameter.name, Any))
        about = {"description": described[parameter.name]} if parameter.name in described else {}
        properties[parameter.name] = {**schema, **about}
        parameters[parameter.name] = kind, parameter.default is inspect.Parameter.empty
    required = [name for name, (_, is_required) in parameters.items() if is_required]
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    title = getattr(named, "title", "")
    read_only = getattr(named, "read_only", False) is True
    tool = Tool(name, described[""], schema, title=title if isinstance(title, str) else "", read_only=read_only)
    return OfferedTool(tool, method, parameters)


def _kind_and_schema(kind: object) -> tuple[object, Schema]:
    """Return an annotation and its JSON Schema; for a class that JSON does not have, one that allows every value."""
    if kind is datetime or datetime in get_args(kind):
        # Without a time zone, too, it is a date-time; the schema would not say so.
        kind = reduce(or_, (_DATE_TIME if one is datetime else one for one in get_args(kind) or (kind,)))
    try:
        return kind, schema_of(kind)
    except (TypeError, NameError):
        return Any, {}


def _parameters(called: Any) -> list[inspect.Parameter]:
    try:
        every = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in every if one.kind not in _VARIADIC]


def hints_of(called: Any) -> Mapping[str, Any]:
    """Return the annotations of a function or method; none if they cannot be evaluated."""
    try:
        return get_type_hints(called if inspect.isroutine(called) else type(called).__call__)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _described(doc: str) -> dict[str, str]:
    """Return the first paragraph, under the empty name, and the text about each parameter under `Args:`."""
    first = doc.partition("\n\n")[0]
    found = {"": " ".join(first.split()) if is_encodable(first) else ""}
    last = ""
    for line in f"\n{doc}".partition("\nArgs:\n")[2].splitlines():
        if line and not line[0].isspace():
            break
        argument = _ARGUMENT.fullmatch(line)
        if argument is not None:
            last = argument[1]
            found[last] = argument[2].strip()
        elif last and line.strip():
            found[last] += f" {line.strip()}"
    return found


# Results


def result(given: Any) -> ToolResult:
    """Return the result of a tool call for the value that its function returned."""
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
        raise InvalidResult("a tool returned items that are neither texts nor links")
    plain = as_json(value)
    return ToolResult(tuple(_block(one) for one in items) or (_spelled(plain),), plain)


def _is_block(one: object) -> bool:
    return isinstance(one, str) or (hasattr(one, "uri") and hasattr(one, "name"))


def _block(one: Any) -> str | ResourceLink:
    if isinstance(one, str):
        if not is_encodable(one):
            raise InvalidResult("a tool returned a text with a lone surrogate")
        return one
    parts = (one.uri, one.name, getattr(one, "description", None), getattr(one, "mime_type", None))
    if not all(isinstance(part, str) for part in parts[:2]):
        raise InvalidResult("a tool returned a link without a URI or a name")
    return ResourceLink(*as_json(parts))


def _spelled(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
