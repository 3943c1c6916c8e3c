"""The system calls beneath the sandbox: open one name, or with openat2 a whole path, below a handle.

Neither follows a link. `step` opens one name, or returns the target if the name is a link; `sandbox` decides what
links mean. `find` returns Linux's openat2, which Python does not offer, or None if it is missing, forbidden (in some
containers) or does not do what it promises. Loading it imports ctypes, which takes 2 to 3 ms.
"""

import contextlib
import errno
import functools
import os
import stat
import sys
from collections.abc import Callable
from typing import Final

NUMBER: Final = 437  # on every architecture but MIPS, where it means nothing (ENOSYS)
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
MAX_AGAIN: Final = 4  # EAGAIN: a folder is being renamed, which does not disturb the walk
MAX_TRIES: Final = 16  # for one name that keeps changing between file, folder and link
CHANGED: Final = frozenset({errno.ELOOP, errno.EINVAL})  # the name became a link, or is no link any more


def _flags(*names: str) -> int:
    return sum(getattr(os, name, 0) for name in names)  # `Root` refuses systems without folder handles


CONTENT: Final = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")
LISTING: Final = CONTENT | _flags("O_DIRECTORY")
# A folder that may be entered but not listed can be passed with O_PATH (Linux) or O_EXEC (macOS).
PASSING: Final = _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_PATH" if hasattr(os, "O_PATH") else "O_EXEC")

Call = Callable[[int, bytes], int]


def step(folder: int, name: str, *, last: bool) -> int | str | None:
    """Open one name, or return the target of a link; None if it is missing, or a file in the middle of a path.

    The kind of the last name is asked before it is opened: to open a FIFO wakes its writer, and to open a device may
    do anything. Both fail with ENXIO, as a socket does. If the name becomes a link meanwhile, the flags refuse it; the
    caller checks the open handle for the other kinds.
    """
    for _ in range(MAX_TRIES):
        try:
            if not last and (handle := _pass(folder, name)) is not None:
                return handle
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                return os.readlink(name, dir_fd=folder)
            if last and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise OSError(errno.ENXIO, "Special file")
            if last:
                return os.open(name, CONTENT, dir_fd=folder)
            if not stat.S_ISDIR(mode):
                return None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
                return None
            if error.errno not in CHANGED:
                raise
    return None


def _pass(folder: int, name: str) -> int | None:
    """Open a folder to continue from; None for anything else. The error for a link differs between systems."""
    try:
        return os.open(name, PASSING, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    return None


def names(folder: int) -> list[str]:
    """Return the names in a folder that was opened with `PASSING`."""
    handle = os.open(".", LISTING, dir_fd=folder)
    try:
        return os.listdir(handle)
    finally:
        os.close(handle)


def is_named(handle: int, folder: int, path: str) -> bool:
    """Return whether the system knows an open file by this path below a folder; only macOS can tell."""
    named = False
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):
            where, top = (fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0") for fd in (handle, folder))
            named = where == top + b"/" + os.fsencode(path)
    return named


@functools.cache
def find() -> Call | None:
    """Return `call(folder, path)`, which returns a handle or a negative error number; None if it cannot be used."""
    call = None
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):  # no ctypes, no libc, no `syscall` in it
            call = _load()
    return call if call is not None and _stays_inside(call) else None


def _load() -> Call:
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    # A CDLL function releases the interpreter lock: a slow disk delays only its reader.
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    last_error = ctypes.get_errno
    how = OpenHow(CONTENT, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)
    # Constant arguments are converted once; declared argument types would cost 0.8 µs for each call.
    number, where, size = ctypes.c_long(NUMBER), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))

    def call(folder: int, path: bytes) -> int:
        for _ in range(MAX_AGAIN):
            handle: int = system_call(number, folder, path, where, size)
            if handle >= 0:
                return handle
            if last_error() != errno.EAGAIN:
                break
        return -last_error()

    return call


def _stays_inside(call: Call) -> bool:
    """Return whether the call opens a folder, and refuses a step above it with the right error."""
    top = os.open("/", PASSING)
    here, above = call(top, b"."), call(top, b"..")
    for handle in (top, here, above):
        if handle >= 0:
            os.close(handle)
    return here >= 0 and above == -errno.EXDEV
