"""The measuring: servers of one kind are started together and loaded in turn, round by round.

So a noisy neighbour disturbs all alike. Servers that wait for their turn do nothing.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bench.contenders import Contender, Start, Transport
from bench.load import Peer
from bench.messages import Era, PeerError, discover, initialize, message
from bench.pinning import one_core
from bench.server import Run
from bench.web import WebPeer, free_port
from bench.works import WORKS, Setup, Subject

Cores = Literal["one", "all"]

START: Final = "start"
RESIDENT: Final = "resident"
ECHO: Final = "echo"
WARM_UP_S: Final = 0.05
PADDING: Final = 1_024


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One row of the table: what is measured, and how."""

    transport: Transport
    era: Era
    cores: Cores
    work: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """What the rounds of one contender gave: the time of one answer in microseconds (or MiB), with its quartiles."""

    samples: tuple[float, ...]
    server_us: float = 0.0
    client_us: float = 0.0

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """What a quarter of the rounds is below, and what a quarter is above."""
        if len(self.samples) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high


@dataclass(slots=True)
class Results:
    """All that was measured, and what could not be."""

    cells: dict[Cell, dict[str, Summary]] = field(default_factory=dict)
    missing: dict[Cell, dict[str, str]] = field(default_factory=dict)

    def add(self, cell: Cell, name: str, summary: Summary) -> None:
        """Keep what a contender gave."""
        self.cells.setdefault(cell, {})[name] = summary

    def is_able(self, contender: Contender, *cells: Cell) -> bool:
        """Return whether a contender can do this; if it cannot, keep why."""
        reasons = {cell: contender.reason(cell.transport, cell.era, cell.work) for cell in cells}
        for cell, reason in reasons.items():
            if reason is not None:
                self.missing.setdefault(cell, {})[contender.name] = reason
        return not any(reasons.values())


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done for each number."""

    rounds: int
    seconds: float
    starts: int


def pinned(cores: Cores) -> AbstractContextManager[object]:
    """Keep this process, and what it starts, on one core, or do not."""
    return one_core() if cores == "one" else nullcontext()


def start(contender: Contender, setup: Setup, transport: Transport, folder: Path) -> Peer | WebPeer:
    """Start a server."""
    if transport == "stdio":
        return Peer(contender.command(Start(setup, folder, 0)), folder)
    port = free_port()
    return WebPeer(contender.command(Start(setup, folder, port)), folder, port)


class Opening(NamedTuple):
    """A start: the time to the first answer, what processor time the server took for it, and its weight then."""

    took_us: float
    cpu_us: float
    resident_mib: float


@dataclass(frozen=True, slots=True)
class Runner:
    """One contender, ready to be loaded with one work."""

    cell: Cell
    name: str
    peer: Peer | WebPeer
    pool: Sequence[bytes]
    runs: list[Run] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Do one round."""
        self.runs.append(self.peer.load(self.pool, seconds, self.cell.depth, whole=WORKS[self.cell.work].whole))

    def summary(self) -> Summary:
        """Return what the rounds gave; of a list, the time of the whole list."""
        per = len(self.pool) if WORKS[self.cell.work].whole else 1
        answers = sum(run.answers for run in self.runs)
        return Summary(
            tuple(per * 1e6 / run.rate for run in self.runs),
            per * sum(run.server_s for run in self.runs) / answers * 1e6,
            per * sum(run.client_s for run in self.runs) / answers * 1e6,
        )


