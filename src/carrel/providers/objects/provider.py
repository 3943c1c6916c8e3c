"""A Python object as a provider.

It loads in the background and joins the catalogue when it is loaded. If the object raises, hangs or returns invalid
values, the client gets a defined error with an incident number, and the log has the cause under that number. A URI is
found if it is listed, if it is listed without its query, or if a template matches it; else the object is not called.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from carrel.core.content import close_sources, etag_of
from carrel.core.errors import BadArgument, ConfigError, NotFound, ProviderError, echo
from carrel.core.gateway import Gateway
from carrel.core.model import Completion, Item, Meta, Reading, Resource, Stored, Template, Tool, ToolResult
from carrel.core.provider import Call, Provider, Route
from carrel.core.record import Value, replace
from carrel.core.refresh import Refresh
from carrel.core.uri import decode, pairs, split_query
from carrel.files.sandbox import Opened
from carrel.providers.objects import conversion, tools
from carrel.providers.objects.calls import CallFailed
from carrel.providers.objects.instance import Instance, left
from carrel.providers.objects.listing import FoundUri, ListName, Lists
from carrel.providers.objects.loading import Unloadable, has_method
from carrel.providers.objects.local_files import etag_of as file_etag_of
from carrel.providers.objects.protocol import Failure
from carrel.providers.objects.settings import ObjectSettings

log = logging.getLogger(__name__)

MISS_S: Final = 2.0
"""The least age of a list that is asked for again because a URI is not in it."""

CLOSE_S: Final = 2.0

FACETS: Final = {
    "resources": ("resources", "resource_read"),
    "tools": ("tools",),
    "completions": ("completion",),
}
"""The capabilities that an object may declare, and the methods that each requires."""


GiveWay = Callable[[Provider], None]
_Result = TypeVar("_Result")


class Declared(Value, frozen=True):
    """The capabilities that an object declared; `fault` says why there are none."""

    names: tuple[str, ...] = ()
    fault: str = ""


class _Token(Value, frozen=True):
    """The ETag of a subscribed resource, when it was made, and the fingerprint of the object at that time."""

    at_s: float
    watched: str | None
    token: str


class ObjectProvider(Gateway):
    """One object. `make` builds it; `give_way` is called if it builds a `Provider`, which is then mounted instead."""

    speed = "blocking"

    def __init__(
        self, name: str, options: ObjectSettings, make: Callable[[], Any], give_way: GiveWay | None = None
    ) -> None:
        self.name = name
        self.deadline_s = options.timeout_s + 1
        self._options = options
        self._give_way = give_way
        self._instance = Instance(name, make, options.concurrency, options.start_timeout_s)
        self._lists = Lists(name, options.list_ttl_s, self._rerouted)
        self._renewal = Refresh(f"carrel-listing-{name}", self._refresh)
        self._is_loaded = False
        self._declared = Declared()
        self._facets: frozenset[str] = frozenset()
        self._problem = ""
        self._is_closed = False
        self._settled = threading.Event()
        self._again: Callable[[], None] = lambda: None
        self._tokens: dict[str, _Token] = {}

    # Loading

    @property
    def is_starting(self) -> bool:
        """Whether it is still loading."""
        return not self._settled.is_set()

    def begin(self) -> None:
        """Load in the background."""
        threading.Thread(target=self.load, name=f"carrel-loading-{self.name}", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Return whether loading succeeded or failed, after at most `timeout_s`."""
        return self._settled.wait(timeout_s)

    @property
    def problem(self) -> str:
        """Why it is not served; empty if it is served or still loading."""
        return self._problem

    def load(self) -> None:
        """Build the object, ask what it offers, and ask for its first lists."""
        try:
            self._load(monotonic() + self._options.start_timeout_s)
        except CallFailed as failure:
            late = f"it did not load within {self._options.start_timeout_s:g} s"
            raised = f"{type(failure.cause).__name__} was raised"
            is_ours = isinstance(failure.cause, Unloadable)
            self._leave_out(late if failure.cause is None else str(failure.cause) if is_ours else raised, failure.cause)
        finally:
            self._settled.set()

    def _load(self, deadline: float) -> None:
        instance = self._instance
        made = instance.make(left(deadline))
        if isinstance(made, Provider) and self._give_way is not None:
            instance.calls.call(partial(self._give_way, made), left(deadline))
            instance.calls.close()
            return
        if not has_method(made, "capabilities"):
            self._leave_out("it is not a Provider and has no method capabilities()")
            return
        instance.object = made
        self._declared = self._ask_capabilities(left(deadline))
        allowed = FACETS if self._options.facets is None else self._options.facets
        facets = frozenset(self._declared.names) & set(FACETS) & set(allowed)
        instance.needed = tuple(method for facet in sorted(facets) for method in FACETS[facet])
        for facet in sorted(facets):
            missing = [method for method in FACETS[facet] if not has_method(made, method)]
            if missing:
                self._leave_out(f"it declares {facet} and has no method {missing[0]}()")
                return
        self._facets, self._is_loaded = facets, True
        self._refresh(partial(left, deadline))
        self._again()

    def list_faults(self) -> tuple[str, ...]:
        """Return what is wrong with the lists now, a sentence each."""
        return self._lists.faults

    def declared_twice(self) -> tuple[Declared, Declared]:
        """Return what the object declared at the start, and what it declares now; for its tests."""
        return self._declared, self._ask_capabilities(self._options.timeout_s)

    def _ask_capabilities(self, timeout_s: float) -> Declared:
        """Ask for the capabilities; an answer that cannot be used counts as none, with a warning."""
        try:
            names = self._instance.call(lambda made: made.capabilities(), timeout_s, conversion.facet_names)
        except CallFailed as failure:
            is_invalid = isinstance(failure.cause, conversion.InvalidResult)
            raised = str(failure.cause) if is_invalid else "capabilities() raised an exception"
            fault = f"{raised if failure.cause else 'capabilities() gave no answer in time'}; nothing is served"
            own = f" ({echo(f'{type(failure.cause).__name__}: {failure.cause}')})"
            log.warning("object %s: %s%s", self.name, fault, own if failure.cause and not is_invalid else "")
            log.debug("object %s", self.name, exc_info=failure.cause or failure)
            return Declared(fault=fault)
        unknown = sorted(set(names) - set(FACETS))
        if unknown:
            log.warning("object %s: unknown capabilities are ignored: %s", self.name, echo(", ".join(unknown)))
        return Declared(names)

    def _leave_out(self, why: str, cause: BaseException | None = None) -> None:
        self._problem = f"not served: {why}"
        log.error("object %s (%s) is %s", self.name, self._options.source, self._problem)
        log.debug("object %s", self.name, exc_info=cause)
        self._again()

    def narrow(self) -> None:
        """Declare no tools and no completions if the loaded object has none."""
        self.has_tools = "tools" in self._facets
        self.has_completions = "completions" in self._facets

    # Lists

    def routes(self) -> Sequence[Route]:
        return [Route(one.uri_template, self.read, one.name, one.mime_type) for one in self._lists.known.templates]

    def templates(self) -> Sequence[Template]:
        """Return the templates of the object."""
        return self._lists.listed.templates

    def claims(self) -> Sequence[Route]:
        """Return a route for each listed URI, also while the list fails."""
        return [Route(one.uri, self.read, one.name, one.mime_type) for one in self._lists.known.resources]

    def on_reroute(self, again: Callable[[], None]) -> None:
        """Call `again` after the lists changed."""
        self._again = again

    def _rerouted(self) -> None:
        self.schemes = self._lists.schemes
        self._again()

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the listed resources in URI order; the object is asked at most once in `list_ttl_s`."""
        self._look()
        yield from (entry for entry in self._lists.listed.resources if entry.uri > after)

    def list_fingerprint(self) -> str:
        """Return the version of the lists as they are known; refresh old ones in the background."""
        if self._is_loaded and self._lists.is_stale() and not self._is_closed:
            self._renewal.begin()
        return str(self._lists.version)

    def _look(self) -> None:
        """Refresh lists older than `list_ttl_s`; wait a moment for them, unless the object was late the last time."""
        if self._is_loaded and self._lists.is_stale() and not self._is_closed:
            self._renewal.begin()
            if not self._lists.is_late:
                self._renewal.wait()

    def _refresh(self, left: Callable[[], float] | None = None) -> None:
        """Ask for the list of every facet."""
        wanted: dict[ListName, tuple[str, Callable[[Any], conversion.Listed]]] = {}
        if "resources" in self._facets:
            wanted["resources"] = "resources", conversion.resources
            if has_method(self._instance.object, "resource_templates"):
                wanted["templates"] = "resource_templates", conversion.templates
        if "tools" in self._facets:
            wanted["tools"] = "tools", partial(tools.offered_tools, owner=self._instance.object)
        self._lists.refresh(
            {kind: partial(self._ask_list, method, read, left or self._time) for kind, (method, read) in wanted.items()}
        )

    def _time(self) -> float:
        return self._options.timeout_s

    def _ask_list(
        self, method: str, read: Callable[[Any], conversion.Listed], left: Callable[[], float]
    ) -> conversion.Listed:
        try:
            return self._instance.call(lambda made: getattr(made, method)(), left(), read)
        except CallFailed as failure:
            if failure.cause is None:
                return conversion.Listed((), (f"{method}() gave no answer in time; the last list is served",), "late")
            log.debug("object %s", self.name, exc_info=failure.cause)
            is_invalid = isinstance(failure.cause, conversion.InvalidResult)
            fault = str(failure.cause) if is_invalid else f"{method}() raised an exception"
            return conversion.Listed((), (fault,), "failed")

    # Reading

    def read(self, uri: str) -> Reading:
        """Read a URI that is listed or that a template matches; for any other, refresh the lists once."""
        found = self._find(uri)
        if found is None and self._is_loaded and self._lists.is_older(MISS_S):
            self._renewal.begin()
            self._renewal.wait(None if self._lists.is_late else self._options.timeout_s)
            found = self._find(uri)
        if found is None:
            raise NotFound(uri)
        return self._read(found, uri)

    def read_unmatched(self, uri: str) -> Reading:
        """Read a URI that is listed only now."""
        return self.read(uri)

    def _find(self, uri: str) -> FoundUri | None:
        if "#" in uri:
            raise BadArgument("The URI has a fragment", uri=uri, data={"parameter": "uri"})
        bare, query = split_query(uri)
        decode(bare)
        pairs(query or "")
        return self._lists.find(uri)

    def _call(self, work: Callable[[Any], object], convert: Callable[[Any], _Result]) -> _Result:
        return self._instance.call(work, self._options.timeout_s, convert)

    def _read(self, found: FoundUri, uri: str) -> Reading:
        take = partial(conversion.contents, read=found.uri, is_ours=lambda other: self._lists.find(other) is not None)
        try:
            given = self._call(lambda made: made.resource_read(found.uri, list(found.arguments)), take)
        except CallFailed as failure:
            raise self._read_error(failure, uri) from None
        if given is None and not found.is_listed:
            raise NotFound(uri)
        if given is None:
            raise self._failed("Resource read failed", "failed", uri)
        if isinstance(given, Failure):
            raise self._failed(given.message or "Resource read failed", "failed", uri)
        return _reading(given, found.mime_type, self._options.ttl_ms)

    def _read_error(self, failure: CallFailed, uri: str) -> Exception:
        """Return the error that the client gets for a failed read."""
        cause = failure.cause
        if isinstance(cause, NotFound):
            return NotFound(uri)
        if isinstance(cause, BadArgument):
            return BadArgument(_line(cause.message) or "Invalid argument", uri=uri)
        if isinstance(cause, ProviderError):
            return self._failed(_line(cause.message) or "Resource read failed", cause.word, uri, cause)
        return self._failed(*_message_and_word(failure, "Resource read", "failed"), uri, cause)

    def _failed(self, message: str, word: str, uri: str, cause: BaseException | None = None) -> ProviderError:
        incident = self._log_incident(message, word, uri, cause)
        return ProviderError(message, word=word, uri=uri, data={"incident": incident})

    def _log_incident(self, message: str, word: str, about: str, cause: BaseException | None) -> str:
        """Log a failure under a number; the client gets only the number."""
        incident = os.urandom(4).hex()
        log.error("incident %s: object %s, %s: %s (%s)", incident, self.name, about, message, word, exc_info=cause)
        return incident

    def fingerprint(self, uri: str) -> str | None:
        """Return the ETag, or the word for why it cannot be read.

        The resource is read again when the fingerprint of the object changed; without one, after `poll_s`.
        """
        poll_s, now = self._options.poll_s, monotonic()
        watched = self._ask_fingerprint(uri)
        if poll_s == 0 and watched is None:
            raise BadArgument("Changes of this resource are not reported", uri=uri)
        known = self._tokens.get(uri)
        if known is not None and (now - known.at_s < poll_s if watched is None else watched == known.watched):
            token = known.token
            known = _Token(known.at_s if watched is None else now, watched, token)
        else:
            known = _Token(now, watched, self._token(uri))
        self._tokens = {other: one for other, one in self._tokens.items() if now - one.at_s < 2 * poll_s + 2}
        self._tokens[uri] = known
        return known.token

    def _token(self, uri: str) -> str:
        try:
            reading = self.read(uri)
        except ProviderError as error:
            return error.word
        try:
            return reading.etag or etag_of(reading.items)
        finally:
            close_sources(reading.items)

    def _ask_fingerprint(self, uri: str) -> str | None:
        """Return the fingerprint that the object gives for a URI; None if it gives none."""
        found = self._find(uri)
        if found is None or not has_method(self._instance.object, "resource_fingerprint"):
            return None
        read, arguments = found.uri, list(found.arguments)
        try:
            given: object = self._call(lambda made: made.resource_fingerprint(read, arguments), lambda given: given)
        except CallFailed:
            return None
        return given if isinstance(given, str) else None

    # Completions and tools

    def refers(self, reference: str) -> str | None:
        """Return a listed URI as the object spells it: it may complete parameters of its query."""
        return self._lists.declared(reference)

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        if "completions" not in self._facets:
            return Completion((), total=0, has_more=False)
        chosen = list(context.items())
        try:
            return self._call(lambda made: made.completion(template, (variable, value), chosen), conversion.completion)
        except CallFailed as failure:
            raise self._failed("Completion failed", "failed", template, failure.cause) from None

    def tools(self) -> Sequence[Tool]:
        return [method.tool for method in self._lists.listed.tools]

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Check the arguments, then call `tool_call`, or else the method of the tool."""
        del call
        method = next(one for one in self._lists.listed.tools if one.tool.name == name)
        values, problem = method.check(arguments)
        if problem:
            return ToolResult((problem,), is_error=True, meta={"dev.carrel/error": "invalid"})
        try:
            if has_method(self._instance.object, "tool_call"):
                given = self._call(lambda made: made.tool_call(name, list(arguments.items())), _result_or_pass)
                if given is not None:
                    return given
            return self._call(lambda made: method.function(made)(**values), tools.result)
        except CallFailed as failure:
            message, word = _message_and_word(failure, "Tool", "execution failed")
            incident = self._log_incident(message, word, name, failure.cause)
            meta = {"dev.carrel/error": word, "dev.carrel/incident": incident}
            return ToolResult((message,), is_error=True, meta=meta)

    # The rest

    def health(self) -> Meta:
        """Return whether it is loaded, and what is wrong with its lists."""
        late_s = self._renewal.late_s
        is_stale = self._lists.is_late or late_s > 0
        state = "left out" if self._problem else "loading" if not self._is_loaded else "stale" if is_stale else "up"
        problems = [one for one in (self._problem, self._declared.fault) if one] or list(self._lists.faults)
        if late_s and not self._lists.is_late:
            problems.append(f"its lists were asked for {late_s:.0f} s ago; the last ones are served")
        rebuilt = {"rebuilt": self._instance.rebuilt} if self._instance.rebuilt else {}
        facets, source = sorted(self._facets), self._options.source
        return {"state": state, "object": source, "facets": facets, "problems": problems, **rebuilt}

    def close(self) -> None:
        """Close the object, once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._instance.close(min(CLOSE_S, self._options.timeout_s))


def serve_object(made: object, name: str = "object", **settings: Any) -> ObjectProvider:
    """Return a provider for an object; raise ConfigError if it cannot be served."""
    return serve_built(lambda: made, name, import_=f"{type(made).__name__}:itself", **settings)


def serve_built(build: Callable[[], object], name: str = "object", **settings: Any) -> ObjectProvider:
    """Return a provider for an object that `build` makes on its thread; raise ConfigError if it cannot be served."""
    provider = ObjectProvider(name, ObjectSettings(**{"import_": f"{name}:itself", **settings}), build)
    provider.load()
    if provider.problem:
        provider.close()
        raise ConfigError(f"{name} is {provider.problem}")
    provider.narrow()
    return provider


def _message_and_word(failure: CallFailed, what: str, otherwise: str) -> tuple[str, str]:
    """Return the message and the word for a failed call."""
    word = "bad_result" if isinstance(failure.cause, conversion.InvalidResult) else failure.word
    messages = {"timeout": f"{what} timed out", "busy": "Provider is busy"}
    return messages.get(word, f"{what} {otherwise}"), word


def _reading(items: tuple[Item, ...], mime_type: str, ttl_ms: int) -> Reading:
    """Return a reading; one file has an ETag made from its state, so that its parts can be read without the whole."""
    source = items[0].source if len(items) == 1 and isinstance(items[0], Stored) else None
    reading = Reading(items, mime_type=mime_type, ttl_ms=ttl_ms)
    if not isinstance(source, Opened):
        return reading
    return replace(reading, etag=file_etag_of(source), last_modified_ms=source.stat.st_mtime_ns // 1_000_000)


def _line(text: str) -> str:
    return echo(" ".join(text.split()))


def _result_or_pass(given: Any) -> ToolResult | None:
    return None if given is NotImplemented else tools.result(given)
