"""Sample rows, read by streaming: a page of a file of any size, found through a sparse index of its lines.

A row is a line that holds more than whitespace. For every thousandth row the index knows its byte and
its physical line; it is built in blocks as far as it is needed, goes on from there later, and is thrown
away when the file changes. Only the rows of the page are parsed.
"""

import codecs
import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from threading import Lock
from time import monotonic
from typing import Final

from carrel.core.record import Value
from carrel.providers.alc import compact_json
from carrel.providers.alc.files import HeldFile, Stamp

STEP: Final = 1_000
BLOCK: Final = 1 << 20
PIECE: Final = 1 << 13
"""Lines are counted a piece at a time, so that looking for one of them goes through few others."""
LEAP: Final = 1 << 15
"""How much is read at once to pass rows by; a thousand short ones fit."""
MAX_INDEXES: Final = 64
SEARCHING_S: Final = 15.0
"""How long one read may look for its rows: ten million are passed in three seconds, a sparse file of a terabyte never.
What was passed by is remembered, so that the next read goes on from there."""
MARK: Final = b"\xef\xbb\xbf"

# A line that begins otherwise may be blank; if none does, only their ends need to be counted.
_UNSURE: Final = re.compile(rb"\n[^!-~]")


class BadRow(Exception):
    """A row of the page is not JSON."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


class PageTooLarge(Exception):
    """The page is too large; `fits` is the number of its first rows that fit, in one message if any do."""

    def __init__(self, fits: int) -> None:
        super().__init__(fits)
        self.fits = fits


class NotFoundYet(Exception):
    """The rows of the page were not found in time."""


class IndexMark(Value, frozen=True, gc=False):
    """A place in the file: that of a line's beginning, with the rows and lines before it."""

    byte: int
    row: int
    line: int


