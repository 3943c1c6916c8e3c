"""Write the note about a part of a text: its resource, its place in it, and the tokens of both."""

from typing import Final

from carrel.core.content import NEXT, OTHER_PARTS
from carrel.core.model import Item, Meta, Reading, Text
from carrel.core.record import replace
from carrel.core.token_counts import TOKENS
from carrel.core.uri import decode_loosely, pairs, split_query, with_query, without

SHOWN: Final = "dev.carrel/shown"
"""The key in `meta` for how many children of a folder are shown, as `12 of 40`."""
_NAME_LENGTH: Final = 80
_OWN_PARTS: Final = OTHER_PARTS | {"start", "length"}


def name_of(uri: str) -> str:
    """Return the last name in a URI, which tells a reader to which resource a part belongs."""
    return decode_loosely(split_query(uri)[0].rstrip("/").rpartition("/")[2])[:_NAME_LENGTH] or "part"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, such as `1 line` or `2 lines`."""
    return f"{number} {noun if number == 1 else f'{noun}s'}"


def number_in(item: Item, name: str) -> int:
    """Return a number of an item's `meta`; 0 if it has none."""
    value = (item.meta or {}).get(f"dev.carrel/{name}")
    return value if isinstance(value, int) else 0


def place_of(item: Item, text: str) -> str:
    """Return which lines and bytes of the whole an item has, and about how many tokens the part and the whole have."""
    from carrel.core.tokens import estimate_tokens  # not needed to start

    start, length, total = (number_in(item, name) for name in ("start", "length", "total"))
    meta = item.meta or {}
    lines, every = meta.get("dev.carrel/lines"), meta.get("dev.carrel/total-lines")
    counted = f"lines {lines} of {every}, " if every else f"lines {lines}, " if lines else ""
    tokens = estimate_tokens(text)
    cost = f", about {tokens:,} of {tokens * total // length:,} tokens" if length else ""
    return f"{counted}bytes {start}-{start + length} of {total}{cost}"


def with_next(item: Item, uri: str) -> Item:
    """Return a part that names the bytes after it without their number: each answer has as many as fit in it."""
    following = (item.meta or {}).get(NEXT)
    if not isinstance(following, str) or "start" not in names_in(following):
        return item
    end = number_in(item, "start") + number_in(item, "length")
    return replace(item, meta={**(item.meta or {}), NEXT: with_query(without(uri, _OWN_PARTS), start=end)})


def noted(item: Text, uri: str) -> str:
    """Return a text; if it is a part, with its place and the next part in the first and last line."""
    start, length, total = (number_in(item, name) for name in ("start", "length", "total"))
    following = (item.meta or {}).get(NEXT)
    is_end = start + length >= total
    if is_end and following is None:
        return item.text if start == 0 else f"[{name_of(uri)}: {place_of(item, item.text)}; the end]\n{item.text}"
    whole = with_query(without(uri, OTHER_PARTS), start=0)
    advice = f"ask for less, or for the whole in parts: {whole}" if following is None else f"next: {following}"
    note = f"[{advice}]" if is_end and start == 0 else f"[{name_of(uri)}: {place_of(item, item.text)}; {advice}]"
    line_end = "" if item.text.endswith("\n") else "\n"
    return f"{note}\n{item.text}{line_end}{note}"


def names_in(uri: str) -> set[str]:
    """Return the names of the parameters in a URI."""
    return {name for name, _ in pairs(split_query(uri)[1] or "")}


def with_tokens(reading: Reading) -> Reading:
    """Return a reading with its cost in tokens in `meta`, if it is one whole text."""
    item = reading.items[0] if len(reading.items) == 1 else None
    if not isinstance(item, Text) or not item.meta or number_in(item, "length") != number_in(item, "total"):
        return reading
    from carrel.core.tokens import estimate_tokens  # not needed to start

    return replace(reading, items=(replace(item, meta={TOKENS: estimate_tokens(item.text), **item.meta}),))


def next_in(reading: Reading) -> Meta | None:
    """Return `meta` of a tool's answer: the URI of what comes after a reading."""
    following = (reading.items[-1].meta or {}).get(NEXT) if reading.items else None
    return {NEXT: following} if following else None
