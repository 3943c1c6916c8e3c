"""The most useful part of a resource within a number of tokens: `?budget=2000` on any URI.

A resource that fits is returned whole; a longer text as its outline and its beginning, or only its beginning; a
folder as its first children. The last line says what is missing, and `dev.carrel/next` in `meta` is the URI
that goes on within the same budget. The budget is for the whole text of an answer, lines like this one included. If it
is too small for any content, one line says so and names a budget that is not.
"""

from collections.abc import Callable, Sequence
from typing import Final

from carrel.core import content, line_ranges
from carrel.core.content import NEXT
from carrel.core.errors import BadArgument, echo
from carrel.core.limits import MAX_BUDGET, MAX_MESSAGE_BYTES
from carrel.core.model import FOLDER_TYPE, Blob, Encoding, Item, Meta, Range, Reading, Stored, Text
from carrel.core.record import Value, replace
from carrel.core.token_counts import TOKENS
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import pairs, split_query, with_query, without
from carrel.outline.part_notes import SHOWN, name_of, place_of

NAME: Final = "budget"
_RANGE_NAMES: Final = frozenset({"start", "length"})

_BYTES_PER_TOKEN: Final = 64
"""Bytes of a text that are read for each token of a budget; few texts have more bytes per token."""
_LEAST_BYTES: Final = 4_096
_MOST_BYTES: Final = MAX_MESSAGE_BYTES // 4
"""Bytes of one answer, however large the budget: so that it fits one message when it is encoded."""
_LEAST_CONTENT: Final = 24
"""Minimum tokens of content; with less, the answer would be mostly notes."""
_MARGIN: Final = 64
"""Tokens that a suggested budget adds to the notes around the content."""
_NOTED_TWICE: Final = 24
"""The first line says what is missing too, if the line costs at most this part of the budget."""
_STEPS: Final = 24
_TRIES: Final = 8


class Budget(Value, frozen=True):
    """A number of tokens, and the URI that is read within it."""

    tokens: int
    uri: str
    """The URI without the budget; it may ask for lines, a range or the end of a text."""

    def following(self, uri: str, tokens: int = 0) -> str:
        """Return the URI of what comes next, with this budget or another one."""
        return with_query(uri, budget=tokens or self.tokens)

    def fits(self, *parts: str) -> bool:
        """Return whether the joined parts cost no more than the budget."""
        return estimate_tokens("".join(parts)) <= self.tokens


def parse(value: str, uri: str) -> int:
    """Return the number of tokens that a query asks for; raise BadArgument unless it is 1 or more."""
    if value.isascii() and value.isdigit() and len(value) <= 15 and int(value) >= 1:
        return min(int(value), MAX_BUDGET)
    message = f"Invalid parameter: budget={echo(value)} (expected a number of tokens, 1 or more, as ?budget=2000)"
    raise BadArgument(message, uri=uri, data={"parameter": NAME})


def fit(reading: Reading, budget: Budget, wanted: Range | None, outline: Callable[[int], str]) -> Reading:
    """Return what fits of a reading, whose sources the caller closes.

    `wanted` is the range that was asked for. `outline` returns the outline of the text for a number of tokens; it is
    empty if there is none.
    """
    if reading.error is not None:
        return reading
    if reading.is_folder:
        return _fit_children(reading, budget)
    if len(reading.items) != 1:
        return _fit_items(reading, budget)
    item = reading.items[0]
    asked = wanted or reading.range
    if isinstance(item, Blob) or (isinstance(item, Stored) and item.encoding == "binary"):
        whole: Text | Blob | None = _fit_bytes(item, budget, asked)
        other = _name_bytes(item, budget)
    else:
        part = _TextPart(content.stored(item), budget, asked, outline)
        whole = part.whole()
        other = part.fitting() if whole is None else Text("")
    if whole is not None:
        return replace(reading, items=(whole,), range=None, shape=None)
    # What is shown is another text than the resource, and has its own ETag.
    return replace(reading, items=(other,), range=None, shape=None, etag=None)


# Texts


