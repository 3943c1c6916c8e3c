"""Which URIs changed, and who is told: one watcher for all faces.

Providers that notice changes themselves report them; the others are asked for
fingerprints, only while somebody listens. Bursts are folded: a listener hears of one
URI at most a few times a second, and always of the last change. What is pending is a
set bounded by what was subscribed, so a slow listener never grows anything.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Final

from carrel import permissions
from carrel.boundary import attempt
from carrel.catalog import Catalog
from carrel.errors import CarrelError, ProviderError
from carrel.interests import UNSEEN, Interests, places_of
from carrel.limits import SHUTDOWN_GRACE_S, UPDATES_PER_SECOND
from carrel.provider import Following, Provider, Traits, Watching
from carrel.routing import Mounted
from carrel.surveys import Listed, Surveys

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
_LEAST_S, _MOST_S = 0.01, 86_400.0  # an interval of 0 would spin, an endless one cannot be waited for
EVENT_S: Final = 0.3
"""How long the event of a change that was already seen may still be on its way."""
LIST: Final = ""
"""What stands for the list where a URI stands for a resource."""
UNCHANGED_LIST: Final = "\0"
"""What is told where a provider's part of the list changed, but not the list that clients are sent."""

Tell = Callable[[str], None]
"""Called with the URI as it was subscribed, or with LIST or UNCHANGED_LIST; from a thread of the watcher."""


class Subscription:
    """What one listener wants to hear of. Nothing is told before `start`."""

    def __init__(self, watcher: "Watcher", tell: Tell) -> None:
        self._watcher = watcher
        self.tell = tell
        self.access = permissions.whoever_asks()
        self.uris: set[str] = set()
        self.list_changes = False
        self.listed = ""
        self.started = False
        self.closed = False
        self.told: dict[str, float] = {}

    def start(self) -> None:
        """Begin to tell, also what happened since the subscription was made."""
        self.started = True
        self._watcher.wake()

    def add(self, uri: str) -> None:
        """Listen to one more URI; raises what a read of it would raise."""
        self._watcher.add(self, uri)

    def discard(self, uri: str) -> None:
        """Listen to a URI no longer; an unknown one is fine."""
        self._watcher.discard(self, uri)

    def close(self) -> None:
        """End it. Nothing is told after."""
        self._watcher.remove(self)


