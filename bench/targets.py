"""What Carrel is to reach, as ratios to the official SDK's low-level server in the same run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.contenders import REFERENCE
from bench.measure import RESIDENT, START, Cell, Results

OURS: Final = "carrel"
LIMIT: Final = "bare"


@dataclass(frozen=True, slots=True)
class Target:
    """One row: how many times faster at least, and as a stretch. Of memory, a share: at most."""

    title: str
    cell: Cell
    wanted: float
    stretch: float

    @property
    def is_share(self) -> bool:
        """Whether less is better."""
        return self.cell.work == RESIDENT

    def holds(self, ratio: float, bound: float) -> bool:
        """Return whether a ratio reaches a bound."""
        return ratio <= bound if self.is_share else ratio >= bound


TARGETS: Final = (
    Target("stdio 1 KB read, one core, depth 1", Cell("stdio", "modern", "one", "read-1k-memory"), 20, 28),
    Target("stdio 1 KB read, depth 32", Cell("stdio", "modern", "one", "read-1k-memory", 32), 35, 55),
    Target("stdio 100 KB read", Cell("stdio", "modern", "one", "read-100k-memory"), 4, 6),
    Target("stdio 1 MB read", Cell("stdio", "modern", "one", "read-1m-memory"), 2, 2.6),
    Target("stdio 1 KB read of a file, depth 1", Cell("stdio", "modern", "one", "read-1k-files"), 20, 28),
    Target("stdio 1 KB read of a file, depth 32", Cell("stdio", "modern", "one", "read-1k-files", 32), 35, 55),
    Target("list of 1,000", Cell("stdio", "modern", "one", "list-1000"), 20, 60),
    Target("list of 1,000 files", Cell("stdio", "modern", "one", "list-files"), 5, 20),
    Target("100,000 entries in pages of 1,000", Cell("stdio", "modern", "one", "list-100000"), 9, 18),
    Target("HTTP 1 KB read, 32 connections", Cell("http", "modern", "one", "read-1k-memory", 32), 4.5, 10),
    Target("start-up to first answer", Cell("stdio", "modern", "one", START), 6, 9),
    Target("resident memory after start", Cell("stdio", "modern", "one", RESIDENT), 0.5, 0.35),
)
SMOKE: Final = (
    Target("stdio 1 KB read, one core, depth 1", Cell("stdio", "modern", "one", "read-1k-memory"), 8, 28),
    Target("stdio 1 KB read, depth 32", Cell("stdio", "modern", "one", "read-1k-memory", 32), 12, 55),
    Target("stdio 1 KB read of a file, depth 1", Cell("stdio", "modern", "one", "read-1k-files"), 8, 28),
    Target("stdio 1 KB read of a file, depth 32", Cell("stdio", "modern", "one", "read-1k-files", 32), 12, 55),
    Target("list of 1,000", Cell("stdio", "modern", "one", "list-1000"), 3, 60),
    Target("list of 1,000 files", Cell("stdio", "modern", "one", "list-files"), 2, 20),
    Target("start-up to first answer", Cell("stdio", "modern", "one", START), 3, 9),
    Target("resident memory after start", Cell("stdio", "modern", "one", RESIDENT), 1.0, 0.35),
)
"""What is asked of a short run on a busy machine, by processor time: only what has a margin of several times."""


def ratio(results: Results, cell: Cell, name: str) -> float | None:
    """Compare a contender with the reference: times faster, or the share of its memory."""
    row = results.cells.get(cell, {})
    if name not in row or REFERENCE not in row:
        return None
    mine, theirs = row[name].median, row[REFERENCE].median
    return mine / theirs if cell.work == RESIDENT else theirs / mine


def cpu_ratio(results: Results, cell: Cell, name: str) -> float | None:
    """Compare the processor time of the servers alone, which a busy machine disturbs less."""
    row = results.cells.get(cell, {})
    if name not in row or REFERENCE not in row or not row[name].server_us:
        return None
    return row[REFERENCE].server_us / row[name].server_us


def judged(results: Results, targets: tuple[Target, ...]) -> Iterator[tuple[Target, float]]:
    """Yield each target that was measured, with Carrel's ratio; of a short run that of processor time."""
    for target in targets:
        reached = ratio(results, target.cell, OURS)
        if targets is SMOKE:
            reached = cpu_ratio(results, target.cell, OURS) or reached
        if reached is not None:
            yield target, reached


def verdict(target: Target, reached: float) -> str:
    """Say in a word or two what a ratio amounts to."""
    if target.holds(reached, target.stretch):
        return "stretch"
    return "holds" if target.holds(reached, target.wanted) else "MISSED"
