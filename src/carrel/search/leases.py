"""Mark an index as used, and delete the indexes of a project that no process uses.

Servers with different settings serve different files. If they shared one index, each would delete the documents of the
other, so each has its own. When settings change, the old index contains words of files that may be refused now; it is
deleted as soon as no process uses it.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Final

from carrel.files.atomic import FILE_MODE, FOLDER_MODE

LEASE_FILE: Final = "users.lock"


class Lease:
    """Marks the folder of an index as used, until the lease is closed or the process ends."""

    def __init__(self, folder: str) -> None:
        """Take the lease; raise OSError if the folder cannot be written."""
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        self._handle = _opened(folder)
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def close(self) -> None:
        """Release the lease; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def delete_unused(folder: str) -> None:
    """Delete the other indexes of the same project that no process uses."""
    for other in _others(folder):
        with contextlib.suppress(OSError):
            handle = _opened(other)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in os.listdir(other):
                    os.unlink(os.path.join(other, name))
                os.rmdir(other)
            finally:
                os.close(handle)


def _others(folder: str) -> Iterator[str]:
    above, name = os.path.split(folder)
    project, mark, _ = name.partition("-")
    with contextlib.suppress(OSError):
        for other in os.listdir(above):
            if mark and other != name and other.partition("-")[0] == project:
                yield os.path.join(above, other)


def _opened(folder: str) -> int:
    path = os.path.join(folder, LEASE_FILE)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
