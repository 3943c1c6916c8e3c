"""The rows of an outline."""

from collections.abc import Sequence
from typing import Final

from carrel.core.record import Value

FUNCTIONS: Final = frozenset({"function", "method"})
"""Kinds whose definitions have inner functions."""
MAX_ROWS: Final = 20_000
"""Rows of one outline; what follows is not outlined."""


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


def last_lines(found: Sequence[tuple[int, int]], count: int) -> list[int]:
    """Return where each part ends: before the next line of its level or a higher one, or at the last line.

    `found` has the first line and the level of each part, in order; 1 is higher than 2.
    """
    ends = [count] * len(found)
    waiting: list[int] = []
    for at, (line, level) in enumerate(found):
        while waiting and found[waiting[-1]][1] >= level:
            ends[waiting.pop()] = line - 1
        waiting.append(at)
    return ends
