"""Sample rows, read by streaming: a page of a file of any size, found through a sparse index of its lines.

A row is a line that holds more than whitespace. The index keeps the byte and the physical line of every thousandth row.
It is built in blocks as far as it is needed, extended later, and dropped when the file changes. Only the rows of the
page are parsed.
"""

import codecs
import re
from array import array
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from threading import Lock
from time import monotonic
from typing import Final

from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.files import AlcFile, Malformed, ParsedFiles

STEP: Final = 1_000
BLOCK: Final = 1 << 14
"""Bytes read and counted at a time. A block with a blank line is counted line by line, so it is small."""
MAX_INDEXES: Final = 64
SEARCHING_S: Final = 15.0
"""Seconds that one read may search for its rows: ten million take three, a sparse file of a terabyte never ends.
The index keeps what was searched, so that the next read goes on from there."""

# A line that begins otherwise may be blank; if none does, only line ends need to be counted.
_UNSURE: Final = re.compile(rb"\n[^!-~]")


class PageTooLarge(Exception):
    """The page is too large; `fits` is the number of its first rows that fit, in one message if any do."""

    def __init__(self, fits: int) -> None:
        super().__init__(fits)
        self.fits = fits


class SearchTimeout(Exception):
    """The rows of the page were not found in time."""


class LineStart(Value, frozen=True, gc=False):
    """The byte at which a line begins, with the number of rows and of lines before it."""

    byte: int
    row: int
    line: int


