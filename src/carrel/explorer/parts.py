"""The parts of a long text: which one a page shows, and the URIs of the others.

A part is named by its lines where it holds whole lines, and by its bytes otherwise: one line may have megabytes.
"""

from collections.abc import Callable, Mapping
from typing import Final

from carrel.core.model import Range
from carrel.core.record import Value
from carrel.core.uri import pairs, split_query, with_query, without
from carrel.explorer.rendering.amounts import count, counted

PART_BYTES: Final = 65_536
"""How much of a text a page shows at once."""
RANGES: Final = frozenset({"lines", "start", "length"})
_LAST_LINES: Final = 500


class TextPart(Value, frozen=True):
    """The bytes of a text from `start` to `end`, and the lines `first` to `last` in which they lie.

    `uri` is that of the whole. `first` is 0 if the lines are not counted, or, as in an outline, not
    read by their numbers.
    """

    uri: str
    start: int
    end: int
    total: int
    first: int
    last: int
    total_lines: int
    begins_line: bool
    ends_line: bool

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole text."""
        return self.start == 0 and self.end == self.total

    @property
    def place(self) -> str:
        """Where it lies in the text, in words; empty for a whole text without counted lines."""
        of = f" of {count(self.total_lines)}"
        lines = (
            f"lines {count(self.first)}–{count(self.last)}" if self.last > self.first else f"line {count(self.first)}"
        )
        if self.is_whole:
            return counted(self.total_lines, "line") if self.total_lines else ""
        if self.first and self.begins_line and self.ends_line:
            return lines + of if self.total_lines else lines
        if self.start >= self.end:
            return "past the end"
        octets = f"bytes {count(self.start + 1)}–{count(self.end)}"
        return f"{octets}, in {lines}{of}" if self.first and self.total_lines else octets

    @property
    def own(self) -> str:
        """Its URI."""
        if self.first and self.begins_line and self.ends_line:
            return with_query(self.uri, lines=f"{self.first}-{self.last}")
        return with_query(self.uri, start=self.start, length=self.end - self.start)

    @property
    def following(self) -> str:
        """The URI of the part after it; empty at the end."""
        if self.end >= self.total:
            return ""
        is_lined = self.first and self.ends_line
        return with_query(self.uri, lines=f"{self.last + 1}-") if is_lined else with_query(self.uri, start=self.end)

    @property
    def at_start(self) -> str:
        """The URI of the first part; empty at the start."""
        return with_query(self.uri, start=0) if self.start else ""

    @property
    def at_end(self) -> str:
        """The URI of the last part; empty at the end."""
        if self.end >= self.total:
            return ""
        lines = min(_LAST_LINES, PART_BYTES // 2 * self.total_lines // self.total) if self.first else 0
        if lines:
            return with_query(self.uri, lines=f"{self.total_lines - lines + 1}-{self.total_lines}")
        return with_query(self.uri, start=max(0, self.total - PART_BYTES), length=PART_BYTES)

    def before(self, read: Callable[[Range], str]) -> str:
        """Return the URI of the part before it; empty at the start. `read` returns the text of a range of bytes."""
        if not self.start:
            return ""
        earlier = Range(max(0, self.start - PART_BYTES), min(self.start, PART_BYTES))
        if self.first > 1 and self.begins_line:
            text = read(earlier)
            lines = text.count("\n") - (earlier.start > 0)  # the first of them may be cut
            if lines > 0:
                return with_query(self.uri, lines=f"{self.first - lines}-{self.first - 1}")
        return with_query(self.uri, start=earlier.start, length=earlier.length or 0)


def part_of(uri: str, text: str, meta: Mapping[str, object]) -> TextPart:
    """Return which part of a resource a text is, by the metadata of its reading."""
    named = (meta.get(f"dev.carrel/{name}") for name in ("start", "length", "total", "total-lines"))
    start, length, total, total_lines = (one if isinstance(one, int) else 0 for one in named)
    first, _, last = str(meta.get("dev.carrel/lines", "")).partition("-")
    asked = {name for name, _ in pairs(split_query(uri)[1] or "")}
    is_counted = first.isdigit() and last.isdigit() and "outline" not in asked
    return TextPart(
        without(uri, RANGES),
        start,
        start + length,
        total,
        int(first) if is_counted else 0,
        int(last) if is_counted else 0,
        total_lines,
        start == 0 or "lines" in asked,
        start + length >= total or text.endswith("\n"),
    )
