"""Immutable records, cheap to define and cheap to make.

The standard library's frozen dataclass costs most of a millisecond per class when it is
defined, and a microsecond per value: together a good part of a start and of a read
(`docs/decisions/0001-values.md` has the measurement). A struct costs a tenth of that.
"""

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["Value", "replace"]


class Value(Struct, frozen=True):
    """A record with equality, a repr and no behaviour of its own."""
