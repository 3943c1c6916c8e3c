"""The newest lines of a log, within exact bounds; dropped lines are counted."""

from collections import deque
from collections.abc import Sequence
from typing import Literal

from carrel.core.record import Value

Stream = Literal["out", "err"]


class LogLine(Value, frozen=True, gc=False):
    """A line: `size` is its bytes plus one for its end, `cut` the bytes that were removed from a longer line."""

    text: str
    size: int
    cut: int = 0
    is_partial: bool = False


class LogEntry(Value, frozen=True, gc=False):
    """A line of a log with its number, time and stream."""

    seq: int
    time_ms: int
    stream: Stream
    line: LogLine


class Ring:
    """A bounded list of entries. It does no locking."""

    def __init__(self, max_bytes: int, max_entries: int) -> None:
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self.entries: deque[LogEntry] = deque()
        self.size = 0
        self.newest = 0
        self.dropped_entries = 0
        self.dropped_bytes = 0

    def extend(self, lines: Sequence[LogLine], time_ms: int, stream: Stream) -> None:
        """Append lines that came together. Lines that would be dropped at once are only counted."""
        first = self._first_kept(lines)
        if first:
            self._drop(len(self.entries))
            self.dropped_entries += first
            self.dropped_bytes += sum([line.size for line in lines[:first]])
            self.newest += first
            lines = lines[first:]
        seq, size = self.newest, self.size
        for line in lines:
            seq += 1
            size += line.size
            self.entries.append(LogEntry(seq, time_ms, stream, line))
        self.newest, self.size = seq, size
        self._trim()

    def skip(self, count: int, size: int) -> None:
        """Count lines that need not be kept, because enough lines to fill the ring follow them."""
        self._drop(len(self.entries))
        self.newest += count
        self.dropped_entries += count
        self.dropped_bytes += size

    def restore(self, entry: LogEntry) -> None:
        """Append an entry that has its number already, such as one from a file."""
        self.entries.append(entry)
        self.newest = entry.seq
        self.size += entry.line.size
        self._trim()

    def _first_kept(self, lines: Sequence[LogLine]) -> int:
        """Return the index of the first of these lines that remains after all are added."""
        at, room = len(lines), self._max_bytes
        least = max(0, at - self._max_entries)
        while at > least and room >= lines[at - 1].size:
            at -= 1
            room -= lines[at].size
        return at

    def _trim(self) -> None:
        count = len(self.entries) - self._max_entries
        if count > 0:
            self._drop(count)
        while self.size > self._max_bytes:
            self._drop(1)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            size = self.entries.popleft().line.size
            self.size -= size
            self.dropped_bytes += size
        self.dropped_entries += count
