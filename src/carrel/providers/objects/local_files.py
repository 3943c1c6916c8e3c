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
from carrel.core.model import Blob, Stored, Text
from carrel.files.file_types import WINDOW, sniff, type_of
from carrel.files.sandbox import Opened, Special, state_of
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


def etag_of(opened: Opened) -> str:
    """Return an ETag made from the identity, the times and the size of a file."""
    return blake2b(str(state_of(opened.stat)).encode(), digest_size=8).hexdigest()


def open_path(path: str, mime_type: str) -> Stored:
    """Open a regular file; raise OSError if it is none."""
    try:
        opened = Opened(os.open(path, _FLAGS), ())
    except Special:
        raise OSError(errno.EINVAL, "not a regular file", path) from None
    if opened.is_folder:
        opened.close()
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return _stored(opened, path, mime_type)


def take_file(file: BinaryReader, mime_type: str) -> Text | Blob | Stored:
    """Return an open file as an item: a regular file at its start is read in parts, any other is read now."""
    name = getattr(file, "name", "")
    name = name if isinstance(name, str) else ""
    fd = _descriptor(file)
    if fd is not None:
        with ExitStack() as until_closed:
            duplicate = os.dup(fd)
            until_closed.callback(os.close, duplicate)
            file.close()
            until_closed.pop_all()
        return _stored(Opened(duplicate, ()), name, mime_type)
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


def _stored(opened: Opened, name: str, mime_type: str) -> Stored:
    """Return an open file as an item; the catalogue closes it."""
    with ExitStack() as until_known:
        until_known.callback(opened.close)
        head = opened.read(0, WINDOW)
        until_known.pop_all()
    kind = sniff(head, is_whole=opened.size <= len(head))
    return Stored(opened, kind.encoding, mime_type or type_of(os.path.basename(name), is_text=kind.is_text))


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
        return str(state_of(os.stat(path)))
    except OSError as error:
        return f"missing {error.errno}"
