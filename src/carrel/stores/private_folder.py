"""A private temporary folder of a process, removed when the process ends, or by the next process if it was killed.

A process locks its folder for as long as it lives, so a folder without a lock is left over from a killed process.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from time import time
from typing import Final

YOUNG_S: Final = 60.0
"""A younger folder may not be locked yet."""


class PrivateFolder:
    """A folder that only this user can read."""

    def __init__(self, name: str) -> None:
        prefix = f"carrel-{name}-"
        _remove_left(tempfile.gettempdir(), prefix)
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._end = weakref.finalize(self, _remove, self.path, descriptor)  # at exit at the latest

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        self._end()


def _remove(path: str, descriptor: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def _remove_left(parent: str, prefix: str) -> None:
    """Remove folders of processes that were killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(prefix):
                _remove_if_left(os.path.join(parent, name))


def _remove_if_left(path: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid == os.geteuid() and time() - status.st_mtime > YOUNG_S:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
