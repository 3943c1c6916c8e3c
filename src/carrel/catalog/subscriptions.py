"""What the watcher remembers: subscribed URIs, and the fingerprints of resources and lists.

`SubscribedUris` knows who subscribed to which URI, and under which URIs its changes are reported. `ListFingerprints`
holds the tokens of the providers' lists, `ListTokens` those of the list that clients are sent.
"""

import threading
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.hashing import blake2b
from carrel.core.model import Resource
from carrel.core.provider import Provider
from carrel.core.uri import normalise, split_query

UNSEEN: Final = ""
"""The fingerprint of a resource that changed since it was last compared."""

Listener = TypeVar("Listener", bound=Hashable)


class SubscribedUri(Generic[Listener]):
    """One URI with its subscribers."""

    __slots__ = ("fingerprint", "listeners", "mounted", "places")

    def __init__(self, mounted: Mounted, fingerprint: str | None) -> None:
        self.mounted = mounted
        self.fingerprint = fingerprint
        self.listeners: set[Listener] = set()
        self.places: set[str] = set()


class SubscribedUris(Generic[Listener]):
    """All subscribed URIs. The caller holds a lock."""

    def __init__(self) -> None:
        self._by_uri: dict[str, SubscribedUri[Listener]] = {}
        self._by_place: dict[str, set[str]] = {}
        self._in_order: list[str] = []
        self._polled: set[str] = set()

    def __contains__(self, uri: str) -> bool:
        """Return whether this spelling of a URI is subscribed."""
        return uri in self._by_uri

    def __len__(self) -> int:
        """Return the number of URIs, each spelling by itself."""
        return len(self._by_uri)

    @property
    def has_polled(self) -> bool:
        """Whether the provider of any URI must be polled."""
        return bool(self._polled)

    def add(self, listener: Listener, uri: str, mounted: Mounted, fingerprint: str | None, places: set[str]) -> None:
        """Subscribe a listener to a URI whose changes are reported at these places."""
        subscribed = self._by_uri.setdefault(uri, SubscribedUri(mounted, fingerprint))
        subscribed.mounted = mounted
        if subscribed.fingerprint != fingerprint:
            subscribed.fingerprint = UNSEEN  # it changed and will be reported; this listener already saw it
        subscribed.listeners.add(listener)
        (self._polled.discard if "watch" in mounted.overrides else self._polled.add)(uri)
        self.place(uri, subscribed.places | places)

    def discard(self, listener: Listener, uri: str) -> Mounted | None:
        """Unsubscribe a listener; return the owner of the URI if that was the last one."""
        subscribed = self._by_uri.get(uri)
        if subscribed is None:
            return None
        subscribed.listeners.discard(listener)
        if subscribed.listeners:
            return None
        self.place(uri, set())
        self._polled.discard(uri)
        return self._by_uri.pop(uri).mounted

    def place(self, uri: str, places: set[str]) -> None:
        """Set the places at which changes of a URI are reported."""
        subscribed = self._by_uri.get(uri)
        if subscribed is None:
            return
        for place in subscribed.places - places:
            self._by_place[place].discard(uri)
            if not self._by_place[place]:
                del self._by_place[place]
                del self._in_order[bisect_left(self._in_order, place)]
        for place in places - subscribed.places:
            if place not in self._by_place:
                insort(self._in_order, place)
            self._by_place.setdefault(place, set()).add(uri)
        subscribed.places = places

    def listeners(self, uri: str) -> Iterable[Listener]:
        """Return the subscribers of this spelling of a URI."""
        subscribed = self._by_uri.get(uri)
        return () if subscribed is None else subscribed.listeners

    def fingerprint(self, uri: str) -> str | None:
        """Return the last fingerprint of a URI; None if it had none, or is not subscribed."""
        subscribed = self._by_uri.get(uri)
        return None if subscribed is None else subscribed.fingerprint

    def is_evented(self, uri: str) -> bool:
        """Return whether the provider reports changes of a URI itself."""
        return uri not in self._polled

    def reported(self, uri: str, fingerprint: str = UNSEEN) -> Iterable[tuple[Listener, str]]:
        """Record a change reported at a place; return its subscribers, each with the URI as subscribed."""
        place = place_of(uri)
        heard = []
        for spelled in self._by_place.get(place, ()):
            subscribed = self._by_uri[spelled]
            if self.is_evented(spelled):
                # A link to the place may be refused now, and must be reported when it no longer is.
                subscribed.fingerprint = fingerprint if place_of(spelled) == place else UNSEEN
            heard += [(listener, spelled) for listener in subscribed.listeners]
        return heard

    def below(self, uri: str) -> dict[str, str | None]:
        """Return the subscribed URIs at a place or below it, with their last fingerprints."""
        top = place_of(uri)
        below = top if top.endswith("/") else f"{top}/"
        found = set(self._by_place.get(top, ()))
        for place in islice(self._in_order, bisect_left(self._in_order, below), None):
            if not place.startswith(below):
                break
            found |= self._by_place[place]
        return {spelled: self._by_uri[spelled].fingerprint for spelled in found}

    def of(self, owner: str, *, with_evented: bool) -> dict[str, str | None]:
        """Return the subscribed URIs of a provider, polled ones or all, with their last fingerprints."""
        return {
            uri: subscribed.fingerprint
            for uri, subscribed in self._by_uri.items()
            if subscribed.mounted.provider.name == owner and (with_evented or uri in self._polled)
        }

    def polled(self, owner: str, uris: Iterable[str]) -> list[str]:
        """Return those of some URIs that are subscribed and polled, and belong to this provider."""
        return [uri for uri in uris if uri in self._polled and self._by_uri[uri].mounted.provider.name == owner]

    def polled_owners(self) -> set[str]:
        """Return the names of the providers that must be polled."""
        return {self._by_uri[uri].mounted.provider.name for uri in self._polled}

    def move_to_end(self, uri: str) -> bool:
        """Move a URI behind all others; return whether it is subscribed."""
        subscribed = self._by_uri.pop(uri, None)
        if subscribed is not None:
            self._by_uri[uri] = subscribed
        return subscribed is not None

    def see(self, uri: str, before: str | None, now: str | None) -> None:
        """Record a fingerprint; if another comparison recorded a different one meanwhile, record that it is unknown."""
        subscribed = self._by_uri.get(uri)
        if subscribed is not None:
            is_sure = subscribed.fingerprint in (before, now) or not self.is_evented(uri)
            subscribed.fingerprint = now if is_sure else UNSEEN


