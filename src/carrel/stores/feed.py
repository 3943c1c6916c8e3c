"""Receive the changes that other servers write to the store. A lost connection loses no change.

One thread waits for signals. A signal has no content: the changes since the last token are read from the outbox. So a
signal that is lost with its connection only delays the changes.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

import psycopg

from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.stores.database import Database
from carrel.stores.outbox import PAUSE_S, OutboxChanges, changes_since
from carrel.stores.session import Row
from carrel.stores.store_errors import StoreUnavailable

LOOK_S: Final = 2.0
"""How often the outbox is read without a signal: a writer may have died before it sent one."""
RETRY_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
LAG_S: Final = 1.0
"""How long a notification may wait here before it is sent: see `old_token`."""

Heard = Callable[[OutboxChanges], None]


class ChangeFeed:
    """Calls listeners with the changes of all servers. The thread runs from `start` on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: list[Heard] = []
        self._overdue: list[Callable[[], None]] = []
        self._end = threading.Event()
        self._first = threading.Event()
        self._unheard: dict[Heard, OutboxChanges] = {}
        self._tokens: deque[tuple[float, str]] = deque(maxlen=256)
        self._token = ""
        self._signalled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="carrel-feed", daemon=True)

    def start(self) -> None:
        """Begin to listen: every change from now on is heard, also one before the thread has connected.

        Raise ConfigError if there is a bus that cannot be used.
        """
        if self._database.bus is not None:
            self._database.bus.listen(self._signalled.set)  # first: then a start fails that may not subscribe
            self._database.bus.start()
        with suppress(StoreUnavailable), self._database.connection() as connection:
            self._token = changes_since(connection, "").token
        self._thread.start()

    def add(self, heard: Heard) -> None:
        """Register a function that is called with all later changes, on the thread of the feed.

        If it raises `StoreUnavailable`, the next look calls it with these changes again.
        """
        self._listeners.append(heard)

    def add_overdue(self, action: Callable[[], None]) -> None:
        """Register a function that is called after each look, when the store answers: for what failed without it.

        It may raise `StoreUnavailable`.
        """
        self._overdue.append(action)

    def wait(self, seconds: float) -> bool:
        """Wait until the feed listens for the first time; return False after a timeout."""
        return self._first.wait(seconds)

    def old_token(self) -> str:
        """Return a token from `LAG_S` ago: every change before it was sent to the clients of this server."""
        latest = monotonic() - LAG_S
        return next((token for at, token in reversed(self._tokens) if at <= latest), "")

    def close(self) -> None:
        """Stop listening."""
        self._end.set()
        self._signalled.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _run(self) -> None:
        failures = 0
        while not self._end.is_set():
            try:
                if self._database.bus is None:
                    with self._database.dedicated() as connection:
                        connection.execute("LISTEN carrel_changes")
                        self._look(connection)
                        self._first.set()
                        failures = 0
                        self._follow(connection)
                else:
                    self._look_on_signal()
                    failures = 0
            except (StoreUnavailable, psycopg.Error):
                self._end.wait(RETRY_S[min(failures, len(RETRY_S) - 1)])
                failures += 1

    def _follow(self, connection: psycopg.Connection[Row]) -> None:
        """Read the changes at every signal, and now and then without one."""
        while not self._end.is_set():
            until = monotonic() + LOOK_S
            while not self._end.is_set() and monotonic() < until:
                if list(connection.notifies(timeout=0.25, stop_after=1)):
                    break
            self._look(connection)

    def _look_on_signal(self) -> None:
        """Read what changed, with any connection, and wait for the next signal of the bus."""
        self._signalled.clear()
        with self._database.connection() as connection:
            self._look(connection)
        self._first.set()
        self._end.wait(PAUSE_S)  # one look for the signals of many writers
        self._signalled.wait(LOOK_S)

    def _look(self, connection: psycopg.Connection[Row]) -> None:
        changes = changes_since(connection, self._token)
        self._token = changes.token
        self._tokens.append((monotonic(), changes.token))
        self._database.note(changes)
        for heard in tuple(self._listeners):
            self._tell(heard, changes)
        for action in tuple(self._overdue):
            with suppress(CarrelError):  # the next look calls it again
                attempt("a look at the store", action)

    def _tell(self, heard: Heard, changes: OutboxChanges) -> None:
        """Call a listener with the changes, if there are any, and with those that it could not take before."""
        due = changes.after(self._unheard.pop(heard, None))
        if due.uris or due.is_all:
            try:
                attempt("changes of the store", heard, due)
            except StoreUnavailable:
                self._unheard[heard] = due
            except CarrelError:
                pass  # its traceback is in the log
