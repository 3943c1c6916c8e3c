"""Client and server on one core: the CPU path, where nothing runs beside the work that is measured."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_core() -> Iterator[str]:
    """Keep this process, and what it starts, on one core; say which."""
    if not hasattr(os, "sched_setaffinity"):
        yield "not pinned: this system cannot"
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield f"pinned to core {core}"
    finally:
        os.sched_setaffinity(0, before)
