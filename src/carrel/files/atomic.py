"""Private files, replaced as a whole or not at all.

A reader needs no lock: it sees the old file or the new one, also after a crash. A writer holds `locked` from reading
the file until replacing it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Modes of new files and folders; existing ones keep theirs."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file against other threads and processes; create its folder if it is missing."""
    os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
    # The lock is a separate file, since every change replaces the file itself.
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_private(path: str, text: str) -> None:
    """Write a text to a new file that takes the place of `path`, synced to the disk."""
    with new_private(path) as target:
        target.write(text)


@contextmanager
def new_private(path: str, mode: int = FILE_MODE) -> Iterator[TextIO]:
    """Open a new file for writing; if the block succeeds, it takes the place of `path`, synced to the disk."""
    written = f"{path}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    try:
        with open(os.open(written, _NEW, mode), "w", encoding="utf-8", newline="") as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        os.replace(written, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(written)
        raise
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # so that the new name survives a crash
    finally:
        os.close(folder)


def keep_out_of_git(folder: int) -> None:
    """Write a `.gitignore` that ignores everything in an open folder, unless it has one."""
    with suppress(FileExistsError), open(os.open(".gitignore", _NEW, FILE_MODE, dir_fd=folder), "wb") as file:
        file.write(b"*\n")
