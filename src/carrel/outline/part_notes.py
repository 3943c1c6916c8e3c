"""What is said about a part of a text: what it is a part of, where it lies, and what both cost."""

from typing import Final

from carrel.core.model import Item
from carrel.core.uri import decode_loosely, split_query

SHOWN: Final = "dev.carrel/shown"
"""The key in `meta` for how many children of a folder are shown, as `12 of 40`."""
_NAME_LENGTH: Final = 80


def name_of(uri: str) -> str:
    """Return the last name in a URI, by which a reader knows what this is a part of."""
    return decode_loosely(split_query(uri)[0].rstrip("/").rpartition("/")[2])[:_NAME_LENGTH] or "part"


def number_in(item: Item, name: str) -> int:
    """Return a number of an item's `meta`; 0 if it has none."""
    value = (item.meta or {}).get(f"dev.carrel/{name}")
    return value if isinstance(value, int) else 0


def place_of(item: Item, text: str) -> str:
    """Return which lines and bytes of the whole an item has, and about how many tokens both are."""
    from carrel.core.tokens import estimate_tokens  # not needed to start

    start, length, total = (number_in(item, name) for name in ("start", "length", "total"))
    meta = item.meta or {}
    lines, every = meta.get("dev.carrel/lines"), meta.get("dev.carrel/total-lines")
    counted = f"lines {lines} of {every}, " if every else f"lines {lines}, " if lines else ""
    tokens = estimate_tokens(text)
    cost = f", about {tokens:,} of {tokens * total // length:,} tokens" if length else ""
    return f"{counted}bytes {start}-{start + length} of {total}{cost}"
