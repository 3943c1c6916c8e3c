"""The lists of a mounted server: taken from it within bounds, and served here."""

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final, Literal, TypeVar

from carrel.client.client import Client
from carrel.core.errors import CarrelError, RemoteError
from carrel.core.model import Resource, Template
from carrel.core.uri import normalise
from carrel.providers.mounts.link import Refused
from carrel.providers.mounts.saved_lists import ListMemory
from carrel.providers.mounts.settings import MountSettings
from carrel.providers.mounts.uri_mapping import Naming, Snapshot, valid_resources, valid_templates

MAX_PAGES: Final = 200
_METHOD_NOT_FOUND: Final = -32601
_Entry = TypeVar("_Entry")

TakenSchemes = Callable[[], frozenset[str]]
"""Returns the schemes that belong to built-in providers, objects and earlier mounts."""


class Circular(CarrelError):
    """The other server lists resources of this one, directly or through others."""


def only_ours() -> frozenset[str]:
    """Return the one scheme that no mount may have."""
    return frozenset({"carrel"})


def take_lists(client: Client, options: MountSettings, timeout_s: float) -> tuple[Snapshot, float]:
    """Return all pages of resources and templates, and for how many seconds they are fresh."""
    fresh_s = options.refresh_s
    if "resources" not in client.capabilities:
        return Snapshot(), fresh_s

    def resources(cursor: str | None) -> tuple[tuple[Resource, ...], str | None]:
        nonlocal fresh_s
        page = client.page(cursor)
        if client.era == "modern":
            fresh_s = min(fresh_s, page.ttl_ms / 1_000)
        return valid_resources(page.entries), page.next_cursor

    deadline = monotonic() + timeout_s
    entries = _pages(resources, options.max_entries, deadline)
    templates = _pages(client.template_page, options.max_entries, deadline)
    return Snapshot(tuple(entries), valid_templates(templates)), fresh_s


def _pages(
    ask: Callable[[str | None], tuple[Iterable[_Entry], str | None]], most: int, deadline: float
) -> list[_Entry]:
    """Return the entries of all pages within the bounds; nothing if the server does not have the list."""
    entries: list[_Entry] = []
    seen: set[str] = set()
    cursor: str | None = None
    try:
        for _ in range(MAX_PAGES):
            found, cursor = ask(cursor)
            entries += found
            if cursor is None or cursor in seen or len(entries) >= most or monotonic() >= deadline:
                break
            seen.add(cursor)
    except RemoteError as error:
        if error.code != _METHOD_NOT_FOUND:
            raise
    return entries[:most]


class ServedLists:
    """The lists as they are served here.

    The first lists of the server decide how its URIs are spelled. Until they come, the lists of an earlier run are
    served in the spelling they had then.
    """

    def __init__(self, name: str, taken: TakenSchemes, memory: ListMemory | None) -> None:
        self.naming = Naming("")
        self.is_decided = False
        self.is_recalled = False
        self.schemes: tuple[str, ...] = ()
        self.version = 0
        self._name = name
        self._taken = taken
        self._memory = memory
        self._putting = threading.Lock()
        self._snapshot = Snapshot()
        self._uris: frozenset[str] = frozenset()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources, in URI order."""
        return self._snapshot.resources

    @property
    def templates(self) -> tuple[Template, ...]:
        """The templates, in order."""
        return self._snapshot.templates

    def has(self, uri: str) -> bool:
        """Return whether a URI is listed, however it is spelled."""
        return normalise(uri) in self._uris

    def recall(self, taken_now: frozenset[str]) -> None:
        """Serve the lists of the last run, unless one of their schemes belongs to another provider now."""
        kept = self._memory.load() if self._memory is not None else None
        if kept is None or kept.prefix not in ("", f"{self._name}+"):
            return
        naming, there = Naming(kept.prefix), kept.snapshot
        if there != Snapshot() and (kept.prefix or not there.schemes & (taken_now | only_ours())):
            self.naming, self.is_recalled = naming, True
            self._put(naming.snapshot(there, only_ours()))

    def decide(self, there: Snapshot, wanted: Literal["auto"] | bool) -> None:
        """Decide once how URIs are spelled; raise Refused if a scheme is taken and no prefix is allowed."""
        if self.is_decided:
            return
        prefix = f"{self._name}+"
        if wanted is not True:
            clashing = sorted(there.schemes & (self._taken() | only_ours()))
            if clashing and wanted is False:
                raise Refused(f"its scheme {clashing[0]}: is taken, and prefix is false")
            prefix = prefix if clashing else ""
        if prefix != self.naming.prefix:
            self.schemes = ()
        self.naming, self.is_decided = Naming(prefix), True

    def take(self, there: Snapshot) -> bool:
        """Serve the lists of the server, and save them; return whether they changed."""
        foreign = frozenset() if self.naming.prefix else self._taken() - frozenset(self.schemes)
        has_changed = self._put(self.naming.snapshot(there, foreign | only_ours()))
        if self._memory is not None:
            self._memory.save(there, self.naming.prefix)
        return has_changed

    def withdraw(self) -> bool:
        """Serve no lists, and forget the saved ones; return whether there were any."""
        if self._memory is not None:
            self._memory.forget()
        return self._put(Snapshot())

    def _put(self, listed: Snapshot) -> bool:
        with self._putting:
            if listed == self._snapshot:
                return False
            self._snapshot = listed
            self._uris = frozenset(normalise(one.uri) for one in listed.resources)
            self.schemes = tuple(sorted(listed.schemes | set(self.schemes)))
            self.version += 1
            return True
