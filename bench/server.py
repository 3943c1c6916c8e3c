"""A server under measurement: a child process, what it weighs, what processor time it took, and its end."""

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Never

from bench.messages import PeerError

ROOT: Final = Path(__file__).resolve().parent.parent
PATIENCE_S: Final = 60.0
"""A server that hangs is killed after this; a reader then sees the end."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of load gave."""

    answers: int
    seconds: float
    server_s: float
    client_s: float

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds

    @property
    def cpu_us(self) -> float:
        """Processor time that the server itself took for one answer, in microseconds."""
        return self.server_s / self.answers * 1e6

    @property
    def client_us(self) -> float:
        """Processor time that this client took for one answer, in microseconds."""
        return self.client_s / self.answers * 1e6


class Process:
    """The child process of one server; `HOME` is the folder it works in."""

    def __init__(self, command: Sequence[str], folder: Path, *, has_pipes: bool) -> None:
        # Compiled files are kept, as for users: else every start would compile all modules anew.
        kept = {"PYTHONDONTWRITEBYTECODE": ""}
        environment = os.environ | {"HOME": str(folder), "PYTHONPATH": str(ROOT)} | kept
        streams = subprocess.PIPE if has_pipes else subprocess.DEVNULL
        self._told = os.memfd_create("stderr")
        self.child = subprocess.Popen(
            command, stdin=streams, stdout=streams, stderr=self._told, bufsize=0, cwd=folder, env=environment
        )

    def resident_kib(self) -> int:
        """Return the resident memory now."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def cpu_s(self) -> float:
        """Return the processor time of all its threads so far."""
        threads = Path(f"/proc/{self.child.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9

    def gone(self) -> Never:
        """Say that it is not there any more, and what it said last."""
        told = os.pread(self._told, 2_000, max(0, os.fstat(self._told).st_size - 2_000)).decode(errors="replace")
        raise PeerError(f"the server ended, or was ended after {PATIENCE_S:.0f} s without an answer; it said: {told}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have it killed if what is done here takes too long."""
        watchdog = threading.Timer(PATIENCE_S, self.child.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()

    def wait(self, *, politely: bool) -> None:
        """Wait for its end; kill what does not go."""
        if not politely:
            self.child.terminate()
        try:
            self.child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        os.close(self._told)
