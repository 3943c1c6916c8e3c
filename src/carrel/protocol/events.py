"""Split a `text/event-stream` into messages of limited length, for a client.

Only the data of events is used; names, ids, comments and retry times are ignored.
"""

import re
from typing import Final

from carrel.core.limits import ID_WINDOW_BYTES
from carrel.protocol.framing import OverLong

_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!$)")


class Events:
    """Collects chunks of bytes and returns the data of whole events."""

    __slots__ = ("_data", "_limit", "_rest", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes | OverLong]:
        """Add a chunk; return the data of the events that it completes."""
        lines = _LINE_END.split(self._rest + chunk)
        self._rest = lines.pop()
        found: list[bytes | OverLong] = []
        for line in lines:
            if line:
                self._take(line)
            elif self._size:
                found.append(self._complete())
            else:
                self._data = []  # an event without data only keeps the stream alive or sets an id
        if len(self._rest) > self._limit + ID_WINDOW_BYTES:
            # Keep only what may contain the id; the rest of the line is dropped.
            self._size += len(self._rest)
            self._rest = self._rest[:ID_WINDOW_BYTES]
        return found

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(self._data[-1])

    def _complete(self) -> bytes | OverLong:
        data, size = b"\n".join(self._data), self._size
        self._data, self._size = [], 0
        return OverLong(data[:ID_WINDOW_BYTES]) if size > self._limit else data
