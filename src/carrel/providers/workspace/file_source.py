"""Parts of one file: ranges of bytes, and lines.

Lines have no index: they are found by reading from the start. The search stops when the request is cancelled, and after
`MAX_SEARCHED_BYTES`.
"""

import errno
import os
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from carrel.core.cancellation import check_cancelled
from carrel.core.errors import TooLarge, echo
from carrel.core.model import Encoding, Range, Source
from carrel.core.uri import with_query
from carrel.files.sandbox import Opened

MAX_SEARCHED_BYTES: Final = 256 << 20
"""Bytes that one request reads to find lines, in well below a second. Holes of sparse files are skipped."""
_CHUNK: Final = 1 << 20
_SUGGESTED_BYTES: Final = 65_536
_SEEK_DATA: Final[int | None] = getattr(os, "SEEK_DATA", None)
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the file system."""
_MARKS: Final[dict[Encoding, bytes]] = {"utf-16le": b"\n\0", "utf-16be": b"\0\n"}
"""Line ends of more than one byte."""


class LineSource(Source, Protocol):
    """A source in which lines are searched."""

    def data_from(self, start: int) -> int:
        """Return the first position from `start` on that may hold a line end, or the end."""


class FileSource:
    """An open file as a source; its first bytes are not read again if they are known."""

    def __init__(self, opened: Opened, head: bytes = b"") -> None:
        self._opened = opened
        self._head = head
        self.size = opened.stat.st_size
        self.has_moved = opened.has_moved
        self.close = opened.close

    def read(self, start: int, length: int) -> bytes:
        """Return bytes, from the known first ones or from the file."""
        if self._head and (end := min(start + length, self.size)) <= len(self._head):
            return self._head[start:end]
        return self._opened.read(start, length)

    def data_from(self, start: int) -> int:
        """Return the first position from `start` on that is not in a hole of a sparse file, or the end."""
        is_sparse = self._opened.stat.st_blocks * _BLOCK_BYTES < self.size
        if not is_sparse or start >= self.size or _SEEK_DATA is None:
            return start
        try:
            return os.lseek(self._opened.fd, start, _SEEK_DATA)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else start


def find_lines(
    source: LineSource, encoding: Encoding, first: int, last: int | None, uri: str
) -> tuple[Range, dict[str, object]]:
    """Return the range of lines, and their metadata; raise `TooLarge` if they are too far from the start."""
    search = _Search(source, _MARKS.get(encoding, b"\n"))
    passed, start = search.pass_lines(0, first - 1)
    if start is None:
        raise _too_far(uri, first, search.place, source.size)
    if start >= source.size or passed < first - 1:
        return Range(source.size, 0), {}
    given, end = search.pass_lines(start, None if last is None else last - first + 1)
    if end is None:
        if last is None:  # the rest of the file needs no search for its end
            return Range(start), {}
        raise _too_far(uri, last, search.place, source.size)
    meta: dict[str, object] = {"dev.carrel/lines": f"{first}-{first - 1 + given}"}
    if last is not None and end < source.size:
        meta["dev.carrel/next"] = with_query(uri, lines=f"{last + 1}-{last + 1 + last - first}")
    return Range(start, end - start), meta


def _too_far(uri: str, line: int, place: int, size: int) -> TooLarge:
    suggested = with_query(uri, start=place, length=_SUGGESTED_BYTES)
    message = (
        f"Too large: line {line} of {echo(uri)} does not end within {MAX_SEARCHED_BYTES} bytes, "
        f"which is as far as lines are searched; read bytes instead: {echo(suggested)}"
    )
    return TooLarge(message, size=size, limit=MAX_SEARCHED_BYTES, suggested=suggested, uri=uri)


class _Search:
    """The search of one request for line ends."""

    def __init__(self, source: LineSource, mark: bytes) -> None:
        self._source = source
        self._mark = mark
        self._read_bytes = 0
        self._last_base, self._last = 0, b""
        self.place = 0
        """The position at which it stopped because of the limit."""

    def pass_lines(self, start: int, wanted: int | None) -> tuple[int, int | None]:
        """Skip a number of lines, or all; return how many there were, and where the last one ends.

        That end is None if the limit was reached before.
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
            if not chunk:  # the file became shorter
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
        """Return the bytes from a position on, from the last chunk or the file; None past the limit."""
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
    """Return the number of line ends in a chunk, and the end of the last one."""
    if len(mark) == 1:
        return chunk.count(mark), chunk.rfind(mark) + 1
    places = list(_marks(chunk, mark))
    return len(places), places[-1] + len(mark) if places else 0


def _marks(chunk: bytes, mark: bytes) -> Iterator[int]:
    """Yield the position of each line end; one of two bytes must start where a character starts."""
    at = chunk.find(mark)
    while at >= 0:
        if at % len(mark) == 0:
            yield at
        at = chunk.find(mark, at + 1)
