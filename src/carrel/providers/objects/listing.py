"""The lists of an object as they were last given, and the URIs in them."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Literal

from carrel.core.model import Resource, Template
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.uri import normalise, pairs, split_query
from carrel.providers.objects.conversion import Listed, sorted_schemes
from carrel.providers.objects.tools import OfferedTool

log = logging.getLogger(__name__)

ListName = Literal["resources", "templates", "tools"]


class FoundUri(Value, frozen=True):
    """What `resource_read` is called with for a URI, and what the lists say of it."""

    uri: str
    arguments: tuple[tuple[str, str], ...]
    mime_type: str
    is_listed: bool


class Offers(Value, frozen=True):
    """The lists of an object."""

    resources: tuple[Resource, ...] = ()
    """In URI order."""
    templates: tuple[Template, ...] = ()
    tools: tuple[OfferedTool, ...] = ()

    def differs(self, other: "Offers") -> bool:
        """Return whether the resources or templates are other ones."""
        return (self.resources, self.templates) != (other.resources, other.templates)


class Lists:
    """Resources, templates and tools, refreshed at most once in `ttl_s`.

    `listed` is what clients are shown, `known` what can be read. While a list is late, the last one is shown. While it
    fails, an empty one is shown, but the entries of the last one can be read.
    """

    def __init__(self, name: str, ttl_s: float, changed: Callable[[], None]) -> None:
        self.version = 0
        self.is_late = False
        """Whether a list was not given in time when it was last asked for."""
        self.schemes: tuple[str, ...] = ()
        self.faults: tuple[str, ...] = ()
        """What is wrong with the lists now, a sentence each."""
        self.listed = self.known = Offers()
        self._name = name
        self._ttl_s = ttl_s
        self._changed = changed
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._by_uri: dict[str, Resource] = {}
        self._by_template: list[tuple[UriTemplate, Template]] = []

    def is_stale(self) -> bool:
        """Return whether it is time to ask again."""
        return self.is_older(self._ttl_s)

    def is_older(self, age_s: float) -> bool:
        """Return whether the lists were asked for at least this long ago."""
        return monotonic() - self._asked_at >= age_s

    def refresh(self, asks: Mapping[ListName, Callable[[], Listed]]) -> None:
        """Ask for the lists. A caller that comes meanwhile waits, and asks for nothing itself."""
        asked_before = self._asked_at
        with self._asking:
            if self._asked_at != asked_before:
                return
            self._asked_at = monotonic()
            given = {kind: ask() for kind, ask in asks.items()}
            faults = tuple(fault for listed in given.values() for fault in listed.faults)
            for fault in set(faults) - set(self.faults):  # once, not again while it lasts
                log.warning("object %s: %s", self._name, fault)
            self.faults = faults
            self.is_late = any(listed.outcome == "late" for listed in given.values())
            has_changed = self._take(given)
        if has_changed:
            self._changed()

    def _take(self, given: Mapping[ListName, Listed]) -> bool:
        """Put lists into use; return whether resources or templates changed."""
        before_listed, before_known = self.listed, self.known
        in_time = {kind: one.entries for kind, one in given.items() if one.outcome != "late"}
        valid = {kind: one.entries for kind, one in given.items() if one.outcome == "given"}
        listed, known = replace(before_listed, **in_time), replace(before_known, **valid)
        if (listed, known) == (before_listed, before_known):
            return False
        self.listed, self.known = listed, known
        templates = [(UriTemplate(one.uri_template), one) for one in known.templates]
        self._by_template = sorted(templates, key=lambda row: -len(row[0].literal_start))
        self._by_uri = {normalise(one.uri): one for one in known.resources}
        self.schemes = sorted_schemes([*self._by_uri, *(one.uri_template for one in known.templates)])
        self.version += 1
        return listed.differs(before_listed) or known.differs(before_known)

    def declared(self, uri: str) -> str | None:
        """Return a listed URI as the object spells it."""
        entry = self._by_uri.get(normalise(uri))
        return None if entry is None else entry.uri

    def find(self, uri: str) -> FoundUri | None:
        """Find a URI: listed as a whole, listed without its query, or matched by a template."""
        entry = self._by_uri.get(normalise(uri))
        if entry is not None:
            return FoundUri(entry.uri, (), entry.mime_type, is_listed=True)
        bare, query = split_query(uri)
        arguments = tuple(pairs(query)) if query else ()
        entry = self._by_uri.get(normalise(bare))
        if entry is not None:
            return FoundUri(entry.uri, arguments, entry.mime_type, is_listed=True)
        for template, described in self._by_template:
            if template.match(bare) is not None:
                return FoundUri(bare, arguments, described.mime_type, is_listed=False)
        return None
