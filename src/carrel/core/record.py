"""Immutable records, cheap to define and cheap to make.

A frozen dataclass costs most of a millisecond when it is defined, and eight times as much as
a struct when one is made: a good part of a start and of a read. The measurement is in
`docs/decisions/0001-values.md`.
"""

from typing import TypeVar

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

__all__ = ["Value", "from_json", "replace", "to_json"]

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
