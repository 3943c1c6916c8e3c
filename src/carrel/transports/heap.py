"""Keep the heap of a process with many threads small.

glibc gives threads separate heaps, up to eight per processor, and memory that is freed in one is not used by others. A
server that builds answers on changing threads fills them all, on a busy machine by some megabytes per minute. Because
of Python's lock, threads rarely allocate at the same time, so they can share one heap.

glibc also returns the end of a heap to the system when 128 KB of it are free. An answer of a megabyte needs four
megabytes for a moment; returning them and getting them back each time made such a read three times as slow.
"""

from functools import cache
from typing import Final

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 8 << 20
"""Free memory at the end of the heap that is kept for the next large answer."""


@cache
def share_heap() -> None:
    """Make all threads share one heap, if the C library can. Call this before the first thread is started.

    Threads that already have a heap keep it. `_ctypes` takes 0.4 ms to import, `ctypes` 2 ms.
    """
    try:
        import _ctypes

        mallopt = _ctypes.dlsym(_ctypes.dlopen("", 0), "mallopt")
        _ctypes.call_function(mallopt, (_M_ARENA_MAX, 1))
        _ctypes.call_function(mallopt, (_M_TRIM_THRESHOLD, _KEPT_BYTES))
        _ctypes.call_function(mallopt, (_M_MMAP_THRESHOLD, _KEPT_BYTES // 2))
    except (ImportError, AttributeError, OSError):
        pass  # another C library, or another Python
