"""Files that are for the user alone: replaced whole or not at all, and changed by one at a time.

Who reads one needs no lock: it is the old or the new, also after a crash. Who changes
one holds it `locked` from reading to replacing it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""What Carrel makes for itself; what is there already keeps its mode."""

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep a file from all others who lock it, processes and threads; its folder is made if need be."""
    os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
    # A file of its own: the one that is kept is another after each change.
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_private(path: str, text: str) -> None:
    """Put a text in the place of a file, or make it, synced to the disk."""
    with new_private(path) as target:
        target.write(text)


@contextmanager
def new_private(path: str, mode: int = FILE_MODE) -> Iterator[TextIO]:
    """Open a new file for writing; at the end it takes the place of `path`, synced to the disk, unless one fails."""
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
    _sync_folder(os.path.dirname(path))


def _sync_folder(path: str) -> None:
    """Have a new name outlast a crash."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep_out_of_git(folder: int) -> None:
    """Write a `.gitignore` that covers the whole folder, given by its handle; one that is there stays."""
    with suppress(FileExistsError), open(os.open(".gitignore", _NEW, FILE_MODE, dir_fd=folder), "wb") as file:
        file.write(b"*\n")
