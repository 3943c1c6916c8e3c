"""Reads of scopes in a large store beside the same reads in a small one.

    python -m bench.scopes [--smoke] [--check] [--json FILE] [--keep FOLDER]

Both stores hold the same nodes: `wide`, with 10,000 children, and `deep`, whose tree of depth 5 has nearly as many
nodes as one answer shows. The large store has 1,000,000 scopes, among which those of `wide` and `deep` lie scattered.
Rounds are interleaved. What is limited is the ratio of the two, and the time of the large one.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.pinning import one_core
from carrel.catalog.catalog import Catalog
from carrel.core.provider import Project
from carrel.providers.scopes import Scopes
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.values import make_id

WIDE: Final = 10_000
DEEP: Final = 994
CREATED_MS: Final = 1_700_000_000_000

READS: Final = {
    "one scope": "scopes://scope/task-500",
    "a scope with 10,000 children": "scopes://scope/wide",
    "depth-1 tree of 10,000 children": "scopes://tree/wide",
    "depth-1 tree, last page": "scopes://tree/wide?skip=9900&limit=100",
    "depth-5 tree": "scopes://tree/deep?depth=5",
}
COMPLETION: Final = "completion of an alias"

Row = tuple[str, str, str | None, str, int]
"""Id, alias, parent's id, title, position."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and what is asked."""

    small: int
    large: int
    rounds: int
    times_slower: float = 3.0
    read_ms: float = 50.0
    completion_ms: float = 10.0


FULL: Final = Plan(small=11_000, large=1_000_000, rounds=60)
SMOKE: Final = Plan(small=11_000, large=110_000, rounds=20, times_slower=9, read_ms=200, completion_ms=50)


def shared() -> list[Row]:
    """Return the rows that every store holds: 11,000 with the two tops."""
    rows: list[Row] = [(_id(0), "wide", None, "Wide", 0), (_id(1), "deep", None, "Deep", 1)]
    rows += [(_id(2 + number), f"task-{number}", _id(0), f"Task {number}", number) for number in range(WIDE)]
    for number in range(DEEP + 4):
        # Four children each: level five is reached after some three hundred nodes.
        place = 2 + WIDE + number
        parent = _id(1) if number < 4 else _id(2 + WIDE + number // 4 - 1)
        rows.append((_id(place), f"deep-{number}", parent, f"Part {number}", number))
    return rows


def others(count: int) -> Iterator[Row]:
    """Yield rows of other projects: a hundred children each, nested."""
    first = 2 + WIDE + DEEP + 4
    for number in range(count):
        parent = None if number < 100 else _id(first + number // 100 - 1)
        yield _id(first + number), f"other-{number}", parent, f"Other {number}", 2 + number


def _id(number: int) -> str:
    return make_id((CREATED_MS + number) << 80 | number * 0x9E3779B97F4A7C15 % (1 << 62))


def build(path: Path, size: int) -> None:
    """Make a store with a number of scopes; those of every store are spread evenly among the rest."""
    common = shared()
    rest = others(size - len(common))
    step = size // len(common)
    rows: list[Row] = []
    for row in common:
        rows.append(row)
        rows += [one for _, one in zip(range(step - 1), rest, strict=False)]
    rows += list(rest)
    store = Store(str(path))
    with store.writing() as connection:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        times = CREATED_MS, CREATED_MS
        connection.executemany(
            "INSERT INTO scopes (id, alias, parent_id, title, position, created_at, updated_at) VALUES (?,?,?,?,?,?,?)",
            ((*row, *times) for row in rows),
        )
        connection.executemany(
            "INSERT INTO aliases VALUES (?, ?, ?)", ((alias, scope_id, CREATED_MS) for scope_id, alias, *_ in rows)
        )
    store.close()


class Contender:
    """A store that is read from as a server does."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.provider = Scopes(Project(str(folder), {}))
        self.catalog = Catalog([self.provider])

    def measure(self, rounds: int) -> Iterator[tuple[str, float]]:
        """Yield each read's time in milliseconds."""
        for _ in range(rounds):
            for name, uri in READS.items():
                began = time.perf_counter()
                self.catalog.read(uri)
                yield name, (time.perf_counter() - began) * 1_000
            began = time.perf_counter()
            self.catalog.complete("scopes://scope/{alias}", "alias", "t", {})
            yield COMPLETION, (time.perf_counter() - began) * 1_000


def measure(small: Contender, large: Contender, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Read from both in turn; the first round warms up and does not count."""
    samples: dict[str, dict[str, list[float]]] = {name: {"small": [], "large": []} for name in (*READS, COMPLETION)}
    for number in range(rounds + 1):
        for who, contender in (("small", small), ("large", large)):
            for name, took in contender.measure(1):
                if number:
                    samples[name][who].append(took)
    return samples


def check_same(small: Contender, large: Contender) -> None:
    """Fail if the two stores do not answer alike: then there is nothing to compare."""
    for uri in READS.values():
        if small.catalog.read(uri).etag != large.catalog.read(uri).etag:
            raise SystemExit(f"{uri} differs between the stores")


def lines(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
    """Write everything as a table for people."""
    yield f"{'':34} {'small, ms':>10} {'large, ms':>10} {'p99 large':>10} {'times':>7}"
    for name, rows in samples.items():
        small, large = (statistics.median(rows[who]) for who in ("small", "large"))
        worst = sorted(rows["large"])[int(len(rows["large"]) * 0.99)]
        yield f"{name:34} {small:10.3f} {large:10.3f} {worst:10.3f} {large / small:6.2f}×"


def complaints(samples: Mapping[str, Mapping[str, Sequence[float]]], plan: Plan) -> Iterator[str]:
    """Yield where the plan is missed."""
    for name, rows in samples.items():
        small, large = (statistics.median(rows[who]) for who in ("small", "large"))
        most = plan.completion_ms if name == COMPLETION else plan.read_ms
        if large > small * plan.times_slower:
            yield f"{name}: {large / small:.2f} times slower in the large store, wanted at most {plan.times_slower}"
        if large > most:
            yield f"{name}: {large:.1f} ms, wanted at most {most}"


def main() -> int:
    """Build, measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.scopes", description="Scopes in a large store.")
    parser.add_argument(
        "--smoke", action="store_true", help="with a tenth of the scopes, in some seconds, with looser limits"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="build the stores there, or use those that are")
    given = parser.parse_args()
    plan = SMOKE if given.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core() as pinned:
        folder = given.keep or Path(name)
        contenders = []
        for size in (plan.small, plan.large):
            project = folder / str(size)
            if not project.exists():
                began = time.perf_counter()
                build(project / ".carrel/scopes.db", size)
                print(f"Built a store of {size:,} scopes in {time.perf_counter() - began:.1f} s.")
            contenders.append(Contender(project, size))
        small, large = contenders
        check_same(small, large)
        samples = measure(small, large, plan.rounds)
        for contender in contenders:
            contender.provider.close()
    print(f"{plan.small:,} and {plan.large:,} scopes, {pinned}, {plan.rounds} rounds, medians.\n")
    print("\n".join(lines(samples)))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"pinned": pinned, "samples": samples}, indent=2) + "\n", encoding="utf-8")
    failed = list(complaints(samples, plan)) if given.check else []
    for complaint in failed:
        print(f"FAILED: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
