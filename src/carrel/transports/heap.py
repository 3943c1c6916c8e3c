"""Keeps the heap of a process with many short-lived threads from growing.

glibc gives threads heaps of their own, up to eight for each processor, and memory that one of them frees is not used by
the others. A server whose answers are made now on this thread and now on that one fills them all, some megabytes in ten
minutes. Python's lock lets hardly two threads allocate at once, so they can share one heap.
"""

from functools import cache
from typing import Final

_M_ARENA_MAX: Final = -8


@cache
def share_heap() -> None:
    """Have all threads that are started from now on share one heap, where the C library can.

    It imports ctypes, which takes 2 to 3 ms: nobody pays that before the first thread that works.
    """
    try:
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    except (ImportError, AttributeError, OSError):
        pass  # another C library
