"""The lists of an object as they were last given, and the URIs in them."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Literal

from carrel.core.model import Resource, Template
from carrel.core.record import Value
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


class Lists:
    """Resources, templates and tools, refreshed at most once in `ttl_s`.

    While a list is late, the last one is served. While it fails, it is empty, but what it held before can be read.
    """

    def __init__(self, name: str, ttl_s: float, changed: Callable[[], None]) -> None:
        self.version = 0
        self.is_late = False
        """Whether a list was not given in time when it was last asked for."""
        self.schemes: tuple[str, ...] = ()
        self._name = name
        self._ttl_s = ttl_s
        self._changed = changed
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._listed: dict[ListName, tuple[Any, ...]] = {}
        self._known: dict[ListName, tuple[Any, ...]] = {}
        self._faults: tuple[str, ...] = ()
        self._by_uri: dict[str, Resource] = {}
        self._by_template: list[tuple[UriTemplate, Template]] = []

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The listed resources, in URI order."""
        return self._listed.get("resources", ())

    @property
    def templates(self) -> tuple[Template, ...]:
        """The listed templates."""
        return self._listed.get("templates", ())

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The listed tools."""
        return self._listed.get("tools", ())

    @property
    def known_resources(self) -> tuple[Resource, ...]:
        """The resources that can be read, also while their list fails."""
        return self._known.get("resources", ())

    @property
    def known_templates(self) -> tuple[Template, ...]:
        """The templates that can be read, also while their list fails."""
        return self._known.get("templates", ())

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the lists now, a sentence each."""
        return self._faults

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
            self._log_new_faults(tuple(fault for listed in given.values() for fault in listed.faults))
            self.is_late = any(listed.outcome == "late" for listed in given.values())
            has_changed = self._take(given)
        if has_changed:
            self._changed()

    def _take(self, given: Mapping[ListName, Listed]) -> bool:
        """Put lists into use; return whether resources or templates changed."""
        before_listed, before_known = self._listed, self._known
        listed, known = dict[ListName, tuple[Any, ...]](), dict[ListName, tuple[Any, ...]]()
        for kind, one in given.items():
            listed[kind] = before_listed.get(kind, ()) if one.outcome == "late" else one.entries
            known[kind] = one.entries if one.outcome == "given" else before_known.get(kind, ())
        if (listed, known) == (before_listed, before_known):
            return False
        self._listed, self._known = listed, known
        templates = [(UriTemplate(one.uri_template), one) for one in self.known_templates]
        self._by_template = sorted(templates, key=lambda row: -len(row[0].literal_start))
        self._by_uri = {normalise(one.uri): one for one in self.known_resources}
        uris = (*(one.uri for one in self.known_resources), *(one.uri_template for one in self.known_templates))
        self.schemes = sorted_schemes(uris)
        self.version += 1
        return any(_others(before, now) for before, now in ((before_listed, listed), (before_known, known)))

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

    def _log_new_faults(self, faults: tuple[str, ...]) -> None:
        """Log each fault when it appears, and not again while it lasts."""
        for fault in faults:
            if fault not in self._faults:
                log.warning("object %s: %s", self._name, fault)
        self._faults = faults


def _others(before: Mapping[ListName, tuple[Any, ...]], now: Mapping[ListName, tuple[Any, ...]]) -> bool:
    kinds: tuple[ListName, ...] = ("resources", "templates")
    return any(before.get(kind, ()) != now.get(kind, ()) for kind in kinds)
