"""Which URIs changed, and who is told: one watcher for all faces.

Providers that notice changes themselves report them; the others are asked for
fingerprints, only while somebody listens. Each provider is asked on a thread of its own,
one thing at a time: one that hangs is not asked again until it comes back, and holds up
no other. Bursts are folded: a listener hears of one
URI at most a few times a second, and always of the last change. What is pending is a
set bounded by what was subscribed, so a slow listener never grows anything.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

from carrel.catalog import access
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.catalog.subscriptions import UNSEEN, Interests, place_of
from carrel.catalog.surveys import Listed, Surveys
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError, ProviderError
from carrel.core.faults import attempt
from carrel.core.gateway import Gateway
from carrel.core.limits import SHUTDOWN_GRACE_S, UPDATES_PER_SECOND
from carrel.core.provider import Provider, overrides

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
_LEAST_S, _MOST_S = 0.01, 86_400.0  # an interval of 0 would spin, an endless one cannot be waited for
EVENT_S: Final = 0.3
"""How long the event of a change that was already seen may still be on its way."""
SURVEY_S: Final = 1.0
"""How long a new listener waits for providers to say how their lists are."""
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
        self.access = access.whoever_asks()
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


class _Attended:
    """A provider that is watched or polled. One thread at a time asks it; the watcher's lock guards all of this."""

    __slots__ = ("aliases", "has_begun", "has_events", "is_asked", "is_due", "provider", "stop")

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.is_asked = False
        self.is_due = False
        self.has_begun = False
        self.has_events = False
        self.stop: Callable[[], None] | None = None
        self.aliases: Callable[[str], Sequence[str]] = lambda uri: ()


