"""The workspace's numbers: page 1 of a list, a whole traversal, one small file, memory.

    python -m bench.workspace [--smoke] [--check] [--json FILE]

Every number is compared with something on the same machine in the same minute: a small tree, a bare walk with the
same ignore rules, the same read of a text in memory. Rounds are interleaved, so that a noisy neighbour disturbs both
sides alike; medians are compared.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.load import Peer
from bench.messages import ENVELOPE, message, reads
from bench.peers import served
from bench.pinning import one_core
from carrel.catalog.catalog import Catalog
from carrel.core.provider import Project
from carrel.files.gitignore import Rules
from carrel.providers.workspace import Workspace

PEERS: Final = Path(__file__).parent / "peers"
PER_FOLDER: Final = 100
SIZE: Final = 1_024
IGNORED: Final = ("build/", "*.log", "node_modules/", "/dist", "*.tmp", "!keep.tmp", "**/generated/*.g.dart")

PAGE: Final = "page 1, ms"
TRAVERSAL: Final = "traversal, µs/file"
READ: Final = "read of 1 KB, µs"
CPU: Final = "server CPU of it, µs"
MEMORY: Final = "resident, MiB"

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Metric, contender, one number a round."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and the ratios that must hold."""

    files: int
    rounds: int
    seconds: float
    page: float
    walk: float
    linear: float
    read: float
    grown_mib: float


FULL: Final = Plan(files=100_000, rounds=7, seconds=1.0, page=3, walk=5, linear=1.5, read=2.5, grown_mib=8)
SMOKE: Final = Plan(files=20_000, rounds=3, seconds=0.3, page=9, walk=15, linear=3, read=5, grown_mib=32)


def grow(place: Path, files: int) -> Path:
    """Make a tree: a hundred files to a folder, a few of them ignored, and the ignore file."""
    place.mkdir()
    (place / ".gitignore").write_text("\n".join(IGNORED) + "\n", encoding="utf-8")
    for number in range(files // PER_FOLDER):
        folder = place / f"package-{number // 10:03}" / f"src{number % 10}"
        folder.mkdir(parents=True)
        for child in range(PER_FOLDER):
            name = f"file-{child:03}.{'log' if child == PER_FOLDER - 1 else 'dart'}"
            (folder / name).write_bytes(b"void main() {}\n")
    return place


def walk_bare(place: Path) -> int:
    """Walk as a loop that only knows folders, states and the ignore rules; return the number of files."""
    rules = Rules.of((place / ".gitignore").read_text("utf-8").splitlines())
    waiting = [("", str(place))]
    count = 0
    while waiting:
        way, path = waiting.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
                if name[0] == "." or rules.decide(way, name, is_folder=is_folder):
                    continue
                if is_folder:
                    waiting.append((f"{way}{name}/", entry.path))
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


def walk_pages(catalog: Catalog) -> int:
    """Page through the whole list, as a client does; return the number of entries."""
    count, cursor = 0, None
    while True:
        page = catalog.page(cursor)
        count += len(page.entries)
        cursor = page.next_cursor
        if cursor is None:
            return count


def seconds_of(work: Callable[[], object]) -> float:
    """Time one run, in processor time: what others do meanwhile does not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_lists(trees: Mapping[str, Path], rounds: int) -> Samples:
    """Page and traverse each tree in turn."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        served = {
            name: stack.enter_context(closing(Catalog([Workspace(Project(str(place), {}), preset="code")])))
            for name, place in trees.items()
        }
        counts = {name: walk_bare(place) for name, place in trees.items()}
        for name, catalog in served.items():
            if walk_pages(catalog) != counts[name]:
                raise RuntimeError(f"the list of {name} is not what a bare walk finds")
        for _ in range(rounds):
            for name, catalog in served.items():
                samples[PAGE][name].append(seconds_of(catalog.page) * 1_000)
                bare = seconds_of(partial(walk_bare, trees[name]))
                listed = seconds_of(partial(walk_pages, catalog))
                samples[TRAVERSAL][f"{name}, bare"].append(bare / counts[name] * 1e6)
                samples[TRAVERSAL][name].append(listed / counts[name] * 1e6)
    return samples


