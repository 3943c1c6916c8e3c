"""Runs a Python program and notes what it does while it is told to; see `profile`.

    python bench/sampled.py FILE PROGRAM ARGUMENTS …

SIGUSR1 starts and stops a timer that counts processor time. When it goes off, the function and the line that run are
noted; waiting does not count, time in C counts for the line that called it, and nothing is wrapped. At its end the
program's samples are written to FILE as JSON.
"""

import atexit
import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

TICK_S = 0.001

taken: Counter[tuple[str, str, int]] = Counter()


def take(_: int, frame: FrameType | None) -> None:
    """Note what runs."""
    if frame is not None:
        taken[frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno or 0] += 1


def switch(_: int, __: FrameType | None) -> None:
    """Start or stop the timer."""
    tick = 0.0 if signal.getitimer(signal.ITIMER_PROF)[1] else TICK_S
    signal.setitimer(signal.ITIMER_PROF, tick, tick)


def write(file: Path) -> None:
    """Write the samples."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    file.write_text(json.dumps([[*where, count] for where, count in taken.items()]), "utf-8")


if __name__ == "__main__":
    target, program = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(program).parent)
    signal.signal(signal.SIGPROF, take)
    signal.signal(signal.SIGUSR1, switch)
    atexit.register(write, Path(target))
    runpy.run_path(program, run_name="__main__")
