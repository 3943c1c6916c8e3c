"""`carrel serve --http --workers N`: several processes serve on one socket, and a small one keeps them alive.

The supervisor has no threads and opens nothing but the socket, so that it can fork at any time. A worker continues in
the code that called `Supervisor.run`, as one server would. What all workers share is inherited: the socket, and the key
of browser visits. Everything else they share through the team's store, like replicas on several machines.
"""

import contextlib
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Final

from carrel.app.config import Config
from carrel.cli import exit_codes
from carrel.core.errors import ConfigError
from carrel.core.limits import FORCED_END_S
from carrel.transports.http.shared_visits import SharedVisits

if TYPE_CHECKING:
    from carrel.app.app import Desk

log = logging.getLogger(__name__)

MAX_WORKERS: Final = 64
PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long to wait before a worker is started again, by the number of short-lived ones in a row."""
STEADY_S: Final = 10.0
"""A worker that served for this long does not count as short-lived."""
MAX_SHORT_LIVES: Final = 5
"""If no worker serves, and each place had this many short-lived ones in a row, the server ends."""
_LATE_S: Final = FORCED_END_S + 2.0
"""After this time, a worker that does not end is killed."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class Worker:
    """This process is one of several. `is_first` is true for the first process that was ever started."""

    def __init__(
        self, listening: socket.socket, visits: SharedVisits, lifeline: int, ready: int, *, is_first: bool
    ) -> None:
        self.listening = listening
        self.visits = visits
        self.is_first = is_first
        self._lifeline = lifeline
        self._ready = ready

    def follow(self) -> None:
        """End this process as a signal would, when the supervisor is gone."""
        threading.Thread(target=self._wait, name="carrel-lifeline", daemon=True).start()

    def _wait(self) -> None:
        os.read(self._lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def refuse_processes(self, desk: "Desk") -> None:
        """Raise ConfigError if tools start processes: the log of such a process is in the memory of one worker."""
        if any(one.provider.name == "logs" and one.provider.tools() for one in desk.catalog.mounted):
            raise ConfigError(
                "--workers: a process that a tool starts has its log in one worker, and the others cannot read it: use "
                "`carrel run` and turn the tools off (--set flutter.tools=off, no [commands]), or leave out --workers"
            )

    def report_ready(self) -> None:
        """Tell the supervisor that this process serves."""
        with contextlib.suppress(OSError):  # a supervisor that is gone has closed it
            os.write(self._ready, b"1")


class _WorkerPlace:
    """A place for one worker: its process, and how many earlier ones died soon after their start."""

    def __init__(self) -> None:
        self.pid = 0
        self.ready = -1
        self.serves_since: float | None = None
        self.short_lives = 0
        self.due = 0.0

    def leave(self) -> None:
        """Note that the process has ended, and when to start the next one."""
        is_steady = self.serves_since is not None and monotonic() - self.serves_since >= STEADY_S
        self.short_lives = 0 if is_steady else self.short_lives + 1
        self.due = monotonic() + PAUSES_S[min(self.short_lives, len(PAUSES_S) - 1)]
        os.close(self.ready)
        self.pid, self.ready, self.serves_since = 0, -1, None


class Supervisor:
    """Starts workers, starts them again when they die, and ends them. Used on the main thread of a lone process."""

    def __init__(self, count: int, listening: socket.socket, visits: SharedVisits) -> None:
        self._listening = listening
        self._visits = visits
        self._places = [_WorkerPlace() for _ in range(count)]
        self._lifeline, self._life = os.pipe()
        self._signals_read, self._signals_write = os.pipe()
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._has_served = False
        self._is_ending = False
        self._last_code = exit_codes.FAILED
        self.code = exit_codes.DONE
        """The exit code, once `run` has returned None."""

    def run(self) -> Worker | None:
        """Return what a worker needs, in each worker; in the supervisor, return None when all have ended."""
        for end in (self._signals_read, self._signals_write):
            os.set_blocking(end, False)
        self._before = {number: signal.signal(number, _ignore) for number in _SIGNALS}
        signal.set_wakeup_fd(self._signals_write, warn_on_full_buffer=False)
        try:
            for signals in self._events():
                worker = self._start_due()
                if worker is not None:
                    return worker
                if not signals.isdisjoint({signal.SIGTERM, signal.SIGINT}) or self._has_failed():
                    break
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        self._end(signal.SIGTERM)
        return None

    def _events(self) -> Iterator[set[int]]:
        """Yield the signals that came, whenever something happened or a start is due; collect what has ended."""
        signals: set[int] = set()
        while True:
            self._collect()
            yield signals
            waiting = [place.due for place in self._places if not place.pid] if self._has_served else []
            pause = max(0.0, min(waiting) - monotonic()) if waiting else None
            readies = {place.ready: place for place in self._places if place.pid and place.serves_since is None}
            found, _, _ = select.select([self._signals_read, *readies], [], [], pause)
            signals = set()
            for one in found:
                if one == self._signals_read:
                    signals = set(os.read(self._signals_read, 64))
                elif os.read(one, 1):
                    readies[one].serves_since, self._has_served = monotonic(), True
                    log.debug("worker %d serves", readies[one].pid)

    def _collect(self) -> None:
        """Note which workers have ended."""
        for place in self._places:
            if not place.pid:
                continue
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if not pid:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._last_code = code if code > 0 else exit_codes.FAILED
            place.leave()
            if self._has_served and not self._is_ending:
                how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
                log.warning("carrel: worker %d ended with %s; another one is started", pid, how)

    def _has_failed(self) -> bool:
        """Return whether to give up: the first worker could not start, or none of them stays alive."""
        if any(place.pid for place in self._places):
            return False
        least = MAX_SHORT_LIVES if self._has_served else 1
        has_failed = all(place.short_lives >= least for place in self._places[: None if self._has_served else 1])
        if has_failed:
            self.code = self._last_code
            if self._has_served:
                log.error("carrel: no worker stays alive; see the messages above, and start the server again")
        return has_failed

    def _start_due(self) -> Worker | None:
        """Start what is due, in the beginning one worker alone; return what a worker needs, in the worker."""
        for place in self._places if self._has_served else self._places[:1]:
            if not place.pid and place.due <= monotonic() and (self._has_served or not place.short_lives):
                worker = self._start(place)
                if worker is not None:
                    return worker
        return None

    def _start(self, place: _WorkerPlace) -> Worker | None:
        place.ready, ready_end = os.pipe()
        # A signal must not reach a worker before it has its own handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            place.pid = os.fork()
            if not place.pid:
                self._become_worker()
                worker = Worker(self._listening, self._visits, self._lifeline, ready_end, is_first=not self._has_served)
                worker.follow()
                return worker
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(ready_end)
        return None

    def _become_worker(self) -> None:
        """Restore the signals in a worker, and close the descriptors of the supervisor."""
        signal.set_wakeup_fd(-1)
        for number, action in self._before.items():
            signal.signal(number, action)
        for end in (
            self._life,
            self._signals_read,
            self._signals_write,
            *(one.ready for one in self._places if one.ready >= 0),
        ):
            os.close(end)

    def _end(self, how: signal.Signals) -> None:
        """End all workers; kill those that take too long."""
        self._is_ending = True
        self._listening.close()  # so that new connections are refused and do not wait
        self._send(how)
        until = monotonic() + _LATE_S
        while any(place.pid for place in self._places):
            if monotonic() > until:
                self._send(signal.SIGKILL)
            select.select([self._signals_read], [], [], 0.1)
            with contextlib.suppress(BlockingIOError):
                os.read(self._signals_read, 64)
            self._collect()

    def _send(self, how: signal.Signals) -> None:
        for place in self._places:
            if place.pid:
                os.kill(place.pid, how)  # it is a zombie at worst: only `_collect` waits for it


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal is read from the pipe."""


def start_workers(listening: socket.socket, count: int) -> Worker | int:
    """Return what this process needs, in each worker; in the supervisor, the exit code when all have ended."""
    supervisor = Supervisor(count, listening, SharedVisits(listening.getsockname()[1]))
    worker = supervisor.run()
    return supervisor.code if worker is None else worker


def refuse_unshared(config: Config) -> None:
    """Raise ConfigError if the workers of a server would have nothing to share sessions and changes through."""
    if config.store() is None:
        raise ConfigError(
            "--workers needs a store, through which the workers share sessions and changes: set [store] url or "
            "CARREL_STORE_URL to a Postgres, or leave out --workers"
        )
