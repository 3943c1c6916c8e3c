"""An object's lists as they are known now, and the way to what a URI holds."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from carrel.model import Resource, Template
from carrel.providers.objects.shapes import Listed, sorted_schemes
from carrel.providers.objects.tools import Method
from carrel.template import UriTemplate
from carrel.uri import normalise, pairs, split_query
from carrel.value import Value

log = logging.getLogger(__name__)

Ask = Callable[[], Listed]


class Way(Value, frozen=True):
    """What `resource_read` is handed for a URI, and what is known of it."""

    handed: str
    arguments: tuple[tuple[str, str], ...]
    mime_type: str
    is_listed: bool


class Lists:
    """Resources, templates and tools, asked for at most once in `ttl_s`."""

    def __init__(self, name: str, ttl_s: float, changed: Callable[[], None]) -> None:
        self.version = 0
        self.resources: tuple[Resource, ...] = ()
        self.templates: tuple[Template, ...] = ()
        self.tools: tuple[Method, ...] = ()
        self.schemes: tuple[str, ...] = ()
        self._name = name
        self._ttl_s = ttl_s
        self._changed = changed
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
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
            resources, templates, tools = (
                given[kind].entries if kind in given else () for kind in ("resources", "templates", "tools")
            )
            has_changed = (resources, templates) != (self.resources, self.templates)
            if has_changed or tools != self.tools:
                self._put(resources, templates, tools)
        if has_changed:
            self._changed()

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

    def _put(self, resources: tuple[Resource, ...], templates: tuple[Template, ...], tools: tuple[Method, ...]) -> None:
        matching = [(UriTemplate(one.uri_template), one) for one in templates]
        self._matching = sorted(matching, key=lambda row: -len(row[0].literal_start))
        self._by_uri = {normalise(one.uri): one for one in resources}
        self.resources, self.templates, self.tools = resources, templates, tools
        self.schemes = sorted_schemes([*(one.uri for one in resources), *(one.uri_template for one in templates)])
        self.version += 1

    def _log_new(self, given: Mapping[str, Any]) -> None:
        """Write each fault down when it appears, and not again while it lasts."""
        known = set(self.faults())
        self._faults = {kind: listed.faults for kind, listed in given.items()}
        for fault in self.faults():
            if fault not in known:
                log.warning("object %s: %s", self._name, fault)
