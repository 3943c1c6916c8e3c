"""Immutable records that are cheap to define and to create.

To define a frozen dataclass takes most of a millisecond, and to create one takes eight times as long as a struct. The
measurement is in `docs/decisions/0001-values.md`.
"""

import sys
from typing import TypeVar

# msgspec imports typing_extensions where that is installed, and works the same without it. It adds 5 % to the start of
# a server, and half a megabyte. With other threads nothing is hidden: one of them may be importing it.
_hidden = len(sys._current_frames()) == 1 and vars(sys)["modules"].setdefault("typing_extensions") is None
try:
    from msgspec import DecodeError, Struct, json
    from msgspec.structs import replace
finally:
    if _hidden:
        del sys.modules["typing_extensions"]

__all__ = ["Value", "from_json", "replace", "to_json"]

_Kind = TypeVar("_Kind")


class Value(Struct, frozen=True):
    """An immutable record with equality and a repr."""


def to_json(value: object) -> bytes:
    """Return a record, or anything made of records and plain values, as JSON."""
    return json.encode(value)


def from_json(text: bytes, kind: type[_Kind]) -> _Kind:
    """Return the record that `to_json` wrote; raise ValueError for any other text."""
    try:
        return json.decode(text, type=kind)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
