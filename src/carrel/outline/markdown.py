"""The headings of a Markdown text."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from carrel.outline.rows import MAX_ROWS, Row, last_lines

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HASHES: Final = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH: Final = re.compile(r"\s*$| {4}| {0,3}(?:[#>|]|[-*+] |\d+[.)] |<|(?:-[ \t]*){3,}$)")
"""Lines under which `---` is a rule, not the mark of a heading."""
MAX_HEADING: Final = 120


def headings(lines: list[str]) -> list[Row]:
    """Return the headings, each with the lines up to the next one of its level or higher."""
    found = list(islice(_found(lines), MAX_ROWS))
    ends = last_lines([(line, level) for line, level, _ in found], len(lines))
    rows: list[Row] = []
    open_levels: list[int] = []
    for (first, level, title), last in zip(found, ends, strict=True):
        while open_levels and open_levels[-1] >= level:
            open_levels.pop()
        text = f"{'#' * level} {title}"
        rows.append(Row("heading", text, text, len(open_levels), first, last, is_inner=level > 3))
        open_levels.append(level)
    return rows


def _title(text: str) -> str:
    """Return what follows the marks of a heading, without the marks that may close it."""
    text = text.strip(" \t")
    bare = text.rstrip("#")
    return bare.rstrip(" \t") if bare.endswith((" ", "\t")) else text


def _found(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the line, level and text of each heading; lines in code and in front matter are not headings."""
    fence = ""
    start = _front_matter(lines)
    for at in range(start, len(lines)):
        line = lines[at]
        marks = _FENCE.match(line)
        if fence:
            if marks and marks[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
            continue
        if marks:
            fence = marks[1]
        elif (hashes := _HASHES.match(line)) is not None:
            yield at + 1, len(hashes[1]), _title(line[hashes.end() :])[:MAX_HEADING]
        elif at > start and (under := _UNDERLINE.match(line)) is not None and not _NO_PARAGRAPH.match(lines[at - 1]):
            yield at, 1 if under[1][0] == "=" else 2, lines[at - 1].strip()[:MAX_HEADING]


def _front_matter(lines: list[str]) -> int:
    """Return how many lines the front matter has."""
    if not lines or lines[0].rstrip() not in ("---", "+++"):
        return 0
    end = (at + 1 for at in range(1, len(lines)) if lines[at].rstrip() == lines[0].rstrip())
    return next(end, 0)
