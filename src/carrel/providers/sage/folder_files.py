"""Write a memory: the interface, and its implementation for the Sage folder.

`team_files` has the implementation for the team's store. A path is a tuple of names below the memory.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Final, Protocol

from carrel.core.provider import Project
from carrel.files.atomic import FILE_MODE
from carrel.files.data_folder import DataFolder
from carrel.providers.sage import file_writes, folders
from carrel.providers.sage.fields import BadFile, decode
from carrel.providers.sage.file_writes import FolderWriter, WriteFailed
from carrel.providers.sage.folders import Signature
from carrel.providers.sage.knowledge import INDEX, INDEX_PATH, MAX_INDEX_BYTES

LOCK: Final = ".index.lock"
LOCK_S: Final = 10.0
_PAUSE_S: Final = 0.02
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Path = tuple[str, ...]
Compose = Callable[[str], bytes]
"""Returns the content of a file, made from its stem or, of the index, from its present text."""
Check = Callable[[], None]
"""Raises if the memory changed since the writer read it. Called while no other writer can change it."""


class MemoryFiles(Protocol):
    """Writes files of a memory, each whole or not at all; raises `WriteFailed`."""

    def shown(self, path: Path) -> str:
        """Return a path to show to people."""
        ...

    def make(self, *folder: str) -> list[Path]:
        """Create a folder; return the new ones."""
        ...

    def create_numbered(self, folder: str, stem: str, compose: Compose, check: Check | None = None) -> str:
        """Write a new Markdown file and return its stem, which gets `-2`, `-3` and so on if it is taken."""
        ...

    def create(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a new file; raise `NameTaken` if there is one of that name."""
        ...

    def replace(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a file in place of the old one."""
        ...

    def restore(self, path: Path, data: bytes, modified_ns: int, index: bytes) -> None:
        """Write a file with the time of its last change; `index` is the index of knowledge that belongs to it."""
        ...

    def put_indexed(self, path: Path, data: bytes, compose: Compose, check: Check | None = None) -> None:
        """Write a file, and the index of knowledge made from its present text, as the only writer of the index."""
        ...


class FolderFiles:
    """Writes to the Sage folder."""

    def __init__(self, project: Project, data: DataFolder) -> None:
        self._project = project
        self._home = data.path
        self._writer = FolderWriter(project, data)

    def shown(self, path: Path) -> str:
        """Return a path relative to the workspace."""
        return os.path.relpath(os.path.join(self._home, *path), self._project.root)

    def make(self, *folder: str) -> list[Path]:
        """Create a folder; return the new ones."""
        return self._writer.make(*folder)

    def create_numbered(self, folder: str, stem: str, compose: Compose, check: Check | None = None) -> str:
        """Write a new file and return its stem."""
        with self._writer.folder(folder) as handle, _alone(handle, check):
            return file_writes.create_numbered(handle, stem, ".md", compose)

    def create(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a new file; raise `NameTaken` if there is one of that name."""
        with self._writer.folder(*path[:-1]) as handle, _alone(handle, check):
            file_writes.create(handle, path[-1], data)

    def replace(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a file in place of the old one."""
        with self._writer.folder(*path[:-1]) as handle, _alone(handle, check):
            file_writes.replace(handle, path[-1], data)

    def restore(self, path: Path, data: bytes, modified_ns: int, index: bytes) -> None:
        """Write a file with the time of its last change."""
        with self._writer.folder(*path[:-1]) as handle:
            file_writes.replace(handle, path[-1], data)
            with file_writes.reasons():
                os.utime(path[-1], ns=(modified_ns, modified_ns), dir_fd=handle, follow_symlinks=False)

    def put_indexed(self, path: Path, data: bytes, compose: Compose, check: Check | None = None) -> None:
        """Write a file, then the index, under the lock of the index."""
        with self._writer.folder(*INDEX_PATH[:-1]) as folder, _locked(folder):
            if check is not None:
                check()
            is_saved = False
            while not is_saved:
                signature, text = _read_index(folder)
                made = compose(text)
                self.replace(path, data)
                # Sage takes no lock: if the index changed meanwhile, it is read again.
                is_saved = file_writes.replace(folder, INDEX, made, lambda: _signature(folder) == signature)  # noqa: B023 called at once


def _read_index(folder: int) -> tuple[Signature | None, str]:
    """Return the signature and the text of the index, through the handle it will be written by."""
    with file_writes.reasons():
        try:
            handle = os.open(INDEX, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None, ""
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise WriteFailed("not a regular file")
            data = file.read() if found.st_size <= MAX_INDEX_BYTES else b""
            return folders.signature_of(found), index_text(data, found.st_size)


def index_text(data: bytes, size: int) -> str:
    """Return the text of an index of this size; raise `WriteFailed` if it is too large, or not text."""
    if size > MAX_INDEX_BYTES:
        raise WriteFailed(f"{INDEX} is too large ({size} bytes, limit {MAX_INDEX_BYTES})")
    try:
        return decode(data)
    except BadFile as error:
        raise WriteFailed(f"{INDEX} is {error.reason}") from None


def _signature(folder: int) -> Signature | None:
    try:
        return folders.signature_of(os.stat(INDEX, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


@contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Hold the lock of the index; raise `WriteFailed` if it is not free in time."""
    with file_writes.reasons():
        handle = os.open(LOCK, _LOCK, FILE_MODE, dir_fd=folder)
    try:
        _lock(handle, "index is locked")
        yield
    finally:
        os.close(handle)


@contextmanager
def _alone(folder: int, check: Check | None) -> Iterator[None]:
    """Lock a folder against other writers until its handle is closed, and call `check`.

    Some network disks have no locks; there, only writes without `check` are possible.
    """
    try:
        _lock(folder, "the folder is locked")
    except OSError:
        if check is not None:
            raise WriteFailed("the disk has no locks, which ifMatch needs") from None
    if check is not None:
        check()
    yield


def _lock(handle: int, reason: str) -> None:
    """Lock the file or folder of a handle until it is closed; raise `WriteFailed` with the reason after a timeout."""
    deadline = monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic() > deadline:
                raise WriteFailed(reason) from None
            sleep(_PAUSE_S)
