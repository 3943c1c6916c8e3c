"""Where the microseconds of one answer go.

    python -m bench.profile                                          a 1 KB read over stdio
    python -m bench.profile --transport http --work list-1000 --seconds 20 --lines 30
    python -m bench.profile --peer sdk                               of any server in Python

The server is one of the comparison's, run by `sampled`, and loaded by the same client. The microseconds are shares of
the processor time that one answer takes it, the kernel's part of reading and writing included.
"""

import argparse
import json
import linecache
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.contenders import CONTENDERS, Start
from bench.load import Peer
from bench.measure import WARM_UP_S
from bench.pinning import one_core
from bench.server import ROOT
from bench.web import WebPeer, free_port
from bench.works import WORKS, Subject, lay_out, lay_tree

PYTHON: Final = ("carrel", "sdk", "sdk-high", "bare")
PACKAGES: Final = (
    "/src/carrel/",
    "/site-packages/",
    f"/python{sys.version_info[0]}.{sys.version_info[1]}/",
    f"{ROOT}/",
)

Taken = list[tuple[str, str, int, int]]
"""File, function, line, and how often it ran when the timer went off."""


def sample(given: argparse.Namespace, folder: Path) -> tuple[Taken, float]:
    """Load a server that is sampled; return the samples and the microseconds of an answer."""
    contender, work = CONTENDERS[given.peer], WORKS[given.work]
    port = free_port() if given.transport == "http" else 0
    command = contender.command(Start(work.setup, folder, port))
    program = command[1:] if command[0] == sys.executable else command
    file = folder / "samples.json"
    sampled = (sys.executable, str(ROOT / "bench/sampled.py"), str(file), *program)
    with WebPeer(sampled, folder, port) if port else Peer(sampled, folder) as peer:
        peer.open(given.era)
        pool = peer.spell(work.prepare(Subject(peer, given.era, contender.spelling, folder)))
        peer.load(pool, WARM_UP_S, given.depth)
        unsampled = peer.load(pool, given.seconds / 4, given.depth)
        os.kill(peer.process.child.pid, signal.SIGUSR1)
        peer.load(pool, given.seconds, given.depth)
        os.kill(peer.process.child.pid, signal.SIGUSR1)
    return [tuple(one) for one in json.loads(file.read_text("utf-8"))], unsampled.cpu_us


def short(path: str) -> str:
    """Return a file's name within its package."""
    return next((path.rpartition(package)[2] for package in PACKAGES if package in path), path)


def shares(taken: Taken, total_us: float, count: int) -> Iterator[str]:
    """Write which files, functions and lines take most, each without what it calls."""
    tables: dict[str, Counter[str]] = {"file": Counter(), "function": Counter(), "line": Counter()}
    for file, function, line, times in taken:
        code = linecache.getline(file, line).strip().replace("|", "\\|")
        tables["file"][f"`{short(file)}`"] += times
        tables["function"][f"`{short(file)}` {function}"] += times
        tables["line"][f"`{short(file)}:{line}` `{code}`"] += times
    whole = tables["file"].total()
    yield f"{total_us:.1f} µs of processor time an answer; {whole:,} samples."
    for kind, table in tables.items():
        yield f"\n| µs | share | {kind} |"
        yield "| --: | --: | --- |"
        for where, times in table.most_common(count):
            yield f"| {total_us * times / whole:.2f} | {times / whole:.0%} | {where} |"


def main() -> None:
    """Sample, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description="Where the microseconds go.")
    parser.add_argument("--peer", choices=PYTHON, default="carrel")
    parser.add_argument("--work", choices=tuple(WORKS), default="read-1k-memory")
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--era", choices=("modern", "legacy"), default="modern")
    parser.add_argument("--depth", type=int, default=1, help="requests, or connections, under way at once")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--lines", type=int, default=15, help="how many functions and lines are shown")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core():
        folder = Path(name)
        lay_out(folder)
        lay_tree(folder)
        print("\n".join(shares(*sample(given, folder), given.lines)))


if __name__ == "__main__":
    main()
