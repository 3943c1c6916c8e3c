"""The foundation's numbers, side by side: start-up, resident memory, and reads per second of a small text.

    python -m bench.foundation [--smoke] [--check] [--json FILE] [--only carrel,sdk]

Client and server share one core (the CPU path: nothing runs beside the work that is measured). Rounds are
interleaved, so that a noisy neighbour disturbs all contenders alike. `cat` in the table is the floor of this client.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, get_args

from bench.load import Era, Peer, PeerError, discover, message, reads
from tests import schemas

PEERS: Final = Path(__file__).parent / "peers"
URI: Final = "bench://text"
ERAS: Final[tuple[Era, ...]] = get_args(Era)
DEPTHS: Final = (1, 32)
WARM_UP_S: Final = 0.2

START: Final = "start-up, ms"
MEMORY: Final = "resident, MiB"

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Metric, contender, one number a round."""


@dataclass(frozen=True, slots=True)
class Contender:
    """How a server is started: for the first two numbers, and to be read from."""

    start: tuple[str, ...]
    read: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and what Carrel must reach relative to the official SDK."""

    starts: int
    rounds: int
    seconds: float
    times_sooner: float
    share_of_memory: float
    times_reads: float


FULL: Final = Plan(starts=20, rounds=10, seconds=1.0, times_sooner=6, share_of_memory=0.5, times_reads=20)
SMOKE: Final = Plan(starts=5, rounds=3, seconds=0.25, times_sooner=3, share_of_memory=1.0, times_reads=8)


def contenders(size: int) -> dict[str, Contender]:
    """Give the table of who takes part."""

    def peer(script: str) -> tuple[str, ...]:
        return (sys.executable, str(PEERS / script), str(size))

    carrel = str(Path(sys.executable).parent / "carrel")
    return {
        "carrel": Contender((carrel, "serve", "--only", "guide"), peer("carrel_memory.py")),
        "sdk": Contender(peer("sdk_lowlevel.py"), peer("sdk_lowlevel.py")),
        "bare": Contender(peer("bare_msgspec.py"), peer("bare_msgspec.py")),
    }


def reading(era: Era, depth: int) -> str:
    """Name the metric of a read."""
    return f"reads/s, {era}, depth {depth}"


def cost(era: Era, depth: int) -> str:
    """Name the metric of what a read costs the server alone, whatever client and pipes cost."""
    return f"server CPU, µs/read, {era}, depth {depth}"


@contextmanager
def one_core() -> Iterator[str]:
    """Keep this process, and what it starts, on one core; say which."""
    if not hasattr(os, "sched_setaffinity"):
        yield "not pinned: this system cannot"
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield f"pinned to core {core}"
    finally:
        os.sched_setaffinity(0, before)


def measure_start(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Start a server, wait for its first answer; give the milliseconds and its MiB then."""
    question = discover()
    started = time.perf_counter()
    with Peer(command, folder) as peer:
        peer.ask_result(question)
        took = time.perf_counter() - started
        return took * 1_000, peer.resident_kib() / 1_024


def measure_starts(table: Mapping[str, Contender], rounds: int, folder: Path) -> Samples:
    """Start everyone in turn; the first round fills caches and does not count."""
    samples: dict[str, dict[str, list[float]]] = {START: defaultdict(list), MEMORY: defaultdict(list)}
    for number in range(rounds + 1):
        for name, contender in table.items():
            took, size = measure_start(contender.start, folder)
            if number:
                samples[START][name].append(took)
                samples[MEMORY][name].append(size)
    return samples


