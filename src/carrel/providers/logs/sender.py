"""Send the log of a command to another desk while the command runs.

Output is split into lines, secrets are removed, and the lines wait in a bounded ring. One thread sends the lines that
the desk does not have yet, in the form of `spool_lines`. If the desk cannot be reached, the command continues, and the
thread tries again.
"""

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from carrel.core.errors import ConfigError, Unreachable
from carrel.core.isotime import now_ms
from carrel.providers.logs.log import STREAMS, Bounds, Kind, LogOrigin, State
from carrel.providers.logs.ring import LogLine, Ring, Stream
from carrel.providers.logs.spool_lines import SENT_KEYS, End, dropped_line, end_line, entry_line, is_count
from carrel.providers.logs.spooled_log import HEARTBEAT_S

if TYPE_CHECKING:
    from carrel.providers.logs.lines import Assembler

MAX_BYTES: Final = 4_194_304
"""Maximum bytes of lines that wait while the desk cannot be reached; above it, the oldest are dropped."""
MAX_ENTRIES: Final = MAX_BYTES // 64
BATCH_BYTES: Final = 262_144
MAX_LINE_BYTES: Final = 262_144
"""Maximum bytes of a line; a longer one is cut. With escapes, a batch and one line more fit a message to the desk."""
GATHER_S: Final = 0.3
"""How long lines are collected before they are sent."""
RETRY_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
END_S: Final = 30.0
"""How long `end` waits for a desk that answered before."""
NEVER_REACHED_S: Final = 3.0
"""How long `end` tries to reach a desk that never answered."""
LAST_TRY_S: Final = 2.0
"""How long `end` waits after that for the answer to the last try."""


class Receiver(Protocol):
    """The desk that a log is sent to."""

    @property
    def name(self) -> str:
        """Its address, for messages."""

    def post(self, path: str, body: bytes) -> Mapping[str, object]:
        """Post lines; raise `Unreachable` if that may succeed later, and `ConfigError` if not."""


