"""Files that a function names or opens: read in parts, and watched by their state."""

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Final, Protocol

from carrel.core.content import decode
from carrel.core.hashing import blake2b
from carrel.core.model import Blob, Item, Stored, Text
from carrel.files.file_types import WINDOW, sniff, type_of
from carrel.providers.objects.conversion import InvalidResult

MAX_STREAM_BYTES: Final = 64 << 20
"""Bytes taken from a file object that is no regular file, such as a `BytesIO` or a decompressor."""

MAX_WATCHED: Final = 10_000
"""Files and folders looked at below one watched folder."""

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
"""A named pipe without a writer would block an open without `O_NONBLOCK`."""


class BinaryReader(Protocol):
    """A file object opened for reading bytes."""

    def read(self, size: int = -1, /) -> object:
        """Return bytes."""

    def close(self) -> None:
        """Close the file."""


class OpenFile:
    """A regular file as a `Source`: only the parts that are asked for are read."""

    def __init__(self, file: BinaryReader, fd: int) -> None:
        self._file = file
        self._fd = fd
        self._state = os.fstat(fd)
        self.size = self._state.st_size

    @property
    def etag(self) -> str:
        """An ETag made from the identity, the times and the size of the file."""
        return blake2b(_state_of(self._state).encode(), digest_size=8).hexdigest()

    @property
    def modified_ms(self) -> int:
        """When the file was last written."""
        return self._state.st_mtime_ns // 1_000_000

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, at most `length`; fewer only at the end."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self._fd, length, start)):
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join(parts)

    def has_moved(self) -> bool:
        """Return whether the file changed since it was opened."""
        return _state_of(os.fstat(self._fd)) != _state_of(self._state)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_path(path: str, mime_type: str) -> Stored:
    """Open a regular file; raise OSError if it is none."""
    with ExitStack() as until_checked:
        file = until_checked.enter_context(open(os.open(path, _FLAGS), "rb", buffering=0))
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        item = _stored(file, file.fileno(), path, mime_type)
        until_checked.pop_all()  # the catalogue closes the file
    return item


def take_file(file: BinaryReader, mime_type: str) -> Text | Blob | Stored:
    """Return an open file as an item: a regular file at its start is read in parts, any other is read now."""
    name = getattr(file, "name", "")
    name = name if isinstance(name, str) else ""
    fd = _descriptor(file)
    if fd is not None:
        return _stored(file, fd, name, mime_type)
    try:
        data = file.read(MAX_STREAM_BYTES + 1)
    finally:
        file.close()
    if not isinstance(data, bytes):
        raise InvalidResult("the file was not opened in binary mode")
    if len(data) > MAX_STREAM_BYTES:
        raise InvalidResult(f"the file has more than {MAX_STREAM_BYTES} bytes and is no regular file")
    kind = sniff(data[:WINDOW], is_whole=len(data) <= WINDOW)
    mime_type = mime_type or type_of(os.path.basename(name), is_text=kind.is_text)
    return Text(decode(data, kind.encoding)[0], mime_type) if kind.is_text else Blob(data, mime_type)


def _stored(file: BinaryReader, fd: int, name: str, mime_type: str) -> Stored:
    source = OpenFile(file, fd)
    head = source.read(0, WINDOW)
    kind = sniff(head, is_whole=source.size <= len(head))
    return Stored(source, kind.encoding, mime_type or type_of(os.path.basename(name), is_text=kind.is_text))


def _descriptor(file: object) -> int | None:
    """Return the descriptor of a regular file that nothing was read from yet; None for anything else."""
    opened = getattr(file, "file", file)  # `tempfile` wraps the real one
    raw = getattr(opened, "raw", opened)
    if not isinstance(raw, io.FileIO) or raw.closed or not raw.readable():
        return None
    if isinstance(opened, io.BufferedRandom):
        opened.flush()
    is_regular = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
    is_at_start = isinstance(opened, io.RawIOBase | io.BufferedIOBase) and opened.tell() == 0
    return raw.fileno() if is_regular and is_at_start else None


def close_files(items: Iterable[Item]) -> None:
    """Close the files that items are read from."""
    for item in items:
        if isinstance(item, Stored):
            item.source.close()


# Watching


def fingerprint(paths: Iterable[str]) -> str:
    """Return a text that changes when a file changes, or a file at any depth of a folder does."""
    state = blake2b(digest_size=8)
    for path in paths:
        for line in _states(path):
            state.update(line.encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def _states(path: str) -> Iterator[str]:
    yield _state_at(path)
    count = 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted((*folders, *files)):
            count += 1
            if count > MAX_WATCHED:
                return
            inner = os.path.join(folder, name)
            yield f"{inner}\0{_state_at(inner)}\0"


def _state_at(path: str) -> str:
    try:
        return _state_of(os.stat(path))
    except OSError as error:
        return f"missing {error.errno}"


def _state_of(found: os.stat_result) -> str:
    times = f"{found.st_mtime_ns} {found.st_ctime_ns}"
    return f"{found.st_dev} {found.st_ino} {found.st_mode} {times} {found.st_size}"
