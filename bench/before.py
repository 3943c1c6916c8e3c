"""Another checkout of Carrel beside this one, measured in the same run: is anything slower than before?"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.contenders import CARREL, CONTENDERS, Contender, Start
from bench.measure import RESIDENT, Results
from bench.works import ENTRIES

NAME: Final = "before"
LEAST: Final = 0.95
"""The smallest share of the earlier speed that counts as equal: two runs of one version differ by as much."""


def contender(checkout: Path) -> Contender:
    """Return the Carrel of another checkout, which has its own `.venv`."""
    programs = checkout / ".venv" / "bin"

    def command(start: Start) -> tuple[str, ...]:
        ours = CONTENDERS["carrel"].command(start)
        if ours[0] == CARREL:
            return str(programs / "carrel"), *ours[1:]
        peer = checkout / "bench" / "peers" / "carrel_memory.py"
        return str(programs / "python"), str(peer), str(start.folder), str(ENTRIES[start.setup]), str(start.port)

    return replace(CONTENDERS["carrel"], name=NAME, title="Carrel before", command=command, by_the_book=False)


def shares(results: Results) -> Iterator[tuple[str, float]]:
    """Yield each row with this Carrel's speed as a share of the earlier one's, by the servers' processor time."""
    for cell, row in results.cells.items():
        if NAME in row and "carrel" in row:
            now, before = row["carrel"], row[NAME]
            has_time = cell.work != RESIDENT and now.server_us and before.server_us
            share = before.server_us / now.server_us if has_time else before.median / now.median
            yield f"{cell.transport} {cell.era} {cell.cores} {cell.work} x{cell.depth}", share


def comparison(results: Results) -> Iterator[str]:
    """Yield a line for each row, the slowest first."""
    for title, share in sorted(shares(results), key=lambda one: one[1]):
        yield f"{share:6.2f} x before  {title}{'' if share >= LEAST else '  SLOWER'}"
