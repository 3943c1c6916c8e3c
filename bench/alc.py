"""What `alc://` costs where it is large: an index of many packages, samples of ten million rows, a list of thousands.

python -m bench.alc            everything at full size; the samples file has ten million rows and is thrown away
python -m bench.alc --smoke    the same in seconds, with a looser limit where less work leaves more noise
--check                        exit 1 where a limit of the page is missed

Compared is what the same machine does with the same files (a stat of each, a page at the start), so that
the ratios hold on any machine; times in seconds are beside them.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

from carrel.catalog.catalog import Catalog
from carrel.core.model import Text
from carrel.core.provider import Project
from carrel.providers.alc import Alc

LUA = """\
--- {name} — a package for measuring
---
--- ## Usage
{filler}local M = {{}}

M.meta = {{
  name = "{name}",
  version = "0.1.{number}",
  category = "reasoning",
  description = "Package number {number}" .. " of many",
  tags = {{ "bench", "n{number}" }},
}}

function M.run(ctx)
  local best = nil
  for i = 1, 3 do best = ctx.llm("think " .. i) end
  return best
end

return M
"""
FILLER = "--- A line of words that a doc comment may well have, and then some more of them.\n"
CARD = 'created_at = "2026-04-01T00:00:00Z"\n[pkg]\nname = "p"\n[model]\nid = "m"\n[stats]\npass_rate = 0.{number}\n'


@dataclass(frozen=True)
class Plan:
    """How much is made, and what may come of it."""

    packages: int
    cards: int
    rows: int
    listed: int
    log_bytes: int
    repeats: int
    times_stat: float


FULL = Plan(packages=1_000, cards=1_000, rows=10_000_000, listed=10_000, log_bytes=20_000_000, repeats=9, times_stat=3)
SMOKE = Plan(packages=200, cards=200, rows=300_000, listed=1_000, log_bytes=2_000_000, repeats=7, times_stat=5)


@dataclass(frozen=True)
class Measured:
    """One number: what it is, how much it may be, and whether that is a bound of the page or the issue."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    def line(self) -> str:
        """Spell it for people."""
        limit = "" if self.limit is None else f"   (at most {self.limit:g})"
        return f"{self.name:66} {self.value:10.3f} {self.unit:6}{limit}"


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the median time of some work."""
    times = []
    for _ in range(repeats):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return statistics.median(times)


def in_turn(one: Callable[[], object], other: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the least times of two kinds of work, done in turn: what a busy machine adds is not theirs."""
    times = [(seconds(one), seconds(other)) for _ in range(repeats)]
    return min(first for first, _ in times), min(second for _, second in times)


