"""Legacy sessions: opened by `initialize`, until they are ended, idle for too long or removed for newer ones.

Ids are 128 random bits and work only for the caller that opened the session, with the same rights.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from carrel.catalog.access import Access
from carrel.core.limits import MAX_SESSIONS, MAX_SESSIONS_PER_CLIENT, SESSION_IDLE_S
from carrel.server.connection import Connection
from carrel.server.requests import in_background
from carrel.transports.http.sse import Outbox

SWEEP_S: Final = 60.0


class LegacySession:
    """One legacy session. Its notifications wait in its outbox for the GET stream."""

    def __init__(
        self, access: Access, connection: Connection, outbox: Outbox, version: str, session_id: str = "", name: str = ""
    ) -> None:
        """`name` is what replicas call a session that they share."""
        self.id = session_id or secrets.token_hex(16)
        self.name = name
        self.access = access
        self.owner = access.name
        self.connection = connection
        self.outbox = outbox
        self.version = version
        self.used_at = monotonic()
        self._reader = 0

    def claim(self) -> int:
        """Become the one reader of the outbox, in place of the reader before; return the number of this reader."""
        self._reader += 1
        self.outbox.wake()
        return self._reader

    @property
    def has_reader(self) -> bool:
        """Whether its stream was ever read here."""
        return self._reader > 0

    def is_read_by(self, reader: int) -> bool:
        """Return whether this is still the reader."""
        return self._reader == reader and not self.outbox.is_finished

    def end(self) -> None:
        """End the session and its stream."""
        if self.connection.is_busy:
            # A tool may take its time to stop.
            in_background(self.connection.close)
        else:
            self.connection.close()
        self.outbox.finish()


class Sessions:
    """Every live session, the longest idle first. Used on the event loop only."""

    def __init__(
        self,
        on_end: Callable[[LegacySession], None],
        idle_s: float = SESSION_IDLE_S,
        limit: int = MAX_SESSIONS,
        limit_each: int = MAX_SESSIONS_PER_CLIENT,
    ) -> None:
        """`on_end` gets each session just before it ends."""
        self._on_end = on_end
        self._idle_s = idle_s
        self._limit = limit
        self._limit_each = limit_each
        self._live: OrderedDict[str, LegacySession] = OrderedDict()
        self._owned: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._live)

    def add(self, session: LegacySession) -> None:
        """Add a session; beyond a limit the longest idle one is ended: the client's own, or any."""
        if self._owned[session.owner] >= self._limit_each:
            self.end(next(live for live in self._live.values() if live.owner == session.owner))
        while len(self._live) >= self._limit:
            self.end(self._longest_idle())
        self._live[session.id] = session
        self._owned[session.owner] += 1
        self._watch()

    def find(self, session_id: str, access: Access) -> LegacySession | None:
        """Return a session of the caller, who has the same rights as when it was opened; count that as use."""
        self.sweep()
        session = self._live.get(session_id)
        if session is None or not session.access.is_like(access):
            return None
        self.touch(session)
        return session

    def named(self, name: str) -> list[LegacySession]:
        """Return the sessions that replicas call by this name."""
        return [live for live in self._live.values() if live.name == name]

    def touch(self, session: LegacySession) -> None:
        """Count as used now, so that other sessions are idle for longer."""
        if session.id in self._live:
            session.used_at = monotonic()
            self._live.move_to_end(session.id)

    def end(self, session: LegacySession) -> None:
        """End a session."""
        if self._live.pop(session.id, None) is not None:
            self._owned[session.owner] -= 1
            if not self._owned[session.owner]:
                del self._owned[session.owner]
        # First: work that is stopped gives no answer.
        self._on_end(session)
        session.end()

    def close(self) -> None:
        """End all sessions."""
        while self._live:
            self.end(self._longest_idle())
        if self._timer is not None:
            self._timer.cancel()

    def sweep(self) -> None:
        """End the sessions that were idle for too long."""
        oldest = monotonic() - self._idle_s
        while self._live and self._longest_idle().used_at < oldest:
            self.end(self._longest_idle())

    def _longest_idle(self) -> LegacySession:
        return next(iter(self._live.values()))

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._look)

    def _look(self) -> None:
        self._timer = None
        self.sweep()
        if self._live:
            self._watch()
