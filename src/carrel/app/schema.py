"""The keys and types of each section, taken from constructors.

A provider's annotated parameters are its section's schema: `Logs(max_bytes: int = 102_400)` *is*
`[logs] max_bytes`. A parameter annotated `Project` is not a setting.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from keyword import iskeyword
from types import FunctionType, NoneType, UnionType
from typing import Any, Final, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from carrel.core.arguments import convert, without
from carrel.core.errors import ConfigError
from carrel.core.provider import (
    OUTSIDE,
    Ceiling,
    Exposure,
    FractionalCeiling,
    Injection,
    Place,
    Places,
    Program,
    Project,
    Protection,
    Secret,
    Section,
    ToolLevel,
)
from carrel.core.record import Value


class Key(Value, frozen=True):
    """One key of a section."""

    name: str
    kind: object
    default: object
    is_required: bool = False


Schema = Mapping[str, Key]


def schema_of(built: type) -> Schema:
    """Return the keys of a class's section."""
    hints = get_type_hints(built if issubclass(built, Section) else vars(built)["__init__"])
    keys = {}
    for name, default in _parameters_of(built):
        if hints.get(name) is not Project:
            spelled = name.removesuffix("_")
            is_required = default is _REQUIRED
            keys[spelled] = Key(spelled, hints.get(name, str), None if is_required else default, is_required)
    return keys


_REQUIRED: Final = object()


def _parameters_of(built: type) -> list[tuple[str, object]]:
    """Return the parameters of a constructor, with their defaults."""
    start = vars(built).get("__init__")
    if isinstance(start, FunctionType) and not hasattr(start, "__wrapped__"):
        code, optional = start.__code__, start.__defaults__ or ()
        first = code.co_argcount - len(optional)
        defaults = dict(zip(code.co_varnames[first : code.co_argcount], optional, strict=True))
        defaults |= start.__kwdefaults__ or {}
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        return [(name, defaults.get(name, _REQUIRED)) for name in names]
    from inspect import Parameter, signature  # adds 0.5 MB and 5 % to a start, and most constructors are plain

    found = signature(built).parameters.values()
    return [(one.name, _REQUIRED if one.default is Parameter.empty else one.default) for one in found]


def build(built: type, section: str, values: Mapping[str, object]) -> Any:
    """Build the settings of a section; a key that is a Python keyword is a parameter with a trailing underscore."""
    _check_required(schema_of(built), values, f"[{section}]", built.examples if _is_section(built) else {})
    try:
        return built(**{f"{name}_" if iskeyword(name) else name: value for name, value in values.items()})
    except ConfigError as error:
        raise ConfigError(f"[{section}] {error}") from None


class AnyName(dict[str, Key]):
    """The keys of a section with tables that the user names: `[commands.<name>]`."""

    def __init__(self, kind: type[Section]) -> None:
        super().__init__()
        self._kind = kind

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __missing__(self, name: str) -> Key:
        return Key(name, self._kind, None)


def section_schema(kind: object) -> Schema:
    """Return the keys of a section that is one parameter of its provider."""
    inner, is_many = _section_in(kind)
    return AnyName(inner) if is_many else schema_of(inner)


def build_section(kind: object, section: str, values: Mapping[str, Mapping[str, object]]) -> object:
    """Build the provider's argument from a section's checked values."""
    inner, is_many = _section_in(kind)
    if not is_many:
        return build(inner, section, values)
    return {name: build(inner, f"{section}.{name}", given) for name, given in values.items()}


def _section_in(kind: object) -> tuple[type[Section], bool]:
    """Return the class of a section, and whether it is a table of named ones."""
    for part in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        if isinstance(part, type) and issubclass(part, Section):
            return part, False
        if get_origin(part) is dict and issubclass(get_args(part)[1], Section):
            return get_args(part)[1], True
    raise TypeError(f"{kind} is not a section")


def find(schema: Schema, section: str, name: str, where: str) -> Key:
    """Return a key; raise ConfigError with the nearest name if it is unknown."""
    if name in schema:
        return schema[name]
    raise ConfigError(f"{where}: [{section}] has no key {name!r}{nearest(name, schema)}")


_CLOSE = 0.7
"""Minimum similarity of a suggested name."""


def nearest(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return the end of a message: the nearest valid name, or all of them if none is near."""
    close = closest(name, known)
    return f"; did you mean {close!r}?" if close else f"; known: {', '.join(known)}" if known else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the valid name that was probably meant, or None."""
    from difflib import get_close_matches  # only for messages

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=_CLOSE)), None)


def check(kind: object, value: object, where: str) -> object:
    """Return the value if it has the right type; raise ConfigError if not."""
    if _is_section(kind) and isinstance(value, dict):
        return _check_table(schema_of(kind), value, where)
    try:
        return convert(without(kind, NoneType), value)
    except ValueError as error:
        got = "" if without(kind, NoneType) is Secret else f", got {value!r}"
        raise ConfigError(f"{where}: {error}{got}") from None


