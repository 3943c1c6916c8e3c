"""Whether the memory of a process stays flat, measured from outside while it is under load."""

from pathlib import Path
from time import monotonic
from typing import NamedTuple


class State(NamedTuple):
    """What must not grow."""

    kilobytes: int
    handles: int
    threads: int


def state_of(pid: int) -> State:
    """Look at a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines())
    handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return State(int(status["VmRSS"].split()[0]), handles, int(status["Threads"]))


class Flatness:
    """Samples of a process's resident memory, and the line through their second half.

    The first half is for what a process takes once: modules, pools, tables up to their bounds.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = monotonic()
        self._samples: list[tuple[float, int]] = []

    def look(self) -> None:
        """Take a sample."""
        self._samples.append((monotonic() - self._began, state_of(self._pid).kilobytes))

    @property
    def growth_kb(self) -> float:
        """How much it grew over the second half, by least squares."""
        half = self._second_half
        return self._slope * (half[-1][0] - half[0][0])

    @property
    def mb_an_hour(self) -> float:
        """The same, for an hour of this load."""
        return self._slope * 3_600 / 1_024

    @property
    def _second_half(self) -> list[tuple[float, int]]:
        return self._samples[len(self._samples) // 2 :]

    @property
    def _slope(self) -> float:
        """Kilobytes a second."""
        half = self._second_half
        middle_s = sum(at for at, _ in half) / len(half)
        middle_kb = sum(size for _, size in half) / len(half)
        spread = sum((at - middle_s) ** 2 for at, _ in half)
        return sum((at - middle_s) * (size - middle_kb) for at, size in half) / spread

    def __str__(self) -> str:
        told = " ".join(str(size) for _, size in self._samples[:: max(1, len(self._samples) // 20)])
        return f"{self.growth_kb:.0f} kB in the second half, {self.mb_an_hour:.2f} MB an hour; kB: {told}"
