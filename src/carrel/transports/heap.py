"""Keeps the heap of a process with many threads from growing.

glibc gives threads heaps of their own, up to eight for each processor, and memory that one of them frees is not used by
the others. A server whose answers are made now on this thread and now on that one fills them all: on a busy machine,
where another thread often has to read on, by some megabytes in a minute. Python's lock lets hardly two threads allocate
at once, so they can share one heap.
"""

from functools import cache
from typing import Final

_M_ARENA_MAX: Final = -8


@cache
def share_heap() -> None:
    """Make all threads share one heap, where the C library can. Call this before the first thread is started.

    A heap that a thread already has stays in use. `ctypes` takes 2 ms to import, what lies beneath it 0.4 ms.
    """
    try:
        import _ctypes

        mallopt = _ctypes.dlsym(_ctypes.dlopen("", 0), "mallopt")
        _ctypes.call_function(mallopt, (_M_ARENA_MAX, 1))
    except (ImportError, AttributeError, OSError):
        pass  # another C library, or another Python
