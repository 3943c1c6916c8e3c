"""Copies of what was read, kept while they are fresh."""

from time import monotonic
from typing import Final

from carrel.core.cache import BoundedCache
from carrel.core.model import Blob, Reading, Text
from carrel.core.record import replace
from carrel.core.uri import normalise

MAX_FRESH_MS: Final = 300_000
MAX_COPIES: Final = 1_000
MAX_BYTES: Final = 32 * 1024 * 1024


class ReadCache:
    """Readings by URI; the oldest are dropped first. Safe from any thread."""

    def __init__(self) -> None:
        self._kept: BoundedCache[str, tuple[float, Reading]] = BoundedCache(MAX_BYTES)

    def keep(self, uri: str, reading: Reading) -> None:
        """Keep a reading until its `ttl_ms` is over, unless it is very large."""
        ttl_ms = min(reading.ttl_ms, MAX_FRESH_MS)
        size = sum(_size(item) for item in reading.items)
        if ttl_ms > 0 and size <= MAX_BYTES // 4:
            until = monotonic() + ttl_ms / 1_000
            self._kept.put(normalise(uri), (until, reading), max(size, MAX_BYTES // MAX_COPIES))

    def fresh(self, uri: str) -> Reading | None:
        """Return a copy that is still fresh, with the time that is left to it."""
        until, reading = self._kept.get(normalise(uri)) or (0.0, None)
        left_ms = int((until - monotonic()) * 1_000)
        return replace(reading, ttl_ms=left_ms) if reading is not None and left_ms > 0 else None

    def drop(self, uri: str) -> None:
        """Remove a copy."""
        self._kept.drop(normalise(uri))


def _size(item: object) -> int:
    return len(item.text) if isinstance(item, Text) else len(item.data) if isinstance(item, Blob) else 0
