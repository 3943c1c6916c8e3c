"""Linux's file events for single folders, which Python does not offer; links are never followed.

Loading the library imports ctypes, which takes 2 to 3 ms; that happens when the first client listens.
"""

import errno
import os
import select
import struct
from typing import Final, NamedTuple

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS, _NO_LINKS, _IS_FOLDER = 0x1000000, 0x2000000, 0x40000000
_NAMED: Final = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_WANTED: Final = _MODIFY | _ATTRIB | _CLOSE_WRITE | _NAMED | _ONLY_FOLDERS | _NO_LINKS
_HEAD: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 18
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG})


class Event(NamedTuple):
    """A change of a name in a watched folder; `is_named` if the name was created, deleted or renamed."""

    folder: int
    name: str
    is_named: bool
    is_folder: bool


class Lost(Exception):
    """The system dropped events."""


class Inotify:
    """One queue of events."""

    def __init__(self) -> None:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        self._last_error = ctypes.get_errno
        self._add, self._remove = library.inotify_add_watch, library.inotify_rm_watch
        self._queue = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0:
            raise self._error()

    def add(self, path: str) -> int | None:
        """Watch a folder; return its number, or None if it is gone or cannot be watched."""
        number: int = self._add(self._queue, os.fsencode(path), _WANTED)
        if number >= 0:
            return number
        error = self._error()
        if error.errno in _GONE:
            return None
        raise error

    def remove(self, number: int) -> None:
        """Stop watching a folder; a deleted one is not watched any more."""
        self._remove(self._queue, number)

    def read(self, timeout_s: float) -> list[Event]:
        """Wait for events, and return them in order."""
        poll = select.poll()
        poll.register(self._queue, select.POLLIN)
        if not poll.poll(timeout_s * 1_000):
            return []
        data = os.read(self._queue, _READ_BYTES)
        events = []
        at = 0
        while at < len(data):
            folder, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            name = data[at : at + length].rstrip(b"\0")
            at += length
            if mask & _OVERFLOW:
                raise Lost
            if name and not mask & _IGNORED:
                events.append(Event(folder, os.fsdecode(name), bool(mask & _NAMED), bool(mask & _IS_FOLDER)))
        return events

    def close(self) -> None:
        """Close the queue."""
        os.close(self._queue)

    def _error(self) -> OSError:
        number = self._last_error()
        return OSError(number, os.strerror(number))
