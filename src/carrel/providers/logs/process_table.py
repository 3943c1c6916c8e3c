"""The processes that were started here, each with its log, within limits."""

import os
import threading

from carrel.core.record import Value
from carrel.providers.logs.log import Kind, Log
from carrel.providers.logs.log_index import Shelf
from carrel.providers.logs.process import End, Process, Processes, Program, Stream

STOP_MARGIN_S = 5.0


class Limit(Value, frozen=True):
    """How many of a name may run at once: 0 where the name has no limit of its own and `key` is empty."""

    key: str
    most: int
    name: str


class Run:
    """A process and its log; takes what the process writes."""

    def __init__(self, name: str, log: Log, shelf: Shelf, timeout_s: float) -> None:
        self.name = name
        self.log = log
        self.id = log.facts.id
        self.process: Process
        self._shelf = shelf
        self._timeout_s = timeout_s

    @property
    def is_success(self) -> bool:
        """Whether it runs, or has ended well."""
        facts = self.log.facts
        return facts.is_running or (facts.state == "exited" and facts.exit_code == 0)

    def message(self) -> str:
        """Say what became of it."""
        facts = self.log.facts
        if facts.is_running:
            return f"running; its output is {facts.uri}"
        if facts.state == "timed-out":
            return f"timed out after {self._timeout_s:g} s"
        if facts.state == "not-started":
            return self.log.last_line()[1]
        return facts.ending

    # What the thread that follows processes calls

    def write(self, stream: Stream, data: bytes) -> None:
        """Keep what the process wrote."""
        if self.log.feed(stream, data):
            self._shelf.tell(self.log)

    def pause(self, stream: Stream) -> None:
        """Keep a line that has not ended."""
        if self.log.flush(stream):
            self._shelf.tell(self.log)

    def end(self, end: End, exit_code: int | None, reason: str) -> None:
        """Record what became of the process."""
        for stream in ("out", "err"):
            self.log.flush(stream, is_end=True)
        if end == "not-started":
            self.log.say(f"not started: {self.log.facts.program}: {reason}")
        self.log.end(end, exit_code)
        self._shelf.tell(self.log, is_end=True)


class Running:
    """Starts, finds and stops. Safe to use from several threads."""

    def __init__(self, shelf: Shelf, processes: Processes, most: int) -> None:
        self._shelf = shelf
        self._processes = processes
        self._most = most
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def start(self, kind: Kind, limit: Limit, program: Program) -> Run | str:
        """Start a program, or say which limit is reached."""
        with self._lock:
            self._forget()
            reached = self._reached(limit)
            if reached:
                return reached
            log = self._shelf.open(kind, limit.name, os.path.basename(program.argv[0]))
            run = Run(limit.name, log, self._shelf, program.timeout_s)
            self._runs[run.id] = run
            run.process = self._processes.start(program, run)
        return run

    def _reached(self, limit: Limit) -> str:
        """Say which limit a further process would pass, and what runs; empty if none."""
        running = [run for run in self._runs.values() if run.log.facts.is_running]
        same = [run.id for run in running if run.name == limit.name]
        if limit.key and len(same) >= limit.most:
            return _told(limit.key, limit.most, same)
        if max(len(running), self._processes.running()) >= self._most:
            return _told("[processes] max_running", self._most, [run.id for run in running])
        return ""

    def find(self, name: str) -> Run | None:
        """Give a process by its id."""
        with self._lock:
            return self._runs.get(name)

    def kept(self) -> list[Run]:
        """Give the processes that run, and those whose log is kept, newest first."""
        with self._lock:
            self._forget()
            return list(reversed(self._runs.values()))

    def stop(self, run: Run) -> None:
        """End a process with its group, and wait until it is gone."""
        self._processes.stop(run.process)
        run.process.wait(self._processes.grace_s + STOP_MARGIN_S)

    def cancel(self, run: Run) -> None:
        """End a process nobody waits for any more; does not wait."""
        self._processes.stop(run.process, "cancelled")

    def close(self) -> None:
        """End all processes with their groups."""
        self._processes.close()

    def _forget(self) -> None:
        for name, run in tuple(self._runs.items()):
            if not run.log.facts.is_running and not self._shelf.is_kept(run.log):
                del self._runs[name]


def _told(key: str, most: int, ids: list[str]) -> str:
    return f"Limit reached: {key} = {most}; running: {', '.join(ids) or 'none'}"