def measure_works(
    cells: Sequence[Cell],
    table: Mapping[str, Contender],
    effort: Effort,
    folder: Path,
    results: Results,
    tell: Callable[[str], None],
) -> None:
    """Measure all cells, those with the same servers together."""
    groups: dict[tuple[Cores, Transport, Era, Setup], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.cores, cell.transport, cell.era, WORKS[cell.work].setup), []).append(cell)
    for (cores, transport, era, setup), members in groups.items():
        began = time.monotonic()
        with pinned(cores), ExitStack() as stack:
            runners = prepare(stack, members, setup, table, folder, results)
            for _ in range(effort.rounds):
                for runner in runners:
                    runner.run(effort.seconds)
        for runner in runners:
            results.add(runner.cell, runner.name, runner.summary())
        took = time.monotonic() - began
        tell(f"{transport}, {era}, {cores} core(s), {setup}: {len(runners)} numbers in {took:.1f} s")


def prepare(
    stack: ExitStack,
    cells: Sequence[Cell],
    setup: Setup,
    table: Mapping[str, Contender],
    folder: Path,
    results: Results,
) -> list[Runner]:
    """Start everyone who can do any of this, check their answers, and return who is loaded with what, in turn."""
    runners = []
    for contender in table.values():
        able = [cell for cell in cells if results.is_able(contender, cell)]
        if not able:
            continue
        peer = start(contender, setup, able[0].transport, folder)
        stack.callback(peer.close)
        peer.open(able[0].era)
        subject = Subject(peer, able[0].era, contender.spelling, folder, contender.by_the_book)
        for cell in able:
            try:
                pool = peer.spell(WORKS[cell.work].prepare(subject))
            except PeerError as error:
                raise PeerError(f"{contender.name}, {cell}: {error}") from error
            peer.load(pool, WARM_UP_S, cell.depth)
            runners.append(Runner(cell, contender.name, peer, pool))
    order = {cell: number for number, cell in enumerate(cells)}
    return sorted(runners, key=lambda runner: order[runner.cell])


def measure_starts(
    ways: Sequence[tuple[Transport, Era]],
    table: Mapping[str, Contender],
    effort: Effort,
    folder: Path,
    results: Results,
) -> None:
    """Start everyone in turn: the time to the first answer, and the weight then. The first round does not count."""
    questions = {"modern": discover(), "legacy": initialize()}
    for transport, era in ways:
        timed, weighed = Cell(transport, era, "one", START), Cell(transport, era, "one", RESIDENT)
        able = {name: one for name, one in table.items() if results.is_able(one, timed, weighed)}
        samples: dict[str, list[Opening]] = {name: [] for name in able}
        with pinned("one"):
            for _ in range(effort.starts + 1):
                for name, contender in able.items():
                    samples[name].append(first_answer(contender, transport, questions[era], folder))
        for name, taken in samples.items():
            took_us, cpu_us, mib = zip(*taken[1:], strict=True)
            results.add(timed, name, Summary(took_us, statistics.median(cpu_us)))
            results.add(weighed, name, Summary(mib))


def first_answer(contender: Contender, transport: Transport, question: bytes, folder: Path) -> Opening:
    """Start a server and wait for its first answer."""
    started = time.perf_counter()
    with start(contender, "files", transport, folder) as peer:
        peer.ask_result(question)
        took = time.perf_counter() - started
        return Opening(took * 1e6, peer.process.cpu_s() * 1e6, peer.process.resident_kib() / 1_024)


def measure_echo(effort: Effort, folder: Path, results: Results) -> None:
    """Load `cat` with lines as long as the answer to a small read: the client, two pipes and the scheduler."""
    pool = tuple(message("echo", {"pad": "x" * PADDING}, number) for number in range(100))
    cores: tuple[Cores, ...] = ("one", "all")
    for core in cores:
        with pinned(core), Peer(("cat",), folder) as peer:
            for depth in (1, 32):
                runs = [peer.load(pool, effort.seconds, depth) for _ in range(effort.rounds)]
                client_us = statistics.median(run.client_us for run in runs)
                server_us = statistics.median(run.cpu_us for run in runs)
                cell = Cell("stdio", "modern", core, ECHO, depth)
                results.add(cell, "cat", Summary(tuple(1e6 / run.rate for run in runs), server_us, client_us))
