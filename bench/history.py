"""The history of a repository with fifty thousand commits, read over stdio, beside git itself.

    python -m bench.history [--smoke] [--check] [--json FILE]

A file at a commit, a difference, one commit and a page of the log are read by a client from `carrel serve`, each commit
given by its id. Git answers the same question in a new process, as a server that starts git would do. Rounds are
interleaved. The processor's time is shown too: unlike the time that passes, it hardly depends on what else the machine
does. The log of one path and blame walk far; they are reported and have no limit.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

from carrel.client.client import Client

COMMITS: Final = 50_000
SMOKE_COMMITS: Final = 2_000
FILES: Final = 2_000
MOST_MS: Final[Mapping[str, float]] = {
    "file at a commit": 3.0,
    "difference of a file": 3.0,
    "commit": 3.0,
    "log, first page": 20.0,
}
CPU: Final = " cpu"
MARGIN: Final = 4.0
"""In a smoke run the machine may be busy: only a several-fold excess fails."""


def lay_out(project: Path, commits: int) -> list[str]:
    """Make the repository with `git fast-import`; return the ids of all commits, oldest first."""
    git(project, "init", "-q", "-b", "main")
    chance = random.Random(1)
    files = [f"src/d{number % 40}/f{number}.py" for number in range(FILES)]
    lines = {name: [f"line {number} of {name}" for number in range(60)] for name in files}
    importing = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=project, stdin=subprocess.PIPE)
    if importing.stdin is None:
        raise RuntimeError("git fast-import has no input")
    for number in range(commits):
        head = (
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter A B <a@b.c> {1_500_000_000 + number * 600} +0000\n"
        )
        message = f"Change {number}\n\nA body.\n"
        parent = f"from :{number}\n" if number else ""
        importing.stdin.write(f"{head}data {len(message)}\n{message}{parent}".encode())
        for name in chance.sample(files, 2) if number else files:
            if number:
                lines[name][chance.randrange(60)] = f"changed in {number} {chance.random()}"
            text = "\n".join(lines[name]) + "\n"
            importing.stdin.write(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n".encode())
    importing.stdin.close()
    if importing.wait(600):
        raise RuntimeError("git fast-import failed")
    return git(project, "rev-list", "--reverse", "main").split()


def git(project: Path, *words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *words], cwd=project, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def questions(ids: Sequence[str], chance: random.Random) -> dict[str, Callable[[], tuple[str, list[str]]]]:
    """Return, by name, functions that make a question: a URI, and what git is asked."""

    def some() -> tuple[str, str]:
        number = chance.randrange(FILES)
        return chance.choice(ids[len(ids) // 2 :]), f"src/d{number % 40}/f{number}.py"

    def at() -> tuple[str, list[str]]:
        name, path = some()
        return f"workspace:///{path}?at={name}", ["show", f"{name}:{path}"]

    def diff() -> tuple[str, list[str]]:
        (old, path), (new, _) = some(), some()
        return f"workspace:///{path}?diff={old}..{new}", ["diff", old, new, "--", path]

    def commit() -> tuple[str, list[str]]:
        name, _ = some()
        return f"git://commit/{name}", ["show", name]

    def log() -> tuple[str, list[str]]:
        name, _ = some()
        return f"git://log?at={name}", ["log", "-100", name]

    return {"file at a commit": at, "difference of a file": diff, "commit": commit, "log, first page": log}


def measure(project: Path, ids: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the median times in milliseconds, by question, for Carrel and for git: passed, and of the processor."""
    chance = random.Random(2)
    times: dict[str, dict[str, list[float]]] = {}
    command = [sys.executable, "-m", "carrel", "serve", "--project", str(project)]
    with Client.start(command) as client:
        server = Server(_children()[-1])
        for make in questions(ids, chance).values():
            client.read(make()[0])  # what is imported once
        for _ in range(rounds):
            for name, make in questions(ids, chance).items():
                uri, words = make()
                add(times.setdefault(name, {}), "carrel", partial(client.read, uri), server.spent)
                add(times[name], "git", partial(git, project, *words), spent_by_ended)
        path = "src/d1/f1.py"
        for name, uri, words in (
            ("log of a file", f"workspace:///{path}?log", ["log", "--", path]),
            ("blame", f"workspace:///{path}?blame", ["blame", "HEAD", "--", path]),
        ):
            add(times.setdefault(name, {}), "carrel", partial(client.read, uri), server.spent_in_all)
            add(times[name], "git", partial(git, project, *words), spent_by_ended)
    return {name: {who: statistics.median(found) for who, found in row.items()} for name, row in times.items()}


def add(row: dict[str, list[float]], who: str, call: Callable[[], object], spent: Callable[[], float]) -> None:
    """Call; add how long it took, and how much of the processor's time was spent, in milliseconds."""
    before, begun = spent(), perf_counter()
    call()
    row.setdefault(who, []).append((perf_counter() - begun) * 1000)
    row.setdefault(who + CPU, []).append(spent() - before)


def _children() -> list[int]:
    me = os.getpid()
    return [int(one) for one in Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii").split()]


class Server:
    """The processor's time that a process spends, in milliseconds."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")

    def spent(self) -> float:
        """Return the time of its live threads, to the nanosecond: a short question is answered by one of them."""
        threads = self._folder.glob("task/*/schedstat")
        return sum(int(one.read_text(encoding="ascii").split()[0]) for one in threads) / 1e6

    def spent_in_all(self) -> float:
        """Return the time of all threads, to ten milliseconds: the thread of a long question may have ended."""
        fields = (self._folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000


def spent_by_ended() -> float:
    """Return the milliseconds that ended processes of this one have run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> int:
    """Measure, print, and with `--check` fail above the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a small repository and few rounds")
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="carrel-history-") as folder:
        project = Path(folder)
        ids = lay_out(project, SMOKE_COMMITS if chosen.smoke else COMMITS)
        found = measure(project, ids, 15 if chosen.smoke else 100)
    print(f"{len(ids)} commits, median milliseconds" + " " * 8 + "carrel      cpu      git      cpu  limit")
    for name, row in found.items():
        shown = " ".join(f"{row[who]:>8.2f} {row[who + CPU]:>8.2f}" for who in ("carrel", "git"))
        print(f"{name:<36} {shown}  {MOST_MS.get(name, '')}")
    if chosen.json:
        Path(chosen.json).parent.mkdir(parents=True, exist_ok=True)
        Path(chosen.json).write_text(json.dumps({"commits": len(ids), "median_ms": found}, indent=1), encoding="utf-8")
    margin = MARGIN if chosen.smoke else 1.0
    slow = [name for name, most in MOST_MS.items() if found[name]["carrel"] > most * margin]
    if slow and chosen.check:
        print(f"too slow: {', '.join(slow)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
