"""A large memory: ten thousand checkpoints and as many knowledge items, read by id, looked up, searched.

    python -m bench.sage [--smoke] [--check] [--json FILE]

Reads by exact id are compared with reading a plain file of the same size through the workspace. Lookups by a part of
an id and warm searches are compared with one pass of scandir and stat over the same files, and with a bare FTS5 query.
Rounds are interleaved. Cold operations (the first look into every file) are reported, but have no limit.
"""

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.core.provider import Call, Project
from carrel.providers.sage import Sage
from carrel.providers.workspace import Workspace

EXACT, PLAIN = "checkpoint by exact id", "plain file of that size"
FIRST = "checkpoint by exact id, first time"
KNOWN = "knowledge by exact id"
PARTIAL, PARTIAL_KNOWN = "checkpoint by part of an id", "knowledge by part of an id"
PASS = "scandir and stat of the checkpoints"
SEARCH, BARE = "warm search, bm25", "bare FTS5 query"
TIMES_PLAIN: Final = 2.0
MOST_MS: Final = 20.0
WORDS: Final = (
    "token cookie cache retry schema index thread lock queue batch stream parser router widget ledger invoice photo "
    "upload session header proxy shard replica vector ranking stemming locale clock report filter backup cluster"
).split()


class NoCall:
    """A call that is never cancelled."""

    client = ""
    cancelled = False

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Do nothing."""

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Do nothing."""


NO_CALL: Call = NoCall()


def lay_out(project: Path, count: int) -> list[str]:
    """Write the memory, and a plain file of the same size for each checkpoint; return the stems of the checkpoints."""
    chance = random.Random(1)
    for name in ("checkpoints", "knowledge/global", "system"):
        (project / ".sage" / name).mkdir(parents=True)
    (project / "plain").mkdir()
    stems, items = [], []
    for number in range(count):
        words = " ".join(chance.choices(WORDS, k=60))
        day, second = divmod(number, 86_400)
        hour, minute = second // 3_600, second // 60 % 60
        stem = f"2026-01-{day + 1:02}T{hour:02}-{minute:02}-{second % 60:02}_{words.replace(' ', '-')[:34]}-{number}"
        text = (
            f"---\nid: {stem}\ntype: checkpoint\nts: '2026-01-01T00:00:00+00:00'\ntrigger: synthesis\n"
            f"confidence: 0.85\nmessage_count: 0\ntoken_estimate: 0\n---\n\n# What about {words[:40]}?\n\n"
            f"## Thesis\n{words}\n\n## Key Evidence\n- {words[::-1]}\n- {words}\n\n"
        )
        (project / f".sage/checkpoints/{stem}.md").write_text(text, encoding="utf-8")
        (project / f"plain/{number}.md").write_text(text, encoding="utf-8")
        content = f"---\nid: item-{number}\ntype: knowledge\n---\n\n{words}\n"
        (project / f".sage/knowledge/global/item-{number}.md").write_text(content, encoding="utf-8")
        items.append(
            f"- id: item-{number}\n  type: knowledge\n  file: global/item-{number}.md\n  triggers:\n    keywords:\n"
            f"    - {chance.choice(WORDS)}\n    patterns: []\n  metadata:\n    added: '2026-02-16'\n"
        )
        stems.append(stem)
    (project / ".sage/knowledge/index.yaml").write_text("version: 1\nitems:\n" + "".join(items), encoding="utf-8")
    (project / ".sage/system/objective.md").write_text("Measure.\n", encoding="utf-8")
    return stems


def timed(work: Callable[[], object]) -> float:
    """Return the CPU time of this process in milliseconds: other processes do not count."""
    began = process_time()
    work()
    return (process_time() - began) * 1_000


def stat_pass(folder: Path) -> None:
    """Scan a folder and stat every file once."""
    with os.scandir(folder) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


def bare_query(project: Path, words: str) -> Callable[[], object]:
    """Return a function that runs a bare query on the index."""
    [file] = (project / "home/.cache/carrel/sage").glob("*.db")
    database = sqlite3.connect(file)
    phrase = " OR ".join(f'"{word}"' for word in words.split())
    statement = (
        "SELECT uri FROM words JOIN documents ON id = words.rowid >> 10 WHERE words MATCH ? ORDER BY uri LIMIT 50"
    )
    return lambda: database.execute(statement, (phrase,)).fetchall()


