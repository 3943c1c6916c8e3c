"""Read a log on disk, each line once, while its writer continues."""

import os
from time import time
from typing import Final

from carrel.core.record import Value, replace
from carrel.providers.logs.log import Bounds, Kind, LogFacts, with_ring
from carrel.providers.logs.ring import LogEntry
from carrel.providers.logs.spool import end_of, header_of
from carrel.providers.logs.spool_lines import Dropped, End, Header, SpoolLine, parse

LOST_S: Final = 120.0
"""Silence after which the sender of a log counts as lost. A sender sends a batch at least every `HEARTBEAT_S`."""
HEARTBEAT_S: Final = 30.0


class SpoolBounds(Value, frozen=True):
    """How much is kept of a log of this machine, and of a log that another machine sent."""

    own: Bounds
    pushed: Bounds

    def of(self, header: Header) -> Bounds:
        """Return the bounds of a log."""
        return self.own if header.origin is None else self.pushed


class SpooledLog:
    """A log that is read from disk, each line once."""

    def __init__(self, kind: Kind, name: str, bounds: SpoolBounds) -> None:
        self._bounds = bounds
        self._chosen = bounds.own
        self._place = 0
        self.inode = 0
        self.ring = self._chosen.ring()
        self.facts = LogFacts(kind, name, "", 0)
        self.has_end = False
        self.is_log = False

    def update(self, descriptor: int) -> None:
        """Read the lines that were added to the file."""
        status = os.fstat(descriptor)
        if status.st_ino != self.inode or status.st_size < self._place:
            # A rewritten file holds everything that is kept, with the same numbers.
            self.inode, self._place, self.has_end = status.st_ino, 0, False
            header = header_of(descriptor)
            self._chosen = self._bounds.own if header is None else self._bounds.of(header)
            self.ring = self._chosen.ring()
            self._take(header)
        most = 16 * self._chosen.max_bytes + (1 << 20)
        self._place = max(self._place, status.st_size - most)
        data = os.pread(descriptor, most, self._place)
        lines = data.split(b"\n")
        self._place += len(data) - len(lines.pop())
        for line in lines:
            self._take(parse(line))
        self.facts = replace(with_ring(self.facts, self.ring), modified_ms=status.st_mtime_ns // 1_000_000)

    def _take(self, line: SpoolLine | None) -> None:
        """Add one line; skip an incomplete or unknown one."""
        if isinstance(line, LogEntry):
            if line.seq > self.ring.newest and line.line.size <= self._chosen.max_bytes:
                self.ring.restore(line)
        elif isinstance(line, End):
            self.facts = replace(self.facts, state=line.state, exit_code=line.exit_code, ended_ms=line.ended_ms)
            self.has_end = True
        elif isinstance(line, Header):
            self.is_log = True
            self.facts = replace(self.facts, program=line.program, started_ms=line.started_ms, origin=line.origin)
            self._take(line.dropped)
        elif isinstance(line, Dropped):
            self.ring = self._chosen.ring()
            self.ring.dropped_entries = self.ring.newest = line.entries
            self.ring.dropped_bytes = line.size


def is_reporting(modified_s: float) -> bool:
    """Return whether the sender of a log without an end is still there, by the time of its last batch."""
    return time() - modified_s < LOST_S


def ended_facts(descriptor: int, kind: Kind, name: str) -> LogFacts | None:
    """Return the facts of an ended log from its first and last line; None where all its lines must be read."""
    end, header = end_of(descriptor), header_of(descriptor)
    if end is None or end.counts is None or header is None:
        return None
    entries, size, newest, dropped_entries, dropped_bytes = end.counts
    return LogFacts(
        kind,
        name,
        header.program,
        header.started_ms,
        end.state,
        end.exit_code,
        end.ended_ms,
        os.fstat(descriptor).st_mtime_ns // 1_000_000,
        entries,
        size,
        newest,
        dropped_entries,
        dropped_bytes,
        header.origin,
    )
