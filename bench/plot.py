"""The plot: for a few rows of the table, how many times faster (or lighter) than the reference everyone is.

Hand-written SVG that follows the reader's light or dark setting. A logarithmic axis; further right is better.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from bench.contenders import REFERENCE, REFERENCE_TITLE, Contender
from bench.measure import RESIDENT, Cell, Results
from bench.targets import LIMIT, OURS, TARGETS, ratio

WIDTH: Final = 960
LEFT: Final = 250
RIGHT: Final = 30
TOP: Final = 118
ROW: Final = 40
COLUMNS: Final = 5
"""Of the legend."""
COLOURS: Final = {
    "carrel": "#e4572e",
    "sdk-high": "#4c78a8",
    "fastmcp": "#9d6cc4",
    "typescript": "#2a9d8f",
    "filesystem": "#b08900",
    "mise": "#c2527f",
    "bare": "#7a8b99",
    "raw": "#5b9bd5",
    "floor": "#a9a9a9",
}
LIMITS: Final = (LIMIT, "raw", "floor")
EXTRA: Final = (
    ("stdio 1 KB read from a file", Cell("stdio", "legacy", "one", "read-1k-files")),
    ("stdio 1 MB read from a file", Cell("stdio", "legacy", "one", "read-1m-files")),
)
STYLE: Final = """
    text { font: 13px system-ui, sans-serif; fill: #24292f; }
    .small { font-size: 11px; fill: #6e7781; }
    .title { font-size: 15px; font-weight: 600; }
    .ours { font-weight: 600; fill: #c8401a; }
    .grid { stroke: #d0d7de; stroke-width: 1; }
    .one { stroke: #6e7781; stroke-width: 1.5; }
    .wanted { stroke: #c8401a; stroke-width: 2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #8d96a0; }
      .ours { fill: #ff8a65; }
      .grid { stroke: #30363d; }
      .one { stroke: #8d96a0; }
      .wanted { stroke: #ff8a65; }
    }"""


def draw(results: Results, table: Mapping[str, Contender]) -> str:
    """Return the plot of what was measured."""
    rows = list(chosen(results))
    points = [{name: better(results, cell, name) for name in results.cells[cell]} for _, cell, _ in rows]
    highest = max(point for row in points for point in row.values())
    lowest = min(point for row in points for point in row.values())
    scale = Scale(lowest, highest)
    present = [name for name in table if name != REFERENCE and any(name in row for row in points)]
    height = TOP + ROW * len(rows) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"  <title>How many times faster than {REFERENCE_TITLE}</title>",
        f"  <style>{STYLE}\n  </style>",
        text(16, 26, f"How many times faster (or lighter) than {REFERENCE_TITLE}", "title"),
        text(WIDTH - RIGHT, 26, "a stroke is what Carrel is to reach", "small", "end"),
        *legend(present, table),
        *axis(scale, height),
    ]
    for number, ((label, _, wanted), row) in enumerate(zip(rows, points, strict=True)):
        lines += [*row_lines(TOP + ROW * number + ROW / 2, label, wanted, row, scale)]
    return "\n".join([*lines, "</svg>", ""])


class Scale:
    """A logarithmic axis."""

    def __init__(self, lowest: float, highest: float) -> None:
        self.first, self.last = math.floor(math.log10(lowest) * 2) / 2, math.ceil(math.log10(highest) * 2) / 2

    def x(self, value: float) -> float:
        """Return the place of a value."""
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def marks(self) -> Iterator[float]:
        """Yield the values that are written beside the axis."""
        for power in range(math.floor(self.first), math.ceil(self.last) + 1):
            for digit in (1, 3):
                value = digit * 10.0**power
                if self.first <= math.log10(value) <= self.last:
                    yield value


def chosen(results: Results) -> Iterator[tuple[str, Cell, float | None]]:
    """Yield the rows: every target, and a few more, as far as they were measured."""
    wanted = {target.title: 1 / target.wanted if target.is_share else target.wanted for target in TARGETS}
    rows: Sequence[tuple[str, Cell]] = [(target.title, target.cell) for target in TARGETS]
    for label, cell in (*rows[:2], EXTRA[0], *rows[2:4], EXTRA[1], *rows[4:]):
        if REFERENCE in results.cells.get(cell, {}):
            yield label, cell, wanted.get(label)


def better(results: Results, cell: Cell, name: str) -> float:
    """Return how many times better than the reference: faster, or lighter."""
    found = ratio(results, cell, name) or 1.0
    return 1 / found if cell.work == RESIDENT else found


def legend(present: Sequence[str], table: Mapping[str, Contender]) -> Iterator[str]:
    """Name the dots."""
    for number, name in enumerate(present):
        row, column = divmod(number, COLUMNS)
        x, y = 24 + column * (WIDTH - 24) / COLUMNS, 50 + 22 * row
        yield dot(x, y, name)
        yield text(x + 12, y + 4, table[name].title, "ours" if name == OURS else "")


def axis(scale: Scale, height: int) -> Iterator[str]:
    """Draw the lines of the axis, and the reference at 1."""
    for value in scale.marks():
        x = scale.x(value)
        kind = "one" if value == 1 else "grid"
        yield f'  <line class="{kind}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 36}"/>'
        yield text(x, height - 18, f"{value:g} ×", "small", "middle")
        if value == 1:
            yield text(x, TOP - 14, "the reference", "small", "middle")


def row_lines(y: float, label: str, wanted: float | None, row: Mapping[str, float], scale: Scale) -> Iterator[str]:
    """Draw one row: what is wanted, everyone's dot, and Carrel's number."""
    yield text(LEFT - 14, y + 4, label, "", "end")
    if wanted is not None:
        x = scale.x(wanted)
        yield f'  <line class="wanted" x1="{x:.1f}" y1="{y - 8:.1f}" x2="{x:.1f}" y2="{y + 12:.1f}"/>'
    for name in sorted(row, key=lambda name: name == OURS):
        if name != REFERENCE:
            yield dot(scale.x(row[name]), y, name)
    if OURS in row:
        yield text(scale.x(row[OURS]), y - 11, f"{row[OURS]:.3g} ×", "ours", "middle")


def dot(x: float, y: float, name: str) -> str:
    """Draw one dot; those that only mark a limit are rings."""
    colour = COLOURS[name]
    radius = 6 if name == OURS else 4.5
    paint = f'fill="none" stroke="{colour}" stroke-width="2"' if name in LIMITS else f'fill="{colour}"'
    return f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {paint}/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Write words."""
    styled = f' class="{kind}"' if kind else ""
    return f'  <text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{styled}>{escape(words)}</text>'
