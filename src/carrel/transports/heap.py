"""Keeps the heap of a process with many threads from growing.

glibc gives threads heaps of their own, up to eight for each processor, and memory that one of them frees is not used by
the others. A server whose answers are made now on this thread and now on that one fills them all: on a busy machine,
where another thread often has to read on, by some megabytes in a minute. Python's lock lets hardly two threads allocate
at once, so they can share one heap.

glibc also returns the end of a heap to the system when 128 KB of it are free. An answer of a megabyte needs four
megabytes for a moment; to return these each time and to get them back made such a read take three times as long.
"""

from functools import cache
from typing import Final

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 8 << 20
"""How much free memory at the end of the heap is kept for the next large answer."""


@cache
def share_heap() -> None:
    """Make all threads share one heap, where the C library can. Call this before the first thread is started.

    A heap that a thread already has stays in use. `ctypes` takes 2 ms to import, what lies beneath it 0.4 ms.
    """
    try:
        import _ctypes

        mallopt = _ctypes.dlsym(_ctypes.dlopen("", 0), "mallopt")
        _ctypes.call_function(mallopt, (_M_ARENA_MAX, 1))
        _ctypes.call_function(mallopt, (_M_TRIM_THRESHOLD, _KEPT_BYTES))
        _ctypes.call_function(mallopt, (_M_MMAP_THRESHOLD, _KEPT_BYTES // 2))
    except (ImportError, AttributeError, OSError):
        pass  # another C library, or another Python
