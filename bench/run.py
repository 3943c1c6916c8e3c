"""Carrel beside its peers: everything in one go, interleaved.

    python -m bench.run --out docs/performance           the whole comparison, with tables, data and plot
    python -m bench.run --smoke --check                  the same in short, with what the development environment has
    python -m bench.run --peer carrel,sdk --work read-1k-memory --transport stdio --era modern --depth 1 --cores one
    python -m bench.run --peer carrel,sdk --before ../other-checkout    this Carrel beside another one

Tables are printed, and written only where `--out` says. `--everything` measures every work at every depth on one core
and on all; otherwise only a small read and a few others are measured in all ways.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import before, plot, report
from bench.contenders import CONTENDERS, REFERENCE, SMALL, Contender, Transport
from bench.floor import lay_answers
from bench.measure import Cell, Cores, Effort, Results, measure_echo, measure_starts, measure_works
from bench.messages import Era
from bench.targets import SMOKE, TARGETS, judged
from bench.works import WORKS, lay_out, lay_tree

FULL_EFFORT: Final = Effort(rounds=5, seconds=0.1, starts=5)
SMOKE_EFFORT: Final = Effort(rounds=3, seconds=0.05, starts=3)
TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http")
ERAS: Final[tuple[Era, ...]] = ("modern", "legacy")
CORES: Final[tuple[Cores, ...]] = ("one", "all")
DEPTHS: Final = (1, 32)
START_UP: Final = "start-up"
STARTS: Final[tuple[tuple[Transport, Era], ...]] = (("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"))

SMALLEST: Final = frozenset({"read-1k-memory"})
DEEP: Final = frozenset({"read-1k-memory", "read-1k-files", "read-100k-memory"})
"""Works that are also measured with many requests under way."""

SPREAD: Final = frozenset({"read-1k-memory", "read-100k-memory", "read-1m-memory", "list-1000"})
"""Works that are also measured on all cores, in the modern era; in the legacy one only the smallest."""

QUICK: Final = SMALLEST | {
    "read-1k-files",
    "read-100k-memory",
    "read-1m-memory",
    "range",
    "unchanged",
    "list-1000",
    "list-files",
}
"""What a short run measures: this on stdio in the modern era, and elsewhere only the smallest."""


def plan(given: argparse.Namespace) -> Iterator[Cell]:
    """Return the cells that are measured."""
    is_planned = is_short if given.smoke else is_possible if given.everything else is_usual
    works = [name for name in given.work if name in WORKS]
    cells = itertools.product(given.transport, given.era, given.cores, works, given.depth)
    return filter(is_planned, itertools.starmap(Cell, cells))


def is_possible(cell: Cell) -> bool:
    """Return whether a cell can be measured: a whole list is one page after the other."""
    return cell.depth == 1 or not WORKS[cell.work].whole


def is_usual(cell: Cell) -> bool:
    """Return whether a cell is part of an ordinary run."""
    if cell.cores == "all" and cell.work not in (SPREAD if cell.era == "modern" else SMALLEST):
        return False
    return cell.depth == 1 or cell.work in DEEP


def is_short(cell: Cell) -> bool:
    """Return whether a cell is part of a short run."""
    is_first = (cell.transport, cell.era) == ("stdio", "modern")
    return cell.cores == "one" and is_usual(cell) and cell.work in (QUICK if is_first else SMALLEST)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Carrel beside its peers.")
    parser.add_argument("--smoke", action="store_true", help="in short, with the peers of the development environment")
    parser.add_argument("--check", action="store_true", help="exit 1 where Carrel misses what it is to reach")
    parser.add_argument("--everything", action="store_true", help="every work at every depth, on one core and on all")
    parser.add_argument("--rounds", type=int, help="rounds for each number")
    parser.add_argument("--seconds", type=float, help="seconds of each round")
    parser.add_argument("--starts", type=int, help="starts for each start-up time")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="measure the Carrel of another checkout too")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write tables and data there")
    filters: Mapping[str, Sequence[object]] = {
        "peer": tuple(CONTENDERS),
        "work": (START_UP, *WORKS),
        "transport": TRANSPORTS,
        "era": ERAS,
        "depth": DEPTHS,
        "cores": CORES,
    }
    for name, known in filters.items():
        told = ", ".join(map(str, known))
        parser.add_argument(f"--{name}", metavar="NAMES", help=f"some of {told}; separated by commas")
    given = parser.parse_args()
    for name, known in filters.items():
        asked = getattr(given, name)
        chosen = {str(one): one for one in known}
        words = [str(one) for one in known] if asked is None else asked.split(",")
        if unknown := sorted(set(words) - set(chosen)):
            parser.error(f"--{name} has no {', '.join(unknown)}; it has {', '.join(chosen)}")
        setattr(given, name, [chosen[word] for word in words])
    if given.smoke:
        given.peer = [name for name in given.peer if name in SMALL]
    if absent := [name for name in given.peer if not CONTENDERS[name].is_there]:
        parser.error(f"not installed: {', '.join(absent)}; `python -m bench.install` does that")
    return given


def effort_of(given: argparse.Namespace) -> Effort:
    """Return how much is done for each number."""
    usual = SMOKE_EFFORT if given.smoke else FULL_EFFORT
    return Effort(given.rounds or usual.rounds, given.seconds or usual.seconds, given.starts or usual.starts)


def measure(given: argparse.Namespace, table: Mapping[str, Contender], effort: Effort) -> Results:
    """Measure what was asked for."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        folder = Path(name)
        lay_out(folder)
        lay_tree(folder)
        if "floor" in table:
            lay_answers(folder)
        measure_echo(effort, folder, results)
        if START_UP in given.work:
            measure_starts(list(starts(given)), table, effort, folder, results)
        measure_works(list(plan(given)), table, effort, folder, results, tell)
    return results


def starts(given: argparse.Namespace) -> Iterator[tuple[Transport, Era]]:
    """Return the ways in which servers are started: over HTTP the era makes no difference to that."""
    wanted = STARTS[:1] if given.smoke else STARTS
    return ((transport, era) for transport, era in wanted if transport in given.transport and era in given.era)


def tell(line: str) -> None:
    """Say how far it is."""
    print(line, file=sys.stderr, flush=True)


def write(place: Path, results: Results, table: Mapping[str, Contender], effort: Effort) -> None:
    """Write the tables, the data and the plot."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "results.json").write_text(report.data(results, effort, table), "utf-8")
    (place / "results.md").write_text("\n".join(report.page(results, table, effort)), "utf-8")
    if REFERENCE in table:
        (place / "plot.svg").write_text(plot.draw(results, table), "utf-8")


def main() -> int:
    """Measure, print, judge."""
    given = arguments()
    effort = effort_of(given)
    table = {name: CONTENDERS[name] for name in given.peer}
    if given.before:
        table[before.NAME] = before.contender(given.before.resolve())
    results = measure(given, table, effort)
    targets = SMOKE if given.smoke else TARGETS
    print("\n".join([*report.summary(results, table, targets), *before.comparison(results)]))
    if given.out:
        write(given.out, results, table, effort)
    missed = [target for target, reached in judged(results, targets) if not target.holds(reached, target.wanted)]
    for target in missed:
        print(f"{'FAILED' if given.check else 'missed'}: {target.title}", file=sys.stderr)
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
