"""Logs of `carrel run` on disk: bounded, readable while they are written and after a crash.

`.carrel/logs/<kind>/<id>.jsonl` has one JSON object a line: a header, entries, now and then the number of dropped ones,
and an end. The writer holds a lock on the file: a locked log is running, one that is neither locked nor ended is lost.
Torn and foreign lines are skipped. No link is followed, and folders of other users are not used.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeGuard, get_args

from carrel.core.record import replace
from carrel.files.atomic import FILE_MODE, FOLDER_MODE, keep_out_of_git
from carrel.files.sandbox import belongs_here
from carrel.providers.logs.log import KINDS, STREAMS, Bounds, Kind, LogFacts, State, now_ms, with_ring
from carrel.providers.logs.ring import LogEntry, LogLine, Stream

if TYPE_CHECKING:
    from carrel.providers.logs.lines import Assembler

FOLDER: Final = (".carrel", "logs")
SUFFIX: Final = ".jsonl"
_PLACE: Final = "/".join(FOLDER)
REWRITE_AT: Final = 4
"""A file that is this many times larger than the bounds of a log is rewritten."""

_HALF_MADE_NS: Final = 60 * 10**9
_STATES: Final = frozenset(get_args(State))
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextlib.contextmanager
def opened(root: str, kind: Kind, *, is_made: bool = False) -> Iterator[int]:
    """Open the folder of a kind of logs and yield its handle; with `is_made`, create it first."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        owner = os.fstat(handle).st_uid
        for name in (*FOLDER, kind):
            if is_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=handle)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = inner
            if not belongs_here(os.fstat(handle), owner):
                raise PermissionError(errno.EPERM, f"{_PLACE} belongs to another user")
            if is_made and name == FOLDER[0]:
                keep_out_of_git(handle)
        yield handle
    finally:
        os.close(handle)


def fault(root: str) -> str:
    """Return why logs on disk are not served; empty if they are, or there are none."""
    for kind in KINDS:
        try:
            with opened(root, kind):
                pass
        except FileNotFoundError:
            continue
        except OSError as error:
            in_the_way = f"a part of {_PLACE} is a link, or not a folder"
            return in_the_way if error.errno in (errno.ENOTDIR, errno.ELOOP) else error.strerror or "unreadable"
    return ""


class SpoolWriter:
    """Writes one log. Its methods may raise OSError; the command then runs on without a log."""

    def __init__(self, root: str, kind: Kind, name: str, program: str, bounds: Bounds) -> None:
        """Begin the log `<name>_<µs>`."""
        self._root = root
        self._max_entries = bounds.max_entries
        self._limit = REWRITE_AT * bounds.max_bytes
        self._ring = bounds.ring()
        self._assemblers: dict[Stream, Assembler] = {stream: bounds.assembler() for stream in STREAMS}
        self._facts = LogFacts(kind, _free_id(root, kind, name), program, now_ms())
        self._descriptor = -1
        self._size = self._size_after_rewrite = 0
        self._rewrite()

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add output of the command; whole lines are on disk when this returns."""
        assembler, before = self._assemblers[stream], self._ring.newest
        early, *late = data.rsplit(b"\n", self._max_entries + 1)
        if len(late) > self._max_entries:
            # Enough lines to fill the log follow these, which are only counted.
            counted = assembler.skip(data[: len(early) + 1])
            if counted is not None:
                self._ring.skip(*counted)
                data = data[len(early) + 1 :]
        self._enter(assembler.feed(data), stream, before)

    def flush(self) -> None:
        """Write unfinished lines."""
        for stream, assembler in self._assemblers.items():
            self._enter(assembler.flush(), stream, self._ring.newest)

    @property
    def uri(self) -> str:
        """The URI of the log on every server of the project."""
        return self._facts.uri

    def end(self, exit_code: int | None, state: State = "exited") -> None:
        """Write unfinished lines and the end, and close the file."""
        for stream, assembler in self._assemblers.items():
            self._enter(assembler.flush(is_end=True), stream, self._ring.newest)
        ending = {"end": state, "exit_code": exit_code, "ms": now_ms()}
        self._write(f"{json.dumps(ending)}\n")
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _enter(self, lines: Sequence[LogLine], stream: Stream, before: int) -> None:
        """Write lines; `before` is the number of the newest line on disk."""
        if not lines:
            return
        ring = self._ring
        ring.extend(lines, now_ms(), stream)
        count = min(len(ring.entries), ring.newest - before)
        new = [ring.entries[at] for at in range(-count, 0)]
        texts = [_json_line(entry) for entry in new]
        if ring.newest - before > count:
            dropped = {"dropped_entries": ring.dropped_entries, "dropped_bytes": ring.dropped_bytes}
            texts.insert(0, f"{json.dumps(dropped)}\n")
        self._write("".join(texts))
        if self._size > max(self._limit, 2 * self._size_after_rewrite):
            self._rewrite()

    def _rewrite(self) -> None:
        """Write the kept lines to a new file, which is locked before it gets its name."""
        facts = self._facts
        header = {
            "id": facts.id,
            "program": facts.program,
            "ms": facts.started_ms,
            "dropped_entries": self._ring.dropped_entries,
            "dropped_bytes": self._ring.dropped_bytes,
        }
        text = "".join([f"{json.dumps(header)}\n", *map(_json_line, self._ring.entries)])
        with opened(self._root, facts.kind, is_made=True) as folder:
            hidden = f".{facts.id}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            before, self._descriptor = self._descriptor, os.open(hidden, flags, FILE_MODE, dir_fd=folder)
            self._size = 0
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._write(text)
                os.rename(hidden, f"{facts.id}{SUFFIX}", src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                if before >= 0:
                    os.close(before)
        self._size_after_rewrite = self._size

    def _write(self, text: str) -> None:
        data = memoryview(text.encode())
        self._size += len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]


def _free_id(root: str, kind: Kind, name: str) -> str:
    """Return an id that is free."""
    number = time_ns() // 1_000
    with contextlib.suppress(OSError), opened(root, kind) as folder:
        taken = set(os.listdir(folder))
        while f"{name}_{number}{SUFFIX}" in taken:
            number += 1
    return f"{name}_{number}"


def _json_line(entry: LogEntry) -> str:
    line = entry.line
    more = f',"cut":{line.cut}' if line.cut else ""
    more += ',"partial":true' if line.is_partial else ""
    text = encode_basestring(line.text)
    return f'{{"seq":{entry.seq},"ms":{entry.time_ms},"stream":"{entry.stream}","text":{text}{more}}}\n'


def prune(root: str, keep: int) -> None:
    """Remove the oldest ended logs, and unfinished files that a crash left."""
    ended: list[tuple[int, Kind, str]] = []
    for kind in KINDS:
        with contextlib.suppress(OSError), opened(root, kind) as folder:
            for name in os.listdir(folder):
                with contextlib.suppress(OSError), file(folder, name) as descriptor:
                    modified = os.fstat(descriptor).st_mtime_ns
                    if name.startswith("."):
                        # A young file may be in use by its writer, which even a test of its lock could disturb.
                        if time_ns() - modified > _HALF_MADE_NS and not is_locked(descriptor):
                            os.unlink(name, dir_fd=folder)
                    elif not is_locked(descriptor):
                        ended.append((modified, kind, name))
    for _, kind, name in sorted(ended)[: max(0, len(ended) - keep)]:
        with contextlib.suppress(OSError), opened(root, kind) as folder:
            os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def file(folder: int, name: str) -> Iterator[int]:
    """Open a regular file and yield its descriptor; raise OSError for anything else."""
    descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(name)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(descriptor: int) -> bool:
    """Return whether a process writes the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


