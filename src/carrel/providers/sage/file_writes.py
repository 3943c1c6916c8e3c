"""Putting a file in its place so that it is whole whatever happens: written aside, synced, renamed, synced.

A folder is reached one name at a time and never through a link. Files are 0600, new folders 0700. A kill leaves
a file old or new; what is left over is a name that begins with a dot, which nobody lists.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from carrel.core.provider import Project
from carrel.files.atomic import FILE_MODE, FOLDER_MODE
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import belongs_here
from carrel.providers.sage.folders import DENIED, REFUSED

MAX_TRIES: Final = 10_000
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_A_FOLDER: Final = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)

_REASONS: Final = {
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


class Taken(Exception):
    """A file of that name is there already."""


def reason_of(error: OSError) -> str:
    """Return what a refusal of the system means, in words that say what to do about it."""
    number = error.errno or 0
    if number in _NOT_A_FOLDER:
        return "not a regular file"
    if number in REFUSED:
        return "permission denied"
    return _REASONS.get(number, "I/O error")


class Writer:
    """Writes below one Sage folder, which it makes if need be: never through a link, nor in another user's folder."""

    def __init__(self, project: Project, data: DataFolder) -> None:
        self._data = data
        self._start = data.path if data.is_named else project.root
        self._way = () if data.is_named else tuple(os.path.relpath(data.path, project.root).split(os.sep))

    @contextmanager
    def folder(self, *segments: str) -> Iterator[int]:
        """Open a folder below the Sage folder, made where it is missing; raise `WriteFailed`."""
        if os.pardir in self._way:
            raise WriteFailed("outside the project")
        if not self._data.is_named and self._data.is_denied():
            raise WriteFailed(DENIED)
        try:
            if not self._way:
                os.makedirs(self._start, FOLDER_MODE, exist_ok=True)
            handle = os.open(os.path.realpath(self._start), _FOLDER)
        except OSError as error:
            raise WriteFailed(reason_of(error)) from None
        try:
            owner = os.fstat(handle).st_uid
            for name in (*self._way, *segments):
                inner = _enter(handle, name, owner)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def make(self, *segments: str) -> list[str]:
        """Make a folder and those above it; return the paths that were not there, below the Sage folder's own."""
        ways = [segments[:length] for length in range(len(segments) + 1)]
        made = ["/".join(way) for way in ways if not self._is_there(way)]
        with self.folder(*segments):
            return made

    def _is_there(self, segments: Sequence[str]) -> bool:
        return os.path.isdir(os.path.join(self._start, *self._way, *segments))


def _enter(handle: int, name: str, owner: int) -> int:
    """Open a folder by its name in another, made if it is missing; a link is none."""
    try:
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=handle)
            os.fsync(handle)
        inner = os.open(name, _FOLDER, dir_fd=handle)
    except OSError as error:
        raise WriteFailed(reason_of(error)) from None
    if not belongs_here(os.fstat(inner), owner):
        os.close(inner)
        raise WriteFailed("the folder belongs to another user")
    return inner


def replace(handle: int, name: str, data: bytes, is_still_so: Callable[[], bool] | None = None) -> bool:
    """Put a file in its place, over what was there; not if `is_still_so`, asked last, says that it no longer is."""
    _check_regular(handle, name)
    with _aside(handle, name, data) as written:
        if is_still_so is not None and not is_still_so():
            return False
        os.rename(written, name, src_dir_fd=handle, dst_dir_fd=handle)
        os.fsync(handle)
    return True


def create(handle: int, name: str, data: bytes) -> None:
    """Put a file in its place only if there is none of that name; raise `Taken` if there is."""
    with _aside(handle, name, data) as written:
        try:
            _name_exclusively(handle, written, name)
        except FileExistsError:
            raise Taken from None
        os.fsync(handle)


def _name_exclusively(handle: int, written: str, name: str) -> None:
    """Give a written file a name that nobody has."""
    try:
        os.link(written, name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: take the name first, then put the file over it.
        os.close(os.open(name, _NEW, FILE_MODE, dir_fd=handle))
        os.rename(written, name, src_dir_fd=handle, dst_dir_fd=handle)


def create_numbered(handle: int, stem: str, suffix: str, compose: Callable[[str], bytes]) -> str:
    """Put a file under a stem nobody has: `-2`, `-3` and so on where it is taken; give the stem."""
    for number in range(1, MAX_TRIES):
        free = stem if number == 1 else f"{stem}-{number}"
        if not _exists(handle, free + suffix):
            with suppress(Taken):
                create(handle, free + suffix, compose(free))
                return free
    raise WriteFailed("I/O error")


def _exists(handle: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return False
    return True


def _check_regular(handle: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WriteFailed(reason_of(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise WriteFailed("not a regular file")


@contextmanager
def _aside(handle: int, name: str, data: bytes) -> Iterator[str]:
    """Write the data to a name of its own, synced; whatever is not renamed away is removed at the end."""
    written = f".{name[:100]}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    try:
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
    except OSError as error:
        raise WriteFailed(reason_of(error)) from None