def measure_reads(table: Mapping[str, Contender], plan: Plan, size: int, folder: Path) -> Samples:
    """Keep everyone running, one process per era, and load them in turn."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        floor = stack.enter_context(Peer(("cat",), folder))
        echoes = tuple(message("echo", {"pad": "x" * size}, number) for number in range(100))
        running: list[tuple[str, Era, Peer, Sequence[bytes]]] = [
            (name, era, stack.enter_context(Peer(contender.read, folder)), reads(URI, era))
            for era in ERAS
            for name, contender in table.items()
        ]
        for name, era, peer, pool in running:
            warm_up(peer, era, pool, size)
            if name == "carrel":
                schemas.check(peer.ask(pool[0]).rstrip(b"\n"), VERSIONS[era], "resources/read")
        for _ in range(plan.rounds):
            for depth in DEPTHS:
                samples[f"client and pipes alone, /s, depth {depth}"]["cat"].append(
                    floor.load(echoes, plan.seconds, depth).rate
                )
                for name, era, peer, pool in running:
                    run = peer.load(pool, plan.seconds, depth)
                    samples[reading(era, depth)][name].append(run.rate)
                    samples[cost(era, depth)][name].append(run.cpu_us)
    return samples


VERSIONS: Final[Mapping[Era, str]] = {"modern": "2026-07-28", "legacy": "2025-11-25"}


def warm_up(peer: Peer, era: Era, pool: Sequence[bytes], size: int) -> None:
    """Open the connection, check that a read gives the text, and run for a moment."""
    peer.open(era)
    contents = peer.ask_result(pool[0])["contents"]
    if [len(item["text"]) for item in contents] != [size]:
        raise PeerError(f"a read gave something else: {str(contents)[:200]}")
    peer.load(pool, WARM_UP_S, 1)


def ratio(samples: Samples, metric: str, name: str) -> float | None:
    """Compare a contender with the SDK: times sooner, share of memory, times as many reads, times less work."""
    medians = {who: statistics.median(numbers) for who, numbers in samples[metric].items()}
    if "sdk" not in medians or name == "sdk":
        return None
    mine, theirs = medians[name], medians["sdk"]
    return theirs / mine if metric == START or "CPU" in metric else mine / theirs


def table_lines(samples: Samples) -> Iterator[str]:
    """Write everything as a table for people."""
    yield f"{'':38} {'':8} {'median':>10} {'min':>10} {'max':>10} {'to the SDK':>14}"
    for metric, rows in samples.items():
        for name, numbers in rows.items():
            compared = ratio(samples, metric, name)
            unit = {START: "× sooner", MEMORY: " of it"}.get(metric, "× less" if "CPU" in metric else "×")
            note = "" if compared is None else f"{compared:.2f}{unit}"
            low, middle, high = min(numbers), statistics.median(numbers), max(numbers)
            yield f"{metric:38} {name:8} {middle:10,.1f} {low:10,.1f} {high:10,.1f} {note:>14}"


def share_line(samples: Samples) -> str:
    """Say how much of a read at depth 1 is this client and the pipes."""
    floor = statistics.median(samples["client and pipes alone, /s, depth 1"]["cat"])
    fastest = max(statistics.median(numbers) for era in ERAS for numbers in samples[reading(era, 1)].values())
    return (
        f"The client, two pipes and the switching between processes take {1e6 / floor:.1f} µs (measured with cat), "
        f"{fastest / floor:.0%} of a read by the fastest contender ({1e6 / fastest:.1f} µs)."
    )


def complaints(samples: Samples, plan: Plan) -> Iterator[str]:
    """Say where Carrel misses what the plan wants."""
    sooner = ratio(samples, START, "carrel") or 0
    if sooner < plan.times_sooner:
        yield f"start-up is {sooner:.2f} times sooner than the SDK's, wanted {plan.times_sooner}"
    share = ratio(samples, MEMORY, "carrel") or float("inf")
    if share > plan.share_of_memory:
        yield f"resident memory is {share:.2f} of the SDK's, wanted at most {plan.share_of_memory}"
    for era in ERAS:
        times = ratio(samples, reading(era, 1), "carrel") or 0
        if times < plan.times_reads:
            limit = ratio(samples, reading(era, 1), "bare") if "bare" in samples[reading(era, 1)] else None
            note = "" if limit is None else f"; the bare loop reaches {limit:.2f} here"
            yield f"{reading(era, 1)}: {times:.2f} times the SDK's, wanted {plan.times_reads}{note}"


def report(samples: Samples, plan: Plan, size: int, pinned: str) -> dict[str, object]:
    """Give everything as data, with what is needed to compare it with another run."""
    wanted = {"carrel", "mcp", "msgspec"}
    versions = {found.name: found.version for found in metadata.distributions() if found.name in wanted}
    medians = {
        metric: {name: statistics.median(numbers) for name, numbers in rows.items()} for metric, rows in samples.items()
    }
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "pinned": pinned,
        "versions": versions,
        "size": size,
        "starts": plan.starts,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "medians": medians,
        "samples": samples,
    }


def arguments(known: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.foundation", description="Carrel beside its peers.")
    parser.add_argument("--smoke", action="store_true", help="in well under 40 s, with looser limits")
    parser.add_argument("--check", action="store_true", help="exit 1 where Carrel misses the limits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--only", default=",".join(known), metavar="NAMES", help=f"some of {','.join(known)}")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of the text that is read")
    given = parser.parse_args()
    given.only = given.only.split(",")
    if unknown := sorted(set(given.only) - set(known)):
        parser.error(f"unknown contender {', '.join(unknown)}; known: {', '.join(known)}")
    if given.check and not {"carrel", "sdk"} <= set(given.only):
        parser.error("--check compares carrel with sdk: both must take part")
    return given


def main() -> int:
    """Measure, print, judge."""
    given = arguments(tuple(contenders(0)))
    plan = SMOKE if given.smoke else FULL
    table = {name: contender for name, contender in contenders(given.size).items() if name in given.only}
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core() as pinned:
        folder = Path(name)
        samples = {
            **measure_starts(table, plan.starts, folder),
            **measure_reads(table, plan, given.size, folder),
        }
    print(f"Text of {given.size:,} bytes over stdio, {pinned}, {plan.starts} starts, {plan.rounds} rounds.\n")
    print("\n".join(table_lines(samples)))
    print(f"\n{share_line(samples)}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report(samples, plan, given.size, pinned), indent=2) + "\n", encoding="utf-8")
    failed = list(complaints(samples, plan)) if given.check else []
    for complaint in failed:
        print(f"FAILED: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
