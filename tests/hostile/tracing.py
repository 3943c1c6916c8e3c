"""Watching a process from outside: the programs it starts and the files it opens.

With `strace` where it is installed and allowed. Elsewhere only the files with canaries are watched, by inotify where
there is that, and a started program is noticed by the mark it leaves.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.place import Place
from tests.hostile.sentinel import Sentinel
from tests.support.waiting import until

_OPTIONS: Final = (
    *("-D", "-f", "-q", "--seccomp-bpf", "-y", "-s", "4096"),
    *("-e", "status=successful"),
    *("-e", "trace=execve,execveat,open,openat,openat2,creat,inotify_add_watch"),
)
"""-D: the process stays our own child. -y: what was opened is named as it is, after every link."""

_STARTED: Final = re.compile(r'execve(?:at)?\((?:[^"]*, )?"(?P<path>(?:[^"\\]|\\.)*)", \[(?P<words>.*?)\]')
_OPENED: Final = re.compile(r"= \d+<(?P<path>.*)>$")
_WATCHED: Final = re.compile(r'inotify_add_watch\([^,]*, "(?P<path>(?:[^"\\]|\\.)*)"')


class Seen(NamedTuple):
    """What a process and its children did."""

    started: tuple[str, ...]
    opened: frozenset[str]
    watched: frozenset[str]


NOTHING_SEEN: Final = Seen((), frozenset(), frozenset())


class Trace:
    """A command line that is watched, if that can be done here, and what was seen."""

    def __init__(self, command: list[str], folder: Path, place: Place) -> None:
        self._file = folder / "trace"
        self._sentinel = None if _tracer() else Sentinel((place.outside, place.home))
        self.command = [*_tracer(), "-o", str(self._file), "--", *command] if _tracer() else command

    def seen(self, pid: int) -> Seen:
        """Return what the process did, once it has ended."""
        if self._sentinel is not None:
            return Seen((), self._sentinel.opened(), frozenset())
        ended = re.compile(rf"^{pid} +\+\+\+ (?:exited|killed)", re.MULTILINE)
        text = until(lambda: (found := self._file.read_text(errors="replace")) and ended.search(found) and found)
        lines = str(text).splitlines()
        started = tuple(f"{found['path']} {found['words']}" for line in lines if (found := _STARTED.search(line)))
        opened = frozenset(found["path"] for line in lines if (found := _OPENED.search(line)))
        watched = frozenset(found["path"] for line in lines if (found := _WATCHED.search(line)))
        return Seen(started, opened, watched)


@cache
def _tracer() -> tuple[str, ...]:
    """Return how to start the tracer; nothing where there is none, or it may not trace."""
    program = shutil.which("strace") if sys.platform == "linux" else None
    if program is None:
        return ()
    with tempfile.NamedTemporaryFile() as output:
        tried = subprocess.run(
            [program, *_OPTIONS, "-o", output.name, "--", "true"], capture_output=True, check=False, timeout=30
        )
    return (program, *_OPTIONS) if tried.returncode == 0 else ()


def is_traced() -> bool:
    """Return whether started programs and opened files are seen here."""
    return bool(_tracer())
