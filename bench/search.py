"""Search in numbers: how fast a tree is indexed, how large the index is, how long a query takes.

    python -m bench.search [--smoke] [--check] [--json FILE] [--tree FOLDER]
    python -m bench.search --gigabytes 2.5

The tree is made here, or is a folder of yours: code and prose whose words are as unevenly frequent as real ones. Beside
it, in the same minute, stand a plain FTS5 table of whole files, and ripgrep if `rg` is there. Building counts processor
time, as one core is what it may use. A query, from the words to the hits that were read again, is timed by the clock
and by processor time: the limits are for the latter, which others on the machine lengthen less.

With `--gigabytes` that much text is made, `carrel search --index` indexes it in a process of its own, and its memory is
measured. It is deleted afterwards.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.pinning import one_core
from carrel.catalog.catalog import Catalog
from carrel.core.provider import FractionalCeiling, Project
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.query import parse
from carrel.search.search import Search
from carrel.search.settings import SearchSettings

SYLLABLES: Final = (
    "con fig par se re quest han dle ser ver cli ent to ken buf fer stream ren der load er map list".split()
)
KEYWORDS: Final = (
    "return if else for while import self value result error none true false the a of to is in and".split()
)
MAX_FILE: Final = 1 << 20
MAX_MEMORY_MB: Final = 300

BUILD: Final = "build, MB/s"
SIZE: Final = "index to text"
QUERY: Final = "query, ms"
CORE: Final = "query, core ms"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and what must hold."""

    files: int
    queries: int
    speed: float
    size: float
    median_ms: float
    late_ms: float


FULL: Final = Plan(files=20_000, queries=200, speed=4, size=0.6, median_ms=20, late_ms=60)
SMOKE: Final = Plan(files=1_500, queries=60, speed=1.2, size=0.6, median_ms=40, late_ms=200)


def vocabulary(chance: random.Random) -> list[str]:
    """Make the names of a project: words of syllables, in the spellings of code."""
    names = set[str]()
    while len(names) < 20_000:
        parts = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(chance.randint(1, 3))]
        names.add(chance.choice(("_".join(parts), "".join(part.title() for part in parts), "".join(parts))))
    return sorted(names)


def texts(files: int) -> Iterator[tuple[str, str]]:
    """Yield paths with texts: four of five are code, the rest prose."""
    chance = random.Random(17)
    names = vocabulary(chance)
    chance.shuffle(names)
    weights = [1 / rank for rank in range(1, len(names) + 1)]
    for number in range(files):
        drawn = iter(chance.choices(names, weights, k=500))
        path = (
            f"src/{names[number % 997]}/{names[number * 7 % len(names)]}_{number}.{'md' if number % 5 == 4 else 'py'}"
        )
        lines = [f"def {next(drawn)}({next(drawn)}):" if path.endswith("py") else f"# {next(drawn)}"]
        for _ in range(chance.randint(20, 150)):
            words = [next(drawn), *chance.choices(KEYWORDS, k=3), next(drawn)]
            lines.append(f"    {words[0]} = {words[4]}.{words[1]}({words[2]}, {words[3]})")
        yield path, "\n".join(lines) + "\n"