class LineIndex:
    """Where every thousandth row of one file begins, as far as that was needed."""

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.lock = Lock()
        self.bytes = array("Q")
        self.lines = array("Q")
        self._reached = IndexMark(0, 0, 0)

    def seek(self, held: HeldFile, row: int, until: float) -> IndexMark:
        """Give the nearest known place at or before a row, after looking as far as that row."""
        with self.lock:
            if row >= self._reached.row and self._reached.byte < held.size:
                self._extend(held, row, until)
            at = min(row // STEP, len(self.bytes) - 1)
            return IndexMark(self.bytes[at], at * STEP, self.lines[at]) if at >= 0 else IndexMark(0, 0, 0)

    def _extend(self, held: HeldFile, row: int, until: float) -> None:
        """Count on, a block of whole lines at a time, until the row is passed or the file ends."""
        mark = self._reached
        if mark.byte == 0 and held.read(0, 3) == MARK:
            mark = IndexMark(3, 0, 0)
        while mark.row <= row and mark.byte < held.size:
            _hurry(until)
            block = held.read(mark.byte, BLOCK)
            end = block.rfind(b"\n") + 1
            if end:
                mark = self._count_block(block[:end], mark)
            else:
                mark = self._count_long(held, mark, until)
            self._reached = mark

    def _count_block(self, block: bytes, mark: IndexMark) -> IndexMark:
        """Count the lines of a block that ends with a line."""
        at = 0
        while at < len(block):
            end = block.rfind(b"\n", at, at + PIECE) + 1 or block.index(b"\n", at) + 1
            piece = block[at:end]
            mark = self._count(piece, mark) if has_only_rows(piece) else self._count_unsure(piece, mark)
            at = end
        return mark

    def _count(self, piece: bytes, mark: IndexMark) -> IndexMark:
        """Count a piece all of whose lines are rows."""
        count = piece.count(b"\n")
        ahead = -mark.row % STEP
        if ahead < count:
            self._note(piece, mark, ahead, count)
        return IndexMark(mark.byte + len(piece), mark.row + count, mark.line + count)

    def _note(self, piece: bytes, mark: IndexMark, ahead: int, count: int) -> None:
        at = passed = 0
        while ahead < count:
            for _ in range(ahead - passed):
                at = piece.find(b"\n", at) + 1
            passed = ahead
            self.bytes.append(mark.byte + at)
            self.lines.append(mark.line + ahead)
            ahead += STEP

    def _count_unsure(self, piece: bytes, mark: IndexMark) -> IndexMark:
        """Count a piece in which a line may be blank."""
        byte, row, line = mark.byte, mark.row, mark.line
        for text in piece.split(b"\n")[:-1]:  # a lone carriage return ends no line
            if not is_blank(text):
                if row % STEP == 0:
                    self.bytes.append(byte)
                    self.lines.append(line)
                row += 1
            byte += len(text) + 1
            line += 1
        return IndexMark(byte, row, line)

    def _count_long(self, held: HeldFile, mark: IndexMark, until: float) -> IndexMark:
        """Count one line that is longer than a block, or the last one without its end."""
        line = next(lines_from(held, mark.byte, keep=0, until=until))
        if not line.is_blank and mark.row % STEP == 0:
            self.bytes.append(mark.byte)
            self.lines.append(mark.line)
        return IndexMark(line.end, mark.row + (not line.is_blank), mark.line + 1)


class Line(Value, frozen=True, gc=False):
    """One line: its text, cut off after what is kept of it, and where the next one begins."""

    text: bytes
    end: int
    is_blank: bool
    is_cut: bool


def has_only_rows(piece: bytes) -> bool:
    """Tell whether, by how they begin, all lines of a piece that ends with a line are rows."""
    first = piece[:1]
    if not b"!" <= first <= b"~":
        return False
    # Mostly all begin alike, which is told by counting alone.
    return piece.count(b"\n" + first) + 1 == piece.count(b"\n") or not _UNSURE.search(piece)


def skip(held: HeldFile, mark: IndexMark, count: int) -> IndexMark:
    """Go on by so many rows, or fewer where a line may be blank: whole blocks at a time."""
    byte, left = mark.byte, count
    while left > 0 and byte < held.size:
        block = held.read(byte, LEAP)
        block = block[: block.rfind(b"\n") + 1]
        if not block or not has_only_rows(block):
            break
        lines = block.count(b"\n")
        if lines > left:
            block = block[: len(block) - len(block.split(b"\n", left)[left])]
            lines = left
        byte += len(block)
        left -= lines
    passed = count - left
    return IndexMark(byte, mark.row + passed, mark.line + passed)


def is_blank(text: bytes) -> bool:
    """Tell whether a line holds nothing but whitespace."""
    if not text or text.isspace():
        return True
    if text[0] <= 0x20 or text[0] >= 0x80:
        return not text.decode("utf-8", "replace").strip()
    return False


def _hurry(until: float) -> None:
    if monotonic() > until:
        raise NotFoundYet


def lines_from(held: HeldFile, start: int, keep: int, until: float = inf) -> Iterator[Line]:
    """Give the lines from a place on. Of each, at most `keep` bytes and a block are held at a time."""
    growing = Growing(keep)
    block_size = PIECE  # a page is mostly short: what is read ahead of it is thrown away
    while start < held.size:
        _hurry(until)
        block = held.read(start, block_size)
        if not block:
            break
        block_size = min(2 * block_size, BLOCK)
        at = 0
        while end := block.find(b"\n", at) + 1:
            growing.add(block[at:end])
            yield growing.line(start + end)
            growing = Growing(keep)
            at = end
        growing.add(block[at:])
        start += len(block)
    if growing.size:
        yield growing.line(start)


class Growing:
    """A line of which the end is not yet seen."""

    __slots__ = ("_decode", "_is_blank", "_keep", "_parts", "size")

    def __init__(self, keep: int) -> None:
        self.size = 0
        self._keep = keep + 1  # and its end
        self._parts: list[bytes] = []
        self._is_blank = True
        self._decode: codecs.IncrementalDecoder | None = None

    def add(self, part: bytes) -> None:
        """Take the next part of the line, as far as it is to be kept."""
        if not part:
            return
        self._parts.append(part[: max(0, self._keep - self.size)])
        self.size += len(part)
        if self._is_blank:
            if self._decode is None and b"!" <= part[:1] <= b"~":
                self._is_blank = False
                return
            # Whitespace may be a character of several bytes, of which this part has but the first.
            self._decode = self._decode or codecs.getincrementaldecoder("utf-8")("replace")
            self._is_blank = not self._decode.decode(part).strip()

    def line(self, end: int) -> Line:
        """Give the line, now that it has ended."""
        if self._is_blank and self._decode is not None:
            self._is_blank = not self._decode.decode(b"", final=True)
        return Line(b"".join(self._parts), end, self._is_blank, self.size > self._keep)


class Samples:
    """Pages of sample files, with an index for each of the files used last."""

    def __init__(self, max_page_bytes: int, max_wire: int) -> None:
        self._max_bytes = max_page_bytes
        self._max_wire = max_wire
        self._indexes: OrderedDict[str, LineIndex] = OrderedDict()
        self._lock = Lock()

    def page(self, held: HeldFile, offset: int, limit: int) -> str:
        """Give the rows of a page as one JSON array."""
        if not limit:
            return "[]"
        rows: list[str] = []
        size = 1
        for line, text in self._rows(held, offset, limit):
            row = None if text is None else _parse(text, line)
            size += 1 + (self._max_bytes if row is None else len(row) if row.isascii() else len(row.encode()))
            if row is None or size > self._max_bytes:
                raise PageTooLarge(self._sendable(rows))
            rows.append(row)
        return f"[{','.join(rows)}]"

    def _sendable(self, rows: list[str]) -> int:
        """Return how many of the rows fit one message; at least one, which is then read in parts."""
        wires = accumulate((compact_json.wire_size(row) + 1 for row in rows), initial=1)
        count = sum(1 for wire in wires if wire <= self._max_wire) - 1
        return min(len(rows), max(count, 1))

    def _rows(self, held: HeldFile, offset: int, limit: int) -> Iterator[tuple[int, bytes | None]]:
        """Give the physical line and the text of each row of a page; None for one that is too long."""
        until = monotonic() + SEARCHING_S
        mark = self._index(held).seek(held, offset, until)
        if mark.byte == 0 and held.read(0, 3) == MARK:
            mark = IndexMark(3, 0, 0)
        mark = skip(held, mark, offset - mark.row)
        row, number = mark.row, mark.line
        for line in lines_from(held, mark.byte, self._max_bytes, until):
            if not line.is_blank:
                if row >= offset:
                    yield number, None if line.is_cut else line.text
                row += 1
                if row >= offset + limit:
                    return
            number += 1

    def _index(self, held: HeldFile) -> LineIndex:
        with self._lock:
            index = self._indexes.get(held.path)
            if index is None or index.stamp != held.stamp:
                index = self._indexes[held.path] = LineIndex(held.stamp)
            self._indexes.move_to_end(held.path)
            if len(self._indexes) > MAX_INDEXES:
                self._indexes.popitem(last=False)
            return index


def _parse(text: bytes, line: int) -> str:
    try:
        return compact_json.dumps(compact_json.loads(text))
    except ValueError as error:
        raise BadRow(line, str(error)) from None
