"""Immutable records, cheap to define and cheap to make.

A frozen dataclass costs most of a millisecond when it is defined, and eight times as much as
a struct when one is made: a good part of a start and of a read. The measurement is in
`docs/decisions/0001-values.md`.
"""

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["Value", "replace"]


class Value(Struct, frozen=True):
    """A record with equality, a repr and no behaviour of its own."""