def write_tree(folder: Path, files: int) -> int:
    """Write the tree; return its size."""
    total = 0
    for path, text in texts(files):
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        total += len(text)
    return total


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Read the tree: paths with texts."""
    for place in sorted(folder.rglob("*")):
        if place.is_file() and not place.is_symlink() and place.stat().st_size <= MAX_FILE:
            content = place.read_bytes()
            if b"\0" not in content[:1_024]:
                yield place.relative_to(folder).as_posix(), content.decode("utf-8", "replace")


def build(search: Search) -> float:
    """Complete the index; return the seconds of processor time."""
    started = time.process_time()
    search.build()
    return time.process_time() - started


def build_plain(path: Path, folder: Path) -> tuple[sqlite3.Connection, float]:
    """Put whole files into a plain FTS5 table; return it with the seconds of processor time."""
    connection = sqlite3.connect(path, isolation_level=None)
    started = time.process_time()
    connection.execute("CREATE VIRTUAL TABLE plain USING fts5 (path, body)")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO plain VALUES (?, ?)", sources(folder))
    connection.execute("COMMIT")
    return connection, time.process_time() - started


def questions(count: int) -> list[str]:
    """Make queries as they are asked: words rare and frequent, a name, a phrase, an expression."""
    chance = random.Random(5)
    names = vocabulary(random.Random(17))
    forms: Sequence[Callable[[], str]] = (
        lambda: " ".join(chance.choices(names, k=3)),
        lambda: f"how is {chance.choice(names)} of the {chance.choice(KEYWORDS)} handled",
        lambda: chance.choice(names),
        lambda: f"return error {chance.choice(names)} path:src/",
        lambda: f"/def {chance.choice(names)[:6]}\\w+/",
    )
    return [forms[number % len(forms)]() for number in range(count)]


def timed(work: Callable[[str], object], queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds that each query takes, after one that warms up: by the clock, and of its thread."""
    work(queries[0])
    taken, used = [], []
    for query in queries:
        started, core = time.perf_counter(), time.thread_time()
        work(query)
        taken.append((time.perf_counter() - started) * 1_000)
        used.append((time.thread_time() - core) * 1_000)
    return taken, used


def measure(folder: Path, plan: Plan, tree: Path | None) -> dict[str, dict[str, list[float]]]:
    """Build and ask each contender."""
    if tree is None:
        tree = folder / "tree"
        write_tree(tree, plan.files)
    size = sum(len(text.encode()) for _, text in sources(tree))
    queries = questions(plan.queries) if tree.parent == folder else questions_about(tree, plan.queries)
    files = Workspace(Project(str(tree), {"HOME": str(folder)}), preset="all")
    # A machine that others use should not cut answers short: what they take is measured.
    patient = SearchSettings(answer_s=FractionalCeiling(60.0))
    search = Search(Catalog((files,)), str(folder / "ours"), patient)
    ours_s = build(search)
    plain, plain_s = build_plain(folder / "plain.db", tree)
    ours_ms, ours_core_ms = timed(lambda query: search.search(SearchRequest(query)), queries)
    plain_ms, plain_core_ms = timed(lambda query: ask_plain(plain, query), queries)
    samples: dict[str, dict[str, list[float]]] = {
        BUILD: {"carrel": [size / 1e6 / ours_s], "plain FTS5": [size / 1e6 / plain_s]},
        SIZE: {
            "carrel": [sum(one.stat().st_size for one in (folder / "ours").iterdir()) / size],
            "plain FTS5": [(folder / "plain.db").stat().st_size / size],
        },
        QUERY: {"carrel": ours_ms, "plain FTS5": plain_ms},
        CORE: {"carrel": ours_core_ms, "plain FTS5": plain_core_ms},
    }
    if shutil.which("rg"):
        samples[QUERY]["ripgrep"], _ = timed(lambda query: ask_ripgrep(tree, query), queries[:40])
    search.close()
    plain.close()
    return samples


def questions_about(tree: Path, count: int) -> list[str]:
    """Make queries about a tree: words of its texts, names of its files, a phrase, an expression."""
    chance = random.Random(5)
    paths = sorted(path for path, _ in sources(tree))
    asked: list[str] = []
    while len(asked) < count:
        path = chance.choice(paths)
        words = re.findall(r"[A-Za-z_]{4,}", (tree / path).read_text(encoding="utf-8", errors="replace"))
        if len(words) > 5:
            forms = (
                " ".join(chance.choices(words, k=3)),
                f"how is {chance.choice(words)} of the {chance.choice(words)} handled",
                chance.choice(words),
                f"{chance.choice(words)} {Path(path).stem} path:{path.partition('/')[0]}/",
                f"/{chance.choice(words)[:6]}\\w+/",
            )
            asked.append(forms[len(asked) % len(forms)])
    return asked


def write_much(folder: Path, gigabytes: float) -> int:
    """Write much text, with new words in each copy of the tree; return its size."""
    total, copy, every = 0, 0, list(texts(5_000))
    while True:
        for path, text in every:
            if total >= gigabytes * 1e9:
                return total
            place = folder / f"part{copy}" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            # Several small files as one: names, not the number of files, are what fills memory.
            changed = text.replace("con", f"c{copy}n").replace("ser", f"s{copy}r") * 4
            place.write_text(changed, encoding="utf-8")
            total += len(changed)
        copy += 1