class _TextPart:
    """A text, or a range of it, and the part that fits a budget."""

    def __init__(self, item: Stored, budget: Budget, asked: Range | None, outline: Callable[[int], str]) -> None:
        names = {name for name, _ in pairs(split_query(budget.uri)[1] or "")}
        self._item = item
        self._budget = budget
        self._asked = asked
        self._outline = outline if asked is None else _no_outline
        self._is_open_ended = bool(names & content.OPEN_ENDED)
        self._keeps_end = "tail" in names
        self._is_noted_twice = False
        self._counted: Meta = {}
        size = item.source.size
        self._begin = min(size, asked.start) if asked else 0
        self._end = size if asked is None or asked.length is None else min(size, asked.start + asked.length)

    def fitting(self) -> Text:
        """Return its outline and beginning, or its beginning, or a line that says how large the budget must be."""
        frame = estimate_tokens(self._longest_note()) + 1
        self._is_noted_twice = frame * _NOTED_TWICE <= self._budget.tokens
        room = self._budget.tokens - frame * (1 + self._is_noted_twice)
        if room >= _LEAST_CONTENT:
            outline = self._outline(room // 2)
            for tried in (f"{outline}\n", "") if outline else ("",):
                shown = self._beginning(tried, room)
                if shown is not None:
                    return shown
        return self._too_small(frame)

    def whole(self) -> Text | None:
        """Return the whole request, if it fits."""
        if self._end - self._begin > self._limit():
            return None
        uri = self._budget.following(self._budget.uri)
        if self._asked is None:
            item = content.whole(self._item, uri, MAX_MESSAGE_BYTES)
        else:
            item = content.cut(self._item, self._asked, uri, MAX_MESSAGE_BYTES)
        assert isinstance(item, Text)
        tokens = estimate_tokens(item.text)
        if self._asked is None and not self._is_open_ended:
            self._counted = {TOKENS: tokens}
        item = replace(item, meta={**self._counted, **(item.meta or {})})
        return item if tokens <= self._budget.tokens else None

    def _limit(self) -> int:
        """Return the maximum number of bytes to read."""
        return min(_MOST_BYTES, self._budget.tokens * _BYTES_PER_TOKEN + _LEAST_BYTES)

    def _beginning(self, before: str, room: int) -> Text | None:
        """Return as much of the beginning as fits after another text; None if nothing does."""
        length = min(self._limit(), self._end - self._begin)
        at = self._end - length if self._keeps_end else self._begin
        data = self._item.source.read(at, length)
        left = room - estimate_tokens(before)
        for _ in range(_TRIES):
            count = _longest(data, self._item.encoding, left, from_end=self._keeps_end) if left > 0 else 0
            if not count:
                return None
            shown = self._part(at + len(data) - count if self._keeps_end else at, count, before)
            cost = estimate_tokens(shown.text)
            if cost <= self._budget.tokens:
                return shown
            left -= cost - self._budget.tokens + 1
        return None

    def _part(self, start: int, length: int, before: str) -> Text:
        """Return a part of the text with the note of what is missing."""
        part = content.cut(self._item, Range(start, length), self._budget.uri, MAX_MESSAGE_BYTES)
        assert isinstance(part, Text)
        begin, taken = ((part.meta or {}).get(f"dev.carrel/{name}") for name in ("start", "length"))
        assert isinstance(begin, int)
        assert isinstance(taken, int)
        lines = line_ranges.name_lines(self._item.source, self._item.encoding, begin, begin + taken)
        following = self._following(begin + taken)
        meta = {**self._counted, **(part.meta or {}), **lines, NEXT: following}
        named = replace(part, meta=meta, mime_type="text/plain")
        note = f"[{name_of(self._budget.uri)}: {place_of(named, part.text)}; next: {following}]"
        line_end = "" if part.text.endswith("\n") else "\n"
        first = f"{note}\n" if self._is_noted_twice else ""
        return replace(named, text=f"{first}{before}{part.text}{line_end}{note}")

    def _longest_note(self) -> str:
        """Return the longest note that a part may have."""
        most = self._item.source.size
        place = f"lines {most}-{most} of {most}, bytes {most}-{most} of {most}, about {most:,} of {most:,} tokens"
        return f"[{name_of(self._budget.uri)}: {place}; next: {self._following(most)}]\n"

    def _following(self, at: int) -> str:
        """Return the URI of the rest; that of the whole if the part has no fixed place."""
        uri = without(self._budget.uri, content.OTHER_PARTS | _RANGE_NAMES)
        if self._is_open_ended:
            return self._budget.following(with_query(uri, start=0))
        if self._asked is None or self._asked.length is None:
            return self._budget.following(with_query(uri, start=at))
        return self._budget.following(with_query(uri, start=at, length=max(0, self._end - at)))

    def _too_small(self, frame: int) -> Text:
        """Return one line that says how large the text is, and which budget is large enough for a part."""
        size = self._item.source.size
        following = self._budget.following(self._budget.uri, frame + _MARGIN)
        text = (
            f"[{name_of(self._budget.uri)}: {size} bytes; no part fits budget={self._budget.tokens}; next: {following}]"
        )
        place = {"dev.carrel/total": size, "dev.carrel/start": self._begin, "dev.carrel/length": 0}
        meta = {**self._counted, **(self._item.meta or {}), **place, NEXT: following}
        return Text(text, "text/plain", self._item.uri, meta)


def _no_outline(_room: int) -> str:
    return ""


def _longest(data: bytes, encoding: Encoding, room: int, *, from_end: bool) -> int:
    """Return how many bytes from the start, or the end, cost at most `room` tokens: whole lines if possible."""

    def part(count: int) -> bytes:
        return data[len(data) - count :] if from_end else data[:count]

    def cost(count: int) -> int:
        return estimate_tokens(part(count).decode(encoding, "replace"))

    whole = cost(len(data))
    if whole <= room:
        return len(data)
    fits, too_long, tried = 0, len(data), len(data) * room // whole
    for _ in range(_STEPS):
        if not fits < tried < too_long:
            break
        if cost(tried) <= room:
            fits = tried
        else:
            too_long = tried
        if too_long - fits <= fits // 64:
            break
        tried = (fits + too_long) // 2
    if from_end:
        skipped = part(fits).find(b"\n") + 1
        return fits - skipped if skipped < fits else fits
    return line_ranges.last_end(part(fits), encoding) or fits


# Bytes, folders, several items


def _fit_bytes(item: Item, budget: Budget, asked: Range | None) -> Blob | None:
    """Return bytes if they fit as base64."""
    from base64 import b64encode  # few budgets are for bytes

    stored = content.stored(item)
    size = stored.source.size
    if size <= budget.tokens * _BYTES_PER_TOKEN:
        given = content.cut(stored, asked or Range(), budget.uri, MAX_MESSAGE_BYTES)
        assert isinstance(given, Blob)
        if budget.fits(b64encode(given.data).decode("ascii")):
            return given
    return None


def _name_bytes(item: Item, budget: Budget) -> Text:
    """Return one line in place of bytes."""
    size = content.stored(item).source.size
    text = f"[{name_of(budget.uri)}: {size} bytes that are not text; next: {budget.uri}]"
    return Text(text, "text/plain", item.uri, {**(item.meta or {}), NEXT: budget.uri})


def _fit_children(reading: Reading, budget: Budget) -> Reading:
    """Return as many children of a folder as fit."""
    lines = [f"{item.uri}  {item.text if isinstance(item, Text) else ''}\n" for item in reading.items]
    more = reading.more
    assert more is not None

    def following(count: int) -> str | None:
        uri = more(count) if count else None
        return None if uri is None else budget.following(uri)

    def fits(count: int) -> bool:
        uri = following(count)
        note = f"[{_shown(count, reading)} shown; next: {uri}]\n" if uri else ""
        return budget.fits(note, *lines[:count], note)

    count = _most(len(lines), fits)
    if 0 < count < len(lines) and following(count) is None:
        return _fit_items(reading, budget)  # a folder without pages
    if count:
        meta = {**(reading.meta or {}), SHOWN: _shown(count, reading)} if following(count) else reading.meta
        return replace(reading, items=reading.items[:count], more=following, meta=meta)
    least = (
        max(map(estimate_tokens, lines), default=0) + 2 * estimate_tokens(f"[{budget.uri} {following(1)}]") + _MARGIN
    )
    uri = budget.following(budget.uri, least)
    text = f"[{name_of(budget.uri)}: 0 of {len(lines)} children fit budget={budget.tokens}; next: {uri}]"
    only = Text(text, FOLDER_TYPE, meta={NEXT: uri})
    return replace(reading, items=(only,), more=lambda _: None)


def _shown(count: int, reading: Reading) -> str:
    """Return how many of all children are shown, as `12 of 40`."""
    every = len(reading.items)
    is_more = reading.more is not None and reading.more(every) is not None
    return f"{count} of {'more than ' if is_more else ''}{every}"


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits; 0 if none does."""
    if fits(count):
        return count
    least, most = 0, count
    while most - least > 1:
        tried = (least + most) // 2
        least, most = (tried, most) if fits(tried) else (least, tried)
    return least


def _fit_items(reading: Reading, budget: Budget) -> Reading:
    """Return as many of several items as fit, and one that says how many are missing."""
    items = [content.whole(item, budget.uri, MAX_MESSAGE_BYTES) for item in reading.items]
    texts = [f"{item.uri or ''}  {item.text}\n" if isinstance(item, Text) else "" for item in items]
    if budget.fits(*texts) and all(isinstance(item, Text) for item in items):
        return replace(reading, items=tuple(items))

    def note(count: int) -> str:
        return f"[{name_of(budget.uri)}: {count} of {len(items)} items fit the budget; next: {budget.uri}]"

    count = _most(len(items), lambda count: budget.fits(*texts[:count], note(count)))
    shown: Sequence[Item] = [item for item in items[:count] if isinstance(item, Text)]
    last = Text(note(len(shown)), "text/plain", meta={NEXT: budget.uri})
    return replace(reading, items=(*shown, last), etag=None)
