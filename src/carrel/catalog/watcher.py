"""Which URIs changed, and which subscribers are notified: one watcher for all connections.

Providers that notice changes themselves report them; the others are asked for fingerprints while anything is
subscribed. Each provider is asked on its own thread, one question at a time: one that hangs is not asked again until
it answers, and delays no other. Bursts are merged: a subscriber is notified of one URI at most a few times a second,
and always of the last change. The pending notifications are a set bounded by the subscriptions, so that a slow
subscriber uses no more memory.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

from carrel.catalog import access
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.catalog.subscriptions import UNSEEN, ListFingerprints, ListTokens, SubscribedUris, place_of
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import CarrelError, ProviderError
from carrel.core.faults import attempt
from carrel.core.gateway import Gateway
from carrel.core.limits import SHUTDOWN_GRACE_S, UPDATES_PER_SECOND
from carrel.core.provider import Provider, overrides

POLL_S: Final = 1.0
_LEAST_S, _MOST_S = 0.01, 86_400.0  # 0 would use all CPU time, infinity cannot be waited for
EVENT_S: Final = 0.3
"""How long the event of a change that a comparison found may still arrive."""
LISTS_S: Final = 1.0
"""How long a new subscription waits for the fingerprints of lists."""
LIST: Final = ""
"""Stands for the list in place of a URI."""
UNCHANGED_LIST: Final = "\0"
"""Sent when the list of a provider changed, but not the list that clients are sent."""

Notify = Callable[[str], None]
"""Called with the URI as subscribed, or with LIST or UNCHANGED_LIST; from a thread of the watcher."""


class Subscription:
    """What one subscriber is notified of; nothing before `start`."""

    def __init__(self, watcher: "Watcher", notify: Notify) -> None:
        self._watcher = watcher
        self.notify = notify
        self.access = access.current_access()
        self.uris: set[str] = set()
        self.list_changes = False
        self.listed = ""
        self.started = False
        self.closed = False
        self.notified_at: dict[str, float] = {}

    def start(self) -> None:
        """Begin to notify, also of what changed since the subscription was made."""
        self.started = True
        self._watcher.wake()

    def add(self, uri: str) -> None:
        """Subscribe to one more URI; raise as a read of it would."""
        self._watcher.add(self, uri)

    def discard(self, uri: str) -> None:
        """Unsubscribe from a URI, if it is subscribed."""
        self._watcher.discard(self, uri)

    def close(self) -> None:
        """End the subscription; nothing is sent after."""
        self._watcher.remove(self)


class _WatchedProvider:
    """A provider that is watched or polled, by one thread at a time; guarded by the watcher's lock."""

    __slots__ = ("aliases", "first", "has_begun", "has_events", "is_due", "is_running", "provider", "stop")

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.is_running = False
        self.is_due = False
        self.first: OrderedDict[str, None] = OrderedDict()
        self.has_begun = False
        self.has_events = False
        self.stop: Callable[[], None] | None = None
        self.aliases: Callable[[str], Sequence[str]] = lambda uri: ()


