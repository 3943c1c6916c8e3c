"""The connection to a mounted server: started, listed, subscribed to, and restarted with growing pauses.

Each mount has one thread, the only one that starts, renews and ends anything. Other threads use `client`, and put
events into its queue. The link reports to a `LinkListener`.
"""

import logging
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, Protocol

from carrel.client.client import Client
from carrel.client.rpc import Transport
from carrel.client.subscription import LIST, Listening
from carrel.core.errors import CarrelError, Disconnected, ProviderError, RemoteError, RequestError, Unreachable
from carrel.core.faults import attempt
from carrel.providers.mounts.settings import MountSettings

log = logging.getLogger(__name__)

MAX_PAUSE_S: Final = 60.0
STEADY_S: Final = 60.0
"""After this time up, the next pause is the shortest one again."""

KEPT_S: Final = 300.0
"""How long the entries of a server that is down stay listed: hosts ask for the list once."""

LASTING_S: Final = 5.0
"""A subscription that lasted this long before it broke is opened again; else its URIs are polled."""

_MISSING: Final = frozenset({-32002, -32602, -32601})
"""Codes with which servers say that there is no such resource."""

_GONE, _LOST, _CLOSE, _WATCH, _RELIST = "gone", "lost", "close", "watch", "relist"
_UPDATED: Final = "updated "


class Refused(CarrelError):
    """The mount cannot be served, and another attempt would not help; the message says why."""


class LinkListener(Protocol):
    """Is called by a link. URIs are in the spelling of the server."""

    def opened(self, client: Client) -> None:
        """Take the first lists of a server; raise if it cannot be served."""

    def relist(self, client: Client) -> None:
        """Take the lists again."""

    def subscribed(self) -> tuple[str, ...]:
        """Return the URIs to subscribe to."""

    def updated(self, uri: str) -> None:
        """Handle a change of a URI."""

    def poll(self, client: Client, uris: tuple[str, ...]) -> None:
        """Compare URIs for which the server sends no changes."""

    def list_changed(self) -> None:
        """Handle that the entries of a server that is down are no longer listed."""


