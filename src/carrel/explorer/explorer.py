"""Which page answers a request: home, those about the server at `/-/`, and those of resources."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from carrel.app.app import Desk
from carrel.catalog.suggestions import with_advice
from carrel.core.errors import BadArgument, NotFound, ProtocolError, ProviderError, RequestError
from carrel.core.uri import pairs
from carrel.explorer import events, explanations, model_view
from carrel.explorer.about import TITLES, About
from carrel.explorer.addresses import Addresses
from carrel.explorer.home import Home
from carrel.explorer.leaves import SAFETY, Form, Leaf, reply_packed, send
from carrel.explorer.refusals import refusal_leaf, stranger_leaf
from carrel.explorer.resources import Resources
from carrel.explorer.searching import SearchPage
from carrel.explorer.survey import Survey
from carrel.explorer.templating import STATIC, static_file
from carrel.transports.http.accept import preferred, prefers_html
from carrel.transports.http.app import App
from carrel.transports.http.asgi import Request
from carrel.transports.http.guard import Refusal
from carrel.transports.http.threads import Failure

_STATIC_PATH: Final = "/-/static/"
_FORMS: Final[Mapping[str, Form]] = {"text/html": "html", "application/json": "json", "text/markdown": "md"}
_SUFFIXES: Final[Mapping[str, Form]] = {".json": "json", ".md": "md"}
_NOTHING_HERE: Final = "Nothing is here: a resource is at /{scheme}/…, such as /workspace/README.md"

Make = Callable[[Request], Leaf]


class Explorer:
    """Answers with pages."""

    def __init__(self, desk: Desk, app: App) -> None:
        self._desk = desk
        self._app = app
        self.addresses = addresses = Addresses(app.plain.has_no_authority)
        survey = Survey(desk.config.root)
        self._resources = Resources(desk.server, addresses)
        self._home = Home(desk, addresses, survey)
        self._about = About(desk, app, survey)
        self._search = SearchPage(desk.server, addresses)
        self._own: dict[str, Make] = {
            "/": lambda _: self._home.leaf(),
            "/-/explain": lambda request: explanations.leaf(desk.catalog, addresses, _uri(request, is_needed=False)),
            "/-/model": lambda request: model_view.leaf(desk.server, addresses, _uri(request)),
            "/-/search": lambda request: self._search.leaf(request.query),
            **{f"/-/{name}": partial(self._fact, name) for name in TITLES},
        }

    def _fact(self, name: str, _: Request) -> Leaf:
        return self._about.leaf(name)

    async def answer_public(self, request: Request) -> bool:
        """Send the style sheets and the scripts, which need no token."""
        path = request.path.decode("latin-1")
        if not path.startswith(_STATIC_PATH):
            return False
        name = path.removeprefix(_STATIC_PATH)
        if name not in STATIC:
            await request.refuse(404, "There is no such file")
            return True
        kind = (b"content-type", STATIC[name].encode())
        kept = b"public, max-age=31536000, immutable" if request.query else b"no-cache"
        await reply_packed(request, 200, static_file(name), kind, (b"cache-control", kept), *SAFETY)
        return True

    async def refuse_unauthenticated(self, request: Request, refusal: Refusal) -> None:
        """Answer with the page that says how to get access."""
        if _own_path(request)[1] == "html":
            await send(request, stranger_leaf(refusal), "html")
        else:
            await request.refuse(refusal.status, refusal.problem, *refusal.headers)

    async def answer(self, request: Request) -> None:
        """Answer with the page of the path."""
        path, form = _own_path(request)
        make = self._own.get(path)
        if make is not None:
            await self._send(request, partial(make, request), form, "explorer")
        elif path == "/-/raw":
            await self._app.plain.answer(request)
        elif path == "/-/events":
            await self._answer_events(request)
        elif path == "/-/read" and path != request.path.decode("latin-1"):
            await self._answer_read_twin(request, form)
        elif path.startswith("/-/") and path != "/-/read":
            await self._refuse(request, NotFound(path, _NOTHING_HERE), "", form)
        else:
            await self._answer_resource(request)

    async def answer_twin(self, request: Request, error: Failure) -> bool:
        """Answer with the data of a page whose path is this one without `.json` or `.md`."""
        del error
        path = request.path.decode("latin-1")
        for suffix, form in _SUFFIXES.items():
            if path.endswith(suffix):
                try:
                    uri = self._app.plain.uri_at(path.removesuffix(suffix).encode("latin-1"), request.query)
                    leaf = await self._made(request, uri)
                except (RequestError, ProviderError, ProtocolError):
                    return False
                await send(request, leaf, form)
                return True
        return False

    async def _answer_events(self, request: Request) -> None:
        try:
            await events.answer(request, self._desk.server, self._app, events.watched(request.query))
        except (RequestError, ProviderError) as error:
            await self._refuse(request, error, "", "json")

    async def _answer_read_twin(self, request: Request, form: Form) -> None:
        try:
            uri = _uri(request)
            leaf = await self._made(request, uri)
        except (RequestError, ProviderError, ProtocolError) as error:
            await self._refuse(request, error, "", form)
            return
        await send(request, leaf, form)

    async def _answer_resource(self, request: Request) -> None:
        try:
            uri = self._app.plain.uri_of(request)
        except RequestError as error:
            await self._refuse(request, error, "")
            return
        try:
            leaf = await self._made(request, uri)
        except (RequestError, ProviderError, ProtocolError) as error:
            if not (isinstance(error, RequestError | ProviderError) and await self.answer_twin(request, error)):
                await self._refuse(request, error, uri)
            return
        await send(request, leaf, "html")

    async def _made(self, request: Request, uri: str) -> Leaf:
        origin = f"http://{request.headers[b'host'].decode('latin-1')}"
        make = partial(self._resources.leaf, uri, origin)
        mounted = [one for one in self._desk.catalog.mounted if uri.partition(":")[0] in one.provider.schemes]
        deadline_s = max((one.provider.deadline_s for one in mounted), default=0.0)
        owner = f"resources/read {uri.partition(':')[0]}"
        return await self._app.threads.call(request.access, make, owner=owner, deadline_s=deadline_s)

    async def _send(self, request: Request, make: Callable[[], Leaf], form: Form, owner: str) -> None:
        try:
            leaf = await self._app.threads.call(request.access, make, owner=owner)
        except (RequestError, ProviderError, ProtocolError) as error:
            await self._refuse(request, error, "", form)
            return
        await send(request, leaf, form)

    async def _refuse(self, request: Request, error: Failure, uri: str, form: Form = "html") -> None:
        if isinstance(error, RequestError) and uri:
            advise = partial(with_advice, self._desk.catalog, error)
            error = await self._app.threads.call(request.access, advise, owner="explorer")
        await send(request, refusal_leaf(request, error, uri, self.addresses), form)


def _uri(request: Request, *, is_needed: bool = True) -> str:
    """Return the parameter `uri` of a request."""
    try:
        found = [value for name, value in pairs(request.query.replace(b"+", b"%20").decode()) if name == "uri"]
    except UnicodeDecodeError:
        raise BadArgument("The query is not UTF-8", data={"parameter": "uri"}) from None
    if len(found) > 1 or (is_needed and not found):
        raise BadArgument("Invalid parameter: uri (give it once, as ?uri=…)", data={"parameter": "uri"})
    return found[0] if found else ""


def _own_path(request: Request) -> tuple[str, Form]:
    """Return the path of a page at `/-/`, without `.json` or `.md`, and the requested form."""
    path = request.path.decode("latin-1")
    for suffix, form in _SUFFIXES.items():
        if path == f"/index{suffix}":
            return "/", form
        if path.startswith("/-/") and path.endswith(suffix):
            return path.removesuffix(suffix), form
    return path, _form(request)


def _form(request: Request) -> Form:
    accept = request.headers.get(b"accept", b"")
    if request.path == b"/":
        return _FORMS[preferred(accept, ("text/html", "application/json", "text/markdown"))]
    if prefers_html(accept):
        return "html"
    return _FORMS[preferred(accept, ("application/json", "text/markdown"))]