class Watcher:
    """Tells subscriptions what changed. Its thread lives while there are any."""

    def __init__(self, catalog: Catalog, poll_s: float = POLL_S) -> None:
        self._catalog = catalog
        self._poll_s = poll_s
        self._changed = threading.Condition()
        self._subscriptions: set[Subscription] = set()
        self._interests: Interests[Subscription] = Interests()
        self._surveys = Surveys(catalog)
        self._listed = Listed(catalog)
        self._comparing: threading.Thread | None = None
        self._has_events = False
        self._asked: dict[str, float] = {}
        self._due: dict[tuple[Subscription, str], float] = {}
        self._thread: threading.Thread | None = None

    # What listeners and providers call

    def subscribe(self, tell: Tell, uris: Iterable[str] = (), *, list_changes: bool = False) -> Subscription:
        """Make a subscription; a URI that may not be read, or that nobody serves, is left out of it."""
        subscription = Subscription(self, tell)
        try:
            for uri in uris:
                self._add_if_served(subscription, uri)
            if list_changes:
                self._survey()
                subscription.listed = self._listed.known(subscription.access)
            with self._changed:
                subscription.list_changes = list_changes
                self._subscriptions.add(subscription)
                self._run()
            # Only now: while nobody listened, the events may just have been ending.
            if list_changes and not self._has_events:
                self._surveys.remember_early()
        except BaseException:
            self.remove(subscription)
            raise
        return subscription

    def _add_if_served(self, subscription: Subscription, uri: str) -> None:
        try:
            self.add(subscription, uri)
        except CarrelError as error:
            log.debug("not subscribed: %s", error)

    def add(self, subscription: Subscription, uri: str) -> None:
        """Have a subscription hear of a URI from now on."""
        fingerprint = self._catalog.fingerprint(uri)
        mounted = self._catalog.find(uri).mounted
        places = places_of(uri, mounted)
        with self._changed:
            if subscription.closed:
                return
            self._interests.add(subscription, uri, mounted, fingerprint, places)
            subscription.uris.add(uri)
            if subscription in self._subscriptions:
                self._run()
        if isinstance(mounted.provider, Following):
            self._follow(mounted.provider, uri)

    def _follow(self, provider: Following, uri: str) -> None:
        """Have a provider follow a URI, unless everybody left while it began to."""
        provider.follow(uri)
        with self._changed:
            is_wanted = uri in self._interests
        if not is_wanted:
            provider.unfollow(uri)

    def discard(self, subscription: Subscription, uri: str) -> None:
        """Have a subscription hear of a URI no longer."""
        with self._changed:
            subscription.uris.discard(uri)
            subscription.told.pop(uri, None)
            self._due.pop((subscription, uri), None)
            left = self._interests.discard(subscription, uri)
        if left is not None and isinstance(left.provider, Following):
            left.provider.unfollow(uri)

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        with self._changed:
            subscription.closed = True
        for uri in tuple(subscription.uris):
            self.discard(subscription, uri)
        with self._changed:
            self._subscriptions.discard(subscription)
            self._due.pop((subscription, LIST), None)
            self._changed.notify()

    def close(self) -> None:
        """Forget all subscriptions, and wait until no provider is asked any more."""
        for subscription in tuple(self._subscriptions):
            self.remove(subscription)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(SHUTDOWN_GRACE_S)

    def updated(self, uri: str, fingerprint: str = UNSEEN) -> None:
        """Take note that a URI changed; every subscribed spelling and variant of it is told."""
        with self._changed:
            for subscription, spelled in self._interests.reported(uri, fingerprint):
                self._schedule(subscription, spelled, 1 / UPDATES_PER_SECOND)
            self._changed.notify()

    def updated_below(self, uri: str) -> None:
        """Take note that a URI came or went, with all below it: what neither was nor is there is not told."""
        self._look_below(uri, lambda before, now: before is not None or now is not None)

    def reconsidered(self, uri: str) -> None:
        """Take note that other rules hold for a URI and all below it: what is as it was is not told."""
        self._look_below(uri, lambda before, now: before != now)

    def _look_below(self, uri: str, is_told: Callable[[str | None, str | None], bool]) -> None:
        with self._changed:
            known = self._interests.below(uri)
        for spelled, before in known.items():
            # First it is looked at, then told: who hears of it and reads sees this, or what will be told again.
            now = self._look(spelled, before)
            self._trace(spelled)
            if is_told(before, now):
                with self._changed:
                    for subscription in self._interests.listeners(spelled):
                        self._schedule(subscription, spelled, 1 / UPDATES_PER_SECOND)
                    self._changed.notify()

    def _trace(self, uri: str) -> None:
        """Find out anew where changes of a URI are reported: it may lead elsewhere now."""
        try:
            mounted = self._catalog.find(uri).mounted
            places = attempt("watching", places_of, uri, mounted)
        except CarrelError:
            return
        with self._changed:
            self._interests.place(uri, places)

    def list_changed(self, provider: Provider) -> None:
        """Take note that a provider's part of the list changed; whether the list did is looked at when it is due."""
        pause_s = float(getattr(provider, "list_pause_s", Traits.list_pause_s))
        with self._changed:
            for subscription in self._listening_for(provider):
                self._schedule(subscription, LIST, pause_s)
            self._changed.notify()

    def wake(self) -> None:
        """Look again at what is due."""
        with self._changed:
            self._changed.notify()

    # The thread

    def _listening_for(self, provider: Provider) -> Iterator[Subscription]:
        """Give who hears of a provider's part of the list: not those whom it does not concern."""
        for subscription in self._subscriptions:
            if subscription.list_changes and subscription.access.concerns(provider.schemes):
                yield subscription

    def _schedule(self, subscription: Subscription, what: str, pause_s: float) -> None:
        due = max(subscription.told.get(what, -pause_s) + pause_s, monotonic())
        self._due[subscription, what] = min(due, self._due.get((subscription, what), due))

    def _schedule_once(self, subscription: Subscription, what: str, began: float) -> None:
        """Tell of what was seen by looking, unless an event told it since: one that still comes is the same news."""
        if subscription.told.get(what, -1.0) < began:
            self._due.setdefault((subscription, what), monotonic() + EVENT_S)

    def _run(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="carrel-watch", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        while True:
            self._tell_all()
            # Only now that the providers stopped watching may another thread have them begin again.
            with self._changed:
                if not self._subscriptions:
                    self._thread = None
                    return

    def _tell_all(self) -> None:
        """Have the providers watched, and tell what changes, while there are subscriptions."""
        stops: list[Callable[[], None]] = []
        for mounted in self._catalog.mounted:
            if isinstance(mounted.provider, Watching):
                _apart(partial(self._watch, mounted.provider, _Reports(self, mounted.provider), stops)).join()
        self._has_events = True
        # What changed before the events began is seen by looking once; from then on they tell.
        poll = _apart(lambda: self._poll(with_evented=True))
        poll.join()
        tick_s = min((self._interval(mounted) for mounted in self._catalog.mounted), default=self._poll_s)
        next_poll = monotonic() + tick_s
        while True:
            if monotonic() >= next_poll:
                poll = poll if poll.is_alive() else _apart(self._poll)
                next_poll = monotonic() + tick_s
            with self._changed:
                if not self._subscriptions:
                    self._has_events = False
                    self._surveys.forget_early()
                    break
                ready = self._take_ready()
                if not ready:
                    self._changed.wait(self._pause(next_poll))
            for subscription, what in ready:
                if what != LIST:
                    subscription.tell(what)
            self._compare_list([subscription for subscription, what in ready if what == LIST])
        poll.join(self._poll_s)
        self._listed.forget()
        for stop in stops:
            _apart(stop).join()

    def _compare_list(self, subscriptions: list[Subscription]) -> None:
        """Tell those for whom the list became another one. It is looked at aside: a provider may take its time."""
        if not subscriptions:
            return
        if self._comparing is not None and self._comparing.is_alive():
            with self._changed:
                for subscription in subscriptions:
                    self._schedule(subscription, LIST, Traits.list_pause_s)
            return
        self._comparing = _apart(partial(self._tell_of_list, subscriptions))

    def _tell_of_list(self, subscriptions: list[Subscription]) -> None:
        tokens: dict[frozenset[str] | None, str] = {}
        for subscription in subscriptions:
            scopes = subscription.access.scopes
            if scopes not in tokens:
                tokens[scopes] = self._listed.look(subscription.access)
            token = tokens[scopes]
            is_other = not token or token != subscription.listed
            subscription.listed = token
            if not subscription.closed:
                subscription.tell(LIST if is_other else UNCHANGED_LIST)

    def _watch(self, provider: Watching, reports: "_Reports", stops: list[Callable[[], None]]) -> None:
        stops.append(provider.watch(reports))

    def _take_ready(self) -> list[tuple[Subscription, str]]:
        now = monotonic()
        ready = [pair for pair, due in self._due.items() if due <= now and pair[0].started]
        for subscription, what in ready:
            del self._due[subscription, what]
            subscription.told[what] = now
        return ready

    def _pause(self, next_poll: float) -> float | None:
        waiting = [due for (subscription, _), due in self._due.items() if subscription.started]
        if self._polls():
            waiting.append(next_poll)
        return max(0.0, min(waiting) - monotonic()) if waiting else None

    def _polls(self) -> bool:
        return self._interests.has_polled or bool(self._surveys)

    def _interval(self, mounted: Mounted) -> float:
        """Give how often a provider is asked: as often as it says, within reason, or as all others."""
        said = mounted.poll_seconds
        return self._poll_s if said is None else min(max(_LEAST_S, float(said)), _MOST_S)

    def _take_due(self) -> set[str]:
        """Give the names of the providers whose turn it is to be asked."""
        now = monotonic()
        due = set()
        for mounted in self._catalog.mounted:
            name = mounted.provider.name
            if now - self._asked.get(name, float("-inf")) >= 0.9 * self._interval(mounted):  # ticks are not exact
                self._asked[name] = now
                due.add(name)
        return due

    def _poll(self, *, with_evented: bool = False) -> None:
        due = self._take_due()
        began = monotonic()
        with self._changed:
            known = self._interests.every(None if with_evented else due)
        changed: list[str] = []
        try:
            self._compare(known, changed)
        finally:
            with self._changed:
                self._tell_of(changed, began)
                is_wanted = any(subscription.list_changes for subscription in self._subscriptions)
            if with_evented:
                self._compare_early(began)
        if is_wanted:
            self._survey(due)

    def _tell_of(self, changed: list[str], began: float) -> None:
        """Take note of URIs that were found changed. Variants are looked at each by itself, so each is told alone."""
        for uri in changed:
            for subscription in self._interests.listeners(uri):
                if self._interests.is_evented(uri):
                    self._schedule_once(subscription, uri, began)
                else:
                    self._schedule(subscription, uri, 1 / UPDATES_PER_SECOND)
        self._changed.notify()

    def _compare(self, known: dict[str, str | None], changed: list[str]) -> None:
        """Ask for the tokens of URIs, and note those that are others than before."""
        for uri, before in known.items():
            with self._changed:
                # To the end: should asking for this one break the poll, the next begins with the others.
                is_wanted = self._interests.look_at_last(uri)
            if is_wanted and self._look(uri, before) != before:
                self._trace(uri)
                changed.append(uri)

    def _look(self, uri: str, before: str | None) -> str | None:
        """Ask for the fingerprint of a URI, and remember it."""
        try:
            now = attempt("watching", self._catalog.fingerprint, uri)
        except ProviderError as error:
            now = before if error.word == "internal" else None  # a fault says nothing of it
        except CarrelError:
            now = None
        with self._changed:
            self._interests.see(uri, before, now)
        return now

    def _compare_early(self, began: float) -> None:
        """Tell, once the events have begun, that a list changed before."""
        for provider in self._surveys.changed_early():
            with self._changed:
                for subscription in self._listening_for(provider):
                    self._schedule_once(subscription, LIST, began)

    def _survey(self, due: set[str] | None = None) -> None:
        """Tell of the lists that changed, of those whose turn it is."""
        for provider in self._surveys.changed(due):
            self.list_changed(provider)


class _Reports:
    """Where one provider reports its changes."""

    def __init__(self, watcher: Watcher, provider: Provider) -> None:
        self._watcher = watcher
        self._provider = provider

    def updated(self, uri: str, fingerprint: str = UNSEEN) -> None:
        self._watcher.updated(uri, fingerprint)

    def updated_below(self, uri: str) -> None:
        self._watcher.updated_below(uri)

    def reconsidered(self, uri: str) -> None:
        self._watcher.reconsidered(uri)

    def list_changed(self) -> None:
        self._watcher.list_changed(self._provider)


def _apart(work: Callable[[], object]) -> threading.Thread:
    """Ask a provider something on a thread of its own: what it breaks there is logged, and ends nothing else."""
    thread = threading.Thread(target=work, name="carrel-watch-one", daemon=True)
    thread.start()
    return thread