def measure_memory(gigabytes: float) -> int:
    """Index much text in a process of its own, and print what that took; return 1 if it took too much memory."""
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        home, tree = Path(name) / "home", Path(name) / "tree"
        (tree / ".git").mkdir(parents=True)
        size = write_much(tree, gigabytes)
        command = [sys.executable, "-P", "-m", "carrel", "search", "--index", "--project", str(tree)]
        environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        took_s = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        index = sum(one.stat().st_size for one in home.rglob("*") if one.is_file())
    memory_mb, core_s = used.ru_maxrss / 1_024, used.ru_utime + used.ru_stime
    print(done.stdout + done.stderr)
    print(f"{size / 1e9:.2f} GB of text in {took_s:.0f} s: {size / 1e6 / core_s:.1f} MB a second of one core")
    print(f"index to text: {index / size:.2f}; memory at most {memory_mb:.0f} MB (limit {MAX_MEMORY_MB})")
    return int(memory_mb > MAX_MEMORY_MB or done.returncode != 0)


def ask_plain(connection: sqlite3.Connection, query: str) -> object:
    """Ask the plain table for any of the words."""
    words = " OR ".join(f'"{word}"' for word in parse(query).words) or '"def"'
    sql = "SELECT path FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 10"
    return connection.execute(sql, (words,)).fetchall()


def ask_ripgrep(tree: Path, query: str) -> object:
    """Ask ripgrep for the files with any of the words."""
    pattern = "|".join(parse(query).words) or query.strip("/")
    return subprocess.run(["rg", "-l", "-i", "-e", pattern, str(tree)], capture_output=True, check=False)


def late(numbers: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(numbers)[len(numbers) * 95 // 100]


def verdicts(samples: Mapping[str, Mapping[str, list[float]]], plan: Plan) -> dict[str, tuple[float, float, bool]]:
    """Return what must hold: the number found, its limit, and whether it holds."""
    speed, size, queries = samples[BUILD]["carrel"][0], samples[SIZE]["carrel"][0], samples[CORE]["carrel"]
    return {
        "MB of text a second, at least": (speed, plan.speed, speed >= plan.speed),
        "index to text, at most": (size, plan.size, size <= plan.size),
        "median of a query, core ms": (
            statistics.median(queries),
            plan.median_ms,
            statistics.median(queries) <= plan.median_ms,
        ),
        "95th percentile, core ms": (late(queries), plan.late_ms, late(queries) <= plan.late_ms),
    }


def table_lines(samples: Mapping[str, Mapping[str, list[float]]]) -> Iterator[str]:
    """Write everything as a table for people."""
    yield f"{'':16} {'':12} {'median':>10} {'95 %':>10}"
    for metric, rows in samples.items():
        for name, numbers in rows.items():
            yield f"{metric:16} {name:12} {statistics.median(numbers):10.2f} {late(numbers):10.2f}"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.search", description="Search beside FTS5 and ripgrep.")
    parser.add_argument("--smoke", action="store_true", help="in under 20 s, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--tree", type=Path, metavar="FOLDER", help="measure this folder instead of a made-up one")
    parser.add_argument("--gigabytes", type=float, default=0.0, help="measure memory while so much text is indexed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    return parser.parse_args()


def main() -> int:
    """Measure, print, judge."""
    given = arguments()
    if given.gigabytes:
        return measure_memory(given.gigabytes)
    plan = SMOKE if given.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core() as pinned:
        samples = measure(Path(name), plan, given.tree and given.tree.resolve())
    found = verdicts(samples, plan)
    print(f"{given.tree or f'{plan.files:,} files'}, {pinned}.\n")
    print("\n".join(table_lines(samples)))
    for what, (number, limit, _) in found.items():
        print(f"{what}: {number:.2f} (limit {limit:g})")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        report = {"python": platform.python_version(), "cores": os.cpu_count(), "files": plan.files, "samples": samples}
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    failed = [what for what, (_, _, holds) in found.items() if not holds] if given.check else []
    for what in failed:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
