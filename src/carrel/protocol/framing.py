"""Bytes to lines, bounded: one message a line, whatever pieces the bytes come in.

Blank lines and `\\r\\n` are borne. A line over the limit is thrown away as it comes, and
reported once with its first bytes, so that it can be answered and the stream goes on.
"""

from carrel.core.limits import ID_WINDOW_BYTES
from carrel.core.record import Value


class OverLong(Value, frozen=True):
    """A line that was too long to keep; `head` is how it began."""

    head: bytes


class Lines:
    """Collects chunks and gives whole lines."""

    __slots__ = ("_head", "_limit", "_parts", "_size", "_window")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._window = min(limit, ID_WINDOW_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | OverLong]:
        """Take a chunk; give the lines it completes, without their line ends."""
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines: list[bytes | OverLong] = []
        for piece in pieces:
            line = self._complete(piece)
            if line:
                lines.append(line)
        if rest:
            self._keep(rest)
        return lines

    def end(self) -> list[bytes | OverLong]:
        """Take the end of input: a last line without line end still counts."""
        line = self._complete(b"")
        return [line] if line else []

    def _complete(self, piece: bytes) -> bytes | OverLong | None:
        if self._size or self._head is not None:
            self._keep(piece)
            head, line = self._head, b"".join(self._parts)
            self._parts.clear()
            self._size, self._head = 0, None
            if head is not None:
                return OverLong(head)
        else:
            line = piece
        # The `\r` that may end the line does not count; all else does, so that it never matters how the bytes came.
        if len(line) > self._limit and len(line.removesuffix(b"\r")) > self._limit:
            return OverLong(line[: self._window])
        return line.strip(b" \t\r")

    def _keep(self, piece: bytes) -> None:
        if self._head is not None:
            return
        self._parts.append(piece)
        self._size += len(piece)
        # One byte more is let in for the `\r` that may end the line.
        if self._size > self._limit + 1:
            self._head = b"".join(self._parts)[: self._window]
            self._parts.clear()
