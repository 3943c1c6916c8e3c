"""Find the route that reads a URI. The table that is listed is the one that dispatches.

A route without variables has precedence over templates; then the longer literal start wins; then the order of
configuration. Single URIs that a gateway claims have precedence over all of these, unless another provider already
serves them. A URI that no route matches is passed unchanged to `read_unmatched` of the provider that owns the scheme. A
provider may respell its URIs before they are matched (`canonical`), and word the errors for other URIs (`refusal`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from carrel.catalog import access
from carrel.core.arguments import FOLDER_PARAMETERS, PARAMETERS, InvalidArguments, known_parameters, refused_parameter
from carrel.core.content import close_sources
from carrel.core.errors import BadArgument, NotFound, RequestError, UnknownScheme, echo
from carrel.core.faults import attempt
from carrel.core.gateway import Gateway
from carrel.core.limits import MAX_REMEMBERED_LENGTH
from carrel.core.model import FOLDER_TYPE, Reading, Template, Text, Unread
from carrel.core.provider import METHODS, Given, Provider, Route, overrides
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.uri import decode, normalise, pairs, scheme_of, split_query, without

if TYPE_CHECKING:
    from carrel.outline.views import View

VIEW_NAMES: Final = frozenset({"outline", "lines", "budget"})
RANGE_NAMES: Final = frozenset({"start", "length"})
OWN_SCHEME: Final = "carrel"
"""The scheme of what Carrel says about itself: no provider of a project."""
MAX_RECENT: Final = 1_024
"""Number of URIs whose route is cached: clients read the same few again and again."""


class Mounted:
    """A provider, with the facts that were collected when it was mounted; `chosen` is its name in the settings."""

    __slots__ = ("_templates", "chosen", "claims", "gateway", "overrides", "provider", "routes", "speed")

    def __init__(self, provider: Provider, chosen: str = "") -> None:
        self.provider = provider
        self.chosen = chosen or provider.name
        self.overrides = frozenset(method for method in METHODS if overrides(provider, method))
        """The methods that the provider defines itself."""
        self.speed = provider.speed
        self.gateway = provider if isinstance(provider, Gateway) else None
        self.claims = None if self.gateway is None else self.gateway.claims()
        self.routes = tuple((route, UriTemplate(route.template)) for route in provider.routes())
        listed = (route for route, template in self.routes if route.listed and not template.is_fixed)
        self._templates = tuple(map(_template_of, listed))

    @property
    def permissions(self) -> tuple[str, ...]:
        """The schemes by which the permissions for its resources are named."""
        return (self.provider.permission,) if self.provider.permission else self.provider.schemes

    @property
    def has_tools(self) -> bool:
        """Whether the provider may have tools."""
        return self.provider.has_tools and "tools" in self.overrides

    @property
    def has_completions(self) -> bool:
        """Whether the provider may have completions."""
        return "complete" in self.overrides and (self.gateway is None or self.gateway.has_completions)

    def templates(self) -> Sequence[Template]:
        """Return the templates of the routes that have variables, as clients are sent them."""
        templates = None if self.gateway is None else self.gateway.templates()
        return self._templates if templates is None else templates


def _template_of(route: Route) -> Template:
    """Return a route as the template that clients are sent; without a name, it is named after its reader."""
    reader = getattr(route.reader, "__name__", "resource")
    name = route.name or reader.strip("<>").removeprefix("read_").replace("_", "-")
    return Template(route.template, name, route.description, route.mime_type, title=route.title)


class Found(Value, frozen=True):
    """The provider, the route and the variables of a URI."""

    mounted: Mounted
    route: Route | None
    uri: str
    variables: Mapping[str, object]
    """The keyword arguments of the reader."""
    query_range: tuple[tuple[str, str], ...] = ()
    others: tuple[Mounted, ...] = ()
    view: "View | None" = None
    """The view that is shown instead of the whole: an outline or a budget."""
    check: Callable[[str], None] | None = None
    """Checks the URIs of the items that are read: they may differ, as for an absolute path."""
    shows: Callable[[str], bool] | None = None
    """Returns whether the caller sees a child of a folder."""

    @property
    def start(self) -> int:
        """The first byte that the URI asks for."""
        query = {"start": getattr(self.variables.get("query"), "start", 0)}
        asked = str({**query, **self.variables, **dict(self.query_range)}["start"])
        return int(asked) if asked.isdecimal() else 0

    def takes(self, name: str) -> bool:
        """Return whether the route's template has a query variable of this name."""
        return any(route is self.route and name in template.query_variables for route, template in self.mounted.routes)

    def read(self, condition: str | None = None) -> Given:
        """Return the provider's result; may take long."""
        given = self.open(condition)
        return given.read() if isinstance(given, Unread) else given

    def open(self, condition: str | None = None) -> Given | Unread:
        """Return the result of the provider's reader, which gets the condition if it supports one."""
        given = self._open(condition)
        return given if self.check is None else _checked(given, self.check, self.shows)

    def _open(self, condition: str | None) -> Given | Unread:
        if self.view is not None:
            from carrel.outline.views import Viewed, show

            mime_type = "" if self.route is None else self.route.mime_type
            shows = None if self.check is None else lambda entry: access.may_list(entry.uri, entry.target)
            viewed = Viewed(replace(self, view=None).read, mime_type, self.mounted.provider, shows)
            return Unread(partial(show, self.view, viewed))
        if condition is not None and self.mounted.gateway is not None:
            given = self.mounted.gateway.read_if(self.uri, condition)
            if given is not None:
                return given
        if self.route is None:
            return self._catch()
        if self.mounted.gateway is not None:
            return self.route.reader(self.uri)
        return self.route.reader(**self.variables)

    def _catch(self) -> Given | Unread:
        """Ask the owners of the scheme, one by one."""
        for mounted in (self.mounted, *self.others[:-1]) if self.others else ():
            with suppress(NotFound):
                return mounted.provider.read_unmatched(self.uri)
        return (self.mounted, *self.others)[-1].provider.read_unmatched(self.uri)


