"""The explorer in numbers: what a page of a large desk costs the server, the wire and the person who waits.

    python -m bench.explorer [--files 100000] [--smoke] [--check] [--json FILE]

A tree of 100,000 files is made, half of them in one folder, and its index is completed. Then `carrel serve --http` is
started, and pages are asked for as a browser does, over one connection with gzip:

    start    the first request of a new server, for home: with the imports of everything that pages need
    home     home, warm
    cold     folders that nobody has looked at before: the top, the large one, small ones
    warm     the same folders again
    typed    the page of a search, at each letter of some words

Each has two times: by the clock, and the processor time of the whole server, background threads included. The limits
are for the latter, which others on the machine lengthen less.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.search import KEYWORDS, late, vocabulary
from bench.search_typing import typed
from bench.serving import Answer, Page, complete_index, serving

BROWSER: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip"}
EACH: Final = 100
"""Files in a small folder."""
LINES: Final = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and what must hold: processor time in ms and bytes on the wire, of 95 of 100 pages."""

    files: int
    starts: int
    folders: int
    words: int
    limits: Mapping[str, float]
    wire: int = 60_000


FULL: Final = Plan(
    files=100_000,
    starts=5,
    folders=30,
    words=12,
    limits={"start": 1_000, "home": 250, "cold": 100, "warm": 100, "typed": 80},
)
SMOKE: Final = Plan(
    files=5_000,
    starts=1,
    folders=6,
    words=3,
    limits={"start": 4_000, "home": 1_000, "cold": 400, "warm": 400, "typed": 320},
)


def write_tree(folder: Path, files: int) -> None:
    """Write the files: half of them in one folder, the rest in small ones."""
    chance = random.Random(22)
    names = vocabulary(chance)
    weights = [1 / rank for rank in range(1, len(names) + 1)]
    for number in range(files):
        is_flat = number % 2 == 0
        place = folder / ("flat" if is_flat else f"tree/part_{number // 2 // EACH:03}")
        if is_flat or number // 2 % EACH == 0:
            place.mkdir(parents=True, exist_ok=True)
        drawn = chance.choices(names, weights, k=2 * LINES)
        lines = [f"    {drawn[at]} = {chance.choice(KEYWORDS)}.{drawn[at + 1]}()" for at in range(0, 2 * LINES, 2)]
        text = f"def {names[number % len(names)]}():\n" + "\n".join(lines) + "\n"
        (place / f"{names[number * 7 % len(names)]}_{number:06}.py").write_text(text, encoding="utf-8")


def folders(plan: Plan) -> list[str]:
    """Return the addresses of the folders that are looked at: the large ones first."""
    small = [f"/workspace/tree/part_{number:03}" for number in range(plan.folders)]
    return ["/workspace/", "/workspace/flat", "/workspace/tree", *small]


def words(plan: Plan) -> list[str]:
    """Return what is typed: frequent and rare words, and two words with a space."""
    names = vocabulary(random.Random(22))
    chance = random.Random(7)
    return [
        *chance.choices(names[:200], k=plan.words // 3),
        *chance.choices(names, k=plan.words // 3),
        *(" ".join(chance.choices(names, k=2)) for _ in range(plan.words // 3)),
    ]


def measure(tree: Path, home: Path, plan: Plan) -> dict[str, list[Answer]]:
    """Start servers and ask for pages."""
    found: dict[str, list[Answer]] = {"start": []}
    for _ in range(plan.starts - 1):
        with serving(tree, home) as page:
            found["start"].append(page.get("/", BROWSER))
    with serving(tree, home) as page:
        found["start"].append(page.get("/", BROWSER))
        page.settle()
        found["home"] = [page.get("/", BROWSER) for _ in range(plan.folders)]
        for state in ("cold", "warm"):
            found[state] = [page.get(path, BROWSER) for path in folders(plan)]
        found["typed"] = list(type_words(page, words(plan)))
    return found


def type_words(page: Page, asked: list[str]) -> Iterator[Answer]:
    """Yield the answer to each letter, after two searches that warm up and what the server does beside them."""
    for text in ("warm", "warmer"):
        page.get(f"/-/search?q={text}", BROWSER)
    page.settle()
    for text in typed(asked):
        yield page.get(f"/-/search?q={quote(text)}", BROWSER)


def table_lines(found: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    """Write everything as a table for people."""
    yield f"{'':8} {'pages':>6} {'ms':>8} {'95 %':>8} {'core ms':>8} {'95 %':>8} {'bytes':>8} {'most':>8}"
    for name, answers in found.items():
        clock, core = [one.ms for one in answers], [one.core_ms for one in answers]
        sizes = [len(one.body) for one in answers]
        times = f"{statistics.median(clock):8.1f} {late(clock):8.1f} {statistics.median(core):8.1f} {late(core):8.1f}"
        yield f"{name:8} {len(answers):6} {times} {statistics.median(sizes):8.0f} {max(sizes):8}"


def failures(found: Mapping[str, Sequence[Answer]], plan: Plan) -> Iterator[str]:
    """Yield the limits that are missed."""
    for name, limit in plan.limits.items():
        core = late([one.core_ms for one in found[name]])
        if core > limit:
            yield f"{name}: {core:.0f} ms of processor time (limit {limit:g})"
        most = max(len(one.body) for one in found[name])
        if most > plan.wire:
            yield f"{name}: {most} bytes on the wire (limit {plan.wire})"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.explorer", description="Pages of a large desk.")
    parser.add_argument("--files", type=int, default=0, help="files of the tree")
    parser.add_argument("--smoke", action="store_true", help="in under 30 s, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    return parser.parse_args()


def main() -> int:
    """Measure, print, judge."""
    given = arguments()
    plan = SMOKE if given.smoke else FULL
    files = given.files or plan.files
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        tree, home = Path(name) / "tree", Path(name) / "home"
        (tree / ".git").mkdir(parents=True)
        write_tree(tree, files)
        complete_index(tree, home)
        found = measure(tree, home, plan)
    print(f"{files:,} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.\n")
    print("\n".join(table_lines(found)))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        rows = {name: [(one.ms, one.core_ms, len(one.body)) for one in answers] for name, answers in found.items()}
        report = {"python": platform.python_version(), "cores": os.cpu_count(), "files": files, "samples": rows}
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failed = list(failures(found, plan)) if given.check else []
    for what in failed:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