class LogSender:
    """Sends one log. `feed`, `flush` and `end` never raise and do not wait for the desk, except `end` for a while."""

    def __init__(
        self, to: Receiver, kind: Kind, log_id: str, program: str, origin: LogOrigin, warn: Callable[[str], None]
    ) -> None:
        """Prepare a log; `warn` is called with the first problem only."""
        lines = Bounds(MAX_LINE_BYTES, redact=True)
        sent = _with_key(origin, secrets.token_urlsafe(24))
        self._path = f"/logs/{kind}/{log_id}"
        self._header = json.dumps({"program": program, "ms": now_ms(), "origin": sent}).encode() + b"\n"
        self._to = to
        self._warn: Callable[[str], None] | None = warn
        self._ring = Ring(MAX_BYTES, MAX_ENTRIES)
        self._assemblers: dict[Stream, Assembler] = {stream: lines.assembler() for stream in STREAMS}
        self._changed = threading.Condition()
        self._end: End | None = None
        self._newest = 0
        self._is_begun = self._is_done = self._is_hurried = False
        self._is_patient, self._waits = True, False
        self._desk_keeps = float("inf")
        self._give_up_at = float("inf")
        self._thread = threading.Thread(target=self._run, name="carrel-log-sender", daemon=True)

    @property
    def uri(self) -> str:
        """The URI of the log on the desk."""
        return f"logs:/{self._path.removeprefix('/logs')}"

    @property
    def desk(self) -> str:
        """The address of the desk."""
        return self._to.name

    def start(self) -> "LogSender":
        """Begin to send."""
        self._thread.start()
        return self

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add output of the command."""
        self._enter(stream, self._assemblers[stream].feed(data))

    def wait_for_room(self) -> None:
        """Wait until the desk has most of the lines; never again after it did not answer in time.

        A desk that keeps no more than may wait here is not waited for: it would drop the older lines as well.
        """
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            has_room = self._changed.wait_for(self._has_room, END_S if self._is_begun else NEVER_REACHED_S)
            self._is_patient = self._is_patient and has_room

    def _has_room(self) -> bool:
        if self._desk_keeps <= MAX_BYTES or not self._is_patient:
            return True
        count = self._ring.newest - self._newest
        unsent = islice(reversed(self._ring.entries), count)
        return count <= MAX_ENTRIES // 2 and sum(one.line.size for one in unsent) <= 2 * BATCH_BYTES

    def flush(self) -> None:
        """Add unfinished lines."""
        for stream, assembler in self._assemblers.items():
            self._enter(stream, assembler.flush())

    def end(self, exit_code: int | None, state: State = "exited", *, is_patient: bool = False) -> bool:
        """Send the rest and the end; return whether the desk has everything.

        A patient end waits for the answer to the last try, however long it takes, and as long as the desk takes lines.
        """
        for stream, assembler in self._assemblers.items():
            self._enter(stream, assembler.flush(is_end=True))
        with self._changed:
            self._end, self._waits = End(state, exit_code, now_ms()), is_patient
            self._give_up_at = monotonic() + (END_S if self._is_begun else NEVER_REACHED_S)
            self._changed.notify_all()
        while self._thread.is_alive():
            left_s = None if is_patient else self._give_up_at + LAST_TRY_S - monotonic()
            if left_s is not None and left_s <= 0:
                self._warn_once(f"the log is not complete on the desk: {self._to.name} does not answer")
                break
            self._thread.join(left_s)
        return self._is_done

    def _enter(self, stream: Stream, lines: list[LogLine]) -> None:
        if lines:
            with self._changed:
                self._ring.extend(lines, now_ms(), stream)
                self._changed.notify_all()

    # On the thread that sends

    def _run(self) -> None:
        failures = 0
        while not self._is_done and monotonic() < self._give_up_at:
            if failures:
                self._pause(RETRY_S[min(failures, len(RETRY_S)) - 1])
            else:
                self._wait_for_lines()
            try:
                self._send()
                failures = 0
            except Unreachable as error:
                failures += 1
                self._warn_once(f"the log is not sent yet: {error}")
            except ConfigError as error:
                self._warn_once(f"the log is not sent: {error}")
                with self._changed:
                    self._is_patient = False
                    self._changed.notify_all()
                return

    def _warn_once(self, problem: str) -> None:
        with self._changed:
            warn, self._warn = self._warn, None
        if warn is not None:
            warn(problem)

    def _wait_for_lines(self) -> None:
        """Wait until there is something to send, and then a moment for more lines."""
        with self._changed:
            if self._is_begun:
                self._changed.wait_for(lambda: self._ring.newest > self._newest or self._end is not None, HEARTBEAT_S)
                self._changed.wait_for(lambda: self._end is not None or self._is_hurried, GATHER_S)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            was_over = self._end is not None
            self._changed.wait_for(lambda: self._end is not None and not was_over, seconds)

    def _send(self) -> None:
        body, is_all = self._batch()
        answer = self._to.post(self._path, body)
        newest = answer.get("newest")
        if not isinstance(newest, int):
            raise ConfigError("the answer is not that of a Carrel desk; check the address")
        with self._changed:
            if self._end is not None and (not self._is_begun or (self._waits and newest > self._newest)):
                self._give_up_at = monotonic() + END_S
            self._newest, self._is_begun = newest, True
            if is_count(kept := answer.get("max_bytes")):
                self._desk_keeps = kept
            self._changed.notify_all()
            self._is_done = is_all and self._end is not None and newest >= self._ring.newest

    def _batch(self) -> tuple[bytes, bool]:
        """Return the next lines that the desk does not have, and whether the end is among them."""
        with self._changed:
            ring = self._ring
            first = ring.newest - len(ring.entries) + 1
            texts = []
            if first > self._newest + 1:
                texts.append(dropped_line(first - 1, ring.dropped_bytes))
            size = 0
            for entry in islice(ring.entries, max(0, self._newest + 1 - first), None):
                if size > BATCH_BYTES:
                    break
                texts.append(entry_line(entry))
                size += len(texts[-1])
            is_all = size <= BATCH_BYTES and self._end is not None
            if is_all and self._end is not None:
                texts.append(end_line(self._end))
        return self._header + "".join(texts).encode(), is_all


def _with_key(origin: LogOrigin, key: str) -> dict[str, str]:
    """Return the origin of a log in the form of its header, with the sender's key."""
    return {**{name: str(getattr(origin, name)) for name in SENT_KEYS}, "key": key}


_GITHUB: Final = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"), ("GITHUB_SHA",), ("GITHUB_JOB",)
_GITLAB: Final = (
    ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME", "CI_COMMIT_BRANCH"),
    ("CI_COMMIT_SHA",),
    ("CI_JOB_NAME",),
)


def find_origin(environment: Mapping[str, str]) -> LogOrigin:
    """Return the branch, commit and job that GitHub Actions or GitLab names; empty elsewhere."""
    for variables in (_GITHUB, _GITLAB):
        found = [next(filter(None, map(environment.get, names)), "") for names in variables]
        if any(found):
            return LogOrigin(*found)
    return LogOrigin()