Token = tuple[int, int, int, bool]


def token(root: str, kind: Kind, name: str) -> Token | None:
    """Return a token that changes with a log on disk; None if there is no such log."""
    with contextlib.suppress(OSError), opened(root, kind) as folder, file(folder, name + SUFFIX) as descriptor:
        status = os.fstat(descriptor)
        return status.st_ino, status.st_size, status.st_mtime_ns, is_locked(descriptor)
    return None


class SpooledLog:
    """A log that is read from disk, each line once."""

    def __init__(self, kind: Kind, name: str, bounds: Bounds) -> None:
        self._bounds = bounds
        self._most = 16 * bounds.max_bytes + (1 << 20)
        self._place = 0
        self.inode = 0
        self.ring = bounds.ring()
        self.facts = LogFacts(kind, name, "", 0)
        self.has_end = False
        self.is_log = False

    def update(self, descriptor: int) -> None:
        """Read what was added to the file."""
        status = os.fstat(descriptor)
        if status.st_ino != self.inode or status.st_size < self._place:
            # A rewritten file holds everything that is kept, with the same numbers.
            self.inode, self._place, self.has_end = status.st_ino, 0, False
            self.ring = self._bounds.ring()
        if status.st_size - self._place > self._most:
            self._take(os.pread(descriptor, 4_096, 0).partition(b"\n")[0])
            self._place = status.st_size - self._most
        data = os.pread(descriptor, self._most, self._place)
        lines = data.split(b"\n")
        self._place += len(data) - len(lines.pop())
        for line in lines:
            self._take(line)
        self.facts = replace(with_ring(self.facts, self.ring), modified_ms=status.st_mtime_ns // 1_000_000)

    def _take(self, line: bytes) -> None:
        """Add one line; skip a torn or foreign one."""
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(given, dict):
            return
        if "seq" in given:
            self._take_entry(given)
        elif "end" in given:
            state, code, ended = given["end"], given.get("exit_code"), given.get("ms")
            if isinstance(state, str) and state in _STATES and (code is None or _is_count(code)) and _is_count(ended):
                self.facts = replace(self.facts, state=state, exit_code=code, ended_ms=ended)
                self.has_end = True
        else:
            self._take_counts(given)

    def _take_counts(self, given: dict[str, Any]) -> None:
        """Add the header, or the number of entries that were dropped before the next one."""
        if isinstance(given.get("program"), str) and _is_count(given.get("ms")):
            self.is_log = True
            program = _sound(given["program"])[:200]
            self.facts = replace(self.facts, program=program, started_ms=given["ms"])
        if _is_count(given.get("dropped_entries")) and _is_count(given.get("dropped_bytes")):
            self.ring = self._bounds.ring()
            self.ring.dropped_entries = self.ring.newest = given["dropped_entries"]
            self.ring.dropped_bytes = given["dropped_bytes"]

    def _take_entry(self, given: dict[str, Any]) -> None:
        seq, time_ms, stream, text = given["seq"], given.get("ms"), given.get("stream"), given.get("text")
        if not (
            _is_count(seq)
            and _is_count(time_ms)
            and isinstance(stream, str)
            and stream in STREAMS
            and isinstance(text, str)
        ):
            return
        text = _sound(text)
        size = len(text.encode()) + 1
        if seq > self.ring.newest and size <= self._bounds.max_bytes:
            cut = given.get("cut")
            line = LogLine(text, size, cut if _is_count(cut) else 0, given.get("partial") is True)
            self.ring.restore(LogEntry(seq, time_ms, stream, line))


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _sound(text: str) -> str:
    """Return a text, which may come from another program, without control characters."""
    if text.isprintable():
        return text
    text = text.encode(errors="replace").decode()
    return "".join(c for c in text if c == "\t" or not (c < " " or "\x7f" <= c <= "\x9f"))
