"""Split a stream of bytes into lines of limited length: one message per line.

Blank lines and `\\r\\n` are accepted. A line over the limit is dropped as it arrives and reported once with its first
bytes, so that it can be answered and the stream continues.
"""

from carrel.core.limits import ID_WINDOW_BYTES
from carrel.core.record import Value


class OverLong(Value, frozen=True):
    """A line that was too long to keep; `head` is its beginning."""

    head: bytes


class Lines:
    """Collects chunks of bytes and returns whole lines."""

    __slots__ = ("_head", "_limit", "_parts", "_size", "_window")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._window = min(limit, ID_WINDOW_BYTES)
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | OverLong]:
        """Add a chunk; return the lines that it completes, without their line ends."""
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
        """Return the last line, which has no line end, at the end of input."""
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
        # Only a final `\r` does not count towards the limit; so the result does not depend on how the bytes were cut.
        if len(line) > self._limit and len(line.removesuffix(b"\r")) > self._limit:
            return OverLong(line[: self._window])
        return line.strip(b" \t\r")

    def _keep(self, piece: bytes) -> None:
        if self._head is not None:
            return
        self._parts.append(piece)
        self._size += len(piece)
        # One byte more is kept for a final `\r`.
        if self._size > self._limit + 1:
            self._head = b"".join(self._parts)[: self._window]
            self._parts.clear()