def _checked(
    given: Given | Unread, check: Callable[[str], None], shows: Callable[[str], bool] | None
) -> Given | Unread:
    """Return the result of a read; raise if the caller may not read one of its items."""
    if isinstance(given, Unread):

        def read() -> Given:
            found = _checked(given.read(), check, shows)
            assert not isinstance(found, Unread)
            return found

        return Unread(read)
    items = given.items if isinstance(given, Reading) else (given,)
    try:
        for item in items:
            uri = (item.meta or {}).get("dev.carrel/uri") or item.uri
            if isinstance(uri, str) and uri:
                check(uri)
    except BaseException:
        close_sources(items)
        raise
    if isinstance(given, Reading) and given.more is not None and shows is not None:
        return _without_hidden(given, given.more, shows)
    return given


def _without_hidden(folder: Reading, more: Callable[[int], str | None], shows: Callable[[str], bool]) -> Reading:
    """Return the reading of a folder without the children that the caller does not see."""
    kept = [at for at, item in enumerate(folder.items) if item.uri is None or shows(item.uri)]
    if len(kept) == len(folder.items):
        return folder

    def more_kept(count: int) -> str | None:
        return more(kept[count - 1] + 1 if count < len(kept) else len(folder.items))

    items = tuple(folder.items[at] for at in kept) or (Text("", FOLDER_TYPE),)
    return replace(folder, items=items, more=more_kept)


class Clash(Value, frozen=True):
    """A URI, template or tool name that two providers have; the first keeps it."""

    what: str
    keeper: str
    other: str

    def __str__(self) -> str:
        return f"{echo(self.what)} is claimed by {self.keeper} and by {self.other}; {self.keeper} keeps it"


