"""The rows of an outline."""

from typing import Final

from carrel.core.record import Value

FUNCTIONS: Final = frozenset({"function", "method"})
"""Kinds whose definitions have inner functions."""


class Row(Value, frozen=True):
    """One definition, heading, key or event, with its first and last line, counted from 1.

    `signature` is how it is written; `name` alone is shorter. An inner row lies inside a function, or so deep that it
    is the first to be left out.
    """

    kind: str
    name: str
    signature: str
    depth: int
    first: int
    last: int
    is_private: bool = False
    is_inner: bool = False


class TextOutline(Value, frozen=True):
    """The rows of a text; `note` says why there are none, or what else a reader should know."""

    title: str
    rows: tuple[Row, ...] = ()
    note: str = ""
