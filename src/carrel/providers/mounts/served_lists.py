"""The lists of a mounted server as they are served here."""

import threading
from collections.abc import Callable
from typing import Literal

from carrel.core.model import Resource, Template
from carrel.core.uri import normalise
from carrel.providers.mounts.link import Refused
from carrel.providers.mounts.saved_lists import ListMemory
from carrel.providers.mounts.uri_mapping import Naming, Snapshot

TakenSchemes = Callable[[], frozenset[str]]
"""Gives the schemes that belong to built-ins, objects and earlier mounts."""


def only_ours() -> frozenset[str]:
    """Return the one scheme that no mount may have."""
    return frozenset({"carrel"})


class ListedHere:
    """What is listed, in the spelling of here.

    How URIs are spelled is decided by the server's first lists. Until they come, the lists
    remembered from an earlier run are served in the spelling they had then.
    """

    def __init__(self, name: str, taken: TakenSchemes, memory: ListMemory | None) -> None:
        self.naming = Naming("")
        self.is_decided = False
        self.is_recalled = False
        self.schemes: tuple[str, ...] = ()
        self.turn = 0
        self._name = name
        self._taken = taken
        self._memory = memory
        self._putting = threading.Lock()
        self._snapshot = Snapshot()
        self._uris: frozenset[str] = frozenset()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Return the resources in URI order."""
        return self._snapshot.resources

    @property
    def templates(self) -> tuple[Template, ...]:
        """Return the templates, in order."""
        return self._snapshot.templates

    def has(self, uri: str) -> bool:
        """Tell whether a URI is listed, however it is spelled."""
        return normalise(uri) in self._uris

    def recall(self, taken_now: frozenset[str]) -> None:
        """Serve the lists of the last run, unless one of their schemes belongs to somebody else now."""
        kept = self._memory.load() if self._memory is not None else None
        if kept is None or kept.prefix not in ("", f"{self._name}+"):
            return
        naming, there = Naming(kept.prefix), kept.snapshot
        if there != Snapshot() and (kept.prefix or not there.schemes & (taken_now | {"carrel"})):
            self.naming, self.is_recalled = naming, True
            self._put(naming.snapshot(there, frozenset({"carrel"})))

    def decide(self, there: Snapshot, wanted: Literal["auto"] | bool) -> None:
        """Decide how URIs are spelled, once; raise Refused where the server's scheme is taken and may not change."""
        if self.is_decided:
            return
        prefix = f"{self._name}+"
        if wanted is not True:
            clashing = sorted(there.schemes & (self._taken() | {"carrel"}))
            if clashing and wanted is False:
                raise Refused(f"its scheme {clashing[0]}: is taken, and prefix is false")
            prefix = prefix if clashing else ""
        if prefix != self.naming.prefix:
            self.schemes = ()
        self.naming, self.is_decided = Naming(prefix), True

    def take(self, there: Snapshot) -> bool:
        """Take the server's lists into use, and remember them; return whether they are others than before."""
        foreign = frozenset() if self.naming.prefix else self._taken() - frozenset(self.schemes)
        has_changed = self._put(self.naming.snapshot(there, foreign | {"carrel"}))
        if self._memory is not None:
            self._memory.save(there, self.naming.prefix)
        return has_changed

    def withdraw(self) -> bool:
        """List nothing any more, and forget what was remembered; return whether anything was listed."""
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
            self.turn += 1
            return True