class Routes:
    """The route tables of all providers as one."""

    def __init__(self, providers: Sequence[Mounted]) -> None:
        self._fixed: dict[str, Found] = {}
        self._recent: dict[str, Found] = {}
        self._normal: dict[str, Found] = {}
        self._fixed_schemes: set[str] = set()
        self._templates: dict[str, list[tuple[UriTemplate, Route, Mounted]]] = {}
        self._keepers: dict[str, Mounted] = {}
        self._owners: dict[str, tuple[Mounted, ...]] = {}
        self._claims: dict[str, Found] = {}
        self._gateways: list[Mounted] = []
        self.clashes: list[Clash] = []
        # Gateways that claim single URIs come after the owners of their schemes.
        for mounted in sorted(providers, key=lambda one: one.claims is not None):
            self._take_routes(mounted)
            self._take_schemes(mounted)
            if mounted.gateway is not None:
                self._gateways.append(mounted)
        self._lost = frozenset((clash.other, clash.what) for clash in self.clashes)
        for table in self._templates.values():
            table.sort(key=lambda row: -len(row[0].literal_start))
        first = {scheme: owners[0] for scheme, owners in self._owners.items()}
        self._respelling = {scheme: owner for scheme, owner in first.items() if "canonical" in owner.overrides}
        owners = [owner for scheme, every in self._owners.items() if scheme != OWN_SCHEME for owner in every]
        self._only = owners[0] if len(set(map(id, owners))) == 1 else None

    def _take_routes(self, mounted: Mounted) -> None:
        for route, template in mounted.routes:
            if template.is_fixed:
                found = Found(mounted, route, template.text, _fixed_variables(route, template.text))
                kept = self._normal.setdefault(normalise(template.text), found)
                if kept.mounted is not mounted:
                    self.clashes.append(Clash(template.text, kept.mounted.provider.name, mounted.provider.name))
                    continue
                self._fixed.setdefault(template.text, found)
                self._fixed_schemes.add(scheme_of(template.text))
            else:
                keeper = self._keepers.setdefault(template.text, mounted)
                if keeper is mounted:
                    table = self._templates.setdefault(scheme_of(template.literal_start), [])
                    table.append((template, route, mounted))
                else:
                    self.clashes.append(Clash(template.text, keeper.provider.name, mounted.provider.name))

    def _take_schemes(self, mounted: Mounted) -> None:
        """Record the owner of each scheme and of each claimed URI; the first owner stays."""
        for scheme in mounted.provider.schemes:
            owners = self._owners.get(scheme, ())
            if not owners or (mounted.claims is not None and owners[0].claims is not None):
                self._owners[scheme] = (*owners, mounted)
        for route in mounted.claims or ():
            normal = normalise(route.template)
            same = self._normal.get(normal) or self._claims.get(normal)
            keeper = self._server_of(route.template) if same is None else same.mounted
            if keeper is None:
                self._claims[normal] = Found(mounted, route, route.template, {})
            elif keeper is not mounted:
                self.clashes.append(Clash(route.template, keeper.provider.name, mounted.provider.name))

    def _server_of(self, uri: str) -> Mounted | None:
        """Return the provider that serves a URI by a template or by its scheme, and claims no single URIs."""
        scheme = scheme_of(uri)
        for template, _, mounted in self._templates.get(scheme, ()):
            asked = uri if mounted.gateway is None else split_query(uri)[0]
            if mounted.claims is None and template.match(asked) is not None:
                return mounted
        return None

    @property
    def has_clashes(self) -> bool:
        """Return whether two providers have the same URI, template or tool name."""
        return bool(self._lost)

    def has_lost(self, mounted: Mounted, what: str) -> bool:
        """Return whether a URI or template of a provider is kept by another one."""
        return (mounted.provider.name, what) in self._lost

    def find(self, uri: str) -> Found:
        """Return the provider and route of a URI; raise if there is none."""
        found = self._fixed.get(uri) or self._recent.get(uri)
        if found is not None:
            return found
        view = self._view(uri) if "?" in uri else None
        if view is not None:
            found = self.find(view.uri)
            if view.budget is None:
                return replace(found, view=view, query_range=view.range or found.query_range)
            # With a budget, the range selects the text that must fit, and the result is not cut again.
            return replace(found, view=replace(view, range=found.query_range), query_range=())
        scheme = uri.partition(":")[0].lower()
        spelled = self.spelling(uri)
        try:
            return self._find(spelled, uri)
        except RequestError as error:
            error.uri = error.uri or uri
            owner = next(iter(self._owners.get(scheme, ())), self._only)
            raise error if owner is None else attempt("refusal", owner.provider.refusal, uri, error) from None

    def spelling(self, uri: str) -> str:
        """Return a URI in the spelling that is read."""
        owner = self._respelling.get(uri.partition(":")[0].lower())
        return uri if owner is None else attempt("canonical", owner.provider.canonical, uri)

    def _find(self, uri: str, sent: str) -> Found:
        """Return the route of a URI, which the client sent in another spelling."""
        scheme = scheme_of(uri)
        found = self._find_claim(sent) if self._claims else None
        if found is None:
            found = self._match(scheme, uri, sent)
        if found is None:
            found = self._match_without_range(scheme, uri, sent)
        if found is None:
            return self._catch(scheme, uri, sent)
        if len(sent) <= MAX_REMEMBERED_LENGTH:
            if len(self._recent) >= MAX_RECENT:
                self._recent.clear()
            self._recent[sent] = found
        return found

    def _view(self, uri: str) -> "View | None":
        """Return the view that a query asks for, unless the provider reads its names itself."""
        if not any(name in uri for name in VIEW_NAMES) or normalise(uri) in self._claims:
            return None
        from carrel.outline.views import find_view, view_of

        fixed = self._fixed.get(split_query(uri)[0])
        if fixed is not None and fixed.route is not None and fixed.route.query is None:
            return view_of(uri, VIEW_NAMES)  # the route itself takes no query
        return find_view(uri, VIEW_NAMES, self._templates.get(uri.partition(":")[0].lower(), ()))

    def finds_at_once(self, uri: str) -> bool:
        """Return whether `find` asks no provider: gateways are asked for the owner of an unknown scheme."""
        return not self._gateways or uri.partition(":")[0].lower() in self._owners

    def reference(self, reference: str) -> tuple[str, tuple[str, ...] | None, Mounted] | None:
        """Return the template of a completion reference, its variables (None: the provider knows), and its provider.

        It may be a template's own text, what a provider has beside its routes, a URI that a
        template matches, or one begun like it.
        """
        found = self._template(reference)
        if found is None or found[0].text != reference:
            for mounted in self._gateways:
                meant = None if mounted.gateway is None else mounted.gateway.refers(reference)
                if meant is not None:
                    return meant, None, mounted
        return None if found is None else (found[0].text, found[0].variables, found[1])

    def _template(self, reference: str) -> tuple[UriTemplate, Mounted] | None:
        for table in self._templates.values():
            for template, route, mounted in table:
                if template.text == reference and route.listed:
                    return template, mounted
        try:
            rows = [row for row in self._templates.get(scheme_of(reference), ()) if row[1].listed]
        except BadArgument:
            return None
        matching = [(template, mounted) for template, _, mounted in rows if template.match(reference) is not None]
        alike = (
            (one, mounted) for one, _, mounted in rows if _is_named(one) and reference.startswith(one.literal_start)
        )
        return matching[0] if matching else next(alike, None)

    def _find_claim(self, uri: str) -> Found | None:
        """Return the claim of a URI, or of its part before the query."""
        claim = self._claims.get(normalise(uri))
        if claim is not None:
            return Found(claim.mounted, claim.route, uri, {})
        bare, query = split_query(uri)
        claim = None if query is None else self._claims.get(normalise(bare))
        return None if claim is None else _with_open_query(claim.mounted, claim.route, uri, {}, RANGE_NAMES)

    def _match(self, scheme: str, uri: str, sent: str) -> Found | None:
        bare, query = split_query(uri)
        if scheme in self._fixed_schemes:
            same = self._normal.get(normalise(bare))
            if same is not None and same.route is not None and (query is None or same.route.query is not None):
                return _found(same.mounted, same.route, sent, {}, query)
        for template, route, mounted in self._templates.get(scheme, ()):
            is_open = mounted.gateway is not None
            variables = template.match(uri if route.query is None and not is_open else bare)
            if variables is not None and is_open:
                return _with_open_query(mounted, route, sent, variables, RANGE_NAMES - template.query_variables)
            if variables is not None:
                return _found(mounted, route, sent, variables, query)
        return None

    def _match_without_range(self, scheme: str, uri: str, sent: str) -> Found | None:
        """Match without `start` and `length`, which Carrel applies itself unless a template names them."""
        bare, taken = _without_range(uri)
        if not taken:
            return None
        sent = _without_range(sent)[0]
        found = self._fixed.get(bare) or self._match(scheme, bare, sent)
        if found is None and not self._catches(scheme):
            return None
        return replace(found or self._catch(scheme, bare, sent), uri=sent, query_range=taken)

    def _catches(self, scheme: str) -> bool:
        """Return whether URIs of a scheme are read that no route matches."""
        owners = self._owners.get(scheme)
        return owners is None or "read_unmatched" in owners[0].overrides

    def _catch(self, scheme: str, uri: str, sent: str) -> Found:
        mounted, *others = self._owners.get(scheme) or self._adopters(scheme) or (None,)
        if mounted is None:
            raise UnknownScheme(sent)
        if "read_unmatched" not in mounted.overrides:
            raise self._reason(scheme, uri, sent)
        return Found(mounted, None, sent, {}, others=tuple(others))

    def _adopters(self, scheme: str) -> tuple[Mounted, ...]:
        return tuple(
            mounted
            for mounted in self._gateways
            if mounted.gateway is not None and attempt("adopting", mounted.gateway.adopts, scheme)
        )

    def _reason(self, scheme: str, uri: str, sent: str) -> RequestError:
        """Return the error for a URI that no route matches: malformed, with an unknown parameter, or not found."""
        bare, query = split_query(uri)
        try:
            decode(bare)
            given = pairs(query) if query else []
        except BadArgument as error:
            return BadArgument(error.message, uri=sent, data=error.data)
        if given and (bare in self._fixed or self._match(scheme, bare, bare) is not None):
            known, example = self._known_names(scheme, bare)
            names = [name for name, _ in given]
            odd = next((pair for pair in given if pair[0] not in {*known, *RANGE_NAMES}), None)
            twice = next((pair for at, pair in enumerate(given) if pair[0] in names[:at]), given[0])
            if odd is None:
                return InvalidArguments([refused_parameter(*twice, "repeated", "given twice")], sent)
            every = known_parameters(known, PARAMETERS, example)
            return InvalidArguments([refused_parameter(*odd, "unknown", every)], sent)
        return NotFound(sent)

    def _known_names(self, scheme: str, bare: str) -> tuple[list[str], str]:
        """Return the parameters that the template of a URI names, and its example."""
        for template, route, _ in self._templates.get(scheme, ()):
            if template.match(bare) is not None:
                return [name for name in template.variables if name in template.query_variables], route.example
        return [], ""


