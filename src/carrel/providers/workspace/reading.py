"""Reading one file: its bytes in parts, whole lines by streaming, the state they belong to."""

import os
import re
from collections.abc import Iterator
from typing import Final

from carrel.errors import BadArgument
from carrel.model import Encoding, Range
from carrel.sandbox import Opened
from carrel.uri import with_query

_CHUNK: Final = 1 << 20
_LINES: Final = re.compile(r"([0-9]{1,15})(-([0-9]{1,15})?)?")


class FileSource:
    """An open file as a source; what was read to sniff it is not read again."""

    def __init__(self, opened: Opened, head: bytes | None = None) -> None:
        self._opened = opened
        self._head = head or b""
        self.size = opened.stat.st_size

    def read(self, start: int, length: int) -> bytes:
        """Give bytes, from the first ones kept or from the file."""
        end = min(start + length, self.size)
        if end <= len(self._head):
            return self._head[start:end]
        return self._opened.read(start, end - start)

    def has_moved(self) -> bool:
        """Tell whether the file changed since it was opened."""
        before, now = self._opened.stat, os.fstat(self._opened.fd)
        return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) != (
            now.st_size,
            now.st_mtime_ns,
            now.st_ctime_ns,
        )

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


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
    message = f"Invalid parameter: lines={text[:200]} (expected lines=10-50, lines=10- or lines=10, from 1)"
    return BadArgument(message, data={"parameter": "lines"})


def find_lines(
    source: FileSource, encoding: Encoding, first: int, last: int | None, uri: str
) -> tuple[Range, dict[str, object]]:
    """Give the bytes of those lines, and what to tell of them; the file is streamed, never held."""
    start = 0 if first == 1 else source.size
    end = source.size
    counted = after = 0
    for after in _line_ends(source, encoding):
        counted += 1
        if counted == first - 1:
            start = after
        if counted == last:
            end = after
            break
    else:
        counted += after < source.size  # the last line may lack its line end
    if start >= source.size:
        return Range(source.size, 0), {}
    told: dict[str, object] = {"dev.carrel/lines": f"{first}-{counted}"}
    if last is not None and end < source.size:
        told["dev.carrel/next"] = with_query(uri, lines=f"{last + 1}-{last + 1 + last - first}")
    return Range(start, end - start), told


def _line_ends(source: FileSource, encoding: Encoding) -> Iterator[int]:
    """Give the offset after each line end, a chunk at a time."""
    mark = {"utf-16le": b"\n\0", "utf-16be": b"\0\n"}.get(encoding, b"\n")
    width = len(mark)
    for base in range(0, source.size, _CHUNK):
        chunk = source.read(base, _CHUNK)
        at = chunk.find(mark)
        while at >= 0:
            if at % width == 0:
                yield base + at + width
                at += width
            else:
                at += 1
            at = chunk.find(mark, at)
