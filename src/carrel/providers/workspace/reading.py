"""Reading one file: its bytes in parts, whole lines by streaming, the state they belong to."""

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from carrel.errors import BadArgument, echo
from carrel.model import Encoding, Range
from carrel.sandbox import Opened
from carrel.uri import with_query

_CHUNK: Final = 1 << 20
_MARKS: Final[dict[Encoding, bytes]] = {"utf-16le": b"\n\0", "utf-16be": b"\0\n"}
"""What ends a line, where it is not one byte."""
_LINES: Final = re.compile(r"([0-9]{1,15})(-([0-9]{1,15})?)?")


class FileSource:
    """An open file as a source; what was read to sniff it is not read again."""

    def __init__(self, opened: Opened, head: bytes = b"") -> None:
        self._opened = opened
        self._head = head
        self.size = opened.stat.st_size
        self.close = opened.close

    def read(self, start: int, length: int) -> bytes:
        """Give bytes, from the first ones kept or from the file."""
        if self._head and (end := min(start + length, self.size)) <= len(self._head):
            return self._head[start:end]
        return self._opened.read(start, length)

    def has_moved(self) -> bool:
        """Tell whether the file changed since it was opened."""
        before, now = self._opened.stat, os.fstat(self._opened.fd)
        return (
            before.st_ctime_ns != now.st_ctime_ns
            or before.st_mtime_ns != now.st_mtime_ns
            or before.st_size != now.st_size
        )


def parse_lines(text: str) -> tuple[int, int | None]:
    """Read `10-50`, `10-` or `10`: first and last line, counted from 1; None for the end."""
    found = _LINES.fullmatch(text)
    first = int(found[1]) if found else 0
    if found is None or first < 1:
        raise _bad_lines(text)
    if found[2] is None:
        return first, first
    last = None if found[3] is None else int(found[3])
    if last is not None and last < first:
        raise _bad_lines(text)
    return first, last


def _bad_lines(text: str) -> BadArgument:
    message = f"Invalid parameter: lines={echo(text)} (expected 10-50, 10- or 10, counted from 1)"
    return BadArgument(message, data={"parameter": "lines"})


def find_lines(
    source: FileSource, encoding: Encoding, first: int, last: int | None, uri: str
) -> tuple[Range, dict[str, object]]:
    """Give the bytes of those lines, and what to tell of them; the file is streamed, never held."""
    mark = _MARKS.get(encoding, b"\n")
    passed, start = _pass_lines(source, mark, 0, first - 1)
    if start >= source.size or passed < first - 1:
        return Range(source.size, 0), {}
    given, end = _pass_lines(source, mark, start, None if last is None else last - first + 1)
    told: dict[str, object] = {"dev.carrel/lines": f"{first}-{first - 1 + given}"}
    if last is not None and end < source.size:
        told["dev.carrel/next"] = with_query(uri, lines=f"{last + 1}-{last + 1 + last - first}")
    return Range(start, end - start), told


def _pass_lines(source: FileSource, mark: bytes, start: int, wanted: int | None) -> tuple[int, int]:
    """Pass so many lines, or all there are: give how many there were, and where the last one ends."""
    passed, place = 0, start
    if wanted == 0:
        return 0, start
    for base in range(start, source.size, _CHUNK):
        chunk = source.read(base, _CHUNK)
        count, after = _count(chunk, mark)
        if wanted is not None and passed + count >= wanted:
            at = next(islice(_marks(chunk, mark), wanted - passed - 1, None))
            return wanted, base + at + len(mark)
        passed += count
        place = base + after if count else place
    # The last line may lack its line end.
    return passed + (place < source.size), source.size


def _count(chunk: bytes, mark: bytes) -> tuple[int, int]:
    """Give how many lines end in a part, and where the last of them does."""
    if len(mark) == 1:
        return chunk.count(mark), chunk.rfind(mark) + 1
    places = list(_marks(chunk, mark))
    return len(places), places[-1] + len(mark) if places else 0


def _marks(chunk: bytes, mark: bytes) -> Iterator[int]:
    """Give the place of each line end; of two bytes, only where a character begins."""
    at = chunk.find(mark)
    while at >= 0:
        if at % len(mark) == 0:
            yield at
        at = chunk.find(mark, at + 1)