class LineIndex:
    """Where every thousandth row of one file begins, as far as that was needed."""

    def __init__(self, file: AlcFile) -> None:
        self.lock = Lock()
        self.bytes = array("Q")
        self.lines = array("Q")
        has_mark = file.read(0, len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        self._first = self._reached = LineStart(len(codecs.BOM_UTF8) if has_mark else 0, 0, 0)

    def seek(self, file: AlcFile, row: int, deadline: float) -> LineStart:
        """Return the nearest noted line at or before a row, after searching as far as that row."""
        with self.lock:
            while self._reached.row <= row and self._reached.byte < file.size:
                _check_deadline(deadline)
                block = file.read(self._reached.byte, BLOCK)
                end = block.rfind(b"\n") + 1
                self._reached = self._count(block[:end]) if end else self._count_long(file, deadline)
            at = min(row // STEP, len(self.bytes) - 1)
            return LineStart(self.bytes[at], at * STEP, self.lines[at]) if at >= 0 else self._first

    def _count(self, block: bytes) -> LineStart:
        """Count the lines of a block that ends with a line; return where the next one begins."""
        byte, row, line = self._reached.byte, self._reached.row, self._reached.line
        if has_only_rows(block):
            count = block.count(b"\n")
            for number in range(-row % STEP, count, STEP):
                self._note(byte + _offset_of_line(block, number), line + number)
            return LineStart(byte + len(block), row + count, line + count)
        for text in block.split(b"\n")[:-1]:  # a lone carriage return ends no line
            if not is_blank(text):
                if row % STEP == 0:
                    self._note(byte, line)
                row += 1
            byte += len(text) + 1
            line += 1
        return LineStart(byte, row, line)

    def _count_long(self, file: AlcFile, deadline: float) -> LineStart:
        """Count one line that is longer than a block, or the last one if it has no line end."""
        start = self._reached
        line = next(lines_from(file, start.byte, keep=0, deadline=deadline))
        if not line.is_blank and start.row % STEP == 0:
            self._note(start.byte, start.line)
        return LineStart(line.end, start.row + (not line.is_blank), start.line + 1)

    def _note(self, byte: int, line: int) -> None:
        self.bytes.append(byte)
        self.lines.append(line)


class Line(Value, frozen=True, gc=False):
    """One line: its text, cut after the bytes that are kept, and where the next line begins."""

    text: bytes
    end: int
    is_blank: bool
    is_cut: bool


def _offset_of_line(block: bytes, number: int) -> int:
    """Return where a line of a block begins, by its number from 0."""
    return len(block) - len(block.split(b"\n", number)[number])


def has_only_rows(block: bytes) -> bool:
    """Return whether, by their first bytes, all lines of a block that ends with a line are rows."""
    first = block[:1]
    if not b"!" <= first <= b"~":
        return False
    # Mostly all lines begin alike, which counting alone shows.
    return block.count(b"\n" + first) + 1 == block.count(b"\n") or not _UNSURE.search(block)


def skip(file: AlcFile, start: LineStart, count: int) -> LineStart:
    """Skip up to this many rows by whole blocks; stop before a block in which a line may be blank."""
    byte, left = start.byte, count
    while left > 0 and byte < file.size:
        block = file.read(byte, BLOCK)
        block = block[: block.rfind(b"\n") + 1]
        if not block or not has_only_rows(block):
            break
        lines = min(left, block.count(b"\n"))
        byte += _offset_of_line(block, lines)
        left -= lines
    skipped = count - left
    return LineStart(byte, start.row + skipped, start.line + skipped)


def is_blank(text: bytes) -> bool:
    """Return whether a line holds nothing but whitespace."""
    if not text or text.isspace():
        return True
    if text[0] <= 0x20 or text[0] >= 0x80:
        return not text.decode("utf-8", "replace").strip()
    return False


def _check_deadline(deadline: float) -> None:
    if monotonic() > deadline:
        raise SearchTimeout


def lines_from(file: AlcFile, start: int, keep: int, deadline: float = inf) -> Iterator[Line]:
    """Yield the lines from a byte on. Of each, at most `keep` bytes and a block are in memory at a time."""
    partial = PartialLine(keep)
    while start < file.size:
        _check_deadline(deadline)
        block = file.read(start, BLOCK)
        if not block:
            break
        at = 0
        while end := block.find(b"\n", at) + 1:
            partial.add(block[at:end])
            yield partial.line(start + end)
            partial = PartialLine(keep)
            at = end
        partial.add(block[at:])
        start += len(block)
    if partial.size:
        yield partial.line(start)


class PartialLine:
    """A line whose end was not read yet."""

    __slots__ = ("_decode", "_is_blank", "_keep", "_parts", "size")

    def __init__(self, keep: int) -> None:
        self.size = 0
        self._keep = keep + 1  # and its end
        self._parts: list[bytes] = []
        self._is_blank = True
        self._decode: codecs.IncrementalDecoder | None = None

    def add(self, part: bytes) -> None:
        """Add the next part of the line, cut to the bytes that are kept."""
        if not part:
            return
        self._parts.append(part[: max(0, self._keep - self.size)])
        self.size += len(part)
        if self._is_blank:
            if self._decode is None and b"!" <= part[:1] <= b"~":
                self._is_blank = False
                return
            # Whitespace may be a character of several bytes, and the part may end within it.
            self._decode = self._decode or codecs.getincrementaldecoder("utf-8")("replace")
            self._is_blank = not self._decode.decode(part).strip()

    def line(self, end: int) -> Line:
        """Return the line after its last part was added."""
        if self._is_blank and self._decode is not None:
            self._is_blank = not self._decode.decode(b"", final=True)
        return Line(b"".join(self._parts), end, self._is_blank, self.size > self._keep)


class Samples:
    """Pages of sample files, with an index for each of the files used last."""

    def __init__(self, max_page_bytes: int, max_wire: int) -> None:
        self._max_bytes = max_page_bytes
        self._max_wire = max_wire
        self._indexes: ParsedFiles[LineIndex] = ParsedFiles(MAX_INDEXES)
        self._lock = Lock()

    def page(self, file: AlcFile, offset: int, limit: int) -> str:
        """Return the rows of a page as one JSON array."""
        if not limit:
            return "[]"
        rows: list[str] = []
        size = 1
        for line, text in self._rows(file, offset, limit):
            row = None if text is None else _parse(text, line)
            size += 1 + (self._max_bytes if row is None else len(row) if row.isascii() else len(row.encode()))
            if row is None or size > self._max_bytes:
                raise PageTooLarge(self._sendable(rows))
            rows.append(row)
        return f"[{','.join(rows)}]"

    def _sendable(self, rows: list[str]) -> int:
        """Return how many of the rows fit one message; at least one, which can be read in parts."""
        wires = accumulate((compact_json.wire_size(row) + 1 for row in rows), initial=1)
        count = sum(1 for wire in wires if wire <= self._max_wire) - 1
        return min(len(rows), max(count, 1))

    def _rows(self, file: AlcFile, offset: int, limit: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the physical line and the text of each row of a page; None for a text that is too long."""
        deadline = monotonic() + SEARCHING_S
        start = self._index(file).seek(file, offset, deadline)
        start = skip(file, start, offset - start.row)
        row, number = start.row, start.line
        for line in lines_from(file, start.byte, self._max_bytes, deadline):
            if not line.is_blank:
                if row >= offset:
                    yield number, None if line.is_cut else line.text
                row += 1
                if row >= offset + limit:
                    return
            number += 1

    def _index(self, file: AlcFile) -> LineIndex:
        with self._lock:
            index = self._indexes.get(file.path, file.stamp)
            return index or self._indexes.put(file.path, file.stamp, LineIndex(file))


def _parse(text: bytes, line: int) -> str:
    try:
        return compact_json.dumps(compact_json.loads(text))
    except ValueError as error:
        raise Malformed(f"sample line {line}: {error}") from None
