"""The fast loop: format, lint and types beside the tests, which are run in parts.

Each part is a process of its own that collects only its folders. Processes that share one collection, as in the longer
loops, would each collect ten thousand tests and report every one to another process: about a sixth of the work. A part
is quiet unless it fails, and then all of its output is shown. A part in which no test ran has failed too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.executable).parent

PROCESSES_PER_CORE: Final = 3
"""Many tests wait for something."""
PARTS_FOR_EACH: Final = 2
"""Parts for each process: the last ones fill what the first leave."""

# A cache that several processes write at once would remember the failures of only one.
PYTEST: Final = (
    *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=dev"),
    *("-m", "not slow"),
)


class Step(NamedTuple):
    """A name, and the command that must succeed."""

    name: str
    command: tuple[str, ...]


class Outcome(NamedTuple):
    """How a step ended."""

    step: Step
    code: int
    output: str
    seconds: float


def folders_of_tests(tests: Path, left_out: Iterable[str] = ()) -> dict[Path, int]:
    """Return the folders with tests, and how large their tests are; `providers` is as many folders as it holds."""
    tops = [folder for folder in sorted(tests.iterdir()) if folder.is_dir() and folder.name not in set(left_out)]
    found: dict[Path, int] = {}
    for top in tops:
        places = sorted(top.iterdir()) if top.name == "providers" else [top]
        for place in places:
            files = place.rglob("test_*.py") if place.is_dir() else [place] if place.match("test_*.py") else []
            size = sum(file.stat().st_size for file in files)
            if size:
                found[place] = size
    return found


def parts(sizes: Mapping[Path, int], number: int) -> list[list[Path]]:
    """Return the folders in parts of about the same size, the largest part first."""
    dealt: list[tuple[int, list[Path]]] = [(0, []) for _ in range(max(1, min(number, len(sizes))))]
    for folder in sorted(sizes, key=lambda one: (-sizes[one], one)):
        least = min(range(len(dealt)), key=lambda index: dealt[index][0])
        size, held = dealt[least]
        dealt[least] = (size + sizes[folder], [*held, folder])
    return [held for _, held in sorted(dealt, key=lambda one: -one[0])]


def steps(processes: int, left_out: Sequence[str]) -> Iterator[Step]:
    """Yield what is to be done, the longest first."""
    tests = ROOT / "tests"
    yield Step("types", (str(BIN / "mypy"),))
    yield Step("format", (str(BIN / "ruff"), "format", "--check", "."))
    yield Step("lint", (str(BIN / "ruff"), "check", "."))
    for part in parts(folders_of_tests(tests, left_out), processes * PARTS_FOR_EACH):
        words = [str(folder.relative_to(ROOT)) for folder in part]
        name = " ".join(str(folder.relative_to(tests)) for folder in part)
        yield Step(name, (str(BIN / "pytest"), *PYTEST, *words))


def run(step: Step, processes: int) -> Outcome:
    """Run a step to its end."""
    began = monotonic()
    environment = {**os.environ, "TEST_PROCESSES": str(processes)}
    with tempfile.TemporaryFile() as output:  # not a pipe, which a server that outlives its part would hold open
        ended = subprocess.run(
            step.command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        )
        output.seek(0)
        return Outcome(step, ended.returncode, output.read().decode(errors="replace"), monotonic() - began)


def check(todo: Iterable[Step], processes: int) -> int:
    """Run the steps side by side, report each as it ends, and return 0 if all succeeded."""
    failed: list[str] = []
    with ThreadPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(run, step, processes) for step in todo]):
            step, code, output, seconds = future.result()
            if code:
                failed.append(step.name)
                print(output)
            summary = (output.strip().splitlines() or [""])[-1].strip("= ")
            print(f"{'FAILED' if code else 'ok'}  {step.name}: {summary} [{seconds:.1f} s]", flush=True)
    for name in failed:
        print(f"FAILED  {name}")
    return 1 if failed else 0


def main() -> int:
    """Run what the command line says."""
    reading = argparse.ArgumentParser(description="Format, lint, types, and the tests that are fast")
    reading.add_argument("--processes", type=int, default=PROCESSES_PER_CORE * (os.cpu_count() or 1))
    reading.add_argument("left_out", nargs="*", help="folders below tests that are not run")
    words = reading.parse_args()
    return check(steps(words.processes, words.left_out), words.processes)


if __name__ == "__main__":
    sys.exit(main())
