"""The variables of a URI template as the parameters of a function: checked once, converted for each read."""

import enum
import inspect
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from typing import Final

from carrel.core.arguments import PARAMETERS, Schema, convert, describe, known_parameters, schema_of
from carrel.core.errors import BadArgument, ConfigError, NotFound, echo
from carrel.core.template import UriTemplate
from carrel.providers.objects.protocol import Pair
from carrel.providers.objects.tools import hints_of

_MAX_SHOWN: Final = 60
_JSON_SCALAR: Final = re.compile(r"true|false|-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_SEPARATOR: Final = re.compile(r"[/\\]")
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Variables:
    """The variables of one template and the parameters of one function."""

    def __init__(self, function: Callable[..., object], label: str, template: UriTemplate) -> None:
        self._template = template
        self.of_path = tuple(name for name in template.variables if name not in template.query_variables)
        hints = hints_of(function)
        self._kinds = {name: hints.get(name, str) for name in template.variables}
        self._schemas = {name: _schema(kind, name, label) for name, kind in self._kinds.items()}
        _check(inspect.signature(function).parameters, label, template)

    def convert(self, uri: str, texts: Mapping[str, str], query: list[Pair]) -> dict[str, object]:
        """Return the arguments of the function; raise NotFound or BadArgument for what no resource can have."""
        if any(_leaves_its_folder(texts[name]) for name in self.of_path):
            raise NotFound(uri)
        given = dict(texts)
        for name, text in query:
            if name not in self._template.query_variables:
                own = [name for name in self._template.variables if name not in self.of_path]
                known = known_parameters(own, PARAMETERS)
                raise BadArgument(f"Invalid parameter: {echo(name)} ({known})")
            if name in given:
                raise BadArgument(f"Invalid parameter: {name} (given twice)")
            given[name] = text
        return {name: self._value(name, text) for name, text in given.items()}

    def _value(self, name: str, text: str) -> object:
        kind = self._kinds[name]
        # A text is a string, or the number, true or false that it spells.
        for value in (text, *([json.loads(text)] if _JSON_SCALAR.fullmatch(text) else ())):
            with suppress(ValueError):
                return convert(kind, value)
        shown = echo(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…")
        raise BadArgument(f"Invalid parameter: {name}={shown} (expected {describe(self._schemas[name])})")

    def choices(self, name: str) -> list[object]:
        """Return the values that the annotation of a variable allows, if it names them."""
        schema = self._schemas.get(name, {})
        choices = [True, False] if schema.get("type") == "boolean" else schema.get("enum")
        return choices if isinstance(choices, list) else []

    def texts_of(self, value: object) -> dict[str, str]:
        """Return the texts of the variables that one value of `entries=` stands for; raise ValueError if it does not.

        A value is a mapping by name, or the values in the order of the template; the value itself if there is one.
        """
        names = self.of_path or self._template.variables
        if isinstance(value, Mapping):
            return {name: spell(value[name]) for name in self._template.variables if name in value}
        values = (value,) if len(names) == 1 else tuple(value) if isinstance(value, list | tuple) else ()
        return {name: spell(one) for name, one in zip(names, values, strict=True)}


def _schema(kind: object, name: str, label: str) -> Schema:
    """Return the JSON Schema of an annotation; raise ConfigError if a text in a URI cannot become such a value."""
    try:
        schema = schema_of(kind)
    except (TypeError, NameError):
        schema = {"type": "object"}
    kinds = schema.get("type", "string")
    if not {"array", "object"}.isdisjoint(kinds if isinstance(kinds, list) else [kinds]):
        allowed = "str, int, float, bool, date, datetime, Literal or an Enum"
        raise ConfigError(f"{label}: the variable {name} must be annotated {allowed}")
    return schema


def spell(value: object) -> str:
    """Return a value as it stands in a URI; raise ValueError if it has no such form."""
    if isinstance(value, enum.Enum):
        return spell(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    raise ValueError("not a text, a number or a date")


def _check(parameters: Mapping[str, inspect.Parameter], label: str, template: UriTemplate) -> None:
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for name in template.variables:
        parameter = parameters.get(name)
        if parameter is None and takes_any:
            continue
        if parameter is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"{label}: {template.text} has the variable {name}; give the function a parameter {name}")
        if name in template.query_variables and parameter.default is parameter.empty:
            raise ConfigError(f"{label}: {name} is optional in {template.text}; give its parameter a default")
    for name, parameter in parameters.items():
        is_optional = parameter.default is not parameter.empty
        if name not in template.variables and not is_optional and parameter.kind not in _VARIADIC:
            raise ConfigError(f"{label}: the parameter {name} is no variable of {template.text} and has no default")


def _leaves_its_folder(text: str) -> bool:
    """Return whether a text, used as a relative path, could lead out of the folder that it is joined to."""
    return text.startswith(("/", "\\")) or not {".", ".."}.isdisjoint(_SEPARATOR.split(text))
