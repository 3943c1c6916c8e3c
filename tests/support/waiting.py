"""How tests wait: for something to happen, never for time to pass."""

import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

PATIENCE_S = 10.0
"""What happens within milliseconds has not happened if it takes longer than this."""

_LOOK_S = 0.01

_Seen = TypeVar("_Seen")


def until(look: Callable[[], _Seen], patience_s: float = PATIENCE_S) -> _Seen:
    """Look until there is something to see, and return it; for what tells nobody that it happened."""
    deadline = monotonic() + patience_s
    pause = threading.Event()
    while not (seen := look()):
        assert monotonic() < deadline, f"still {seen!r} after {patience_s} s"
        pause.wait(_LOOK_S)
    return seen


def patience_s(seconds: float) -> float:
    """Return how long to wait on this machine, busy as it is, for what takes so long on a quiet one.

    The load is an average over a minute, so at the start of a run only the number of its processes tells.
    """
    processes = os.environ.get("TEST_PROCESSES") or os.environ.get("PYTEST_XDIST_WORKER_COUNT") or "1"
    wanted = max(os.getloadavg()[0], float(processes))
    return seconds * min(max(1.0, wanted / (os.cpu_count() or 1)), 3.0)


def has_thread(name: str) -> bool:
    """Return whether a thread of this name runs."""
    return any(thread.name == name for thread in threading.enumerate())