class Watcher:
    """Tells subscriptions what changed. Its thread lives while there are any."""

    def __init__(self, catalog: Catalog, poll_s: float = POLL_S) -> None:
        self._catalog = catalog
        self._poll_s = poll_s
        self._changed = threading.Condition()
        self._subscriptions: set[Subscription] = set()
        self._interests: Interests[Subscription] = Interests()
        self._surveys = Surveys()
        self._surveying = BoundedCalls("watching the list", SURVEY_S)
        self._attended: dict[str, _Attended] = {}
        self._listed = Listed(catalog)
        self._comparing: threading.Thread | None = None
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
                self._survey_all()
                subscription.listed = self._listed.known(subscription.access)
            with self._changed:
                subscription.list_changes = list_changes
                self._subscriptions.add(subscription)
            # Only now: while nobody listened, the events may just have been ending.
            if list_changes:
                self._remember_early()
            with self._changed:
                self._run()
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
        places = self._places_of(uri, mounted.provider)
        with self._changed:
            if subscription.closed:
                return
            self._interests.add(subscription, uri, mounted, fingerprint, places)
            subscription.uris.add(uri)
            if subscription in self._subscriptions:
                self._run()
        if isinstance(mounted.provider, Gateway):
            self._follow(mounted.provider, uri)

    def _follow(self, provider: Gateway, uri: str) -> None:
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
        if left is not None and isinstance(left.provider, Gateway):
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
            self._changed.notify_all()

    def close(self) -> None:
        """Forget all subscriptions, and wait until no provider is asked any more."""
        for subscription in tuple(self._subscriptions):
            self.remove(subscription)
        with self._changed:
            if self._thread is not threading.current_thread():
                self._changed.wait_for(self._is_idle, SHUTDOWN_GRACE_S)

    def _is_idle(self) -> bool:
        return self._thread is None and not any(one.is_asked for one in self._attended.values())

    def updated(self, uri: str, fingerprint: str = UNSEEN) -> None:
        """Take note that a URI changed; every subscribed spelling and variant of it is told."""
        with self._changed:
            for subscription, spelled in self._interests.reported(uri, fingerprint):
                self._schedule(subscription, spelled, 1 / UPDATES_PER_SECOND)
            self._changed.notify_all()

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
                    self._changed.notify_all()

    def _trace(self, uri: str) -> None:
        """Find out anew where changes of a URI are reported: it may lead elsewhere now."""
        try:
            provider = self._catalog.find(uri).mounted.provider
            places = attempt("watching", self._places_of, uri, provider)
        except CarrelError:
            return
        with self._changed:
            self._interests.place(uri, places)

    def _places_of(self, uri: str, provider: Provider) -> set[str]:
        """Return where changes of a URI are reported: under its own name, and under its aliases."""
        return {place_of(one) for one in (uri, *self._attended_of(provider).aliases(uri))}

    def ask_aliases(self, provider: Provider, aliases: Callable[[str], Sequence[str]]) -> None:
        """Ask a provider for the aliases of its URIs from now on."""
        self._attended_of(provider).aliases = aliases
        with self._changed:
            known = self._interests.of(provider.name, with_evented=True)
        for uri in known:
            self._trace(uri)

    def list_changed(self, provider: Provider) -> None:
        """Take note that a provider's part of the list changed; whether the list did is looked at when it is due."""
        pause_s = provider.list_pause_s
        with self._changed:
            for subscription in self._listening_for(provider):
                self._schedule(subscription, LIST, pause_s)
            self._changed.notify_all()

    def wake(self) -> None:
        """Look again at what is due."""
        with self._changed:
            self._changed.notify_all()

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
        """Tell what changes, and have the providers asked, while there are subscriptions."""
        self._attend_all()
        tick_s = min((self._interval(mounted) for mounted in self._catalog.mounted), default=self._poll_s)
        next_poll = monotonic() + tick_s
        while True:
            if monotonic() >= next_poll:
                self._poll_due()
                next_poll = monotonic() + tick_s
            with self._changed:
                if not self._subscriptions:
                    self._listed.forget()
                    self._thread = None
                    self._attend_all()
                    return
                ready = self._take_ready()
                if not ready:
                    self._changed.wait(self._pause(next_poll))
            for subscription, what in ready:
                if what != LIST:
                    subscription.tell(what)
            self._compare_list([subscription for subscription, what in ready if what == LIST])

    # Asking one provider

    def _attend_all(self) -> None:
        """Have every provider begin to be watched, or end."""
        for mounted in self._catalog.mounted:
            self._attend(self._attended_of(mounted.provider))

    def _attended_of(self, provider: Provider) -> _Attended:
        with self._changed:
            one = self._attended.get(provider.name)
            if one is None or one.provider is not provider:
                one = self._attended[provider.name] = _Attended(provider)
            return one

    def _attend(self, one: _Attended) -> None:
        """Have a provider asked what there is to ask; a thread that does that already will see it."""
        with self._changed:
            if not one.is_asked:
                one.is_asked = True
                _apart(partial(self._ask, one))

    def _ask(self, one: _Attended) -> None:
        try:
            while (step := self._next_step(one)) is not None:
                with suppress(CarrelError):
                    attempt(f"watching {one.provider.name}", step)
        except BaseException:
            with self._changed:
                one.is_asked = False
                self._changed.notify_all()
            raise

    def _next_step(self, one: _Attended) -> Callable[[], object] | None:
        """Return what a provider is to be asked next; without anything, its thread ends."""
        with self._changed:
            if one.has_begun and not self._subscriptions:
                stop, one.stop = one.stop, None
                one.has_begun = one.has_events = False
                self._surveys.forget_early(one.provider.name)
                if stop is not None:
                    return stop
            if self._subscriptions and not one.has_begun:
                one.has_begun, one.is_due = True, False
                return partial(self._begin, one)
            if self._subscriptions and one.is_due:
                one.is_due = False
                return partial(self._poll, one.provider)
            one.is_asked = False
            self._changed.notify_all()
            return None

    def _begin(self, one: _Attended) -> None:
        """Have a provider watched. What changed before its events began is seen by looking once; then they tell."""
        began = monotonic()
        if overrides(one.provider, "watch"):
            with suppress(CarrelError):
                one.stop = attempt(f"watching {one.provider.name}", one.provider.watch, _Reports(self, one.provider))
        with self._changed:
            one.has_events = True
            self._asked[one.provider.name] = began
        self._look_at_all(one.provider, began, with_evented=True)
        if self._surveys.has_changed_early(one.provider.name, one.provider):
            with self._changed:
                for subscription in self._listening_for(one.provider):
                    self._schedule_once(subscription, LIST, began)
                self._changed.notify_all()
        self._survey(one.provider)

    def _poll(self, provider: Provider) -> None:
        self._look_at_all(provider, monotonic())
        self._survey(provider)

    def _look_at_all(self, provider: Provider, began: float, *, with_evented: bool = False) -> None:
        """Look at what is listened to of a provider, and tell what changed."""
        with self._changed:
            known = self._interests.of(provider.name, with_evented=with_evented)
        changed: list[str] = []
        try:
            self._compare(known, changed)
        finally:
            with self._changed:
                self._tell_of(changed, began)

    def _survey(self, provider: Provider) -> None:
        """Tell if the list of a provider changed that does not report it, where anybody wants to know."""
        with self._changed:
            is_wanted = any(subscription.list_changes for subscription in self._subscriptions)
        if is_wanted and _is_surveyed(provider) and self._surveys.has_changed(provider.name, provider):
            self.list_changed(provider)

    def _survey_all(self) -> None:
        """Note how all lists are, and tell of those that changed; a provider that hangs is left out."""
        asked = {
            mounted.provider.name: partial(self._surveys.has_changed, mounted.provider.name, mounted.provider)
            for mounted in self._catalog.mounted
            if _is_surveyed(mounted.provider)
        }
        changed = self._surveying.ask(asked)
        for mounted in self._catalog.mounted:
            if changed.get(mounted.provider.name):
                self.list_changed(mounted.provider)

    def _remember_early(self) -> None:
        """Note how the lists are of which events are to tell, once these have begun."""
        quiet = [one.provider for one in self._catalog.mounted if not self._attended_of(one.provider).has_events]
        self._surveying.ask(
            {
                provider.name: partial(self._surveys.remember_early, provider.name, provider)
                for provider in quiet
                if overrides(provider, "watch") and overrides(provider, "list_fingerprint")
            }
        )

    def _compare_list(self, subscriptions: list[Subscription]) -> None:
        """Tell those for whom the list became another one. It is looked at aside: a provider may take its time."""
        if not subscriptions:
            return
        if self._comparing is not None and self._comparing.is_alive():
            with self._changed:
                for subscription in subscriptions:
                    self._schedule(subscription, LIST, Provider.list_pause_s)
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
        said = mounted.provider.poll_s
        return self._poll_s if said is None else min(max(_LEAST_S, float(said)), _MOST_S)

    def _poll_due(self) -> None:
        """Have those providers asked whose turn it is, and of which there is anything to ask."""
        now = monotonic()
        with self._changed:
            polled = self._interests.polled_owners()
            is_wanted = any(subscription.list_changes for subscription in self._subscriptions)
        for mounted in self._catalog.mounted:
            provider, one = mounted.provider, self._attended_of(mounted.provider)
            with self._changed:
                is_turn = now - self._asked.get(provider.name, float("-inf")) >= 0.9 * self._interval(mounted)
                if is_turn:  # ticks are not exact
                    self._asked[provider.name] = now
                    one.is_due = provider.name in polled or (is_wanted and _is_surveyed(provider))
                if one.is_due or not one.has_begun:
                    self._attend(one)

    def _tell_of(self, changed: list[str], began: float) -> None:
        """Take note of URIs that were found changed. Variants are looked at each by itself, so each is told alone."""
        for uri in changed:
            for subscription in self._interests.listeners(uri):
                if self._interests.is_evented(uri):
                    self._schedule_once(subscription, uri, began)
                else:
                    self._schedule(subscription, uri, 1 / UPDATES_PER_SECOND)
        self._changed.notify_all()

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

    def ask_aliases(self, aliases: Callable[[str], Sequence[str]]) -> None:
        self._watcher.ask_aliases(self._provider, aliases)


def _apart(work: Callable[[], object]) -> threading.Thread:
    """Ask a provider something on a thread of its own: what it breaks there is logged, and ends nothing else."""
    thread = threading.Thread(target=work, name="carrel-watch-one", daemon=True)
    thread.start()
    return thread


def _is_surveyed(provider: Provider) -> bool:
    """Return whether a provider is asked again and again whether its list changed."""
    return overrides(provider, "list_fingerprint") and not overrides(provider, "watch")
