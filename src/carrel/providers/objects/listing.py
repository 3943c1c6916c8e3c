"""An object's lists as they are known now, and the way to what a URI holds."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from carrel.core.model import Resource, Template
from carrel.core.record import Value
from carrel.core.template import UriTemplate
from carrel.core.uri import normalise, pairs, split_query
from carrel.providers.objects.conversion import Listed, sorted_schemes
from carrel.providers.objects.tools import OfferedTool

log = logging.getLogger(__name__)

Ask = Callable[[], Listed]


class Way(Value, frozen=True):
    """What `resource_read` is handed for a URI, and what is known of it."""

    handed: str
    arguments: tuple[tuple[str, str], ...]
    mime_type: str
    is_listed: bool


class Lists:
    """Resources, templates and tools, asked for at most once in `ttl_s`.

    A list that is late is the last one. One that failed is empty, but what the last one held can be read.
    """

    def __init__(self, name: str, ttl_s: float, changed: Callable[[], None]) -> None:
        self.version = 0
        self.resources: tuple[Resource, ...] = ()
        self.templates: tuple[Template, ...] = ()
        self.tools: tuple[OfferedTool, ...] = ()
        self.known_resources: tuple[Resource, ...] = ()
        self.known_templates: tuple[Template, ...] = ()
        self.schemes: tuple[str, ...] = ()
        self._name = name
        self._ttl_s = ttl_s
        self._changed = changed
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._late = False
        self._faults: dict[str, tuple[str, ...]] = {}
        self._by_uri: dict[str, Resource] = {}
        self._matching: list[tuple[UriTemplate, Template]] = []

    def is_stale(self) -> bool:
        """Tell whether it is time to ask again."""
        return self.is_older(self._ttl_s)

    def is_older(self, age_s: float) -> bool:
        """Tell whether the lists were asked for so long ago."""
        return monotonic() - self._asked_at >= age_s

    def faults(self) -> tuple[str, ...]:
        """Give what is wrong with the lists now."""
        return tuple(fault for faults in self._faults.values() for fault in faults)

    def refresh(self, asks: Mapping[str, Ask]) -> None:
        """Ask for the lists; whoever comes while another asks takes what that one gets."""
        asked_before = self._asked_at
        with self._asking:
            if self._asked_at != asked_before:
                return
            self._asked_at = monotonic()
            given = {kind: ask() for kind, ask in asks.items()}
            self._log_new(given)
            self._late = any(listed.outcome == "late" for listed in given.values())
            has_changed = self._take(given)
        if has_changed:
            self._changed()

    @property
    def is_late(self) -> bool:
        """Whether the last attempt to renew a list took too long."""
        return self._late

    def _take(self, given: Mapping[str, Listed]) -> bool:
        """Take lists into use; return whether resources or templates are others than before."""
        resources = _listed(given, "resources", self.resources)
        templates = _listed(given, "templates", self.templates)
        tools = _listed(given, "tools", self.tools)
        known_resources = _known(given, "resources", self.known_resources)
        known_templates = _known(given, "templates", self.known_templates)
        before = self.resources, self.templates, self.known_resources, self.known_templates
        has_changed = (resources, templates, known_resources, known_templates) != before
        if has_changed or tools != self.tools:
            self.resources, self.templates, self.tools = resources, templates, tools
            self._put(known_resources, known_templates)
        return has_changed

    def declared(self, uri: str) -> str | None:
        """Give a listed URI as it was declared."""
        entry = self._by_uri.get(normalise(uri))
        return None if entry is None else entry.uri

    def find(self, uri: str) -> Way | None:
        """Give the way to a URI: listed as a whole, listed without its query, or matched by a template."""
        entry = self._by_uri.get(normalise(uri))
        if entry is not None:
            return Way(entry.uri, (), entry.mime_type, is_listed=True)
        bare, query = split_query(uri)
        arguments = tuple(pairs(query)) if query else ()
        entry = self._by_uri.get(normalise(bare))
        if entry is not None:
            return Way(entry.uri, arguments, entry.mime_type, is_listed=True)
        for template, told in self._matching:
            if template.match(bare) is not None:
                return Way(bare, arguments, told.mime_type, is_listed=False)
        return None

    def _put(self, resources: tuple[Resource, ...], templates: tuple[Template, ...]) -> None:
        matching = [(UriTemplate(one.uri_template), one) for one in templates]
        self._matching = sorted(matching, key=lambda row: -len(row[0].literal_start))
        self._by_uri = {normalise(one.uri): one for one in resources}
        self.known_resources, self.known_templates = resources, templates
        self.schemes = sorted_schemes([*(one.uri for one in resources), *(one.uri_template for one in templates)])
        self.version += 1

    def _log_new(self, given: Mapping[str, Any]) -> None:
        """Write each fault down when it appears, and not again while it lasts."""
        known = set(self.faults())
        self._faults = {kind: listed.faults for kind, listed in given.items()}
        for fault in self.faults():
            if fault not in known:
                log.warning("object %s: %s", self._name, fault)


def _listed(given: Mapping[str, Listed], kind: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
    listed = given.get(kind)
    return () if listed is None else before if listed.outcome == "late" else listed.entries


def _known(given: Mapping[str, Listed], kind: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
    listed = given.get(kind)
    return () if listed is None else listed.entries if listed.outcome == "given" else before