def place_of(uri: str) -> str:
    """Return the key that all spellings and query variants of a URI share."""
    return normalise(split_query(uri)[0])


def token_of(entries: Iterable[Resource]) -> str:
    """Return a token of the URIs, names, titles and descriptions in a list; sizes and dates do not count."""
    state = blake2b(digest_size=16)
    for entry in entries:
        line = f"{entry.uri}\0{entry.name}\0{entry.title}\0{entry.description}\n"
        state.update(line.encode("utf-8", "surrogatepass"))
    return state.hexdigest()


class ListTokens:
    """The token of the list that clients are sent, for each set of scopes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tokens: dict[frozenset[str] | None, str] = {}
        self._lock = threading.Lock()

    def known(self, access: Access) -> str:
        """Return the last token; if it is out of date, a notification too many is sent."""
        with self._lock:
            token = self._tokens.get(access.scopes)
        return self.look(access) if token is None else token

    def look(self, access: Access) -> str:
        """Return the token of the list as it is now; empty if the list fails."""
        try:
            with ActingAs(access):
                chosen = attempt("watching the list", self._catalog.chosen)
        except CarrelError:
            return ""
        token = token_of(chosen.entries)
        with self._lock:
            self._tokens[access.scopes] = token
        return token

    def forget(self) -> None:
        """Forget all tokens."""
        with self._lock:
            self._tokens.clear()


class ListFingerprints:
    """The list fingerprints of all providers.

    A provider that reports changes itself is compared only once: for changes before its events began.
    """

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._early: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Return whether any provider's list is polled."""
        return bool(self._tokens)

    def has_changed(self, name: str, provider: Provider) -> bool:
        """Return whether the list of a provider changed since the last call."""
        token = provider.list_fingerprint()
        before = self._tokens.get(name, token)
        self._tokens[name] = token
        return before != token

    def remember_early(self, name: str, provider: Provider) -> None:
        """Record the fingerprint of a list before the provider's events begin, unless it is recorded."""
        if name not in self._early:
            self._early[name] = provider.list_fingerprint()

    def has_changed_early(self, name: str, provider: Provider) -> bool:
        """Return whether a list changed before the provider's events began; call it once they have."""
        early = self._early.pop(name, None)
        return early is not None and provider.list_fingerprint() != early

    def forget_early(self, name: str) -> None:
        """Forget the early fingerprint: the events end."""
        self._early.pop(name, None)
