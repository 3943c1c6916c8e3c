"""Reading one file: its bytes in parts, whole lines by streaming, the state they belong to.

Lines have no index: they are found by reading from the start. A search stops when its caller gives up, and ends at
`MAX_SEARCHED_BYTES`.
"""

import errno
import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from carrel.core.cancellation import check_cancelled
from carrel.core.errors import TooLarge, echo
from carrel.core.model import Encoding, Range
from carrel.core.uri import with_query
from carrel.files.sandbox import Opened

MAX_SEARCHED_BYTES: Final = 256 << 20
"""Bytes that one request reads to find lines: well below a second. Holes of sparse files are passed, not read."""
_CHUNK: Final = 1 << 20
_SUGGESTED_BYTES: Final = 65_536
_SEEK_DATA: Final[int | None] = getattr(os, "SEEK_DATA", None)
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the file system."""
_MARKS: Final[dict[Encoding, bytes]] = {"utf-16le": b"\n\0", "utf-16be": b"\0\n"}
"""What ends a line, where it is not one byte."""


class FileSource:
    """An open file as a source; what was read to sniff it is not read again."""

    def __init__(self, opened: Opened, head: bytes = b"") -> None:
        self._opened = opened
        self._head = head
        self.size = opened.stat.st_size
        self.has_moved = opened.has_moved
        self.close = opened.close

    def read(self, start: int, length: int) -> bytes:
        """Give bytes, from the first ones kept or from the file."""
        if self._head and (end := min(start + length, self.size)) <= len(self._head):
            return self._head[start:end]
        return self._opened.read(start, length)

    def data_from(self, start: int) -> int:
        """Return the first place at or after `start` that is in no hole, as far as the system tells; else the end."""
        is_sparse = self._opened.stat.st_blocks * _BLOCK_BYTES < self.size
        if not is_sparse or start >= self.size or _SEEK_DATA is None:
            return start
        try:
            return os.lseek(self._opened.fd, start, _SEEK_DATA)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else start


def find_lines(
    source: FileSource, encoding: Encoding, first: int, last: int | None, uri: str
) -> tuple[Range, dict[str, object]]:
    """Return the bytes of those lines, and what to tell of them; raise `TooLarge` if they lie too far."""
    search = _Search(source, _MARKS.get(encoding, b"\n"))
    passed, start = search.pass_lines(0, first - 1)
    if start is None:
        raise _too_far(uri, first, search.place, source.size)
    if start >= source.size or passed < first - 1:
        return Range(source.size, 0), {}
    given, end = search.pass_lines(start, None if last is None else last - first + 1)
    if end is None:
        if last is None:  # all that follows: where it ends is known without counting its lines
            return Range(start), {}
        raise _too_far(uri, last, search.place, source.size)
    told: dict[str, object] = {"dev.carrel/lines": f"{first}-{first - 1 + given}"}
    if last is not None and end < source.size:
        told["dev.carrel/next"] = with_query(uri, lines=f"{last + 1}-{last + 1 + last - first}")
    return Range(start, end - start), told


def _too_far(uri: str, line: int, place: int, size: int) -> TooLarge:
    suggested = with_query(uri, start=place, length=_SUGGESTED_BYTES)
    message = (
        f"Too large: line {line} of {echo(uri)} does not end within {MAX_SEARCHED_BYTES} bytes, "
        f"which is as far as lines are searched; read bytes instead: {echo(suggested)}"
    )
    return TooLarge(message, size=size, limit=MAX_SEARCHED_BYTES, suggested=suggested, uri=uri)


class _Search:
    """One request's search for line ends, within its bound."""

    def __init__(self, source: FileSource, mark: bytes) -> None:
        self._source = source
        self._mark = mark
        self._read_bytes = 0
        self._last_base, self._last = 0, b""
        self.place = 0
        """Where it stopped at the bound."""

    def pass_lines(self, start: int, wanted: int | None) -> tuple[int, int | None]:
        """Pass a number of lines, or all there are: return how many there were, and where the last one ends.

        Where the bound was reached before, that end is None.
        """
        if wanted == 0:
            return 0, start
        size, mark = self._source.size, self._mark
        passed, place, base = 0, start, start
        while base < size:
            chunk = self._chunk(base)
            if chunk is None:
                self.place = base
                return passed, None
            if not chunk:  # it became shorter
                break
            count, after = _count(chunk, mark)
            if wanted is not None and passed + count >= wanted:
                at = next(islice(_marks(chunk, mark), wanted - passed - 1, None))
                return wanted, base + at + len(mark)
            passed += count
            place = base + after if count else place
            following = self._source.data_from(base + len(chunk))
            base = following - following % len(mark)
        # The last line may lack its line end.
        return passed + (place < size), size

    def _chunk(self, base: int) -> bytes | None:
        """Return what follows a place, if need be from the file; None past the bound."""
        offset = base - self._last_base
        if 0 <= offset < len(self._last):
            return self._last[offset:]
        if self._read_bytes >= MAX_SEARCHED_BYTES:
            return None
        check_cancelled()
        self._last_base, self._last = base, self._source.read(base, _CHUNK)
        self._read_bytes += len(self._last)
        return self._last


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