def work_of(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least CPU time some work took."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def serve(home: Path) -> Catalog:
    """Serve a home from a fresh provider."""
    environment = {"ALC_HOME": str(home), "HOME": str(home)}
    return Catalog([Alc(Project(str(home), environment))], max_bytes=1 << 30)


def read(catalog: Catalog, uri: str) -> str:
    """Read a text."""
    [item] = catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


def write_package(home: Path, number: int, filler: int = 20) -> None:
    """Write one package."""
    folder = home / "packages" / f"p{number:05d}"
    folder.mkdir(parents=True, exist_ok=True)
    text = LUA.format(name=folder.name, number=number, filler=FILLER * filler)
    (folder / "init.lua").write_text(text, encoding="utf-8")


def measure_index(home: Path, plan: Plan) -> Iterator[Measured]:
    """Build the index cold, in two sizes; ask for it warm, and after one change."""
    for number in range(plan.packages):
        write_package(home, number)
    for number in range(plan.cards):
        folder = home / "cards" / f"p{number % plan.packages:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"c{number}.toml").write_text(CARD.format(number=number), encoding="utf-8")
    paths = [str(path) for path in home.rglob("*") if path.suffix in (".lua", ".toml")]
    catalog = serve(home)
    cold = seconds(lambda: read(catalog, "alc://hub/index"))
    yield Measured(f"index of {plan.packages} packages and {plan.cards} Cards, cold", cold, "s", 5)
    time.sleep(2.1)  # folders that changed just now are not yet trusted to stay as they are
    warm, stat = in_turn(
        lambda: catalog.fingerprint("alc://hub/index"),
        lambda: [os.stat(path) for path in paths],  # noqa: PTH116 the bare call
        plan.repeats * 3,
    )
    yield Measured("the same, warm", warm * 1_000, "ms", 100)
    yield Measured("warm, to a stat of each file", warm / stat, "times", plan.times_stat)
    provider = catalog.mounted[0].provider
    assert isinstance(provider, Alc)
    before = provider._reader.sources.parsed
    write_package(home, 7, filler=21)
    once = seconds(lambda: read(catalog, "alc://hub/index"))
    yield Measured("packages parsed again after one changed", provider._reader.sources.parsed - before, "", 1)
    yield Measured("index after one changed", once * 1_000, "ms")
    single = work_of(lambda: read(serve(home), "alc://hub/index"))
    for number in range(plan.packages, 2 * plan.packages):
        write_package(home, number)
    double = work_of(lambda: read(serve(home), "alc://hub/index"))
    yield Measured("twice the packages, cold, to once, in CPU time", double / single, "times", 3)


def measure_parsing(home: Path) -> Iterator[Measured]:
    """Parse 150 packages of together 2 MB."""
    for number in range(150):
        write_package(home, number, filler=160)
    size = sum(path.stat().st_size for path in home.rglob("*.lua"))
    took = seconds(lambda: read(serve(home), "alc://hub/index"))
    yield Measured(f"150 packages, {size / 1e6:.1f} MB of Lua, cold", took, "s", 2)


def write_samples(path: Path, rows: int) -> None:
    """Write short rows."""
    with path.open("w", encoding="ascii") as file:
        for start in range(0, rows, 5_000):
            numbers = range(start, min(rows, start + 5_000))
            file.write("".join(f'{{"case_idx":{number},"score":1.0}}\n' for number in numbers))


def measure_samples(home: Path, plan: Plan) -> Iterator[Measured]:
    """Read pages near the start, in the middle and at the end."""
    folder = home / "cards/big"
    folder.mkdir(parents=True)
    (folder / "big.toml").write_text("", encoding="ascii")
    write_samples(folder / "big.samples.jsonl", plan.rows)
    catalog = serve(home)
    read(catalog, "alc://cards/big")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    last = plan.rows - 1
    first = seconds(lambda: read(catalog, f"alc://cards/big/samples?offset={last}"))
    yield Measured(f"first read at offset {last:,} of {plan.rows:,} rows", first, "s", 5)
    places = (0, plan.rows // 2, plan.rows - 100)
    addresses = [f"alc://cards/big/samples?offset={place}" for place in places]
    pages = [seconds(partial(read, catalog, address), plan.repeats * 5) for address in addresses]
    for place, took in zip(places, pages, strict=True):
        found = json.loads(read(catalog, f"alc://cards/big/samples?offset={place}"))
        assert [row["case_idx"] for row in found] == list(range(place, place + 100))
        yield Measured(f"page at offset {place:,}, indexed", took * 1_000, "ms", 50)
    yield Measured("slowest page to fastest", max(pages) / min(pages), "times", 3)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
    yield Measured("memory grown meanwhile", grown, "MiB", 64)


def measure_list(home: Path, plan: Plan) -> Iterator[Measured]:
    """List a page among many files; read a long log."""
    for folder, suffix in (("logs", ""), ("evals", "_1")):
        (home / folder).mkdir(parents=True)
        for number in range(plan.listed):
            (home / folder / f"n{number:05d}{suffix}.json").write_text("{}", encoding="ascii")
    (home / "cards/x").mkdir(parents=True)
    for number in range(plan.listed // 10):
        (home / "cards/x" / f"c{number}.toml").write_text(CARD.format(number=number), encoding="ascii")
    catalog = serve(home)
    cursor = None
    slowest = 0.0
    while True:
        began = perf_counter()
        page = catalog.page(cursor)
        slowest = max(slowest, perf_counter() - began)
        cursor = page.next_cursor
        if cursor is None:
            break
    told = f"slowest list page, {plan.listed:,} logs, {plan.listed:,} evals, {plan.listed // 10:,} Cards"
    yield Measured(told, slowest, "s", 1)
    rounds = [{"query_id": str(number), "prompt": "x" * 1_000} for number in range(plan.log_bytes // 1_050)]
    (home / "logs/long.json").write_text(json.dumps({"transcript": rounds}), encoding="ascii")
    took = seconds(lambda: read(catalog, "alc://logs/long"))
    yield Measured(f"log of {plan.log_bytes / 1e6:.0f} MB, default query", took, "s", 2)


def measure(plan: Plan) -> Iterator[Measured]:
    """Measure everything, each in its own home folder."""
    for part in (
        lambda home: measure_samples(home, plan),
        lambda home: measure_index(home, plan),
        measure_parsing,
        lambda home: measure_list(home, plan),
    ):
        with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
            yield from part(Path(name))


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.alc", description="alc:// where it is large.")
    parser.add_argument("--smoke", action="store_true", help="in seconds")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    given = parser.parse_args()
    found = []
    for one in measure(SMOKE if given.smoke else FULL):
        print(one.line(), flush=True)
        found.append(one)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        numbers = [{"name": one.name, "value": one.value, "unit": one.unit, "limit": one.limit} for one in found]
        given.json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    missed = [one for one in found if one.limit is not None and one.value > one.limit]
    for one in missed if given.check else []:
        print(f"FAILED: {one.line()}", file=sys.stderr)
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
