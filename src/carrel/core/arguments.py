"""Check the arguments of tools and the queries of URIs.

Arguments are declared once, as the annotated fields of a record:

    class Children(Value, frozen=True, rename="camel"):
        parent_alias: Annotated[str, Argument(min_length=1, description="Alias of the parent.", examples=["web"])]
        limit: Annotated[int, Argument(ge=1, le=1_000, description="Maximum number of results.")] = 100

    CHILDREN = Arguments(Children)

`CHILDREN.schema` is the JSON Schema that clients see. `CHILDREN.check({"parentAlias": "web"})` and
`CHILDREN.check_query([("limit", "20")])` return a `Children`, or raise `InvalidArguments`, which names every problem.
No value is converted silently: "20" is not an integer, except in a query, where every value is text.

A field whose default is None may be left out, and null is not a value for it. A field that must tell null from
"left out" has the default `UNSET`. `examples` appear in the message about an unknown name, not in the schema.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property, reduce
from operator import or_
from types import NoneType
from typing import Annotated, Final, Generic, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType, ValidationError
from msgspec import Meta as Argument

from carrel.core.errors import BadArgument, echo
from carrel.core.model import ToolResult
from carrel.core.record import Value

__all__ = [
    "FOLDER_PARAMETERS",
    "PARAMETERS",
    "UNSET",
    "Argument",
    "ArgumentProblem",
    "Arguments",
    "InvalidArguments",
    "UnsetType",
    "convert",
    "describe",
    "known_parameters",
    "object_schema",
    "parse_integer",
    "refused_parameter",
    "schema_of",
    "without",
]

Schema = dict[str, object]
Fault = Literal["unknown", "missing", "repeated", "invalid"]
_Record_co = TypeVar("_Record_co", bound=Value, covariant=True)

_WORDS: Final[Mapping[object, str]] = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
_PLURALS: Final[Mapping[object, str]] = {
    "string": "strings",
    "integer": "integers",
    "number": "numbers",
    "object": "objects",
}
_TYPES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""What JSON Schema calls the types that msgspec names in its messages."""

_WRONG_TYPE: Final = r"Expected `(.+)`, got `.+`"
_MISSING_FIELD: Final = r"Object missing required field `(.+)`"
_EXAMPLES: Final[Mapping[str, object]] = {"integer": 1, "number": 0.5, "boolean": True, "array": [], "object": {}}
PARAMETERS: Final = ("start", "length", "lines", "outline", "budget")
"""The parameters that Carrel itself applies to any text."""
FOLDER_PARAMETERS: Final = ("outline", "budget")
"""The ones among them that also apply to a folder."""
_INTEGER: Final = r"([+-]?)0*+([0-9]*+)"
_MAX_DIGITS: Final = 18
MAX_PROBLEMS: Final = 20
"""Maximum number of problems in one message."""


class ArgumentProblem(Value, frozen=True):
    """What is wrong with one argument; `text` is a sentence for the caller."""

    name: str
    fault: Fault
    text: str
    expected: str = ""
    """What was expected of an invalid value, or which names are known in place of an unknown one."""
    value: str = ""
    """The value as it stands in the query; empty for the argument of a tool."""


class ArgumentField(Value, frozen=True):
    """One declared argument: the attribute of the record that holds it, its annotation and its JSON Schema."""

    attribute: str
    kind: object
    schema: Schema
    is_required: bool


class InvalidArguments(BadArgument):
    """Arguments that do not fit their declaration; there is at least one problem."""

    def __init__(self, problems: Iterable[ArgumentProblem], uri: str | None = None) -> None:
        every = tuple(problems)
        left = len(every) - MAX_PROBLEMS
        more = (ArgumentProblem("", "invalid", f"{left} more problems"),) if left > 0 else ()
        self.problems = every[:MAX_PROBLEMS] + more
        message = "; ".join(problem.text for problem in self.problems)
        super().__init__(message, uri=uri, data={"parameter": self.problems[0].name})

    def result(self, *strict: str) -> ToolResult:
        """Return the failed result of a tool call: one text for each problem.

        Raise the error itself, which is -32602 for the client, if an argument in `strict` has an invalid value.
        """
        if any(problem.name in strict and problem.fault == "invalid" for problem in self.problems):
            raise self
        return ToolResult(tuple(problem.text for problem in self.problems), is_error=True)


