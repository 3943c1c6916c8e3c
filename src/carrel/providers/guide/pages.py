"""Fit the guide into a number of tokens: leave out examples first, then descriptions, then what is least useful."""

from collections.abc import Sequence
from typing import Final

from carrel.core.record import Value
from carrel.core.tokens import estimate_tokens

Row = tuple[str, str]
"""A URI or a template, and what it is."""

_REST: Final = "The rest: `carrel://catalog`\n"
_SHORT: Final = 80
"""Characters of a description where space is short."""


class GuideSection(Value, frozen=True):
    """What the guide says of one provider."""

    heading: str
    templates: tuple[Row, ...] = ()
    examples: tuple[Row, ...] = ()
    is_unlisted: bool = False

    def render(self, examples: int, templates: int, description: int) -> str:
        """Return the section with at most this many examples and templates, and descriptions of this length."""
        rows = [*self.templates[:templates], *self.examples[:examples]]
        left = len(self.templates) - templates
        more = [f"- {left} more template{'s' * (left > 1)}: `carrel://catalog`"] if left > 0 else []
        return "\n".join([self.heading, "", *(_bullet(*row, description) for row in rows), *more]) + "\n"


class Level(Value, frozen=True):
    """How long the guide is: the number of rows of each kind, and the characters of a description."""

    examples: int
    templates: int
    description: int
    notes: int
    sections: int


LEVELS: Final = (
    Level(3, 8, 200, 20, 12),
    Level(1, 8, _SHORT, 8, 12),
    Level(0, 6, _SHORT, 6, 12),
    Level(0, 4, 0, 4, 12),
    Level(0, 2, 0, 3, 10),
    Level(0, 1, 0, 2, 6),
    Level(0, 0, 0, 1, 3),
)
"""From the longest guide to the shortest."""


def fit(
    top: Sequence[str], sections: Sequence[GuideSection], not_listed: str, notes: Sequence[str], budget: int
) -> str:
    """Return the guide with as much as fits."""
    text = ""
    for level in LEVELS:
        shown = [one.render(level.examples, level.templates, level.description) for one in sections[: level.sections]]
        if len(sections) > level.sections:
            shown.append(f"{len(sections) - level.sections} more providers: `carrel://catalog`\n")
        parts = [*top, *shown, *([not_listed] if not_listed else []), *_notes(notes, level.notes)]
        text = "\n".join(parts)
        if estimate_tokens(text) <= budget:
            return text
    return _cut(text, budget)


def _cut(text: str, budget: int) -> str:
    """Return the first lines that fit, for a project with very long names."""
    lines = text.split("\n")
    while lines and estimate_tokens("\n".join([*lines, _REST])) > budget:
        del lines[-1 - len(lines) // 10 :]
    return "\n".join([*lines, _REST])


def _notes(notes: Sequence[str], most: int) -> list[str]:
    if not notes:
        return []
    shown = [f"- {note}\n" for note in notes[:most]]
    if len(notes) > most:
        shown.append(f"- {len(notes) - most} more: `carrel://health`\n")
    return ["## Not served\n\n" + "".join(shown)]


def _bullet(what: str, description: str, length: int) -> str:
    shown = description if len(description) <= length else f"{description[: length - 1]}…" if length else ""
    return f"- {what}: {shown}" if shown else f"- {what}"
