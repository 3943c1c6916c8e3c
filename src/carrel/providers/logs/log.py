"""A log in memory: its lines, and the state of its process."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.errors import ConfigError
from carrel.core.isotime import iso, now_ms
from carrel.core.record import Value, replace
from carrel.providers.logs.ring import LogEntry, LogLine, Ring, Stream

if TYPE_CHECKING:
    from carrel.providers.logs.lines import Assembler

Kind = Literal["run", "build"]
State = Literal["running", "exited", "stopped", "timed-out", "cancelled", "not-started", "lost"]

KINDS: Final[tuple[Kind, ...]] = ("build", "run")
STREAMS: Final[tuple[Stream, ...]] = ("out", "err")
LEAST_BYTES: Final = 64
"""Minimum bytes of a log: enough for a cut line and its mark."""
RUNNING_TTL_MS: Final = 0
ENDED_TTL_MS: Final = 60_000


class Bounds(Value, frozen=True):
    """How much of one log is kept, and whether secrets are removed."""

    max_bytes: int = 102_400
    max_entries: int = 1_000
    redact: bool = True

    def check(self) -> "Bounds":
        """Return these bounds; raise `ConfigError` if they are too small."""
        if self.max_bytes < LEAST_BYTES or self.max_entries < 1:
            raise ConfigError(f"[logs]: max_bytes must be at least {LEAST_BYTES}, max_entries at least 1")
        return self

    def ring(self) -> Ring:
        """Return a ring of this size."""
        return Ring(self.max_bytes, self.max_entries)

    def assembler(self) -> "Assembler":
        """Return an assembler for the lines of one stream."""
        from carrel.providers.logs.lines import Assembler  # their patterns are compiled only when there is a log
        from carrel.providers.logs.redaction import Redactor

        return Assembler(self.max_bytes, Redactor() if self.redact else None)


class Retention(Value, frozen=True):
    """How many logs of other machines are kept, for how long, and how many bytes they may have on disk.

    `share` is how much of the number and of the bytes one caller may have, in percent.
    """

    max_logs: int
    days: int
    total_bytes: int
    share: int = 100


class LogOrigin(Value, frozen=True):
    """Where a log was sent from.

    `key` is the hash of the sender's secret: only the sender may add to the log. `caller` is whose token was used.
    """

    branch: str = ""
    commit: str = ""
    job: str = ""
    key: str = ""
    caller: str = ""

    def meta(self) -> dict[str, object]:
        """Return the `_meta` of a list entry and of a read."""
        named = {"branch": self.branch, "commit": self.commit, "job": self.job}
        return {f"dev.carrel/{name}": value for name, value in named.items() if value}

    @property
    def description(self) -> str:
        """The job, branch and commit in a few words."""
        return " ".join(filter(None, (self.job, f"on {self.branch}" if self.branch else "", self.commit[:12])))


class LogFacts(Value, frozen=True):
    """The facts of a log beside its lines. `origin` is set for a log that another machine sent."""

    kind: Kind
    id: str
    program: str
    started_ms: int
    state: State = "running"
    exit_code: int | None = None
    ended_ms: int | None = None
    modified_ms: int = 0
    entries: int = 0
    size: int = 0
    newest: int = 0
    dropped_entries: int = 0
    dropped_bytes: int = 0
    origin: LogOrigin | None = None

    @property
    def uri(self) -> str:
        """The URI."""
        return f"logs://{self.kind}/{self.id}"

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.state == "running"

    @property
    def etag(self) -> str:
        """The ETag."""
        return f"{self.newest}-{self.state}"

    @property
    def ttl_ms(self) -> int:
        """How long a copy stays fresh."""
        return RUNNING_TTL_MS if self.is_running else ENDED_TTL_MS

    @property
    def duration_ms(self) -> int:
        """How long the process ran, or has run until now."""
        end = self.ended_ms if self.ended_ms is not None else now_ms() if self.is_running else self.modified_ms
        return max(0, end - self.started_ms)

    @property
    def ending(self) -> str:
        """The state of the process in words."""
        if self.is_running or self.state in ("not-started", "lost"):
            return self.state
        code = "" if self.exit_code is None else f" {self.exit_code}"
        return f"{self.state}{code} after {self.duration_ms / 1000:.1f} s"

    @property
    def description(self) -> str:
        """The state and the size of the log in one line."""
        noun = "entry" if self.entries == 1 else "entries"
        counted = f"{self.ending}, {self.entries} {noun}, {self.dropped_entries} dropped"
        sent = "" if self.origin is None else self.origin.description
        return f"{sent}: {counted}" if sent else counted

    def meta(self) -> dict[str, object]:
        """Return the `_meta` of a list entry and of a read."""
        return {
            "dev.carrel/entries": self.entries,
            "dev.carrel/dropped-entries": self.dropped_entries,
            "dev.carrel/dropped-bytes": self.dropped_bytes,
            "dev.carrel/state": self.state,
            "dev.carrel/exit-code": self.exit_code,
            "dev.carrel/started-at": iso(self.started_ms),
            "dev.carrel/duration-ms": self.duration_ms,
            **({} if self.origin is None else self.origin.meta()),
        }


def with_ring(facts: LogFacts, ring: Ring) -> LogFacts:
    """Return the facts with the present counts of the ring."""
    return replace(
        facts,
        entries=len(ring.entries),
        size=ring.size,
        newest=ring.newest,
        dropped_entries=ring.dropped_entries,
        dropped_bytes=ring.dropped_bytes,
        modified_ms=max(facts.modified_ms, ring.entries[-1].time_ms if ring.entries else facts.started_ms),
    )


class Log:
    """The log of one of this server's processes. Written by one thread, read by any."""

    def __init__(self, kind: Kind, name: str, program: str, bounds: Bounds, started_ms: int) -> None:
        self._facts = LogFacts(kind, name, program, started_ms, modified_ms=started_ms)
        self._ring = bounds.ring()
        self._assemblers: Mapping[Stream, Assembler] = {stream: bounds.assembler() for stream in STREAMS}
        self._lock = threading.Lock()

    @property
    def facts(self) -> LogFacts:
        """The present facts."""
        with self._lock:
            return with_ring(self._facts, self._ring)

    def snapshot(self) -> tuple[LogFacts, tuple[LogEntry, ...]]:
        """Return the facts and the entries at one moment."""
        with self._lock:
            return with_ring(self._facts, self._ring), tuple(self._ring.entries)

    def last_line(self) -> tuple[int, str]:
        """Return the newest entry's number and text."""
        with self._lock:
            return self._ring.newest, self._ring.entries[-1].line.text if self._ring.entries else ""

    def feed(self, stream: Stream, data: bytes) -> bool:
        """Add output of the process; return whether a line ended."""
        return self._enter(self._assemblers[stream].feed(data), stream)

    def flush(self, stream: Stream, *, is_end: bool = False) -> bool:
        """Add an unfinished line; return whether there was one."""
        return self._enter(self._assemblers[stream].flush(is_end=is_end), stream)

    def say(self, text: str) -> None:
        """Add a line by Carrel itself, such as the reason why the program was not started."""
        self._enter([LogLine(text, len(text.encode()) + 1)], "err")

    def end(self, state: State, exit_code: int | None) -> None:
        """Record the end of the process."""
        with self._lock:
            ended = now_ms()
            self._facts = replace(self._facts, state=state, exit_code=exit_code, ended_ms=ended, modified_ms=ended)

    def _enter(self, lines: list[LogLine], stream: Stream) -> bool:
        if lines:
            with self._lock:
                self._ring.extend(lines, now_ms(), stream)
        return bool(lines)
