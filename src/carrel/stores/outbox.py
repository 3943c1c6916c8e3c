"""The outbox: a table of changes, each written in the transaction that made it, and one signal for many changes.

NOTIFY locks the whole database while it commits, so one NOTIFY for each write would make all writers wait for each
other. A writer therefore only rings a bell in its process, and a thread sends one NOTIFY for all rings of a moment. If
the process dies before that, listeners find the changes at their next query: `changes_since` misses none.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Final

import psycopg

from carrel.core.record import Value
from carrel.stores.session import Row

PAUSE_S: Final = 0.01
"""Minimum time between two signals of one process."""
KEPT_HOURS: Final = 1
MAX_CHANGES: Final = 10_000
"""Maximum number of changes that one query returns; with more, everything counts as changed."""


class OutboxChanges(Value, frozen=True):
    """The changes since a token. With `is_all`, too many changed to name them; `token` is for the next query."""

    uris: tuple[tuple[str, str], ...]
    token: str
    is_all: bool = False

    def after(self, earlier: "OutboxChanges | None") -> "OutboxChanges":
        """Return these changes together with earlier ones."""
        if earlier is None:
            return self
        uris = tuple(dict.fromkeys((*earlier.uris, *self.uris)))
        is_all = self.is_all or earlier.is_all or len(uris) > MAX_CHANGES
        return OutboxChanges(() if is_all else uris, self.token, is_all)


def insert_changes(connection: psycopg.Connection[Row], changed: Iterable[tuple[str, str]]) -> None:
    """Write changes in the present transaction."""
    connection.cursor().executemany("INSERT INTO carrel_outbox (scheme, uri) VALUES (%s, %s)", list(changed))


def changes_since(connection: psycopg.Connection[Row], token: str) -> OutboxChanges:
    """Return the changes that were committed since a token; for an empty token, no changes and the first token.

    A token is a snapshot: the changes of every transaction that it did not see are returned, whenever that began.
    """
    if not token:
        [(now,)] = connection.execute("SELECT pg_current_snapshot()::text").fetchall()
        return OutboxChanges((), str(now))
    rows = connection.execute(
        """SELECT n.now::text, o.scheme, o.uri, EXISTS (
             SELECT 1 FROM carrel_outbox_pruned p WHERE p.xact >= pg_snapshot_xmin(n.token))
           FROM (SELECT pg_current_snapshot() AS now, CAST(%s AS pg_snapshot) AS token) n
           LEFT JOIN LATERAL (
             SELECT DISTINCT scheme, uri FROM carrel_outbox
             WHERE xact >= pg_snapshot_xmin(n.token) AND NOT pg_visible_in_snapshot(xact, n.token)
             LIMIT %s) o ON true""",
        (token, MAX_CHANGES + 1),
    ).fetchall()
    now, is_pruned = str(rows[0][0]), bool(rows[0][3])
    if is_pruned or len(rows) > MAX_CHANGES:
        return OutboxChanges((), now, is_all=True)
    return OutboxChanges(tuple((scheme, uri) for _, scheme, uri, _ in rows if scheme is not None), now)


def prune(connection: psycopg.Connection[Row], hours: float = KEPT_HOURS) -> int:
    """Remove old changes and remember the newest removed one; return their number. Listeners query far more often."""
    row = connection.execute(
        """WITH gone AS (DELETE FROM carrel_outbox WHERE written_at < now() - %s * interval '1 hour' RETURNING xact),
           noted AS (UPDATE carrel_outbox_pruned p SET xact = newest.xact
             FROM (SELECT xact FROM gone ORDER BY xact DESC LIMIT 1) newest WHERE newest.xact > p.xact)
           SELECT count(*) FROM gone""",
        (hours,),
    ).fetchone()
    return 0 if row is None else int(row[0])


class ChangeBell:
    """Calls `signal` soon after it was rung, once for many rings, in a thread that starts with the first ring."""

    def __init__(self, signal: Callable[[], None], pause_s: float = PAUSE_S) -> None:
        self._signal = signal
        self._pause_s = pause_s
        self._rung = threading.Event()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_due = False

    def ring(self) -> None:
        """Ask for a signal."""
        self._is_due = True
        self._rung.set()
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._end.is_set():
                self._thread = threading.Thread(target=self._run, name="carrel-bell", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Send the last signal, if one is due, and end the thread."""
        with self._lock:
            self._end.set()
        self._rung.set()
        if self._thread is not None:
            self._thread.join(2.0)

    def _run(self) -> None:
        while True:
            self._rung.wait()
            is_last = self._end.is_set()
            self._rung.clear()
            if self._is_due:
                self._is_due = False
                self._signal()
            if is_last:
                return
            self._end.wait(self._pause_s)
