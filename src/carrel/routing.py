"""Which route reads a URI: the table that is listed is the one that dispatches.

A route without variables goes before templates; then the longer literal start; then
the order of configuration. What no route matches goes, as sent, to the `unmatched` of
the provider that owns the scheme.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from carrel.errors import BadArgument, NotFound, RequestError, echo
from carrel.model import Resource, Template
from carrel.provider import Calling, Catching, Completing, Fronting, Given, Ordering, Provider, Refusing, Route
from carrel.template import UriTemplate
from carrel.uri import decode, normalise, pairs, scheme_of, split_query, without
from carrel.value import Value

RANGE_NAMES: Final = frozenset({"start", "length"})
MAX_RECENT: Final = 1_024
MAX_RECENT_LENGTH: Final = 256
"""URIs whose way is remembered, and how long they may be: clients ask for the same few again and again."""


class Mounted:
    """A provider, and the facets it was found to have."""

    __slots__ = (
        "blocking",
        "calling",
        "catching",
        "completing",
        "fronting",
        "literal",
        "mirrors",
        "ordering",
        "patient",
        "provider",
        "routes",
        "speaks_fly",
        "summary",
    )

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.routes = tuple((route, UriTemplate(route.template)) for route in provider.routes())
        self.blocking: bool = getattr(provider, "blocking", False)
        self.patient: bool = getattr(provider, "patient", False)
        self.mirrors: bool = getattr(provider, "mirrors", False)
        self.literal: bool = getattr(provider, "literal", False)
        self.summary: str = getattr(provider, "summary", "")
        self.speaks_fly: bool = getattr(provider, "speaks_fly", False)
        self.fronting = provider if isinstance(provider, Fronting) else None
        self.ordering = provider if isinstance(provider, Ordering) else None
        self.catching = provider if isinstance(provider, Catching) else None
        self.completing = provider if isinstance(provider, Completing) else None
        self.calling = provider if isinstance(provider, Calling) and getattr(provider, "calls", True) else None

    def key(self, entry: Resource) -> str:
        """Give an entry's place among this provider's entries."""
        return entry.uri if self.ordering is None else self.ordering.key(entry)

    def templates(self) -> Iterable[Template]:
        """Give what clients are told of the routes that have variables."""
        for route, template in self.routes:
            if not template.is_fixed:
                yield Template(route.template, route.name, route.description, route.mime_type, title=route.title)


class Found(Value, frozen=True):
    """The way to what a URI holds."""

    mounted: Mounted
    route: Route | None
    uri: str
    variables: Mapping[str, str]
    query_range: tuple[tuple[str, str], ...] = ()

    def read(self) -> Given:
        """Ask the provider."""
        if self.route is None:
            if self.mounted.catching is None:
                raise NotFound(self.uri)
            return self.mounted.catching.unmatched(self.uri)
        if self.route.whole:
            return self.route.reader(self.uri)
        return self.route.reader(**self.variables)


class Routes:
    """The route tables of all providers as one."""

    def __init__(self, providers: Iterable[Mounted]) -> None:
        self._fixed: dict[str, Found] = {}
        self._recent: dict[str, Found] = {}
        self._normal: dict[str, Found] = {}
        self._fixed_schemes: set[str] = set()
        self._templates: dict[str, list[tuple[UriTemplate, Route, Mounted]]] = {}
        self._owners: dict[str, Mounted] = {}
        for mounted in providers:
            for scheme in mounted.provider.schemes:
                self._owners.setdefault(scheme, mounted)
            for route, template in mounted.routes:
                if template.is_fixed:
                    found = Found(mounted, route, template.text, {})
                    self._fixed.setdefault(template.text, found)
                    self._normal.setdefault(normalise(template.text), found)
                    self._fixed_schemes.add(scheme_of(template.text))
                else:
                    scheme = scheme_of(template.literal_start)
                    self._templates.setdefault(scheme, []).append((template, route, mounted))
        for table in self._templates.values():
            table.sort(key=lambda row: -len(row[0].literal_start))
        self._literal = {scheme: mounted for scheme, mounted in self._owners.items() if mounted.literal}
        owners = set(map(id, self._owners.values()))
        self._sole = next(iter(self._literal.values()), None) if len(owners) == 1 else None

    def find(self, uri: str) -> Found:
        """Give the way to a URI, or raise the reason why there is none."""
        found = self._fixed.get(uri) or self._recent.get(uri)
        if found is not None:
            return found
        taker = self._literal.get(uri.partition(":")[0].lower(), self._sole)
        if taker is not None:
            bare, taken = _without_range(uri)
            return Found(taker, None, bare, {}, taken)
        try:
            scheme = scheme_of(uri)
        except BadArgument as error:
            raise self._refusal(uri, error) from None
        found = self._match(scheme, uri)
        if found is None:
            found = self._match_without_range(scheme, uri)
        if found is None:
            return self._catch(scheme, uri)
        if len(uri) <= MAX_RECENT_LENGTH:
            if len(self._recent) >= MAX_RECENT:
                self._recent.clear()
            self._recent[uri] = found
        return found

    def owner(self, uri: str) -> Mounted:
        """Give the provider a URI belongs to."""
        return self.find(uri).mounted

    def template(self, reference: str) -> tuple[UriTemplate, Mounted] | None:
        """Give the template a completion reference means: its own text, a URI it matches, or one begun like it."""
        for table in self._templates.values():
            for template, _, mounted in table:
                if template.text == reference:
                    return template, mounted
        try:
            rows = self._templates.get(scheme_of(reference), [])
        except BadArgument:
            return None
        matching = [(template, mounted) for template, _, mounted in rows if template.match(reference) is not None]
        alike = (
            (one, mounted) for one, _, mounted in rows if _is_named(one) and reference.startswith(one.literal_start)
        )
        return matching[0] if matching else next(alike, None)

    def _refusal(self, uri: str, error: BadArgument) -> RequestError:
        """Give the words of the provider that a malformed URI would belong to, if it has any."""
        mounted = self._owners.get(uri.partition(":")[0].lower())
        if mounted is None or not isinstance(mounted.provider, Refusing):
            return error
        return mounted.provider.refused(uri, error)

    def _match(self, scheme: str, uri: str) -> Found | None:
        if scheme in self._fixed_schemes:
            same = self._normal.get(normalise(uri))
            if same is not None:
                return Found(same.mounted, same.route, uri, {})
        for template, route, mounted in self._templates.get(scheme, ()):
            variables = template.match(uri)
            if variables is not None:
                return Found(mounted, route, uri, variables)
        return None

    def _match_without_range(self, scheme: str, uri: str) -> Found | None:
        """Take `start` and `length` off: they are Carrel's on every scheme, unless a template names them."""
        bare, taken = _without_range(uri)
        if not taken:
            return None
        found = self._fixed.get(bare) or self._match(scheme, bare)
        if found is None or (found.route is not None and found.route.whole):
            if self._reads_ranges(scheme):
                return None
            found = found or self._catch(scheme, bare)
        return Found(found.mounted, found.route, bare, found.variables, taken)

    def _reads_ranges(self, scheme: str) -> bool:
        """Tell whether the owner of a scheme takes URIs as they were sent, and names ranges itself."""
        rows = self._templates.get(scheme, ())
        return any(route.whole and not RANGE_NAMES.isdisjoint(template.query_variables) for template, route, _ in rows)

    def _catch(self, scheme: str, uri: str) -> Found:
        mounted = self._owners.get(scheme)
        if mounted is None:
            message = f"Unknown scheme: {echo(uri)}"
            raise BadArgument(message, uri=uri, data={"name": "MCP_NOT_FOUND"})
        if mounted.catching is None:
            raise self._reason(scheme, uri)
        return Found(mounted, None, uri, {})

    def _reason(self, scheme: str, uri: str) -> RequestError:
        """Say why no route matches: a malformed URI, a parameter nobody knows, or nothing there."""
        bare, query = split_query(uri)
        try:
            decode(bare)
            names = [name for name, _ in pairs(query)] if query else []
        except BadArgument as error:
            return BadArgument(error.message, uri=uri, data=error.data)
        if names and (bare in self._fixed or self._match(scheme, bare) is not None):
            known = self._known_names(scheme, bare)
            odd = next((name for name in names if name not in known), None)
            twice = next((name for at, name in enumerate(names) if name in names[:at]), names[0])
            name, why = (twice, "given twice") if odd is None else (odd, "unknown")
            return BadArgument(f"Invalid parameter: {echo(name)} ({why})", uri=uri, data={"parameter": name})
        return NotFound(uri)

    def _known_names(self, scheme: str, bare: str) -> frozenset[str]:
        for template, _, _ in self._templates.get(scheme, ()):
            if template.match(bare) is not None:
                return template.query_variables
        return frozenset()


def _is_named(template: UriTemplate) -> bool:
    """Tell whether a template's beginning says more than whose it is."""
    return bool(template.literal_start.partition(":")[2].strip("/"))


def _without_range(uri: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Give the URI without `start` and `length`, and what they were; as sent if there are none."""
    query = split_query(uri)[1]
    if query is None:
        return uri, ()
    try:
        taken = tuple(pair for pair in pairs(query) if pair[0] in RANGE_NAMES)
    except BadArgument:
        return uri, ()
    return (without(uri, RANGE_NAMES) if taken else uri), taken
