"""The processes that this server started, each with its log, within limits."""

import os
import threading

from carrel.core.errors import CarrelError
from carrel.core.record import Value
from carrel.providers.logs.log import STREAMS, Kind, Log
from carrel.providers.logs.log_index import LogIndex
from carrel.providers.logs.process import End, Launch, Process, Processes
from carrel.providers.logs.ring import Stream

STOP_MARGIN_S = 5.0


class Limit(Value, frozen=True):
    """How many processes of a name may run at once; without a `key` the name has no limit."""

    key: str
    most: int
    name: str


class LimitReached(CarrelError):
    """A limit for running processes is reached; the message names the limit and the processes."""

    def __init__(self, key: str, most: int, running: list["Run"]) -> None:
        super().__init__(f"Limit reached: {key} = {most}; running: {', '.join(run.id for run in running) or 'none'}")


class Run:
    """A process and its log. It receives the output of the process."""

    def __init__(self, name: str, log: Log, index: LogIndex, timeout_s: float) -> None:
        self.name = name
        self.log = log
        self.id = log.facts.id
        self.process: Process
        self._index = index
        self._timeout_s = timeout_s

    @property
    def is_success(self) -> bool:
        """Whether it runs, or exited with 0."""
        facts = self.log.facts
        return facts.is_running or (facts.state == "exited" and facts.exit_code == 0)

    def message(self) -> str:
        """Return its state in words."""
        facts = self.log.facts
        if facts.is_running:
            return f"running; its output is {facts.uri}"
        if facts.state == "timed-out":
            return f"timed out after {self._timeout_s:g} s"
        return self.log.last_line()[1] if facts.state == "not-started" else facts.ending

    # Called by the thread that follows processes

    def write(self, stream: Stream, data: bytes) -> None:
        """Log what the process wrote."""
        if self.log.feed(stream, data):
            self._index.report(self.log)

    def pause(self, stream: Stream) -> None:
        """Log an unfinished line."""
        if self.log.flush(stream):
            self._index.report(self.log)

    def end(self, end: End, exit_code: int | None, reason: str) -> None:
        """Record the end of the process."""
        for stream in STREAMS:
            self.log.flush(stream, is_end=True)
        if end == "not-started":
            self.log.say(f"not started: {self.log.facts.program}: {reason}")
        self.log.end(end, exit_code)
        self._index.report(self.log, is_end=True)


class ProcessTable:
    """Starts, finds and stops processes. Safe to use from several threads."""

    def __init__(self, index: LogIndex, processes: Processes, most: int) -> None:
        self._index = index
        self._processes = processes
        self._most = most
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def start(self, kind: Kind, limit: Limit, launch: Launch) -> Run:
        """Start a process, or raise `LimitReached`."""
        with self._lock:
            self._forget()
            self._check(limit)
            log = self._index.open(kind, limit.name, os.path.basename(launch.argv[0]))
            run = Run(limit.name, log, self._index, launch.timeout_s)
            self._runs[run.id] = run
            run.process = self._processes.start(launch, run)
        return run

    def _check(self, limit: Limit) -> None:
        running = [run for run in self._runs.values() if run.log.facts.is_running]
        same = [run for run in running if run.name == limit.name]
        if limit.key and len(same) >= limit.most:
            raise LimitReached(limit.key, limit.most, same)
        if max(len(running), self._processes.running()) >= self._most:
            raise LimitReached("[processes] max_running", self._most, running)

    def find(self, name: str) -> Run | None:
        """Return the process with this id."""
        with self._lock:
            return self._runs.get(name)

    def kept(self) -> list[Run]:
        """Return the running processes and those whose log is kept, newest first."""
        with self._lock:
            self._forget()
            return list(reversed(self._runs.values()))

    def stop(self, run: Run) -> None:
        """End a process with its group, and wait until it is gone."""
        self._processes.stop(run.process)
        run.process.wait(self._processes.grace_s + STOP_MARGIN_S)

    def cancel(self, run: Run) -> None:
        """End a process with its group, without waiting."""
        self._processes.stop(run.process, "cancelled")

    def close(self) -> None:
        """End all processes with their groups."""
        self._processes.close()

    def _forget(self) -> None:
        for name, run in tuple(self._runs.items()):
            if not run.log.facts.is_running and not self._index.is_kept(run.log):
                del self._runs[name]
