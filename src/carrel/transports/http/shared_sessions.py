"""Legacy sessions that any replica can continue: sealed ids, and subscriptions in the team's store.

A replica makes its own session from a sealed id when a request comes for it. Requests need nothing else. A GET
stream takes the session's subscriptions from the store, and with `Last-Event-ID` what was missed meanwhile.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from carrel.catalog.access import Access
from carrel.core.errors import ProviderError
from carrel.core.record import Value
from carrel.transports.http.session_seal import SessionSeal, SessionState

log = logging.getLogger(__name__)

MAX_ENDED: Final = 100_000
MAX_OVERDUE: Final = 10_000
CHANGED: Final = "carrel-session"
"""The scheme of changes of sessions in the feed; their URI is the name of the session."""


class Missed(Protocol):
    """What changed since a token."""

    @property
    def uris(self) -> Collection[tuple[str, str]]:
        """The changed URIs, each with its scheme."""

    @property
    def is_all(self) -> bool:
        """Whether too much changed to name it."""


class Registry(Protocol):
    """What replicas share about sessions; each call may wait, and raise `ProviderError`."""

    def subscribe(self, session_id: str, uri: str) -> None:
        """Remember a subscription."""

    def unsubscribe(self, session_id: str, uri: str) -> None:
        """Forget a subscription."""

    def uris(self, session_id: str) -> list[str]:
        """Return the subscriptions of a session."""

    def end(self, session_ids: Iterable[str]) -> None:
        """End sessions on all replicas."""

    def ended(self, among: Iterable[str] | None = None) -> frozenset[str]:
        """Return the ended sessions."""

    def changes_since(self, token: str) -> Missed:
        """Return what changed since a token."""


class Resumption(Value, frozen=True):
    """What a stream begins with: the subscribed URIs, those that may have changed, and whether lists may have."""

    uris: tuple[str, ...]
    missed: tuple[str, ...] = ()
    has_missed_lists: bool = False


class SharedSessions:
    """The sessions of all replicas, as one replica sees them. Without a registry, only ids are shared."""

    def __init__(
        self,
        seal: SessionSeal,
        registry: Registry | None = None,
        token: Callable[[], str] = lambda: "",
        stored: Collection[str] = (),
    ) -> None:
        """`token` returns the event id for a message that is sent now; `stored` are the schemes kept in the store."""
        self._seal = seal
        self._registry = registry
        self._token = token
        self._stored = frozenset(stored)
        self._lock = threading.Lock()
        self._ended: dict[str, None] = {}
        self._overdue: dict[str, None] = {}
        self.on_change: Callable[[str], None] = lambda name: None
        """Called with the name of a session that changed on another replica."""

    def start(self) -> None:
        """Learn which sessions have ended."""
        if self._registry is not None:
            self._note_ended(self._registry.ended())

    def open(self, access: Access, version: str, client: str) -> tuple[str, SessionState]:
        """Return the id of a new session and its state."""
        return self._seal.seal(access, version, client)

    def find(self, session_id: str, access: Access) -> SessionState | None:
        """Return the state of a session of this caller that has not ended; must not wait."""
        state = self._seal.open(session_id, access)
        return None if state is None or self.has_ended(state.name) else state

    def has_ended(self, name: str) -> bool:
        """Return whether a session is known to have ended."""
        return name in self._ended

    @property
    def has_events(self) -> bool:
        """Whether streams have event ids."""
        return self._registry is not None

    def event_id(self) -> str:
        """Return the id of an event that is sent now."""
        return self._token()

    def remember(self, name: str, uri: str, *, is_wanted: bool) -> None:
        """Store a subscription, or its end; may wait."""
        if self._registry is not None:
            (self._registry.subscribe if is_wanted else self._registry.unsubscribe)(name, uri)

    def end(self, name: str) -> None:
        """End a session on all replicas; may wait. During an outage it ends here, and elsewhere with `end_overdue`."""
        self._note_ended((name,))
        if self._registry is not None:
            try:
                self._registry.end((name,))
            except ProviderError:
                self._note_overdue(name)

    def end_overdue(self) -> None:
        """End on all replicas what ended here during an outage; may wait, and raise `ProviderError`."""
        with self._lock:
            names = tuple(self._overdue)
        if names and self._registry is not None:
            self._registry.end(names)
            with self._lock:
                for name in names:
                    self._overdue.pop(name, None)

    def _note_overdue(self, name: str) -> None:
        with self._lock:
            self._overdue[name] = None
            if len(self._overdue) > MAX_OVERDUE:
                del self._overdue[next(iter(self._overdue))]
                log.warning("a session ended on this replica only: too many ended while the store was away")

    def resume(self, name: str, last_event: str) -> Resumption:
        """Return what a stream begins with; may wait."""
        if self._registry is None:
            return Resumption(())
        uris = tuple(self._registry.uris(name))
        if not last_event:
            return Resumption(uris)
        missed = self._registry.changes_since(last_event)
        schemes = {scheme for scheme, _ in missed.uris}
        # What the store does not keep may have changed without a trace.
        changed = [uri for uri in uris if missed.is_all or _scheme(uri) in schemes or _scheme(uri) not in self._stored]
        return Resumption(uris, tuple(changed), missed.is_all or bool(schemes - {CHANGED}))

    def _note_ended(self, names: Iterable[str]) -> None:
        with self._lock:
            self._ended.update(dict.fromkeys(names))
            while len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]

    def hear(self, changes: Missed) -> None:
        """Learn from the feed which sessions changed on other replicas."""
        names = {uri for scheme, uri in changes.uris if scheme == CHANGED}
        if self._registry is None or not (names or changes.is_all):
            return
        self._note_ended(self._registry.ended(None if changes.is_all else names))
        for name in names:
            self.on_change(name)


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()
