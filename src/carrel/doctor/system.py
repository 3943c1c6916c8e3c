"""Checks of the system: folders that must be writable, the disk, file events, the clock, and open files."""

import errno
import os
import resource
import stat
import sys
from collections.abc import Iterator
from itertools import islice
from time import gmtime, strftime
from typing import Final

from carrel.doctor.checks import Check, Finding, check, note, problem
from carrel.doctor.repairs import with_mode
from carrel.doctor.setup import Setup

MIN_FREE_BYTES: Final = 50 << 20
MIN_FREE_FILES: Final = 100
MIN_OPEN_FILES: Final = 256
CLOCK_S: Final = 3_600
"""How far the clock may be off: tokens of issuers are valid for about an hour."""
MAX_FILES: Final = 2_000
_MAX_FOLDERS: Final = 200
_SYSCTL: Final = "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024"


@check(
    "system",
    "home",
    "a folder in which Carrel keeps settings, tokens, trust or caches cannot be written",
    "give the permission back, or set XDG_STATE_HOME, XDG_CONFIG_HOME or XDG_CACHE_HOME",
    repairs=True,
)
def home(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each folder that is read-only."""
    seen: set[str] = set()
    for what, folder in setup.folders.items():
        place = _existing(folder)
        if place in seen:
            continue
        seen.add(place)
        shown = setup.short(place)
        if not os.path.isdir(place):
            yield problem(f"{shown} is not a folder: {what} cannot be kept", f"move {shown} away")
        elif setup.free_of(place).f_flag & os.ST_RDONLY:
            yield problem(
                f"{shown} is on a read-only file system: {what} cannot be kept", "set XDG_STATE_HOME and others"
            )
        elif not (os.access(place, os.W_OK | os.X_OK) and os.stat(place).st_mode & stat.S_IWUSR):
            is_own = os.stat(place).st_uid == os.geteuid()
            command = f"chmod u+wx {shown}"
            repair = with_mode(place, stat.S_IWUSR | stat.S_IXUSR, command) if is_own else None
            yield problem(f"{shown} cannot be written: {what} cannot be kept", command, repair)


def _existing(path: str) -> str:
    """Return the path, or the nearest folder above it that exists."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


@check("system", "disk", "the disk is full, or has no room for more files", "free some space")
def disk(setup: Setup) -> Iterator[Finding]:
    """Yield a problem for each file system that is full."""
    places = {what: _existing(folder) for what, folder in setup.folders.items()}
    if setup.config is not None:
        places = {"the project": setup.config.root, **places}
    seen: set[int] = set()
    for what, place in places.items():
        device = os.stat(place).st_dev
        if device in seen:
            continue
        seen.add(device)
        free = setup.free_of(place)
        left = free.f_bavail * free.f_frsize
        if left < MIN_FREE_BYTES:
            yield problem(f"the disk of {setup.short(place)} ({what}) has {left >> 20} MB left", "free some space")
        elif free.f_files and free.f_favail < MIN_FREE_FILES:
            yield problem(
                f"the disk of {setup.short(place)} ({what}) has room for {free.f_favail} more files",
                "delete some files",
            )


@check(
    "system",
    "watches",
    "the system has no file watches left: changes are noticed late, by looking",
    "raise fs.inotify.max_user_watches",
)
def watches(setup: Setup) -> Iterator[Finding]:
    """Yield a note if no folder, or not every folder of the project, can be watched."""
    if sys.platform != "linux" or setup.config is None:
        return
    from carrel.providers.workspace.inotify import Inotify  # only on Linux

    try:
        system = Inotify()
    except OSError as error:
        yield note(f"no file events: {_reason(error)}", _SYSCTL)
        return
    try:
        for folder in islice(_folders(setup.config.root), _MAX_FOLDERS):
            system.add(folder)
    except OSError as error:
        yield note(f"no file events: {_reason(error)}", _SYSCTL)
    finally:
        system.close()


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "all watches of this user are used (fs.inotify.max_user_watches)"
    if error.errno == errno.EMFILE:
        return "all queues of this user are used (fs.inotify.max_user_instances)"
    return error.strerror or "unknown"


def _folders(root: str) -> Iterator[str]:
    for folder, inner, _ in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".") and name != "node_modules"]
        yield folder


@check("system", "clock", "the clock of this machine is wrong", "set the clock")
def clock(setup: Setup) -> Iterator[Finding]:
    """Yield a problem if files that exist were made in the future."""
    now_s = setup.now_s()
    places = [__file__, sys.executable, *setup.folders.values()]
    if setup.config is not None:
        places += [place for place in (setup.config.root, *setup.config.files) if os.path.exists(place)]
        places += islice(_files(setup.config.root), MAX_FILES)
    newest_s, newest = max((os.lstat(place).st_mtime, place) for place in places if os.path.lexists(place))
    if newest_s > now_s + CLOCK_S:
        yield problem(
            f"it is {_date(now_s)}, and {setup.short(newest)} was changed on {_date(newest_s)}: the clock is behind, "
            "or the file is from a machine whose clock is ahead",
            "set the clock: timedatectl set-ntp true; or touch the file",
        )


def _date(seconds: float) -> str:
    return strftime("%Y-%m-%d %H:%M", gmtime(seconds)) + " UTC"


def _files(root: str) -> Iterator[str]:
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".") and name != "node_modules"]
        yield from (os.path.join(folder, name) for name in names)


@check("system", "open-files", "the limit of open files is too low", "ulimit -n 4096")
def open_files(setup: Setup) -> Iterator[Finding]:
    """Yield a note if a server would run out of files."""
    del setup
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_OPEN_FILES:
        possible = 4_096 if hard == resource.RLIM_INFINITY else min(hard, 4_096)
        yield note(f"a process may open {soft} files; a server with mounts needs more", f"ulimit -n {possible}")


CHECKS: Final[tuple[Check, ...]] = (home, disk, watches, clock, open_files)
