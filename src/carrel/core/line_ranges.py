"""The lines of a text that is held as bytes: which are asked for, where they end, which of them a part holds."""

import re
import sys
from array import array
from typing import Final

from carrel.core.errors import BadArgument, echo
from carrel.core.model import Encoding, Source

LINES: Final = "dev.carrel/lines"
"""Under which name a part says which lines it holds, as `10-50`."""

MAX_COUNTED: Final = 16 * 1024 * 1024
"""Bytes of a text whose lines are counted to say which of them a part holds."""

_ASKED: Final = re.compile(r"([0-9]{1,15})(-([0-9]{1,15})?)?")
_END: Final = ord("\n")


def parse(text: str) -> tuple[int, int | None]:
    """Read `10-50`, `10-` or `10`: the first and the last line, counted from 1; None for the end."""
    found = _ASKED.fullmatch(text)
    first = int(found[1]) if found else 0
    last = first if found is None or found[2] is None else None if found[3] is None else int(found[3])
    if first < 1 or (last is not None and last < first):
        message = f"Invalid parameter: lines={echo(text)} (expected 10-50, 10- or 10, counted from 1)"
        raise BadArgument(message, data={"parameter": "lines"})
    return first, last


def find(data: bytes, encoding: Encoding, first: int, last: int | None) -> tuple[int, int]:
    """Return where some lines of a whole text begin and end; past the end, both are its length."""
    ends = [0, *_ends(data, encoding)]
    if ends[-1] != len(data):
        ends.append(len(data))
    start = ends[min(first - 1, len(ends) - 1)]
    return start, ends[-1] if last is None else ends[min(last, len(ends) - 1)]


def told(source: Source, encoding: Encoding, start: int, end: int) -> dict[str, object]:
    """Say which lines lie in a part, and how many there are; nothing where counting would take long."""
    if encoding == "binary" or source.size > MAX_COUNTED or start >= source.size:
        return {}
    inside = source.read(start, max(0, end - start))
    after = source.read(start + len(inside), source.size)
    first = 1 + _count(source.read(0, start), encoding)
    rest = after or inside
    ended = first - 1 + _count(inside, encoding)
    total = ended + _count(after, encoding) + (last_end(rest, encoding) != len(rest))
    return {LINES: _named(first, inside, encoding), "dev.carrel/total-lines": total}


def told_from(asked: str, part: bytes, encoding: Encoding) -> dict[str, object]:
    """Say which lines lie in a part of the lines that were asked for, from the first of them on."""
    return {LINES: _named(parse(asked)[0], part, encoding)}


def _named(first: int, part: bytes, encoding: Encoding) -> str:
    """Name the lines of a part that begins with line `first`; a line that does not end in it counts."""
    ended = first - 1 + _count(part, encoding)
    return f"{first}-{ended if part and last_end(part, encoding) == len(part) else ended + 1}"


def last_end(data: bytes, encoding: Encoding) -> int:
    """Return where the last line that has an end ends in whole characters; 0 where none does."""
    if not encoding.startswith("utf-16"):
        return data.rfind(b"\n") + 1
    ends = _ends(data, encoding)
    return ends[-1] if ends else 0


def _count(data: bytes, encoding: Encoding) -> int:
    return _units(data, encoding).count(_END) if encoding.startswith("utf-16") else data.count(b"\n")


def _ends(data: bytes, encoding: Encoding) -> list[int]:
    """Return the places right after each line end."""
    if encoding.startswith("utf-16"):
        return [2 * (place + 1) for place, unit in enumerate(_units(data, encoding)) if unit == _END]
    return [found.end() for found in re.finditer(rb"\n", data)]


def _units(data: bytes, encoding: Encoding) -> "array[int]":
    """Return the 16-bit units of a text; an odd byte at its end is none."""
    units = array("H", data[: len(data) // 2 * 2])
    if (encoding == "utf-16be") is (sys.byteorder == "little"):
        units.byteswap()
    return units
