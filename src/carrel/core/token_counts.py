"""What is known of the tokens that resources cost, so that lists can say it and read no file for it.

A count is made where a text is counted anyway: by an outline, a budget, or the tool that reads. It holds for one state
of a resource, its time of change and its size: an entry in another state, or without a time of change, has no count.
"""

from collections.abc import Sequence
from typing import Final

from carrel.core.model import Reading, Resource

TOKENS: Final = "dev.carrel/tokens"
"""The key in `meta` for the tokens of a whole text: of an entry, and of an outline or a part of it."""
SIZE: Final = "dev.carrel/size"
"""The key in `meta` for the bytes of that text, where the content is another one."""
MAX_COUNTS: Final = 10_000


class TokenCounts:
    """Counts by URI. Safe to use from several threads."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int, int]] = {}

    def remember(self, uri: str, reading: Reading) -> None:
        """Remember the count in the `meta` of a reading, if it has one."""
        item = reading.items[0] if len(reading.items) == 1 else None
        meta = (item.meta if item is not None else None) or {}
        tokens, size = meta.get(TOKENS), meta.get(SIZE, meta.get("dev.carrel/total"))
        if reading.last_modified_ms is None or not isinstance(tokens, int) or not isinstance(size, int):
            return
        if len(self._counts) >= MAX_COUNTS:
            self._counts.clear()
        self._counts[uri] = reading.last_modified_ms, size, tokens

    def of(self, entries: Sequence[Resource]) -> tuple[int | None, ...]:
        """Return the count of each entry, None for one without; nothing at all if no count is known."""
        counts = self._counts
        if not counts:
            return ()
        known = (counts.get(entry.uri) for entry in entries)
        return tuple(
            found[2] if found is not None and found[:2] == (_modified_ms(entry), entry.size) else None
            for entry, found in zip(entries, known, strict=True)
        )


def _modified_ms(entry: Resource) -> int | None:
    return None if entry.annotations is None else entry.annotations.last_modified_ms
