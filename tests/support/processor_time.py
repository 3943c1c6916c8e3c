"""The processor time of another process: what it worked, however busy the machine is."""

import time

_PROCESS_CLOCK = 2
"""What the kernel adds to the number of a process for the clock of its processor time."""

_LOOK_S = 0.5
_IDLE_S = 0.005
"""Work in `_LOOK_S` below which a process counts as idle."""


def processor_s(pid: int) -> float:
    """Return the seconds that all threads of a process have worked."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)


def wait_until_idle(pid: int, patience_s: float = 60.0) -> None:
    """Wait until a process does nothing by itself, such as looking through a tree; at most `patience_s`."""
    ends_at, before = time.monotonic() + patience_s, processor_s(pid)
    while time.monotonic() < ends_at:
        time.sleep(_LOOK_S)
        now = processor_s(pid)
        if now - before < _IDLE_S:
            return
        before = now