class Arguments(Generic[_Record_co]):
    """The arguments of a tool, or the parameters of a query, as a record declares them."""

    def __init__(self, record: type[_Record_co], **narrowed: object) -> None:
        """Take the fields of `record`; `narrowed` replaces annotations that are known only at run time."""
        self._record = record
        self._narrowed = narrowed

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that callers write."""
        return frozenset(self._record.__struct_encode_fields__)

    @cached_property
    def _fields(self) -> dict[str, ArgumentField]:
        """The fields by the name that callers write."""
        fields = {}
        for field in msgspec.structs.fields(self._record):
            kind = self._narrowed.get(field.name, field.type)
            if not field.required:
                kind = without(kind, NoneType if field.default is None else UnsetType)
            schema = schema_of(kind)
            if isinstance(field.default, str | int | float) and field.default != "":
                schema["default"] = field.default
            fields[field.encode_name] = ArgumentField(field.name, kind, schema, field.required)
        return fields

    @cached_property
    def schema(self) -> Schema:
        """The JSON Schema of an object with these arguments and no others."""
        properties = {name: field.schema for name, field in self._fields.items()}
        return object_schema(properties, [name for name, field in self._fields.items() if field.is_required])

    def check(self, given: Mapping[str, object]) -> _Record_co:
        """Return the arguments of a tool call, or raise `InvalidArguments`."""
        values, problems = self.examine(given)
        if problems:
            raise InvalidArguments(problems)
        return self._record(**values)

    def examine(self, given: Mapping[str, object]) -> tuple[dict[str, object], list[ArgumentProblem]]:
        """Return the values that fit, by attribute of the record, and what is wrong with the others."""
        values: dict[str, object] = {}
        problems: list[ArgumentProblem] = []
        known = ""
        for name, value in given.items():
            field = self._fields.get(name)
            if field is None:
                known = known or self._known()
                problems.append(ArgumentProblem(name, "unknown", f"Unknown argument: {echo(name)} ({known})"))
                continue
            try:
                values[field.attribute] = convert(field.kind, value)
            except ValueError as error:
                text = f"Invalid argument: {name}{_shown(field, value)} ({error})"
                problems.append(ArgumentProblem(name, "invalid", text, str(error).removeprefix("expected ")))
        for name, field in self._fields.items():
            if field.is_required and name not in given:
                problems.append(ArgumentProblem(name, "missing", f"Missing argument: {name}"))
        return values, problems

    def check_query(
        self, pairs: Sequence[tuple[str, str]], uri: str | None = None, beside: Sequence[str] = ()
    ) -> _Record_co:
        """Return the parameters of a query, none of which is required, or raise `InvalidArguments`.

        `beside` are further parameters of the URI, which are checked elsewhere; an error message lists them too.
        """
        if not pairs:
            return self._record()
        values: dict[str, object] = {}
        problems: list[ArgumentProblem] = []

        def refuse(fault: Fault, why: str) -> None:
            problems.append(refused_parameter(name, text, fault, why))

        for name, text in pairs:
            field = self._fields.get(name)
            if field is None:
                refuse("unknown", self._known_parameters(beside))
                continue
            if field.attribute in values:
                refuse("repeated", "given twice")
                continue
            number = parse_integer(text) if field.schema.get("type") == "integer" else None
            values[field.attribute] = value = text if number is None else number
            try:
                values[field.attribute] = convert(field.kind, value)
            except ValueError as error:
                refuse("invalid", str(error))
        if problems:
            raise InvalidArguments(problems, uri)
        return self._record(**values)

    def _known(self) -> str:
        """Return the known names and one example that fits: all required arguments, or else one that has an example."""
        if not self._fields:
            return "it takes no arguments"
        required = [name for name, field in self._fields.items() if field.is_required]
        return _known(self._fields, _spell(self._example(required)))

    def _known_parameters(self, beside: Sequence[str]) -> str:
        """Return the known names of a query and one example that fits."""
        has_example = any(map(_examples, self._fields.values())) or not beside
        example = "&".join(f"{name}={value}" for name, value in self._example(()).items()) if has_example else ""
        return known_parameters(tuple(self._fields), beside, example)

    def _example(self, required: Sequence[str]) -> dict[str, object]:
        """Return values for the required arguments, or for one that has an example."""
        named = [name for name, field in self._fields.items() if _examples(field)]
        return {name: _example(self._fields[name]) for name in required or (named or list(self._fields))[:1]}


def known_parameters(own: Sequence[str], beside: Sequence[str], example: str = "") -> str:
    """Return the names of a query and an example, by default with a parameter that Carrel applies."""
    example = example or ("lines=1-50" if "lines" in beside else "budget=2000")
    return _known(dict.fromkeys((*own, *beside)), f"?{example}")


def refused_parameter(name: str, value: str, fault: Fault, why: str) -> ArgumentProblem:
    """Return what is wrong with a parameter of a query; for an unknown one `why` says which are known."""
    shown = f"Invalid parameter: {echo(name)}={echo(value)} ({why})"
    return ArgumentProblem(name, fault, shown, why if fault == "unknown" else "", value)


def _known(names: Iterable[str], example: str) -> str:
    return f"known: {', '.join(names)}; for example {example}"


def object_schema(properties: Mapping[str, object], required: Iterable[str] = ()) -> Schema:
    """Return the JSON Schema of an object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    needed = list(required)
    return {**schema, "required": needed} if needed else schema