class Link:
    """One server, and its thread. `connect` returns a transport to a new server process or session."""

    def __init__(
        self, name: str, options: MountSettings, connect: Callable[[], Transport], listener: LinkListener
    ) -> None:
        self.client: Client | None = None
        self.state = "starting"
        self.cause = ""
        self.restarts = 0
        self.settled = threading.Event()
        """Set when the first attempt succeeded or failed."""
        self._name = name
        self._options = options
        self._connect = connect
        self._listener = listener
        self._events: SimpleQueue[str] = SimpleQueue()
        self._changed = threading.Condition()
        self._is_closing = False
        self._transport: Transport | None = None
        self._listening: Listening | None = None
        self._looked_at: set[str] = set()
        self._retry_at = monotonic()
        self._down_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"carrel-mount-{name}", daemon=True)

    # For other threads

    def begin(self) -> None:
        """Start the server in the background."""
        self._thread.start()

    def renew(self) -> None:
        """Subscribe to the URIs that are watched now."""
        self._events.put(_WATCH)

    def lose(self, client: Client, cause: str = "") -> None:
        """Replace a connection that is broken or useless, of which no event came."""
        if self.client is client:
            self._events.put(_LOST + cause)

    def wait_for_client(self, timeout_s: float, other_than: Client | None = None) -> Client | None:
        """Return the client of a server that is up, if need be of a new one; None if there is none in time."""
        deadline = monotonic() + timeout_s
        with self._changed:
            while self.client is None or self.client is other_than:
                left = deadline - monotonic()
                if left <= 0 or self._is_closing or not self._changed.wait(left):
                    return None
            return self.client

    def unavailable(self) -> ProviderError:
        """Return the error for a server that is down, with the time until the next attempt to start it."""
        data = {"retryAfterMs": max(100, int((self._retry_at - monotonic()) * 1_000))}
        return ProviderError(f"Mount is unavailable: {self._name}", word="unavailable", data=data)

    @contextmanager
    def translating(self, about: str, missing: Callable[[], RequestError]) -> Iterator[None]:
        """Raise the server's errors as clients get them; `missing` if the server does not know what it was asked for.

        The server's own messages stay in the log.
        """
        try:
            yield
        except (Disconnected, Unreachable):
            raise self.unavailable() from None
        except RemoteError as error:
            if error.code in _MISSING:
                raise missing() from None
            raise self._failed(about, "failed", error) from None
        except ProviderError as error:
            if error.word == "unavailable":
                raise self.unavailable() from None
            raise self._failed(about, error.word, error) from None

    def _failed(self, about: str, word: str, cause: CarrelError) -> ProviderError:
        incident = os.urandom(4).hex()
        message = "Mount timed out" if word == "timeout" else "Mount failed"
        log.error("incident %s: mount %s, %s: %s (%s): %s", incident, self._name, about, message, word, cause)
        return ProviderError(f"{message}: {self._name}", word=word, data={"incident": incident})

    @property
    def is_long_gone(self) -> bool:
        """Whether the server has been down for longer than its entries stay listed."""
        return self._down_since is not None and monotonic() - self._down_since > KEPT_S

    def close(self) -> None:
        """End the server: its subscriptions, its input, then its processes."""
        with self._changed:
            self._is_closing = True
            transport, client = self._transport, self.client
            self._changed.notify_all()
        self._events.put(_CLOSE)
        if client is not None:
            client.close()
        elif transport is not None:
            transport.close()
        if self._thread.is_alive():
            self._thread.join(1.0)

    # The thread

    def _run(self) -> None:
        pause_s = 1.0
        while not self._is_closing:
            up_since = monotonic()
            try:
                if not attempt(f"mount {self._name}", self._try):
                    return
            except ProviderError:  # an unexpected fault, which must not end this thread
                self._go_down("it sent what cannot be understood")
            if monotonic() - up_since >= STEADY_S:
                pause_s = 1.0
            self._pause(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(MAX_PAUSE_S, pause_s * 2)
            self.restarts += 1

    def _try(self) -> bool:
        """Run the server until it ends; return whether to try again."""
        try:
            self._run_once()
        except Refused as error:
            self._go_down(str(error))
            return False
        except CarrelError as error:
            self._go_down(str(error))
        return True

    def _run_once(self) -> None:
        """Start the server, and handle events until it ends."""
        client = self._open()
        try:
            self._listener.opened(client)
            client.timeout_s = self._options.timeout_s
            client.on_end = lambda: self._events.put(_GONE)
            if client.is_gone:
                raise Disconnected("it ended just after it had started")
            with self._changed:
                self.client, self.state, self._down_since = client, "up", None
                self.settled.set()
                self._changed.notify_all()
            for uri in self._listener.subscribed() if self.restarts else ():
                self._listener.updated(uri)
            self._handle_events(client)
        finally:
            with self._changed:
                self.client = None
            listening, self._listening = self._listening, None
            if listening is not None:
                listening.end()
            client.close()

    def _open(self) -> Client:
        """Connect in the era of the server; a server that ended because of the probe is started again."""
        self.state = "starting"
        options = self._options
        time_s, size = options.start_timeout_s, options.max_message_bytes
        try:
            return Client(self._dial(), era=options.era, timeout_s=time_s, max_message_bytes=size)
        except Disconnected:
            if options.era != "auto" or self._is_closing:
                raise
        return Client(self._dial(), era="legacy", timeout_s=time_s, max_message_bytes=size)

    def _dial(self) -> Transport:
        transport = self._connect()
        with self._changed:
            self._transport = transport
            is_closing = self._is_closing
        if is_closing:
            transport.close()
        return transport

    def _handle_events(self, client: Client) -> None:
        """Handle events, and poll, until the server ends or the link is closed."""
        self._listen(client)
        next_poll = monotonic() + self._options.poll_s
        while True:
            polled = self._not_reported()
            must_poll = bool(polled) and self._options.poll_s > 0
            try:
                event = self._events.get(timeout=max(0.0, next_poll - monotonic()) if must_poll else None)
            except Empty:
                self._listener.poll(client, polled)
                next_poll = monotonic() + self._options.poll_s
                continue
            if event.startswith(_LOST):
                cause = event.removeprefix(_LOST)
                raise Disconnected(cause or ("it ended" if client.is_gone else "it cannot be reached"))
            if event in (_GONE, _CLOSE):
                if self._is_closing:
                    return
                if client.is_gone:
                    raise Disconnected("it ended")
            else:
                self._take(client, event)

    def _take(self, client: Client, event: str) -> None:
        if event == _WATCH:
            self._listen(client)
        elif event == _RELIST:
            self._listener.relist(client)
        elif event.startswith(_UPDATED):
            self._listener.updated(event.removeprefix(_UPDATED))

    def _listen(self, client: Client) -> None:
        """Subscribe to the list and to all watched URIs; the new subscription opens before the old one ends."""
        before, self._listening = self._listening, None
        wanted = self._listener.subscribed() if _subscribes(client) else ()
        try:
            self._listening = client.listen(wanted, list_changes=True)
        except (Disconnected, Unreachable) as error:
            raise Disconnected(str(error)) from None
        except CarrelError as error:
            log.info("mount %s sends no changes: %s", self._name, error)
        else:
            threading.Thread(
                target=self._hear, args=(self._listening,), name=f"carrel-mount-{self._name}-news", daemon=True
            ).start()
        if before is not None:
            before.close()
        # A change before the subscription was open is found by one comparison.
        fresh, self._looked_at = set(wanted) - self._looked_at, set(wanted)
        if fresh:
            self._listener.poll(client, tuple(fresh))

    def _hear(self, listening: Listening) -> None:
        """Put the changes that a subscription reports into the queue of events, until it ends."""
        began = monotonic()
        has_broken_off = False
        try:
            for what in listening:
                self._events.put(_RELIST if what == LIST else _UPDATED + what)
        except CarrelError as error:
            has_broken_off = isinstance(error, Disconnected)
            log.debug("mount %s: %s", self._name, error)
        if self._listening is listening:
            # Its URIs are polled from now on.
            self._events.put(_WATCH if has_broken_off and monotonic() - began >= LASTING_S else "")

    def _not_reported(self) -> tuple[str, ...]:
        """Return the watched URIs whose changes the server does not report, so that they are polled."""
        listening = self._listening
        heard = () if listening is None or listening.is_over else listening.honoured
        return tuple(uri for uri in self._listener.subscribed() if uri not in heard)

    def _go_down(self, cause: str) -> None:
        """Record and log that the server is down, and why."""
        if self._is_closing:
            return
        log.warning("mount %s is down: %s", self._name, cause)
        with self._changed:
            self.state, self.cause = "down", cause
            self._down_since = self._down_since or monotonic()
            self._changed.notify_all()
        self.settled.set()

    def _pause(self, pause_s: float) -> None:
        """Wait before the next attempt, unless the link is closed."""
        self._retry_at = monotonic() + pause_s
        was_listed = not self.is_long_gone
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, pause_s)
        while not self._events.empty():
            self._events.get_nowait()
        if was_listed and self.is_long_gone:
            self._listener.list_changed()


def _subscribes(client: Client) -> bool:
    """Return whether the server declares subscriptions."""
    declared = client.capabilities.get("resources")
    return isinstance(declared, dict) and declared.get("subscribe") is True
