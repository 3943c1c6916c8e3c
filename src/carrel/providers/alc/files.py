"""Files of alc, opened below their base and nowhere else, and what is made of them when it is asked for.

Absent, Escapes and Failed say why a file was not opened; which message a client gets is decided
where the kind of the file is known.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

from carrel.digest import sha256
from carrel.providers.alc.compact import NOT_UTF8
from carrel.sandbox import GONE, Missing, Opened, Outside, Root, SandboxError, Special, Unreadable, is_inside

NOT_REGULAR: Final = "not a regular file"
ETAG_DIGITS: Final = 16

Stamp = tuple[int, int, int]
"""What changes when a file does: inode, time and size."""


class FileError(Exception):
    """A file was not opened, or cannot be served."""


class Absent(FileError):
    """Nothing is there."""


class Escapes(FileError):
    """It leads out of its base."""


class Failed(FileError):
    """It is there and cannot be read; `reason` is told to the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Oversized(FileError):
    """It is larger than what is read whole."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit


def stamp_of(found: os.stat_result) -> Stamp:
    """Give what changes when a file does."""
    return found.st_ino, found.st_mtime_ns, found.st_size


def etag_of(*inputs: object) -> str:
    """Make an ETag of its inputs."""
    text = "\0".join(map(str, inputs))
    digest: str = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest[:ETAG_DIGITS]


class Held:
    """A regular file, open: what was found is what is read."""

    def __init__(self, opened: Opened, path: str) -> None:
        self._opened = opened
        self.path = path
        self.stat = opened.stat
        self.size = opened.stat.st_size
        self.modified_ms = opened.stat.st_mtime_ns // 1_000_000

    @property
    def stamp(self) -> Stamp:
        """What changes when the file does."""
        return stamp_of(self.stat)

    def etag(self, *more: object) -> str:
        """Make an ETag of where the file is, when it changed and how large it is."""
        return etag_of(self.path, self.stat.st_mtime_ns, self.size, *more)

    def read(self, start: int, length: int) -> bytes:
        """Give bytes, as far as the file reached when it was opened."""
        try:
            return self._opened.read(start, min(length, self.size - start))
        except Unreadable as error:
            reason = os.strerror(error.errno)
        except SandboxError:
            reason = os.strerror(5)
        raise Failed(reason)

    def read_all(self, limit: int) -> bytes:
        """Give the whole file, unless it is larger than the limit."""
        if self.size > limit:
            raise Oversized(self.size, limit)
        return self.read(0, self.size)

    def read_text(self, limit: int) -> bytes:
        """Give the whole file, which must be UTF-8."""
        data = self.read_all(limit)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise Failed(NOT_UTF8) from None
        return data

    def has_moved(self) -> bool:
        """Tell whether the file changed since it was opened."""
        return stamp_of(os.fstat(self._opened.fd)) != self.stamp

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Rendering:
    """What a file gives, made when it is first asked for: a condition that holds never asks."""

    def __init__(self, held: Held | None, make: Callable[[], bytes]) -> None:
        self._held = held
        self._make = make
        self._made: bytes | None = None

    @property
    def size(self) -> int:
        """Give the length of the text, in bytes."""
        return len(self._data())

    def read(self, start: int, length: int) -> bytes:
        """Give a part of the text."""
        return self._data()[start : start + length]

    def has_moved(self) -> bool:
        """Tell whether the file changed meanwhile."""
        return self._held is not None and self._held.has_moved()

    def close(self) -> None:
        """Close the file."""
        if self._held is not None:
            self._held.close()

    def _data(self) -> bytes:
        if self._made is None:
            self._made = self._make()
        return self._made


def is_there(path: str) -> bool:
    """Tell whether there is anything at a path, links followed; what cannot be looked at is there."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno not in GONE
    return True


def open_below(folder: str, segments: Sequence[str]) -> Held:
    """Open a regular file whose real path lies below the real path of a folder."""
    try:
        with Root(folder) as root:
            opened = _open(root, folder, segments)
            path = "/".join((root.path, *opened.real))
    except OSError as error:
        if error.errno in GONE:
            raise Absent from None
        raise Failed(error.strerror or "unknown error") from None
    if opened.is_folder:
        opened.close()
        raise Failed(NOT_REGULAR)
    return Held(opened, path)


def _open(root: Root, folder: str, segments: Sequence[str]) -> Opened:
    failure: FileError
    try:
        try:
            return root.open(segments)
        except Outside:
            return root.open(_inside(root, os.path.join(folder, *segments)))
    except Missing:
        failure = Absent()
    except Outside:
        failure = Escapes()
    except Special:
        failure = Failed(NOT_REGULAR)
    except Unreadable as error:
        failure = Failed(os.strerror(error.errno))
    raise failure


def _inside(root: Root, path: str) -> list[str]:
    """Give where a link that leaves the folder on its way comes back into it."""
    if not is_there(path):
        raise Missing
    real = os.path.realpath(path)
    if real == root.path or not is_inside(real, root.path):
        raise Outside
    return os.path.relpath(real, root.path).split("/")


def read_plain(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Read a file that is not served itself, wherever it leads; never waits for a FIFO."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno in GONE:
            raise Absent from None
        raise Failed(error.strerror or "unknown error") from None
    try:
        opened = Opened(fd, ())
    except Special:
        raise Failed(NOT_REGULAR) from None
    with Held(opened, path) as held:
        if opened.is_folder:
            raise Failed(NOT_REGULAR)
        return held.read_all(limit), held.stat