class Watcher:
    """Notifies subscriptions of changes. Its thread runs while there are any."""

    def __init__(self, catalog: Catalog, poll_s: float = POLL_S) -> None:
        self._catalog = catalog
        self._poll_s = poll_s
        self._changed = threading.Condition()
        self._subscriptions: set[Subscription] = set()
        self._uris: SubscribedUris[Subscription] = SubscribedUris()
        self._lists = ListFingerprints()
        self._asking_lists = BoundedCalls("watching the list", LISTS_S)
        self._watched_providers: dict[str, _WatchedProvider] = {}
        self._list_tokens = ListTokens(catalog)
        self._comparing: threading.Thread | None = None
        self._polled_at: dict[str, float] = {}
        self._due: dict[tuple[Subscription, str], float] = {}
        self._thread: threading.Thread | None = None

    # For subscribers and providers

    def subscribe(self, notify: Notify, uris: Iterable[str] = (), *, list_changes: bool = False) -> Subscription:
        """Return a subscription; URIs that cannot be read by the caller are left out."""
        subscription = Subscription(self, notify)
        try:
            for uri in uris:
                self._add_if_served(subscription, uri)
            if list_changes:
                self._compare_lists()
                subscription.listed = self._list_tokens.known(subscription.access)
            with self._changed:
                subscription.list_changes = list_changes
                self._subscriptions.add(subscription)
            # Only now: without a subscription, the events may just have been ending.
            if list_changes:
                self._record_early_lists()
            with self._changed:
                self._run()
        except BaseException:
            self.remove(subscription)
            raise
        return subscription

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Return the subscriptions that are open."""
        with self._changed:
            return tuple(self._subscriptions)

    def _add_if_served(self, subscription: Subscription, uri: str) -> None:
        try:
            self.add(subscription, uri)
        except CarrelError as error:
            import logging  # only on failure

            logging.getLogger(__name__).debug("not subscribed: %s", error)

    def add(self, subscription: Subscription, uri: str) -> None:
        """Add a URI to a subscription."""
        fingerprint = self._catalog.fingerprint(uri)
        mounted = self._catalog.find(uri).mounted
        places = self._places_of(uri, mounted.provider)
        with self._changed:
            if subscription.closed:
                return
            self._uris.add(subscription, uri, mounted, fingerprint, places)
            subscription.uris.add(uri)
            if subscription in self._subscriptions:
                self._run()
        if isinstance(mounted.provider, Gateway):
            self._follow(mounted.provider, uri)

    def _follow(self, provider: Gateway, uri: str) -> None:
        """Have a gateway follow a URI, unless the last subscriber left meanwhile."""
        provider.follow(uri)
        with self._changed:
            is_wanted = uri in self._uris
        if not is_wanted:
            provider.unfollow(uri)

    def discard(self, subscription: Subscription, uri: str) -> None:
        """Remove a URI from a subscription."""
        with self._changed:
            subscription.uris.discard(uri)
            subscription.notified_at.pop(uri, None)
            self._due.pop((subscription, uri), None)
            left = self._uris.discard(subscription, uri)
        if left is not None and isinstance(left.provider, Gateway):
            left.provider.unfollow(uri)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        with self._changed:
            subscription.closed = True
        for uri in tuple(subscription.uris):
            self.discard(subscription, uri)
        with self._changed:
            self._subscriptions.discard(subscription)
            self._due.pop((subscription, LIST), None)
            self._changed.notify_all()

    def close(self) -> None:
        """Remove all subscriptions, and wait until no provider is being asked."""
        for subscription in tuple(self._subscriptions):
            self.remove(subscription)
        with self._changed:
            if self._thread is not threading.current_thread():
                watched = self._watched_providers.values()
                self._changed.wait_for(
                    lambda: self._thread is None and not any(one.is_running for one in watched), SHUTDOWN_GRACE_S
                )

    def updated(self, uri: str, fingerprint: str = UNSEEN) -> None:
        """Notify of every subscribed spelling and variant of a URI."""
        with self._changed:
            for subscription, spelled in self._uris.reported(uri, fingerprint):
                self._schedule(subscription, spelled, 1 / UPDATES_PER_SECOND)
            self._changed.notify_all()

    def updated_below(self, uri: str) -> None:
        """Notify of what exists or existed at a URI that came or went, and below it."""
        self._look_below(uri, lambda before, now: before is not None or now is not None)

    def reconsidered(self, uri: str) -> None:
        """Notify of what has another fingerprint at a URI and below it, since other rules apply."""
        self._look_below(uri, lambda before, now: before != now)

    def _look_below(self, uri: str, is_change: Callable[[str | None, str | None], bool]) -> None:
        with self._changed:
            known = self._uris.below(uri)
        for spelled, before in known.items():
            # Compared first, then notified: a subscriber who reads then sees this state, or is notified again.
            now = self._look(spelled, before)
            self._trace(spelled)
            if is_change(before, now):
                with self._changed:
                    for subscription in self._uris.listeners(spelled):
                        self._schedule(subscription, spelled, 1 / UPDATES_PER_SECOND)
                    self._changed.notify_all()

    def _trace(self, uri: str) -> None:
        """Ask again where changes of a URI are reported: a link may lead elsewhere now."""
        try:
            provider = self._catalog.find(uri).mounted.provider
            places = attempt("watching", self._places_of, uri, provider)
        except CarrelError:
            return
        with self._changed:
            self._uris.place(uri, places)

    def _places_of(self, uri: str, provider: Provider) -> set[str]:
        """Return where changes of a URI are reported: under its own name, and under its aliases."""
        return {place_of(one) for one in (uri, *self._watched(provider).aliases(uri))}

    def ask_aliases(self, provider: Provider, aliases: Callable[[str], Sequence[str]]) -> None:
        """Ask a provider for the aliases of its URIs from now on."""
        self._watched(provider).aliases = aliases
        with self._changed:
            known = self._uris.of(provider.name, with_evented=True)
        for uri in known:
            self._trace(uri)

    def list_changed(self, provider: Provider) -> None:
        """Schedule a comparison of the list that clients are sent: the list of a provider changed."""
        pause_s = provider.list_pause_s
        with self._changed:
            for subscription in self._listening_for(provider):
                self._schedule(subscription, LIST, pause_s)
            self._changed.notify_all()

    def look_again(self, scheme: str, first: frozenset[str] = frozenset()) -> None:
        """Compare everything of a scheme now, `first` the URIs that another server has changed."""
        for mounted in self._catalog.mounted:
            if scheme in mounted.provider.schemes:
                one = self._watched(mounted.provider)
                with self._changed:
                    one.is_due = True
                    if self._subscriptions:
                        one.first.update(dict.fromkeys(self._uris.polled(mounted.provider.name, first)))
                self._visit(one)

    def wake(self) -> None:
        """Check again the URIs that are due."""
        with self._changed:
            self._changed.notify_all()

    # The thread

    def _listening_for(self, provider: Provider) -> Iterator[Subscription]:
        """Yield the subscriptions that are notified of a provider's list and may see it."""
        for subscription in self._subscriptions:
            if subscription.list_changes and subscription.access.concerns(provider.schemes):
                yield subscription

    def _schedule(self, subscription: Subscription, what: str, pause_s: float) -> None:
        due = max(subscription.notified_at.get(what, -pause_s) + pause_s, monotonic())
        self._due[subscription, what] = min(due, self._due.get((subscription, what), due))

    def _schedule_once(self, subscription: Subscription, what: str, began: float) -> None:
        """Notify of a change that a comparison found, unless its event did already or arrives soon."""
        if subscription.notified_at.get(what, -1.0) < began:
            self._due.setdefault((subscription, what), monotonic() + EVENT_S)

    def _run(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="carrel-watch", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        """Send due notifications and poll the providers, while there are subscriptions."""
        self._visit_all()
        tick_s = min((self._interval(mounted) for mounted in self._catalog.mounted), default=self._poll_s)
        next_poll = monotonic() + tick_s
        while True:
            if monotonic() >= next_poll:
                self._poll_due()
                next_poll = monotonic() + tick_s
            with self._changed:
                if not self._subscriptions:
                    self._list_tokens.forget()
                    self._thread = None
                    self._visit_all()
                    return
                ready = self._take_ready()
                if not ready:
                    self._changed.wait(self._pause(next_poll))
            for subscription, what in ready:
                if what != LIST:
                    subscription.notify(what)
            self._compare_list([subscription for subscription, what in ready if what == LIST])

    # Asking one provider

    def _visit_all(self) -> None:
        """Begin to watch every provider, or stop watching."""
        for mounted in self._catalog.mounted:
            self._visit(self._watched(mounted.provider))

    def _watched(self, provider: Provider) -> _WatchedProvider:
        with self._changed:
            one = self._watched_providers.get(provider.name)
            if one is None or one.provider is not provider:
                one = self._watched_providers[provider.name] = _WatchedProvider(provider)
            return one

    def _visit(self, one: _WatchedProvider) -> None:
        """Start a thread that asks a provider what is due, unless one runs already, which then does it."""
        with self._changed:
            if not one.is_running:
                one.is_running = True
                _start_thread(partial(self._ask, one))

    def _ask(self, one: _WatchedProvider) -> None:
        try:
            while (step := self._next_step(one)) is not None:
                with suppress(CarrelError):
                    attempt(f"watching {one.provider.name}", step)
        except BaseException:
            with self._changed:
                one.is_running = False
                self._changed.notify_all()
            raise

    def _next_step(self, one: _WatchedProvider) -> Callable[[], object] | None:
        """Return the next question for a provider; its thread ends with None."""
        with self._changed:
            if one.has_begun and not self._subscriptions:
                stop, one.stop = one.stop, None
                one.has_begun = one.has_events = False
                one.first.clear()
                self._lists.forget_early(one.provider.name)
                if stop is not None:
                    return stop
            if self._subscriptions and not one.has_begun:
                one.has_begun, one.is_due = True, False
                one.first.clear()
                return partial(self._begin, one)
            if self._subscriptions and one.is_due:
                one.is_due = False
                return partial(self._poll, one)
            one.is_running = False
            self._changed.notify_all()
            return None

    def _begin(self, one: _WatchedProvider) -> None:
        """Begin to watch a provider. Changes before its first event are found by one comparison."""
        began = monotonic()
        if overrides(one.provider, "watch"):
            with suppress(CarrelError):
                one.stop = attempt(f"watching {one.provider.name}", one.provider.watch, _Reports(self, one.provider))
        with self._changed:
            one.has_events = True
            self._polled_at[one.provider.name] = began
        self._look_at_all(one, began, with_evented=True)
        if self._lists.has_changed_early(one.provider.name, one.provider):
            with self._changed:
                for subscription in self._listening_for(one.provider):
                    self._schedule_once(subscription, LIST, began)
                self._changed.notify_all()
        self._compare_list_of(one.provider)

    def _poll(self, one: _WatchedProvider) -> None:
        self._look_at_all(one, monotonic(), with_evented=False)
        self._compare_list_of(one.provider)

    def _look_at_all(self, one: _WatchedProvider, began: float, *, with_evented: bool) -> None:
        """Compare the subscribed URIs of a provider, and notify of each change as soon as it is found."""
        for uri, before in self._in_turn(one, with_evented=with_evented):
            if self._look(uri, before) != before:
                self._trace(uri)
                with self._changed:
                    self._schedule_changed(uri, began)

    def _in_turn(self, one: _WatchedProvider, *, with_evented: bool) -> Iterator[tuple[str, str | None]]:
        """Yield the subscribed URIs of a provider with their last fingerprints.

        What another server has changed comes before the rest, which takes long if there is much of it. But if it was
        yielded before, it comes after one more of the rest, which would never end otherwise.
        """
        with self._changed:
            left = OrderedDict(self._uris.of(one.provider.name, with_evented=with_evented))
        may_repeat = True
        while left:
            with self._changed:
                uri = next(iter(one.first), None)
                if uri is None or not (uri in left or may_repeat):
                    uri = next(iter(left))
                one.first.pop(uri, None)
                may_repeat = uri in left
                before = left.pop(uri) if uri in left else self._uris.fingerprint(uri)
                # To the end: if this one breaks the poll, the next poll begins with the others.
                is_wanted = self._uris.move_to_end(uri)
            if is_wanted:
                yield uri, before

    def _compare_list_of(self, provider: Provider) -> None:
        """Compare the list of a provider that does not report changes, if any subscription includes lists."""
        with self._changed:
            is_wanted = any(subscription.list_changes for subscription in self._subscriptions)
        if is_wanted and _has_polled_list(provider) and self._lists.has_changed(provider.name, provider):
            self.list_changed(provider)

    def _compare_lists(self) -> None:
        """Compare all polled lists, and notify of changes; a provider that hangs is left out."""
        comparisons = {
            mounted.provider.name: partial(self._lists.has_changed, mounted.provider.name, mounted.provider)
            for mounted in self._catalog.mounted
            if _has_polled_list(mounted.provider)
        }
        changed = self._asking_lists.ask(comparisons)
        for mounted in self._catalog.mounted:
            if changed.get(mounted.provider.name):
                self.list_changed(mounted.provider)

    def _record_early_lists(self) -> None:
        """Record the lists of providers whose events have not begun yet."""
        quiet = [one.provider for one in self._catalog.mounted if not self._watched(one.provider).has_events]
        self._asking_lists.ask(
            {
                provider.name: partial(self._lists.remember_early, provider.name, provider)
                for provider in quiet
                if overrides(provider, "watch") and overrides(provider, "list_fingerprint")
            }
        )

    def _compare_list(self, subscriptions: list[Subscription]) -> None:
        """Notify the subscribers whose list changed. The list is read on another thread: a provider may be slow."""
        if not subscriptions:
            return
        if self._comparing is not None and self._comparing.is_alive():
            with self._changed:
                for subscription in subscriptions:
                    self._schedule(subscription, LIST, Provider.list_pause_s)
            return
        self._comparing = _start_thread(partial(self._notify_of_list, subscriptions))

    def _notify_of_list(self, subscriptions: list[Subscription]) -> None:
        tokens: dict[frozenset[str] | None, str] = {}
        for subscription in subscriptions:
            scopes = subscription.access.scopes
            if scopes not in tokens:
                tokens[scopes] = self._list_tokens.look(subscription.access)
            token = tokens[scopes]
            is_other = not token or token != subscription.listed
            subscription.listed = token
            if not subscription.closed:
                subscription.notify(LIST if is_other else UNCHANGED_LIST)

    def _take_ready(self) -> list[tuple[Subscription, str]]:
        now = monotonic()
        ready = [pair for pair, due in self._due.items() if due <= now and pair[0].started]
        for subscription, what in ready:
            del self._due[subscription, what]
            subscription.notified_at[what] = now
        return ready

    def _pause(self, next_poll: float) -> float | None:
        waiting = [due for (subscription, _), due in self._due.items() if subscription.started]
        if self._uris.has_polled or self._lists:
            waiting.append(next_poll)
        return max(0.0, min(waiting) - monotonic()) if waiting else None

    def _interval(self, mounted: Mounted) -> float:
        """Return the polling interval of a provider: its own, within limits, or the usual one."""
        own_s = mounted.provider.poll_s
        return self._poll_s if own_s is None else min(max(_LEAST_S, float(own_s)), _MOST_S)

    def _poll_due(self) -> None:
        """Poll the providers whose interval is over, if anything of them is subscribed."""
        now = monotonic()
        with self._changed:
            polled = self._uris.polled_owners()
            is_wanted = any(subscription.list_changes for subscription in self._subscriptions)
        for mounted in self._catalog.mounted:
            provider, one = mounted.provider, self._watched(mounted.provider)
            with self._changed:
                is_turn = now - self._polled_at.get(provider.name, float("-inf")) >= 0.9 * self._interval(mounted)
                if is_turn:  # ticks are not exact
                    self._polled_at[provider.name] = now
                    one.is_due = provider.name in polled or (is_wanted and _has_polled_list(provider))
                if one.is_due or not one.has_begun:
                    self._visit(one)

    def _schedule_changed(self, uri: str, began: float) -> None:
        """Schedule notifications of a URI that was found changed; each spelling was compared by itself."""
        for subscription in self._uris.listeners(uri):
            if self._uris.is_evented(uri):
                self._schedule_once(subscription, uri, began)
            else:
                self._schedule(subscription, uri, 1 / UPDATES_PER_SECOND)
        self._changed.notify_all()

    def _look(self, uri: str, before: str | None) -> str | None:
        """Return the fingerprint of a URI now, and record it."""
        try:
            now = attempt("watching", self._catalog.fingerprint, uri)
        except ProviderError as error:
            now = before if error.word == "internal" else None  # a fault says nothing about the content
        except CarrelError:
            now = None
        with self._changed:
            self._uris.see(uri, before, now)
        return now


class _Reports:
    """The `Changes` of one provider."""

    def __init__(self, watcher: Watcher, provider: Provider) -> None:
        self.updated = watcher.updated
        self.updated_below = watcher.updated_below
        self.reconsidered = watcher.reconsidered
        self.list_changed = partial(watcher.list_changed, provider)
        self.ask_aliases = partial(watcher.ask_aliases, provider)


def _start_thread(work: Callable[[], object]) -> threading.Thread:
    """Start a thread that asks a provider; an exception there is logged and ends only that thread."""
    thread = threading.Thread(target=work, name="carrel-watch-one", daemon=True)
    thread.start()
    return thread


def _has_polled_list(provider: Provider) -> bool:
    """Return whether the list of a provider is polled."""
    return overrides(provider, "list_fingerprint") and not overrides(provider, "watch")