def schema_of(kind: object) -> Schema:
    """Return the JSON Schema of a value with this annotation; raise TypeError for a type that JSON does not have."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    plain = _inlined(schema, parts)
    return {**plain, "enum": _choices(kind) or plain["enum"]} if "enum" in plain else plain


def _choices(kind: object) -> list[object]:
    """Return the choices of a `Literal` or an enumeration in the order of their declaration."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [member.value for member in kind]
    return list(get_args(kind))


def _inlined(schema: Schema, parts: Mapping[str, Schema]) -> Schema:
    """Return a schema without references, titles and examples; a record that contains itself becomes any value."""
    if "$ref" in schema:
        name = str(schema["$ref"])
        part = {key: value for key, value in parts.get(name, {}).items() if key != "description"}
        schema = {**part, **schema}
        parts = {key: part for key, part in parts.items() if key != name}
    kept = {
        key: value
        for key, value in schema.items()
        if key not in ("$ref", "title", "examples") and value != [] and not (key == "default" and value in ("", None))
    }
    return _with_type({key: _inlined_value(key, value, parts) for key, value in kept.items()})


def _inlined_value(key: str, value: object, parts: Mapping[str, Schema]) -> object:
    if key == "properties" and isinstance(value, dict):
        return {name: _inlined(one, parts) for name, one in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_inlined(one, parts) for one in value]
    return _inlined(value, parts) if isinstance(value, dict) and key != "default" else value


def _with_type(schema: Schema) -> Schema:
    """Return a schema that names the type of its choices, and that lists types instead of schemas where it can."""
    choices, options = schema.get("enum"), schema.get("anyOf")
    if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
        return {"type": "string", **schema}
    if isinstance(options, list):
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        types = [option.get("type") for option in options]
        is_plain = all(option.keys() == {"type"} for option in options[1:]) and "enum" not in options[0]
        if is_plain and all(isinstance(one, str) for one in types):
            return {**options[0], "type": types, **rest}
    return schema


def convert(kind: object, value: object) -> object:
    """Return a JSON value as the annotation wants it; raise ValueError with what was expected."""
    try:
        return msgspec.convert(value, kind)
    except ValidationError as error:
        if isinstance(value, float) and value.is_integer() and schema_of(kind).get("type") == "integer":
            return convert(kind, int(value))  # to JSON Schema 1.0 is an integer
        expected = f"expected {describe(schema_of(kind))}"
        # A record is not described in full: say which part of it is wrong.
        part = _wrong_part(str(error)) if "object" in expected else ""
        raise ValueError(f"{expected}; {part}" if part else expected) from None


