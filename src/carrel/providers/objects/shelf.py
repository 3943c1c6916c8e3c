"""`Shelf`: functions as resources and tools, with one decorator each.

    shelf = Shelf("garden")

    @shelf.resource("garden://beds/{bed}")
    def bed(bed: str) -> dict:
        ...

A shelf is an object as `protocol` describes it. The object provider calls it like any other: on its own threads,
within time limits, with stdout redirected and exceptions kept in the log. Relative paths, in `watch=` and as results,
start at the folder of the file that defines the function.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, path
from typing import TypeVar, overload

from carrel.core.errors import BadArgument, ConfigError, NotFound, TemplateError
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Completion, Resource, Template
from carrel.core.record import replace
from carrel.core.template import UriTemplate
from carrel.core.uri import pairs, split_query
from carrel.providers.objects import local_files
from carrel.providers.objects.protocol import Contents, Failure, Pair, ToolMethod
from carrel.providers.objects.results import declared_type, items_of
from carrel.providers.objects.suppliers import Supplier, Unlisted, Values, gather
from carrel.providers.objects.variables import Variables, spell

_Function = TypeVar("_Function", bound=Callable[..., object])

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


class Shelf:
    """A provider made of functions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._resources: list[_FunctionResource] = []
        self._tools: list[ToolMethod] = []

    def __repr__(self) -> str:
        return f"Shelf({self.name!r})"

    # For authors

    def resource(
        self,
        uri_template: str,
        *,
        name: str = "",
        title: str = "",
        description: str = "",
        mime_type: str = "",
        entries: Callable[..., object] | None = None,
        complete: Callable[..., object] | Mapping[str, Callable[..., object]] | None = None,
        watch: Paths = (),
    ) -> Callable[[_Function], _Function]:
        """Serve a function under a URI, or under all URIs of a template whose variables are its parameters.

        Args:
            uri_template: As `garden://beds/{bed}`; `{+path}` may hold slashes, `{?from,to}` are optional.
            name: The name in lists; by default that of the function.
            title: The name for people, if it differs.
            description: By default the first line of the docstring.
            mime_type: By default taken from the return annotation and from the value.
            entries: A generator function of the values to list.
            complete: A generator function of the values to offer, or one for each variable.
            watch: A file or folder, or several, on which the content depends.
        """
        if not isinstance(uri_template, str):
            raise ConfigError('@shelf.resource needs a URI or a template: @shelf.resource("garden://beds/{bed}")')

        def add(function: _Function) -> _Function:
            given = Template(uri_template, name, description, mime_type, title=title)
            served = _FunctionResource(given, function, entries, complete, watch)
            if any(other.template == served.template for other in self._resources):
                raise ConfigError(f"{served.label}: another function has {uri_template} already")
            self._resources.append(served)
            # As the object provider chooses: the longest text before the first variable, then in alphabetical order.
            self._resources.sort(key=lambda one: (-len(one.template.literal_start), one.template.text))
            return function

        return add

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(
        self, function: None = None, /, *, name: str = "", title: str = "", read_only: bool = False
    ) -> Callable[[_Function], _Function]: ...
    def tool(
        self,
        function: Callable[..., object] | None = None,
        /,
        *,
        name: str = "",
        title: str = "",
        read_only: bool = False,
    ) -> Callable[..., object]:
        """Offer a function as a tool; its schema comes from the annotations, its description from the docstring."""

        def add(function: _Function) -> _Function:
            called = name or function.__name__
            if any(one.name == called for one in self._tools):
                raise ConfigError(f"{called}: the shelf has a tool of this name already")
            self._tools.append(ToolMethod(called, function, title=title, read_only=read_only))
            return function

        return add if function is None else add(function)

    # For the object provider

    def capabilities(self) -> list[str]:
        """Return what the functions need."""
        offers = {"resources": self._resources, "tools": self._tools, "completions": self.resource_templates()}
        return [facet for facet, functions in offers.items() if functions]

    def resources(self) -> list[object] | Awaitable[list[object]]:
        """Return the URIs without variables, and what the `entries=` functions yield."""
        return gather(
            [one.supplied() for one in self._resources],
            lambda values: [
                entry for one, given in zip(self._resources, values, strict=True) for entry in one.listed(given)
            ],
        )

    def resource_templates(self) -> list[Template]:
        """Return the templates."""
        return [one.listed_as for one in self._resources if not one.template.is_fixed]

    def resource_read(self, uri: str, arguments: list[Pair]) -> object:
        """Call the function of a URI, with the variables as arguments."""
        found, texts = self._find(uri)
        return found.read(uri, texts, [*pairs(split_query(uri)[1] or ""), *arguments])

    def resource_fingerprint(self, uri: str, arguments: list[Pair]) -> str | None:
        """Return the state of the watched paths; None if the function names none."""
        del arguments
        watched = self._find(uri)[0].watched
        return local_files.fingerprint(watched) if watched else None

    def tools(self) -> list[ToolMethod]:
        """Return the functions that are tools."""
        return list(self._tools)

    def completion(self, reference: str, argument: Pair, context: list[Pair]) -> object:
        """Return the values of a variable that begin with the text typed so far."""
        variable, typed = argument
        found = (
            next((one for one in self._resources if one.template.text == reference), None) or self._find(reference)[0]
        )
        return gather([found.offers(variable, typed, dict(context))], lambda given: _beginning(given[0], typed))

    def _find(self, uri: str) -> "tuple[_FunctionResource, dict[str, str]]":
        """Return the function of a URI, and the texts of the variables in its path."""
        bare = split_query(uri)[0]
        matches = ((one, one.template.match(bare)) for one in self._resources)
        found = [(one, texts) for one, texts in matches if texts is not None]
        if not found:
            raise NotFound(uri)
        return next(((one, texts) for one, texts in found if not one.variables.of_path), found[0])


