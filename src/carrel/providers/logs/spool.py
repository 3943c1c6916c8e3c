"""Logs of `carrel run` on disk: bounded, readable while they are written and after a crash.

`.carrel/logs/<kind>/<id>.jsonl` has one JSON object a line: a header, entries, now and then the number of dropped ones,
and an end. The writer holds a lock on the file: a locked log is running, one that is neither locked nor ended is lost.
Incomplete and unknown lines are skipped. No link is followed, and folders of other users are not used.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Final

from carrel.core.isotime import now_ms
from carrel.files.atomic import FILE_MODE, FOLDER_MODE, keep_out_of_git
from carrel.files.sandbox import belongs_here
from carrel.providers.logs.log import KINDS, STREAMS, Bounds, Kind, LogFacts, State, with_ring
from carrel.providers.logs.ring import LogEntry, LogLine, Stream
from carrel.providers.logs.spool_lines import End, Header, dropped_line, end_line, entry_line, header_line, parse

if TYPE_CHECKING:
    from carrel.providers.logs.lines import Assembler

FOLDER: Final = (".carrel", "logs")
SUFFIX: Final = ".jsonl"
_PLACE: Final = "/".join(FOLDER)
REWRITE_AT: Final = 4
"""A file that is this many times larger than the bounds of a log is rewritten."""

_HALF_MADE_NS: Final = 60 * 10**9
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


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
        self._write(end_line(End(state, exit_code, now_ms())))
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
        texts = [entry_line(entry) for entry in new]
        if ring.newest - before > count:
            texts.insert(0, dropped_line(ring.dropped_entries, ring.dropped_bytes))
        self._write("".join(texts))
        if self._size > max(self._limit, 2 * self._size_after_rewrite):
            self._rewrite()

    def _rewrite(self) -> None:
        """Write the kept lines to a new file, which is locked before it gets its name."""
        facts = with_ring(self._facts, self._ring)
        with opened(self._root, facts.kind, is_made=True) as folder:
            before = self._descriptor
            try:
                self._descriptor, self._size = -1, 0
                self._descriptor, self._size = write_whole(folder, facts, self._ring.entries)
            finally:
                if before >= 0:
                    os.close(before)
        self._size_after_rewrite = self._size

    def _write(self, text: str) -> None:
        self._size += write(self._descriptor, text)


def write_whole(folder: int, facts: LogFacts, entries: Iterable[LogEntry]) -> tuple[int, int]:
    """Write a log to a new file, which replaces the old one; return its locked descriptor and its size."""
    hidden = f".{facts.id}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(hidden, dir_fd=folder)
    descriptor = os.open(hidden, _NEW_FILE_FLAGS, FILE_MODE, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = write(descriptor, "".join([header_line(facts), *map(entry_line, entries)]))
        os.rename(hidden, f"{facts.id}{SUFFIX}", src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size


def write(descriptor: int, text: str) -> int:
    """Write a text and return its bytes."""
    data = memoryview(text.encode())
    size = len(data)
    while data:
        data = data[os.write(descriptor, data) :]
    return size


def write_mirrored(folder: int, name: str, data: bytes, *, is_new: bool, modified_ns: int) -> int:
    """Write a copy of a log, or add to it; return its inode. A new log replaces the old one when it is complete."""
    written = f".{name}.new" if is_new else name + SUFFIX
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    flags |= os.O_CREAT | os.O_TRUNC if is_new else os.O_APPEND
    with open(written, "wb", opener=lambda path, _: os.open(path, flags, FILE_MODE, dir_fd=folder)) as file:
        file.write(data)
    os.utime(written, ns=(modified_ns, modified_ns), dir_fd=folder)
    if is_new:
        os.rename(written, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
    return os.stat(name + SUFFIX, dir_fd=folder).st_ino


def _free_id(root: str, kind: Kind, name: str) -> str:
    """Return an id that is free."""
    number = time_ns() // 1_000
    with contextlib.suppress(OSError), opened(root, kind) as folder:
        taken = set(os.listdir(folder))
        while f"{name}_{number}{SUFFIX}" in taken:
            number += 1
    return f"{name}_{number}"


def prune(root: str, keep: int) -> None:
    """Remove the oldest ended logs of this machine, and unfinished files that a crash left."""
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
                    elif not is_locked(descriptor) and not is_pushed(descriptor):
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


HEADER_BYTES: Final = 8_192
"""Bytes at the beginning of a file that contain its header."""
_END_BYTES: Final = 1_024
"""Bytes at the end of a file that contain the line about the end."""


def header_of(descriptor: int) -> Header | None:
    """Return the header of a log; None if the file is not one."""
    found = parse(os.pread(descriptor, HEADER_BYTES, 0).partition(b"\n")[0])
    return found if isinstance(found, Header) else None


def end_of(descriptor: int) -> End | None:
    """Return how the process of a log ended; None if the last line does not say so."""
    size = os.fstat(descriptor).st_size
    last = os.pread(descriptor, _END_BYTES, max(0, size - _END_BYTES)).removesuffix(b"\n").rpartition(b"\n")[2]
    found = parse(last)
    return found if isinstance(found, End) else None


def is_pushed(descriptor: int) -> bool:
    """Return whether another machine sent the log."""
    header = header_of(descriptor)
    return header is not None and header.origin is not None


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
