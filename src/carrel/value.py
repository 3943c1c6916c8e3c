"""Immutable records, cheap to define and cheap to make.

A frozen dataclass costs most of a millisecond when it is defined, and eight times as much as
a struct when one is made: a good part of a start and of a read. The measurement is in
`docs/decisions/0001-values.md`.
"""

from typing import Any, TypeVar

from msgspec import DecodeError, Struct, json, to_builtins
from msgspec.structs import replace

__all__ = ["Value", "as_plain", "from_json", "replace", "to_json"]

_Kind = TypeVar("_Kind")


class Value(Struct, frozen=True):
    """A record with equality, a repr and no behaviour of its own."""


def to_json(value: object) -> bytes:
    """Return a record, or anything made of records and plain values, as JSON."""
    return json.encode(value)


def from_json(text: bytes, kind: type[_Kind]) -> _Kind:
    """Return the record that `to_json` wrote; raise ValueError where the text is none."""
    try:
        return json.decode(text, type=kind)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def as_plain(value: object) -> Any:
    """Return a value made of dicts, lists, texts, numbers and None.

    Dataclasses and records become dicts, times ISO 8601 texts, sets lists. Raise TypeError or ValueError for others.
    """
    try:
        return to_builtins(value, str_keys=True)
    except RecursionError:
        raise ValueError("the value holds itself, or is nested too deep") from None
