"""Lines of a text in bytes: parse a range of lines, find its bytes, and name the lines of a part."""

import re
import sys
from typing import TYPE_CHECKING, Final

from carrel.core.errors import BadArgument, echo
from carrel.core.model import Encoding, Source

if TYPE_CHECKING:
    from array import array

LINES: Final = "dev.carrel/lines"
"""The key in `meta` for the lines of a part, such as `10-50`."""

MAX_COUNTED: Final = 16 * 1024 * 1024
"""Maximum size of a text whose lines are counted to name those of a part."""

_ASKED: Final = r"([0-9]{1,15})(-([0-9]{1,15})?)?"
_END: Final = ord("\n")


def parse(text: str) -> tuple[int, int | None]:
    """Return the first and last line of `10-50`, `10-` or `10`, counted from 1; None means the end."""
    found = re.fullmatch(_ASKED, text)
    first = int(found[1]) if found else 0
    last = first if found is None or found[2] is None else None if found[3] is None else int(found[3])
    if first < 1 or (last is not None and last < first):
        message = f"Invalid parameter: lines={echo(text)} (expected 10-50, 10- or 10, counted from 1)"
        raise BadArgument(message, data={"parameter": "lines"})
    return first, last


def find(data: bytes, encoding: Encoding, first: int, last: int | None) -> tuple[int, int]:
    """Return the byte offsets of the start and end of lines; past the end of the text, both are its length."""
    ends = [0, *_ends(data, encoding)]
    if ends[-1] != len(data):
        ends.append(len(data))
    start = ends[min(first - 1, len(ends) - 1)]
    return start, ends[-1] if last is None else ends[min(last, len(ends) - 1)]


def name_lines(source: Source, encoding: Encoding, start: int, end: int) -> dict[str, object]:
    """Return `meta` that names the lines of a part and their total; empty if counting would take long."""
    if encoding == "binary" or source.size > MAX_COUNTED or start >= source.size:
        return {}
    inside = source.read(start, max(0, end - start))
    after = source.read(start + len(inside), source.size)
    first = 1 + _count(source.read(0, start), encoding)
    rest = after or inside
    ended = first - 1 + _count(inside, encoding)
    total = ended + _count(after, encoding) + (last_end(rest, encoding) != len(rest))
    return {LINES: name_part(first, inside, encoding), "dev.carrel/total-lines": total}


def name_part(first: int, part: bytes, encoding: Encoding) -> str:
    """Return the lines of a part that begins with line `first`, as `10-50`; an unfinished line counts."""
    ended = first - 1 + _count(part, encoding)
    return f"{first}-{ended if part and last_end(part, encoding) == len(part) else ended + 1}"


def last_end(data: bytes, encoding: Encoding) -> int:
    """Return the offset after the last line end; 0 if there is none."""
    if not encoding.startswith("utf-16"):
        return data.rfind(b"\n") + 1
    ends = _ends(data, encoding)
    return ends[-1] if ends else 0


def _count(data: bytes, encoding: Encoding) -> int:
    return _units(data, encoding).count(_END) if encoding.startswith("utf-16") else data.count(b"\n")


def _ends(data: bytes, encoding: Encoding) -> list[int]:
    """Return the offset after each line end."""
    if encoding.startswith("utf-16"):
        return [2 * (place + 1) for place, unit in enumerate(_units(data, encoding)) if unit == _END]
    return [found.end() for found in re.finditer(rb"\n", data)]


def _units(data: bytes, encoding: Encoding) -> "array[int]":
    """Return the 16-bit units of a text without an odd last byte."""
    from array import array  # few texts are UTF-16

    units = array("H", data[: len(data) // 2 * 2])
    if (encoding == "utf-16be") is (sys.byteorder == "little"):
        units.byteswap()
    return units
