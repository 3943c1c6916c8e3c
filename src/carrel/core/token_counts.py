"""Remember how many tokens resources have, so that lists can show the number without reading files.

A count comes from a call that counts the text anyway: an outline, a budget, or the tool that reads. It holds while the
resource has the same time of change and size. An entry with another one, or without a time of change, has no count.
"""

from collections.abc import Sequence
from typing import Final

from carrel.core.model import Reading, Resource

TOKENS: Final = "dev.carrel/tokens"
"""The key in `meta` for the tokens of a whole text: of an entry, and of an outline or a part of it."""
SIZE: Final = "dev.carrel/size"
"""The key in `meta` for the bytes of the whole text, if the content is only an outline or a part."""
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
        """Return the count of each entry, or None; an empty tuple if no count is known at all."""
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
