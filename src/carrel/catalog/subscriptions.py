"""Who listens to what: URIs as they were subscribed, where their changes are reported, what was last seen there."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from carrel.catalog.routes import Mounted
from carrel.core.uri import normalise, split_query

UNSEEN: Final = ""
"""The fingerprint of what changed since it was looked at."""

Listener = TypeVar("Listener", bound=Hashable)


class Interest(Generic[Listener]):
    """One URI that is listened to."""

    __slots__ = ("fingerprint", "listeners", "mounted", "places")

    def __init__(self, mounted: Mounted, fingerprint: str | None) -> None:
        self.mounted = mounted
        self.fingerprint = fingerprint
        self.listeners: set[Listener] = set()
        self.places: set[str] = set()


class Interests(Generic[Listener]):
    """All that is listened to. Who calls this from several threads holds a lock."""

    def __init__(self) -> None:
        self._by_uri: dict[str, Interest[Listener]] = {}
        self._by_place: dict[str, set[str]] = {}
        self._in_order: list[str] = []
        self._polled: set[str] = set()

    def __contains__(self, uri: str) -> bool:
        """Tell whether anybody listens to a URI, spelled so."""
        return uri in self._by_uri

    def __len__(self) -> int:
        """Count the URIs, each spelling by itself."""
        return len(self._by_uri)

    @property
    def has_polled(self) -> bool:
        """Whether anything must be looked at again and again, for want of events."""
        return bool(self._polled)

    def add(self, listener: Listener, uri: str, mounted: Mounted, fingerprint: str | None, places: set[str]) -> None:
        """Note that a listener wants to hear of a URI, whose changes are reported at these places."""
        interest = self._by_uri.setdefault(uri, Interest(mounted, fingerprint))
        interest.mounted = mounted
        if interest.fingerprint != fingerprint:
            interest.fingerprint = UNSEEN  # it changed, and is about to be reported: this listener saw it after
        interest.listeners.add(listener)
        (self._polled.discard if "watch" in mounted.overrides else self._polled.add)(uri)
        self.place(uri, interest.places | places)

    def discard(self, listener: Listener, uri: str) -> Mounted | None:
        """Forget that; give the URI's owner once nobody listens to it any more."""
        interest = self._by_uri.get(uri)
        if interest is None:
            return None
        interest.listeners.discard(listener)
        if interest.listeners:
            return None
        self.place(uri, set())
        self._polled.discard(uri)
        return self._by_uri.pop(uri).mounted

    def place(self, uri: str, places: set[str]) -> None:
        """Note at which places the changes of a URI are reported from now on."""
        interest = self._by_uri.get(uri)
        if interest is None:
            return
        for place in interest.places - places:
            self._by_place[place].discard(uri)
            if not self._by_place[place]:
                del self._by_place[place]
                del self._in_order[bisect_left(self._in_order, place)]
        for place in places - interest.places:
            if place not in self._by_place:
                insort(self._in_order, place)
            self._by_place.setdefault(place, set()).add(uri)
        interest.places = places

    def listeners(self, uri: str) -> Iterable[Listener]:
        """Give who listens to a URI, spelled so."""
        interest = self._by_uri.get(uri)
        return () if interest is None else interest.listeners

    def is_evented(self, uri: str) -> bool:
        """Tell whether changes of a URI are reported."""
        return uri not in self._polled

    def reported(self, uri: str, fingerprint: str = UNSEEN) -> Iterable[tuple[Listener, str]]:
        """Note a change reported at this place; give who is to hear of it, each with the URI as he spelled it."""
        place = place_of(uri)
        heard = []
        for spelled in self._by_place.get(place, ()):
            interest = self._by_uri[spelled]
            if self.is_evented(spelled):
                # What only leads there may be refused now, and is to be told when it no longer is.
                interest.fingerprint = fingerprint if place_of(spelled) == place else UNSEEN
            heard += [(listener, spelled) for listener in interest.listeners]
        return heard

    def below(self, uri: str) -> dict[str, str | None]:
        """Give what is listened to at a place or below it, each with what was last seen there."""
        top = place_of(uri)
        below = top if top.endswith("/") else f"{top}/"
        found = set(self._by_place.get(top, ()))
        for place in islice(self._in_order, bisect_left(self._in_order, below), None):
            if not place.startswith(below):
                break
            found |= self._by_place[place]
        return {spelled: self._by_uri[spelled].fingerprint for spelled in found}

    def of(self, owner: str, *, with_evented: bool) -> dict[str, str | None]:
        """Return what is listened to of a provider, each with what was last seen; without events, or all of it."""
        return {
            uri: interest.fingerprint
            for uri, interest in self._by_uri.items()
            if interest.mounted.provider.name == owner and (with_evented or uri in self._polled)
        }

    def polled_owners(self) -> set[str]:
        """Return the names of the providers of which anything must be looked at again and again."""
        return {self._by_uri[uri].mounted.provider.name for uri in self._polled}

    def look_at_last(self, uri: str) -> bool:
        """Put a URI behind all others; tell whether anybody listens to it."""
        interest = self._by_uri.pop(uri, None)
        if interest is not None:
            self._by_uri[uri] = interest
        return interest is not None

    def see(self, uri: str, before: str | None, now: str | None) -> None:
        """Note what is seen now. If another look meanwhile saw something else, count it as not seen."""
        interest = self._by_uri.get(uri)
        if interest is not None:
            is_sure = interest.fingerprint in (before, now) or not self.is_evented(uri)
            interest.fingerprint = now if is_sure else UNSEEN


def place_of(uri: str) -> str:
    """Give what the spellings and query variants of a URI have in common."""
    return normalise(split_query(uri)[0])
