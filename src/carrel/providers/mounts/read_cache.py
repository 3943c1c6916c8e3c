"""Copies of what was read, while they are fresh."""

import threading
from collections import OrderedDict
from time import monotonic
from typing import Final

from carrel.core.model import Blob, Reading, Text
from carrel.core.record import replace
from carrel.core.uri import normalise

MAX_FRESH_MS: Final = 300_000
MAX_COPIES: Final = 1_000
MAX_BYTES: Final = 32 * 1024 * 1024


class Copies:
    """Readings by URI, the oldest given up first; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, int, Reading]] = OrderedDict()
        self._size = 0

    def keep(self, uri: str, reading: Reading) -> None:
        """Keep a reading for as long as it says; one that is stale at once is not kept."""
        ttl_ms = min(reading.ttl_ms, MAX_FRESH_MS)
        size = sum(_size(item) for item in reading.items)
        if ttl_ms <= 0 or size > MAX_BYTES // 4:
            return
        with self._lock:
            self._drop(normalise(uri))
            self._kept[normalise(uri)] = monotonic() + ttl_ms / 1_000, size, reading
            self._size += size
            while len(self._kept) > MAX_COPIES or self._size > MAX_BYTES:
                self._drop(next(iter(self._kept)))

    def fresh(self, uri: str) -> Reading | None:
        """Give a copy that is still fresh, with the time that is left to it."""
        if not self._kept:
            return None
        key = normalise(uri)
        with self._lock:
            kept = self._kept.get(key)
            left_ms = 0 if kept is None else int((kept[0] - monotonic()) * 1_000)
            if kept is None or left_ms <= 0:
                self._drop(key)
                return None
            return replace(kept[2], ttl_ms=left_ms)

    def drop(self, uri: str) -> None:
        """Forget a copy."""
        with self._lock:
            self._drop(normalise(uri))

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept[1]


def _size(item: object) -> int:
    return len(item.text) if isinstance(item, Text) else len(item.data) if isinstance(item, Blob) else 0
