"""What a log costs, and whether others notice: a ring beside a bare deque, reads while processes print, `carrel run`.

    python -m bench.logs [--smoke] [--check] [--json FILE]

Ten processes print as fast as they can; meanwhile a file of 1 KB is read over stdio, over and over. A command that
writes millions of lines is run plainly and by `carrel run`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.load import Peer
from bench.messages import ENVELOPE, PeerError, message, reads
from carrel.core.isotime import now_ms
from carrel.core.model import Text
from carrel.providers.logs.log import Bounds, Log
from carrel.providers.logs.provider import _reading
from carrel.providers.logs.uris import LogQuery

PRINTERS: Final = 10
LINES: Final = b"".join(b"[%5d/9999] Compiling lib/src/widgets/part_%d.dart\n" % (i, i) for i in range(300))
"""About as much as one read of a pipe gives."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and what must be reached."""

    rounds: int
    repeats: int
    idle_s: float
    busy_s: float
    append_ratio: float
    read_ratio: float
    p99_ms: float
    growth: float
    flood_lines: int
    flood_ratio: float


FULL: Final = Plan(
    rounds=10,
    repeats=200,
    idle_s=2,
    busy_s=10,
    append_ratio=25,
    read_ratio=15,
    p99_ms=20,
    growth=1.25,
    flood_lines=2_800_000,
    flood_ratio=3,
)
SMOKE: Final = Plan(
    rounds=3,
    repeats=50,
    idle_s=0.5,
    busy_s=2,
    append_ratio=60,
    read_ratio=30,
    p99_ms=60,
    growth=1.6,
    flood_lines=280_000,
    flood_ratio=20,
)


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest round: what else the machine does only ever adds."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def append_costs(plan: Plan) -> dict[str, float]:
    """Return the microseconds to append a line: to a bare deque, to a log, and to a log that looks for secrets."""
    count = LINES.count(b"\n") * plan.repeats

    def bare() -> None:
        kept: deque[str] = deque(maxlen=1_000)
        for _ in range(plan.repeats):
            kept.extend(LINES.decode().split("\n"))

    def log(*, redact: bool) -> Callable[[], None]:
        def feed() -> None:
            kept = Log("run", "bench_1", "bench", Bounds(redact=redact), now_ms())
            for _ in range(plan.repeats):
                kept.feed("out", LINES)

        return feed

    return {
        "deque": best_of(plan.rounds, bare) / count * 1e6,
        "log": best_of(plan.rounds, log(redact=False)) / count * 1e6,
        "log, redacted": best_of(plan.rounds, log(redact=True)) / count * 1e6,
    }


def read_costs(plan: Plan) -> dict[str, float]:
    """Return the microseconds to read a full log whole: from a bare deque, and as a resource."""
    log = Log("run", "bench_1", "bench", Bounds(), now_ms())
    for _ in range(10):
        log.feed("out", LINES)
    kept = deque(entry.line.text for entry in log.snapshot()[1])

    def bare() -> None:
        for _ in range(plan.repeats):
            "\n".join(kept)

    def resource() -> None:
        for _ in range(plan.repeats):
            item = _reading(*log.snapshot(), LogQuery()).items[0]
            assert isinstance(item, Text)

    costs = {"deque": best_of(plan.rounds, bare), "log": best_of(plan.rounds, resource)}
    return {name: seconds / plan.repeats * 1e6 for name, seconds in costs.items()}


def flood(plan: Plan, folder: Path) -> dict[str, float]:
    """Return the seconds of a command that writes many lines: by itself, and by `carrel run` beyond its start."""
    project = folder / "flood"
    project.mkdir()
    (project / "carrel.toml").touch()
    carrel = (str(Path(sys.executable).parent / "carrel"), "run", "--")
    command = ("seq", str(plan.flood_lines))

    def run(*words: str) -> Callable[[], object]:
        environment = {**os.environ, "HOME": str(folder)}
        return lambda: subprocess.run(words, cwd=project, env=environment, stdout=subprocess.PIPE, check=True)

    start_s = best_of(plan.rounds, run(*carrel, "true"))
    kept_s = best_of(plan.rounds, run(*carrel, *command))
    return {"plain": best_of(plan.rounds, run(*command)), "start": start_s, "carrel run": max(0.0, kept_s - start_s)}


def load(plan: Plan, folder: Path) -> dict[str, Any]:
    """Return what reads of a small file take, and what the server weighs, alone and while ten processes print."""
    project = folder / "project"
    settings = folder / ".config/carrel/config.toml"
    for place in (project, settings.parent):
        place.mkdir(parents=True)
    (project / "small.txt").write_text("x" * 1_023 + "\n", encoding="utf-8")
    names = [f"printer{number}" for number in range(PRINTERS)]
    tables = [f'[commands.{name}]\nargv = ["yes", "{_line(name)}"]\n' for name in names]
    settings.write_text("[processes]\nstart_wait_ms = 0\n" + "".join(tables), encoding="utf-8")
    command = (str(Path(sys.executable).parent / "carrel"), "serve", "--quiet", "--project", str(project))
    with Peer(command, folder) as peer:
        peer.open("modern")
        idle = latencies(peer, plan.idle_s)
        uris = {name: start(peer, name) for name in names}
        latencies(peer, min(1.0, plan.busy_s / 4))
        first = peer.process.resident_kib()
        began = time.perf_counter()
        before = {name: newest(peer, uri) for name, uri in uris.items()}
        busy = latencies(peer, plan.busy_s)
        taken = sum(newest(peer, uri) - before[name] for name, uri in uris.items())
        rate = taken / (time.perf_counter() - began)
        last = peer.process.resident_kib()
        for name, uri in uris.items():
            check_whole(peer, name, uri)
    return {"idle": idle, "busy": busy, "lines/s": rate, "resident, KiB": [first, last]}


