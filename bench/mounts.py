"""What a mount adds to a read: the same text, asked of the mounted server directly and through the mount.

    python -m bench.mounts [--smoke] [--check] [--size N]

`direct` is Carrel's own client asking the server; `mount` is a read of the catalogue in which that server is mounted
(route, copy, prefix, ETag, bounds); `served` goes all the way: a client asks a second Carrel, which has mounted the
server, over a further pair of pipes. The ratio that is judged is mount to direct. Rounds are interleaved.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.peers.served import MEMORY
from bench.pinning import one_core
from bench.server import ROOT
from carrel.catalog.catalog import Catalog
from carrel.client.child import ChildServer
from carrel.client.client import Client
from carrel.providers.mounts import Mount, MountSettings

LIMIT: Final = 1.5
SMOKE_LIMIT: Final = 4.0
"""A short run on a busy machine says only that it is not another order."""
FULL: Final = (20, 500)
SMOKE: Final = (5, 200)
PATIENCE_S: Final = 30.0
NAME: Final = "text.txt"
URI: Final = f"{MEMORY}{NAME}"
SERVERS: Final = {"carrel": "carrel_memory.py", "sdk": "sdk_lowlevel.py"}


def command(server: str, size: int, folder: Path) -> list[str]:
    """Lay out the text and say how a peer is started that serves it and lists nothing else."""
    (folder / NAME).write_text("x" * size, "utf-8")
    peer = str(ROOT / "bench/peers" / SERVERS[server])
    return ["/usr/bin/env", f"PYTHONPATH={ROOT}", sys.executable, peer, str(folder), "1", "0"]


def ways(stack: ExitStack, server: str, size: int, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the three ways to read the text, each to a server of its own."""
    started = command(server, size, folder)
    direct = stack.enter_context(Client.start(started, cwd=folder, stderr=lambda _: None))
    mount = Mount(
        "bench",
        MountSettings(started),
        lambda: ChildServer(started, cwd=folder, stderr=lambda _: None, max_message_bytes=1 << 25),
    )
    catalog = Catalog([mount])
    stack.callback(catalog.close)
    mount.begin()
    if not mount.wait(PATIENCE_S):
        raise SystemExit("the mounted server did not start")
    home = folder / "home"
    (home / ".config/carrel").mkdir(parents=True, exist_ok=True)
    setting = f"[mounts.bench]\ncommand = {json.dumps(started)}\n"
    (home / ".config/carrel/config.toml").write_text(setting, encoding="utf-8")
    carrel = [str(Path(sys.executable).parent / "carrel"), "serve", "--quiet", "--without", "workspace"]
    served = stack.enter_context(
        Client.start(carrel, cwd=folder, env={"HOME": str(home), "PATH": ""}, stderr=lambda _: None)
    )
    while not any(entry.uri.startswith("bench://entry/") for entry in served.resources()):
        time.sleep(0.1)
    return {
        "direct": lambda: direct.read(URI),
        "mount": lambda: catalog.read(URI),
        "served": lambda: served.read(URI),
    }


def measure(server: str, size: int, plan: tuple[int, int], folder: Path) -> dict[str, float]:
    """Return the median microseconds of a read, by way."""
    rounds, reads = plan
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        table = ways(stack, server, size, folder)
        for number in range(rounds + 1):
            for name, read in table.items():
                began = time.perf_counter()
                for _ in range(reads):
                    read()
                if number:
                    samples.setdefault(name, []).append((time.perf_counter() - began) / reads * 1e6)
    return {name: statistics.median(numbers) for name, numbers in samples.items()}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.mounts", description="What a mount adds to a read.")
    parser.add_argument("--smoke", action="store_true", help="in a few seconds, with a looser limit")
    parser.add_argument("--check", action="store_true", help=f"exit 1 where a mount costs over {LIMIT} times")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of the text that is read")
    given = parser.parse_args()
    limit = SMOKE_LIMIT if given.smoke else LIMIT
    failed = False
    for server in ("carrel",) if given.smoke else SERVERS:
        with tempfile.TemporaryDirectory(prefix="carrel-bench-") as name, one_core() as pinned:
            costs = measure(server, given.size, SMOKE if given.smoke else FULL, Path(name))
        ratio = costs["mount"] / costs["direct"]
        failed = failed or ratio > limit
        told = ", ".join(f"{way} {cost:,.0f} µs" for way, cost in costs.items())
        print(f"{server}, {given.size:,} bytes, {pinned}: {told}; mount to direct {ratio:.2f}")
    if given.check and failed:
        print(f"FAILED: a read through a mount costs more than {limit} times the direct one", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
