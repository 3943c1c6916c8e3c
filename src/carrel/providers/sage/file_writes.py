"""Write files as a whole: write to a temporary file, sync it, rename it, and sync the folder.

A folder is opened one name at a time and never through a link. Files are 0600, new folders 0700. A killed process
leaves each file old or new, and at most a temporary file, whose leading dot keeps it out of the list.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from carrel.core.provider import Project
from carrel.files.atomic import FILE_MODE, FOLDER_MODE
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import belongs_here
from carrel.providers.sage.folders import DENIED, NOT_PERMITTED

MAX_TRIES: Final = 10_000
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_REASONS: Final = {
    **dict.fromkeys((errno.ENOTDIR, errno.ELOOP, errno.EMLINK), "not a regular file"),
    **dict.fromkeys(NOT_PERMITTED, "permission denied"),
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EFBIG: "the file is too large for the disk",
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files",
}
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class WriteFailed(Exception):
    """Nothing was written; `reason` is for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NameTaken(Exception):
    """There is already a file of that name."""


@contextmanager
def reasons() -> Iterator[None]:
    """Raise an `OSError` as `WriteFailed`, with a reason that says what to do about it."""
    try:
        yield
    except OSError as error:
        raise WriteFailed(_REASONS.get(error.errno or 0, "I/O error")) from None


class FolderWriter:
    """Opens folders to write to, below the Sage folder, and creates missing ones."""

    def __init__(self, project: Project, data: DataFolder) -> None:
        self._data = data
        self._start = data.path if data.is_named else project.root
        self._segments = () if data.is_named else tuple(os.path.relpath(data.path, project.root).split(os.sep))

    @contextmanager
    def folder(self, *segments: str) -> Iterator[int]:
        """Open a folder, never through a link nor in another user's folder; raise `WriteFailed`."""
        if os.pardir in self._segments:
            raise WriteFailed("outside the project")
        if not self._data.is_named and self._data.is_denied():
            raise WriteFailed(DENIED)
        with reasons():
            if not self._segments:
                os.makedirs(self._start, FOLDER_MODE, exist_ok=True)
            handle = os.open(os.path.realpath(self._start), _FOLDER)
        try:
            owner = os.fstat(handle).st_uid
            for name in (*self._segments, *segments):
                inner = _enter(handle, name, owner)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def make(self, *segments: str) -> list[tuple[str, ...]]:
        """Create a folder and those above it; return the new ones, each as its names below the Sage folder."""
        every = [segments[:length] for length in range(len(segments) + 1)]
        new = [names for names in every if not os.path.isdir(os.path.join(self._start, *self._segments, *names))]
        with self.folder(*segments):
            return new


def _enter(handle: int, name: str, owner: int) -> int:
    """Open a folder in another, and create it if it is missing."""
    with reasons():
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=handle)
            os.fsync(handle)
        inner = os.open(name, _FOLDER, dir_fd=handle)
    if not belongs_here(os.fstat(inner), owner):
        os.close(inner)
        raise WriteFailed("the folder belongs to another user")
    return inner


def replace(handle: int, name: str, data: bytes, is_current: Callable[[], bool] = lambda: True) -> bool:
    """Replace a file if `is_current`, called just before, returns true; return what it returned."""
    with reasons():
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise WriteFailed("not a regular file")
        with _temporary(handle, name, data) as written:
            if not is_current():
                return False
            os.rename(written, name, src_dir_fd=handle, dst_dir_fd=handle)
            os.fsync(handle)
    return True


def create(handle: int, name: str, data: bytes) -> None:
    """Write a new file; raise `NameTaken` if there is one of that name."""
    with reasons(), _temporary(handle, name, data) as written:
        try:
            _link(handle, written, name)
        except FileExistsError:
            raise NameTaken from None
        os.fsync(handle)


def _link(handle: int, written: str, name: str) -> None:
    """Link a temporary file to its name; raise `FileExistsError` if the name is taken."""
    try:
        os.link(written, name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: reserve the name, then rename over it.
        os.close(os.open(name, _NEW, FILE_MODE, dir_fd=handle))
        os.rename(written, name, src_dir_fd=handle, dst_dir_fd=handle)


def numbered(stem: str) -> Iterator[str]:
    """Yield a stem, then with `-2`, `-3` and so on."""
    yield stem
    yield from (f"{stem}-{number}" for number in range(2, MAX_TRIES))


def create_numbered(handle: int, stem: str, suffix: str, compose: Callable[[str], bytes]) -> str:
    """Write a new file and return its stem, which gets `-2`, `-3` and so on if it is taken."""
    for free in numbered(stem):
        try:
            os.stat(free + suffix, dir_fd=handle, follow_symlinks=False)
        except OSError:
            with suppress(NameTaken):
                create(handle, free + suffix, compose(free))
                return free
    raise WriteFailed("I/O error")


@contextmanager
def _temporary(handle: int, name: str, data: bytes) -> Iterator[str]:
    """Write data to a temporary file and sync it; remove it at the end unless it was renamed."""
    written = f".{name[:100]}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    descriptor = os.open(written, _NEW, FILE_MODE, dir_fd=handle)
    try:
        with open(descriptor, "wb") as target:
            os.fchmod(target.fileno(), FILE_MODE)
            target.write(data)
            target.flush()
            os.fsync(target.fileno())
        yield written
    finally:
        with suppress(FileNotFoundError):
            os.unlink(written, dir_fd=handle)