def _fixed_variables(route: Route, uri: str) -> dict[str, object]:
    """Return the keyword arguments of the reader of a single URI."""
    variables: dict[str, object] = {} if route.query is None else {"query": route.query.check_query(())}
    return {**variables, "uri": uri} if route.takes_uri else variables


def _found(mounted: Mounted, route: Route, uri: str, variables: Mapping[str, str], query: str | None) -> Found:
    """Return a route with the keyword arguments of its reader; raise if its query does not fit.

    Carrel itself applies `start` and `length`, unless the route declares them.
    """
    given: dict[str, object] = {**variables}
    taken: list[tuple[str, str]] = []
    if route.query is not None:
        asked = pairs(query) if query else ()
        if asked and not route.query.names >= RANGE_NAMES:
            ours = RANGE_NAMES - route.query.names
            taken = [pair for pair in asked if pair[0] in ours]
            asked = [pair for pair in asked if pair[0] not in ours]
            uri = without(uri, ours) if taken else uri
        given["query"] = route.query.check_query(asked, uri, _beside(route))
    if route.takes_uri:
        given["uri"] = uri
    return Found(mounted, route, uri, given, tuple(taken))


def _beside(route: Route) -> tuple[str, ...]:
    """Return the parameters that Carrel applies to what a route reads."""
    return FOLDER_PARAMETERS if route.mime_type == FOLDER_TYPE else PARAMETERS


def _with_open_query(
    mounted: Mounted, route: Route | None, uri: str, variables: Mapping[str, str], range_names: frozenset[str]
) -> Found:
    """Return a route with the range taken from the query, and everything else left in it."""
    query = split_query(uri)[1]
    taken = tuple(pair for pair in pairs(query) if pair[0] in range_names) if query else ()
    return Found(mounted, route, without(uri, range_names) if taken else uri, variables, taken)


def _is_named(template: UriTemplate) -> bool:
    """Return whether a template begins with more than its scheme."""
    return bool(template.literal_start.partition(":")[2].strip("/"))


def _without_range(uri: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the URI without `start` and `length`, and their values."""
    query = split_query(uri)[1]
    if query is None:
        return uri, ()
    try:
        taken = tuple(pair for pair in pairs(query) if pair[0] in RANGE_NAMES)
    except BadArgument:
        return uri, ()
    return (without(uri, RANGE_NAMES) if taken else uri), taken
