"""Watching folders for being read, where the process itself cannot be traced: by inotify, on Linux."""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_OPENED: Final = 0x20
_NONBLOCK: Final = os.O_NONBLOCK
_EVENT: Final = struct.Struct("iIII")


class Sentinel:
    """Notices which files of some folders are opened, by anybody, from now on."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders: dict[int, str] = {}
        self._descriptor = -1
        if sys.platform != "linux":
            return
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(_NONBLOCK)
        if self._descriptor < 0:
            return
        for folder in [folder for top in folders for folder, _, _ in os.walk(top)]:
            watch = library.inotify_add_watch(self._descriptor, os.fsencode(folder), _OPENED)
            self._folders[watch] = folder

    def opened(self) -> frozenset[str]:
        """Return the files that were opened, and stop watching."""
        if self._descriptor < 0:
            return frozenset()
        data = b""
        try:
            while part := os.read(self._descriptor, 1 << 16):
                data += part
        except BlockingIOError:
            pass
        finally:
            os.close(self._descriptor)
            self._descriptor = -1
        return frozenset(self._names(data))

    def _names(self, data: bytes) -> Iterable[str]:
        while data:
            watch, _, _, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
            if watch in self._folders:
                yield str(Path(self._folders[watch]) / os.fsdecode(name))
            data = data[_EVENT.size + length :]