class _FunctionResource:
    """A function, and the URIs it answers."""

    def __init__(
        self,
        given: Template,
        function: Callable[..., object],
        entries: Callable[..., object] | None,
        complete: Callable[..., object] | Mapping[str, Callable[..., object]] | None,
        watch: Paths,
    ) -> None:
        """Check what the author gave; what `given` lacks comes from the function."""
        uri_template = given.uri_template
        self.function = function
        self.label = getattr(function, "__name__", "the function")
        self.mime_type = given.mime_type
        self.listed_as = replace(
            given,
            name=given.name or self.label,
            description=given.description or (inspect.getdoc(function) or "").partition("\n")[0].strip(),
            mime_type=given.mime_type or declared_type(function),
        )
        try:
            self.template = UriTemplate(uri_template)
        except TemplateError as error:
            raise ConfigError(f"{self.label}: {uri_template}: {str(error).partition(' of the URI')[0]}") from None
        self.variables = Variables(function, self.label, self.template)
        completing = dict(complete) if isinstance(complete, Mapping) else self._for_the_one_variable(complete)
        unknown = sorted(set(completing) - set(self.template.variables))
        if unknown:
            raise ConfigError(f"{self.label}: complete= names {unknown[0]}, which is no variable of {uri_template}")
        self._complete = {name: Supplier(one, f"complete= of {self.label}") for name, one in completing.items()}
        if entries is not None and self.template.is_fixed:
            raise ConfigError(f"{self.label}: entries= needs a template with a variable, {uri_template} has none")
        self._entries = None if entries is None else Supplier(entries, f"entries= of {self.label}")
        file = getattr(function, "__globals__", {}).get("__file__")
        self._folder = path.dirname(path.abspath(file)) if file else path.abspath("")
        named = (watch,) if isinstance(watch, str | PathLike) else tuple(watch)
        self.watched = tuple(path.join(self._folder, path.expanduser(one)) for one in named)

    # Listing

    def supplied(self) -> Values | Awaitable[Values]:
        """Return the values of the variables to list, or an awaitable of them."""
        return () if self._entries is None else self._entries.values()

    def listed(self, given: Iterable[object]) -> Iterator[object]:
        """Yield a resource for each value; also the URI itself, if it needs no variable."""
        shown = self.listed_as
        if not self.variables.of_path:
            uri = self.template.expand({})
            yield Resource(uri, shown.name, shown.description, shown.mime_type, title=shown.title)
        for value in given:
            yield value if isinstance(value, Resource | Unlisted) else self._entry(value)

    def _entry(self, value: object) -> object:
        try:
            texts = self.variables.texts_of(value)
            uri = self.template.expand(texts)
        except (ValueError, BadArgument) as error:
            return Unlisted(f"entries= of {self.label} gave a value that does not fit {self.template.text}", error)
        return Resource(uri, "/".join(texts.values()), self.listed_as.description, self.listed_as.mime_type)

    # Reading

    def read(self, uri: str, texts: Mapping[str, str], query: list[Pair]) -> object:
        """Call the function; return its items, or an awaitable of them."""
        values = self.variables.convert(uri, texts, query)
        with self._missing(uri, values):
            given = self.function(**values)
            if not inspect.isawaitable(given):
                return self._contents(uri, given)
        return self._await(uri, given, values)

    async def _await(self, uri: str, given: Awaitable[object], values: Mapping[str, object]) -> object:
        with self._missing(uri, values):
            return self._contents(uri, await given)

    def _contents(self, uri: str, given: object) -> Contents | Failure:
        if given is None and self.variables.of_path:
            raise NotFound(uri)
        if isinstance(given, Contents | Failure):
            return given
        return Contents(items_of(given, self.mime_type, self._folder, self.label))

    @contextmanager
    def _missing(self, uri: str, values: Mapping[str, object]) -> Iterator[None]:
        """Raise NotFound for an exception that says: there is nothing of that name."""
        try:
            yield
        except KeyError as error:
            if error.args and error.args[0] in values.values():
                raise NotFound(uri) from error
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            name = str(error.filename)
            if any(str(values[variable]) in name for variable in self.variables.of_path):
                raise NotFound(uri) from error
            raise

    # Completing

    def offers(self, variable: str, typed: str, chosen: Mapping[str, str]) -> Values | Awaitable[Values]:
        """Return values for a variable, or an awaitable of them."""
        if variable in self._complete:
            return self._complete[variable].values(typed, chosen)
        choices = self.variables.choices(variable)
        if choices or self._entries is None:
            return choices
        return gather([self._entries.values()], lambda given: self._column(variable, given[0]))

    def _column(self, variable: str, given: Iterable[object]) -> Iterator[object]:
        for value in given:
            if isinstance(value, Unlisted):
                yield value
            elif not isinstance(value, Resource):
                texts = self.variables.texts_of(value)
                if variable in texts:
                    yield texts[variable]

    def _for_the_one_variable(self, complete: Callable[..., object] | None) -> dict[str, Callable[..., object]]:
        if complete is None:
            return {}
        names = self.variables.of_path or self.template.variables
        if len(names) != 1:
            example = f"complete={{{names[0]!r}: {getattr(complete, '__name__', 'values')}}}" if names else "none"
            raise ConfigError(f"{self.label}: complete= must say for which variable, as {example}")
        return {names[0]: complete}


def _beginning(given: Iterable[object], typed: str) -> Completion | list[str]:
    """Return the values that begin with a text, in whatever case, each once."""
    found: dict[str, None] = {}
    for value in given:
        if isinstance(value, Unlisted):
            raise value.cause
        text = spell(value)
        if text.casefold().startswith(typed.casefold()):
            found[text] = None
        if len(found) > MAX_COMPLETIONS:
            return Completion(tuple(found)[:MAX_COMPLETIONS], has_more=True)
    return list(found)