def _wrong_part(message: str) -> str:
    """Return which part of a record is wrong, from msgspec's message; "" if the value is not a record."""
    fault, _, place = message.partition(" - at `$")
    missing, wrong = re.fullmatch(_MISSING_FIELD, fault), re.fullmatch(_WRONG_TYPE, fault)
    if not place and missing is None:
        return ""
    if missing is not None:
        fault = f"{missing[1]} is missing"
    elif wrong is not None:
        types = [_TYPES.get(one, one) for one in wrong[1].split(" | ")]
        fault = f"expected {' or '.join(_WORDS.get(one, one) for one in types)}"
    fault = fault.replace("`", "")
    return f"at {place.rstrip('`')}: {fault}" if place else fault


def describe(schema: Schema) -> str:
    """Return what a JSON Schema expects, in words."""
    choices, options, kind = schema.get("enum"), schema.get("anyOf"), schema.get("type")
    if isinstance(choices, list):
        return f"one of {', '.join(str(choice) for choice in choices)}"
    if isinstance(options, list):
        return " or ".join(describe(one) for one in options)
    if isinstance(kind, list):
        return " or ".join(_WORDS[one] if one == "null" else describe({**schema, "type": one}) for one in kind)
    words = _WORDS.get(kind, "another value")
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind in ("integer", "number") and low is not None:
        return f"{words}, {low} or more" if high is None else f"{words} from {low} to {high}"
    items = schema.get("items")
    if kind == "array" and isinstance(items, dict) and items:
        plural = _PLURALS.get(items.get("type")) if describe(items) == _WORDS.get(items.get("type")) else None
        return f"{words}, each item {describe(items)}" if plural is None else f"{words} of {plural}"
    if kind == "string" and "minLength" in schema:
        return f"{words} of at least {schema['minLength']} character{'' if schema['minLength'] == 1 else 's'}"
    if "format" in schema:
        return f"{words} with a {schema['format']} of ISO 8601"
    return words


def parse_integer(text: str) -> int | None:
    """Return the number that an optional sign and ASCII digits spell; None for any other text.

    A number of more than 18 digits becomes one of 18 digits: too large for every bound, and quickly read.
    """
    found = re.fullmatch(_INTEGER, text)
    if found is None or not text[-1:].isdigit():
        return None
    digits = found[2] if len(found[2]) <= _MAX_DIGITS else "9" * _MAX_DIGITS
    number = int(digits or "0")
    return -number if found[1] == "-" else number


def without(kind: object, absent: object) -> object:
    """Return a union without one of its types."""
    if get_origin(kind) is Annotated:
        inner, *rules = get_args(kind)
        return Annotated[(without(inner, absent), *rules)]
    if absent not in get_args(kind):
        return kind
    return reduce(or_, (part for part in get_args(kind) if part is not absent))


def _example(field: ArgumentField) -> object:
    """Return a value that fits: an example of the annotation, its first choice, or a plain value."""
    choices = field.schema.get("enum")
    named = [*_examples(field), *(choices if isinstance(choices, list) else ())]
    kind = field.schema.get("type")
    return named[0] if named else field.schema.get("minimum", _EXAMPLES.get(str(kind), "text"))


def _examples(field: ArgumentField) -> list[object]:
    """Return the examples of the annotation."""
    rules = get_args(field.kind)[1:] if get_origin(field.kind) is Annotated else ()
    return [example for rule in rules if isinstance(rule, Argument) for example in rule.examples or ()]


def _shown(field: ArgumentField, value: object) -> str:
    """Return a wrong value as it appears in a message; a string that could be taken for another value has quotes."""
    if isinstance(value, list | dict):
        return ""
    if isinstance(value, str) and (not value or "string" not in str(field.schema.get("type"))):
        return f'="{echo(value)}"'
    return f"={echo(_spell(value))}"


def _spell(value: object) -> str:
    import json  # needed only for messages

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