def _is_section(kind: object) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _check_table(known: Schema, table: Mapping[str, object], where: str) -> dict[str, object]:
    """Return the checked values of a nested table."""
    for name in table:
        if name not in known:
            raise ConfigError(f"{where} has no key {name!r}{nearest(name, known)}")
    _check_required(known, table, where, {})
    return {name: check(known[name].kind, value, f"{where} {name}") for name, value in table.items()}


def _check_required(known: Schema, table: Mapping[str, object], where: str, examples: Mapping[str, str]) -> None:
    """Raise ConfigError if a key without a default is missing, with the example of its section if there is one."""
    missing = next((key.name for key in known.values() if key.is_required and key.name not in table), None)
    if missing is not None:
        example = f", such as {missing} = {examples[missing]}" if missing in examples else ""
        raise ConfigError(f"{where} needs the key {missing!r}{example}")


def shown(kind: object, value: object) -> object:
    """Return a value as it may be shown: without a password."""
    if without(kind, NoneType) is not Secret or not isinstance(value, str) or not value:
        return _without_logins(value)
    from carrel.core.bus_address import parse_bus  # only where there is one
    from carrel.core.store_address import parse_address

    with suppress(ConfigError):
        return f"postgresql://…@{parse_address(value).shown}"
    with suppress(ConfigError):
        return f"nats://…@{parse_bus(value).shown}"
    return "…"


def _without_logins(value: object) -> object:
    """Return a value without user names and passwords in addresses, which should not be there."""
    if isinstance(value, str) and "://" in value:
        start, _, rest = value.partition("://")
        login, at, host = rest.partition("/")[0].rpartition("@")
        return f"{start}://…@{host}{rest[len(login) + len(at) + len(host) :]}" if at else value
    if isinstance(value, dict):
        return {name: _without_logins(one) for name, one in value.items()}
    return [_without_logins(one) for one in value] if isinstance(value, list) else value


def from_text(kind: object, text: str, where: str) -> object:
    """Return the value of an environment variable or a flag."""
    for candidate in _candidates(text):
        with suppress(ConfigError):
            return check(kind, candidate, where)
    return check(kind, text, where)


_IN_LISTS: Final = frozenset(" \t\n\"'[")
"""Signs at the beginning of a list in TOML that a pattern such as `[a-z]*.[ch]` does not have."""
_BOOLEANS: Final = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def _candidates(text: str) -> list[object]:
    """Return the values a text may mean, text first."""
    found: list[object] = [text]
    plain = text.strip()
    if plain.lower() in _BOOLEANS:
        found.append(_BOOLEANS[plain.lower()])
    for number in (int, float):
        with suppress(ValueError):
            found.append(number(text))
    first, bracket, _ = plain[1:-1].partition("]")
    is_pattern = bool(bracket) and _IN_LISTS.isdisjoint(first)
    if is_pattern or plain[:1] + plain[-1:] not in ("[]", "{}"):
        return [*found, [part.strip() for part in text.split(",") if part.strip()]]
    from carrel.core import toml  # few lists are written as in a file

    with suppress(ValueError):
        found.append(toml.loads(f"value = {plain}")["value"])
    return found


def raises_bound(kind: object, value: object, standing: object) -> str:
    """Return why a project file's value needs trust if it raises a limit; else an empty text."""
    is_bound = kind in (Ceiling, FractionalCeiling)
    if is_bound and isinstance(value, int | float) and isinstance(standing, int | float) and value > standing:
        return f"it raises a limit of {standing}"
    is_more = kind == Injection and _INJECTIONS.index(value) > _INJECTIONS.index(standing)
    return "it puts the project's text into the instructions" if is_more else ""


_INJECTIONS: tuple[object, ...] = (False, "trusted", True)


_SWITCHES: Mapping[object, tuple[object, str]] = {
    Program: (None, "it names a program"),
    Protection: (True, "it turns a protection off"),
    Exposure: (False, "it lets other machines do more"),
}
"""Types of settings that need trust, each with the one value that never does."""


def needs_trust(kind: object, value: object, is_outside: Callable[[str], bool]) -> str:
    """Return why a project file's value needs trust; an empty text if it does not."""
    if kind in _SWITCHES:
        harmless, reason = _SWITCHES[kind]
        return "" if value is harmless else reason
    if _is_section(kind) and isinstance(value, dict):
        keys = schema_of(kind)
        reasons = (needs_trust(keys[name].kind, part, is_outside) for name, part in value.items())
        return next((reason for reason in reasons if reason), "")
    if kind is Places:
        places = value.split(os.pathsep) if isinstance(value, str) else []
        return next(filter(None, (needs_trust(Place, place, is_outside) for place in places)), "")
    if without(kind, NoneType) is Secret:
        return OUTSIDE if value else ""
    if kind is Place:
        return OUTSIDE if isinstance(value, str) and is_outside(value) else ""
    if kind == ToolLevel:
        return "" if value in ("off", "read") else "it turns on tools that write"
    if get_origin(kind) is Literal:
        return ""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    reasons = (needs_trust(inner, part, is_outside) for inner in get_args(kind) for part in parts)
    return next((reason for reason in reasons if reason), "")