def measure_reads(folder: Path, plan: Plan) -> Samples:
    """Read a small file over stdio, and beside it the same text from memory."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/small.md").write_text("x" * SIZE, encoding="utf-8")
    carrel = str(Path(sys.executable).parent / "carrel")
    commands = {
        "file": ((carrel, "serve", "--only", "workspace", "--project", str(folder)), "workspace:///lib/small.md"),
        "memory": (
            (sys.executable, str(PEERS / "carrel_memory.py"), str(folder / "lib"), "0", "0"),
            f"{served.MEMORY}small.md",
        ),
    }
    with ExitStack() as stack:
        peers = {}
        for name, (command, uri) in commands.items():
            peers[name] = stack.enter_context(Peer(command, folder)), reads(uri, "modern")
            peers[name][0].open("modern")
            if len(peers[name][0].ask_result(peers[name][1][0])["contents"][0]["text"]) != SIZE:
                raise RuntimeError(f"a read from {name} gave something else")
        for number in range(plan.rounds + 1):
            for name, (peer, pool) in peers.items():
                run = peer.load(pool, plan.seconds, 1)
                if number:  # the first round warms up
                    samples[READ][name].append(1e6 / run.rate)
                    samples[CPU][name].append(run.cpu_us)
    return samples


def measure_memory(place: Path) -> Samples:
    """Page through a large tree over stdio; return the server's memory after page 1 and the most it ever was."""
    carrel = str(Path(sys.executable).parent / "carrel")
    sizes: list[float] = []
    with Peer((carrel, "serve", "--only", "workspace", "--project", str(place)), place) as peer:
        cursor, number = None, 0
        while cursor or not number:
            number += 1
            params = {"_meta": ENVELOPE, **({"cursor": cursor} if cursor else {})}
            cursor = peer.ask_result(message("resources/list", params, number)).get("nextCursor")
            sizes.append(peer.process.resident_kib() / 1_024)
    return {MEMORY: {"after page 1": sizes[:1], "at most": [max(sizes)]}}


def median(samples: Samples, metric: str, name: str) -> float:
    """Return the middle of the numbers."""
    return statistics.median(samples[metric][name])


def ratios(samples: Samples, plan: Plan) -> dict[str, tuple[float, float]]:
    """Return what is compared: the ratio found, and the most it may be."""
    large, small = names_of(plan)
    return {
        f"page 1 of {large} files to that of {small}": (
            median(samples, PAGE, large) / median(samples, PAGE, small),
            plan.page,
        ),
        f"traversal of {large} files to a bare walk": (
            median(samples, TRAVERSAL, large) / median(samples, TRAVERSAL, f"{large}, bare"),
            plan.walk,
        ),
        f"traversal per file of {large} to that of {small}": (
            median(samples, TRAVERSAL, large) / median(samples, TRAVERSAL, small),
            plan.linear,
        ),
        "read of a file to that of a text in memory": (
            median(samples, READ, "file") / median(samples, READ, "memory"),
            plan.read,
        ),
        f"MiB that a traversal of {large} files adds": (
            median(samples, MEMORY, "at most") - median(samples, MEMORY, "after page 1"),
            plan.grown_mib,
        ),
    }


def names_of(plan: Plan) -> tuple[str, str]:
    """Name the two trees."""
    return f"{plan.files:,}", "1,000"


def table_lines(samples: Samples, plan: Plan) -> Iterator[str]:
    """Write everything as a table for people."""
    yield f"{'':24} {'':16} {'median':>10} {'min':>10} {'max':>10}"
    for metric, rows in samples.items():
        for name, numbers in rows.items():
            low, middle, high = min(numbers), statistics.median(numbers), max(numbers)
            yield f"{metric:24} {name:16} {middle:10,.2f} {low:10,.2f} {high:10,.2f}"
    yield ""
    for what, (found, limit) in ratios(samples, plan).items():
        yield f"{what}: {found:.2f} (at most {limit:g})"


def report(samples: Samples, plan: Plan) -> dict[str, object]:
    """Return everything as data, with what is needed to compare it with another run."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "files": plan.files,
        "rounds": plan.rounds,
        "ratios": {what: found for what, (found, _) in ratios(samples, plan).items()},
        "samples": samples,
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.workspace", description="The workspace beside bare walks.")
    parser.add_argument("--smoke", action="store_true", help="in well under 30 s, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where a ratio is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    return parser.parse_args()


def main() -> int:
    """Measure, print, judge."""
    given = arguments()
    plan = SMOKE if given.smoke else FULL
    large, small = names_of(plan)
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core() as pinned:
        folder = Path(name)
        trees = {large: grow(folder / "large", plan.files), small: grow(folder / "small", 1_000)}
        samples = {
            **measure_lists(trees, plan.rounds),
            **measure_reads(folder / "reads", plan),
            **measure_memory(trees[large]),
        }
    print(f"{plan.rounds} rounds, {pinned}.\n")
    print("\n".join(table_lines(samples, plan)))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report(samples, plan), indent=2) + "\n", encoding="utf-8")
    failed = [what for what, (found, limit) in ratios(samples, plan).items() if found > limit] if given.check else []
    for what in failed:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