def _line(name: str) -> str:
    return f"{name}: the quick brown fox jumps over the lazy dog :{name}"


def start(peer: Peer, name: str) -> str:
    """Start a command; return its log."""
    params = {"name": "process.start", "arguments": {"name": name}, "_meta": ENVELOPE}
    return str(peer.ask_result(message("tools/call", params, 1))["structuredContent"]["logResourceUri"])


def read(peer: Peer, uri: str) -> dict[str, Any]:
    """Read a resource; return its one item."""
    item: dict[str, Any] = peer.ask_result(message("resources/read", {"uri": uri, "_meta": ENVELOPE}, 2))["contents"][0]
    return item


def newest(peer: Peer, uri: str) -> int:
    """Return the number of a log's newest line."""
    return int(read(peer, f"{uri}?tail=1")["_meta"]["dev.carrel/cursor"])


def check_whole(peer: Peer, name: str, uri: str) -> None:
    """Check that no line of a log is torn or mixed with another's."""
    lines = set(read(peer, uri)["text"].splitlines())
    if lines != {_line(name)}:
        raise PeerError(f"torn or mixed lines: {sorted(lines)[:3]}")


def latencies(peer: Peer, seconds: float) -> list[float]:
    """Read the small file over and over; return the milliseconds of each read."""
    pool = reads("workspace:///small.txt", "modern")
    took = []
    ends = time.perf_counter() + seconds
    number = 0
    while (began := time.perf_counter()) < ends:
        peer.ask(pool[number % len(pool)])
        took.append((time.perf_counter() - began) * 1_000)
        number += 1
    return took


def percentile(numbers: list[float], share: float) -> float:
    """Return the number below which this share of them lies."""
    return sorted(numbers)[min(len(numbers) - 1, int(len(numbers) * share))]


def report(
    append: dict[str, float], full: dict[str, float], loaded: dict[str, Any], flooded: dict[str, float]
) -> Iterator[str]:
    """Write everything for people."""
    for title, costs in (("append, µs/line", append), ("read a full log, µs", full)):
        for name, cost in costs.items():
            yield f"{title:24} {name:16} {cost:10.2f} {cost / costs['deque']:8.1f} × the deque"
    for name in ("idle", "busy"):
        numbers = loaded[name]
        middle, high = statistics.median(numbers), percentile(numbers, 0.99)
        yield f"{'read of 1 KB, ms':24} {name:16} median {middle:.2f}, 99 % {high:.2f}, max {max(numbers):.2f}"
    first, last = loaded["resident, KiB"]
    yield f"{'lines taken meanwhile':24} {'':16} {loaded['lines/s']:,.0f}/s from {PRINTERS} processes, none torn"
    yield f"{'resident memory, MiB':24} {'':16} {first / 1024:.1f} at first, {last / 1024:.1f} at last"
    plain, start_s, kept = flooded["plain"], flooded["start"], flooded["carrel run"]
    yield f"{'a flood of lines, s':24} {'plain':16} {plain:10.3f}"
    yield f"{'':24} {'carrel run':16} {kept:10.3f} {kept / plain:8.1f} × plain, after {start_s:.3f} s to start"


def complaints(
    plan: Plan, append: dict[str, float], full: dict[str, float], loaded: dict[str, Any], flooded: dict[str, float]
) -> Iterator[str]:
    """Yield where the plan is missed."""
    if (ratio := flooded["carrel run"] / flooded["plain"]) > plan.flood_ratio:
        yield f"carrel run takes {ratio:.1f} times as long as the command, wanted at most {plan.flood_ratio}"
    if (ratio := append["log"] / append["deque"]) > plan.append_ratio:
        yield f"appending costs {ratio:.1f} times a deque's, wanted at most {plan.append_ratio}"
    if (ratio := full["log"] / full["deque"]) > plan.read_ratio:
        yield f"reading costs {ratio:.1f} times a deque's, wanted at most {plan.read_ratio}"
    if (high := percentile(loaded["busy"], 0.99)) > plan.p99_ms:
        yield f"99 % of reads under load take up to {high:.1f} ms, wanted {plan.p99_ms}"
    first, last = loaded["resident, KiB"]
    if last > first * plan.growth:
        yield f"memory grew from {first} to {last} KiB"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.logs", description="What logs cost.")
    parser.add_argument("--smoke", action="store_true", help="in a few seconds, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    given = parser.parse_args()
    plan = SMOKE if given.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name:
        append, full, loaded = append_costs(plan), read_costs(plan), load(plan, Path(name))
        flooded = flood(plan, Path(name))
    print("\n".join(report(append, full, loaded, flooded)))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(
            json.dumps({"append": append, "read": full, "load": loaded, "flood": flooded}) + "\n", encoding="utf-8"
        )
    failed = list(complaints(plan, append, full, loaded, flooded)) if given.check else []
    for complaint in failed:
        print(f"FAILED: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