def measure(project: Path, stems: list[str], rounds: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Measure warm operations in turn, and cold ones once."""
    environment = {"HOME": str(project / "home"), "PATH": os.environ.get("PATH", "")}
    given = Project(str(project), environment)
    cold: dict[str, float] = {}
    made: list[Sage] = []
    cold["start: build and instructions"] = timed(lambda: made.append(Sage(given, search="bm25")))
    sage = made[0]
    cold["start: build and instructions"] += timed(sage.instructions)
    catalog, files = Catalog([sage]), Catalog([Workspace(given, preset="all")])
    numbers = random.Random(2).sample(range(len(stems)), min(rounds * 20, len(stems)))
    rare = "zeppelin"
    path = project / f".sage/checkpoints/{stems[0]}.md"
    path.write_text(path.read_text(encoding="utf-8") + f"## Reasoning Trace\n{rare}\n", encoding="utf-8")

    def search() -> object:
        return sage.call("sage_search_checkpoints", {"query": f"{rare} balloon"}, NO_CALL)

    def part(number: int) -> object:
        return catalog.read(f"sage://checkpoint/{stems[number][40:]}")

    cold["first lookup by part of an id"] = timed(lambda: part(1))
    cold["first look into the knowledge index"] = timed(lambda: catalog.read("sage://knowledge/item-1"))
    cold["first search: the index is made"] = timed(search)
    bare = bare_query(project, f"{rare} balloon")
    samples: dict[str, list[float]] = {}
    for _ in range(rounds):
        chosen = [numbers.pop() for _ in range(min(20, len(numbers)))] or [3]
        for name, work in {
            PLAIN: lambda: [files.read(f"workspace:///plain/{number}.md") for number in chosen],  # noqa: B023 at once
            FIRST: lambda: [catalog.read(f"sage://checkpoint/{stems[number]}") for number in chosen],  # noqa: B023
            EXACT: lambda: [catalog.read(f"sage://checkpoint/{stems[number]}") for number in chosen],  # noqa: B023
            KNOWN: lambda: [catalog.read(f"sage://knowledge/item-{number}") for number in chosen],  # noqa: B023
        }.items():
            samples.setdefault(name, []).append(timed(work) / len(chosen))
        number = chosen[0]
        for name, single in {
            PASS: lambda: stat_pass(project / ".sage/checkpoints"),
            PARTIAL: lambda: part(number),  # noqa: B023 at once
            PARTIAL_KNOWN: lambda: catalog.read("sage://knowledge/em-77"),
            BARE: bare,
            SEARCH: search,
        }.items():
            samples.setdefault(name, []).append(timed(single))
    catalog.close()
    files.close()
    return samples, cold


def complaints(medians: Mapping[str, float], factor: float) -> list[str]:
    """Return what is slower than its limit."""
    wrong = [
        f"{name} takes {medians[name] / medians[PLAIN]:.2f} times a plain file, wanted {TIMES_PLAIN * factor}"
        for name in (EXACT, KNOWN)
        if medians[name] > TIMES_PLAIN * factor * medians[PLAIN]
    ]
    return wrong + [
        f"{name} takes {medians[name] - medians[PASS]:.1f} ms on top of a pass, wanted {MOST_MS * factor}"
        for name in (PARTIAL, PARTIAL_KNOWN, SEARCH)
        if medians[name] - medians[PASS] > MOST_MS * factor
    ]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.sage", description="A large memory.")
    parser.add_argument("--smoke", action="store_true", help="a thousand items, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    given = parser.parse_args()
    count, rounds, factor = (1_000, 5, 2.0) if given.smoke else (10_000, 20, 1.0)
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        project = Path(name) / "memory"
        samples, cold = measure(project, lay_out(project, count), rounds)
    medians = {name: statistics.median(numbers) for name, numbers in samples.items()}
    print(f"{count:,} checkpoints and {count:,} knowledge items, {rounds} rounds; milliseconds of CPU.\n")
    for name, numbers in samples.items():
        print(f"{name:40} median {medians[name]:9.3f}   min {min(numbers):9.3f}   max {max(numbers):9.3f}")
    print(f"\nexact id to plain file: {medians[EXACT] / medians[PLAIN]:.2f} times, ", end="")
    print(f"the first time {medians[FIRST] / medians[PLAIN]:.2f} times; ", end="")
    print(f"knowledge: {medians[KNOWN] / medians[PLAIN]:.2f} times")
    print(f"part of an id on top of a pass: {medians[PARTIAL] - medians[PASS]:.1f} ms; ", end="")
    print(f"search on top of a pass: {medians[SEARCH] - medians[PASS]:.1f} ms, ", end="")
    print(f"{medians[SEARCH] / medians[BARE]:.1f} times a bare query\n")
    for name, took in cold.items():
        print(f"cold, {name:40} {took:9.1f}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"samples": samples, "cold": cold}, indent=2) + "\n", encoding="utf-8")
    failed = complaints(medians, factor) if given.check else []
    for complaint in failed:
        print(f"FAILED: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
