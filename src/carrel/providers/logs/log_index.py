"""All logs: those of this server's processes in memory, and those of `carrel run` and of other machines on disk."""

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import time_ns
from typing import Final

from carrel.core.provider import Changes
from carrel.core.record import replace
from carrel.providers.logs import spool
from carrel.providers.logs.log import KINDS, Kind, Log, LogFacts
from carrel.providers.logs.ring import LogEntry
from carrel.providers.logs.spooled_log import SpoolBounds, SpooledLog, ended_facts, is_reporting
from carrel.providers.logs.uris import ID

READ_BACK: Final = 8
"""Maximum number of logs on disk that are kept in memory, so that only added lines are read for a polling client."""
MAX_SPOOLED: Final = 256
"""Maximum number of listed logs on disk of one kind, the newest: a hostile folder may have any number of files."""
POLL_S: Final = 0.2
_TRIES: Final = 3

Snapshot = tuple[LogFacts, tuple[LogEntry, ...]]
States = dict[tuple[Kind, str], spool.Token | None]


class LogIndex:
    """All logs. Safe to use from several threads."""

    def __init__(self, root: str, bounds: SpoolBounds, max_logs: int) -> None:
        self._root = root
        self._bounds = bounds
        self._max_logs = max_logs
        self._lock = threading.Lock()
        self._logs: dict[tuple[Kind, str], Log] = {}
        self._read_back: OrderedDict[tuple[Kind, str], SpooledLog] = OrderedDict()
        self._ended: dict[tuple[Kind, str], tuple[spool.Token | None, LogFacts]] = {}
        self._listeners: list[Changes] = []

    # Logs of this server's processes

    def open(self, kind: Kind, name: str, program: str) -> Log:
        """Begin a log; drop the oldest ended logs if there are too many."""
        with self._lock:
            number = time_ns() // 1_000
            while any((one, f"{name}_{number}") in self._logs for one in KINDS):
                number += 1
            log = Log(kind, f"{name}_{number}", program, self._bounds.own, number // 1_000)
            ended = [key for key, one in self._logs.items() if not one.facts.is_running]
            gone = ended[: max(0, len(self._logs) + 1 - self._max_logs)]
            for key in gone:
                del self._logs[key]
            self._logs[kind, log.facts.id] = log
        for listener in tuple(self._listeners):
            for one, its_id in gone:
                listener.updated(f"logs://{one}/{its_id}")
                listener.updated(f"logs://{one}")
            listener.updated(f"logs://{kind}")
            listener.list_changed()
        return log

    def is_kept(self, log: Log) -> bool:
        """Return whether a log is still kept."""
        facts = log.facts
        return self._logs.get((facts.kind, facts.id)) is log

    def report(self, log: Log, *, is_end: bool = False) -> None:
        """Report that a log changed; if it ended, its folder too."""
        for listener in tuple(self._listeners):
            listener.updated(log.facts.uri)
            if is_end:
                listener.updated(f"logs://{log.facts.kind}")

    # All logs

    def facts(self, kind: Kind | None = None) -> list[LogFacts]:
        """Return the facts of every log, in the order of their URIs."""
        with self._lock:
            logs = tuple(self._logs.values())
        known = {facts.uri: facts for facts in self._spooled(kind)}
        known.update((facts.uri, facts) for facts in (log.facts for log in logs) if kind in (None, facts.kind))
        return [known[uri] for uri in sorted(known)]

    def survey(self) -> str:
        """Return a token that changes when a log appears or disappears."""
        own = {f"{kind}/{name}" for kind, name in tuple(self._logs)}
        return " ".join(sorted(own.union(f"{kind}/{name}" for kind in KINDS for name in self._names(kind))))

    def snapshot(self, kind: Kind, name: str) -> Snapshot | None:
        """Return the facts and entries of a log at this moment, or None."""
        log = self._logs.get((kind, name))
        if log is not None:
            return log.snapshot()
        with self._lock:
            reading = self._read(kind, name)
            return None if reading is None else (reading.facts, tuple(reading.ring.entries))

    def _spooled(self, kind: Kind | None) -> Iterator[LogFacts]:
        for one in KINDS if kind is None else (kind,):
            for name in self._names(one):
                with self._lock:
                    facts = self._spooled_facts(one, name)
                if facts is not None:
                    yield facts

    def _spooled_facts(self, kind: Kind, name: str) -> LogFacts | None:
        """Return the facts of a log on disk; an ended log is read once."""
        token = spool.token(self._root, kind, name)
        known = self._ended.get((kind, name))
        if known is not None and known[0] == token:
            return known[1]
        facts = self._facts_on_disk(kind, name)
        if facts is None or facts.is_running:
            self._ended.pop((kind, name), None)
        else:
            self._ended[kind, name] = (token, facts)
        return facts

    def _facts_on_disk(self, kind: Kind, name: str) -> LogFacts | None:
        """Return the facts of a log on disk; its lines are read only if the file does not contain their counts."""
        with contextlib.suppress(OSError), spool.opened(self._root, kind) as folder:
            with spool.file(folder, name + spool.SUFFIX) as descriptor:
                counted = ended_facts(descriptor, kind, name)
            if counted is not None:
                return counted
        reading = self._read(kind, name)
        return None if reading is None else reading.facts

    def _names(self, kind: Kind) -> list[str]:
        try:
            with spool.opened(self._root, kind) as folder:
                names = os.listdir(folder)
        except OSError:
            return []
        bare = (name.removesuffix(spool.SUFFIX) for name in names if name.endswith(spool.SUFFIX))
        return sorted((name for name in bare if ID.fullmatch(name)), key=_started)[-MAX_SPOOLED:]

    def _read(self, kind: Kind, name: str) -> SpooledLog | None:
        """Read a log on disk up to its present end; a file that was replaced meanwhile is read again."""
        key = (kind, name)
        reading = self._read_back.pop(key, None) or SpooledLog(kind, name, self._bounds)
        is_running = False
        for _ in range(_TRIES):
            try:
                with spool.opened(self._root, kind) as folder, spool.file(folder, name + spool.SUFFIX) as descriptor:
                    is_running = spool.is_locked(descriptor)
                    reading.update(descriptor)
                    if reading.facts.origin is not None:
                        is_running = is_reporting(os.fstat(descriptor).st_mtime)
                    now = os.stat(name + spool.SUFFIX, dir_fd=folder, follow_symlinks=False)
            except OSError:
                return None
            if is_running or reading.has_end or now.st_ino == reading.inode:
                break
        if not reading.is_log:
            return None
        if not reading.has_end:
            reading.facts = replace(reading.facts, state="running" if is_running else "lost")
        self._read_back[key] = reading
        while len(self._read_back) > READ_BACK:
            self._read_back.popitem(last=False)
        return reading

    # Watching

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report changes until stopped: of logs in memory as they happen, of logs on disk by polling."""
        stop = threading.Event()
        with self._lock:
            self._listeners.append(changes)
        # Taken before the thread runs, so that it also reports changes from now on.
        news = self._news()
        known = self._states()
        thread = threading.Thread(
            target=self._look, args=(known, news, changes, stop), name="carrel-spool", daemon=True
        )
        thread.start()

        def end() -> None:
            stop.set()
            self._wake()
            with self._lock, contextlib.suppress(ValueError):
                self._listeners.remove(changes)
            thread.join(5)

        return end

    def _look(self, before: States, news: int, changes: Changes, stop: threading.Event) -> None:
        while not self._wait(stop, news):
            news = self._news()  # before the look, so that a change during it leads to another look
            now = self._states()
            for kind, name in before.keys() | now.keys():
                if before.get((kind, name)) != now.get((kind, name)):
                    changes.updated(f"logs://{kind}/{name}")
                    changes.updated(f"logs://{kind}")
            if before.keys() != now.keys():
                changes.list_changed()
            before = now

    def _news(self) -> int:
        """Return how many changes this process was notified of; always 0 for logs on disk, which are polled."""
        return 0

    def _wait(self, stop: threading.Event, known: int) -> bool:
        """Wait until it is time to look again; return whether to stop instead.

        `known` is the number of notified changes before the last look.
        """
        del known
        return stop.wait(POLL_S)

    def _wake(self) -> None:
        """End the waits whose `stop` is set; nothing to do where `stop` itself is waited for."""

    def _states(self) -> States:
        """Return a token for each log on disk that changes with its content."""
        return {(kind, name): spool.token(self._root, kind, name) for kind in KINDS for name in self._names(kind)}


def _started(name: str) -> tuple[int, str]:
    """Return the start in microseconds that an id names, or 0, and the id."""
    number = name.rpartition("_")[2]
    return (int(number[:18]) if number.isascii() and number.isdigit() else 0), name
