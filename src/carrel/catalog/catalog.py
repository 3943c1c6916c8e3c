"""All providers as one: an ordered list, and reads that find their route.

What applies to every resource is applied here, once: ETag and condition, byte ranges, the size of one message.
`pages` has the list, `routes` finds the provider of a URI.
"""

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import sleep

from carrel.catalog import access, fly, folders, shortlist
from carrel.catalog.pages import FullList, unseal
from carrel.catalog.routes import RANGE_NAMES, Clash, Found, Mounted, Routes
from carrel.catalog.shortlist import Chosen, Shortlist
from carrel.core import content
from carrel.core.errors import BadArgument, ConfigError, RequestError, echo
from carrel.core.faults import attempt
from carrel.core.gateway import Gateway
from carrel.core.limits import MAX_MESSAGE_BYTES, PAGE_SIZE
from carrel.core.model import (
    FOLDER_TYPE,
    Completion,
    Page,
    Range,
    Reading,
    Resource,
    Skill,
    Stored,
    Template,
    Text,
    Tool,
    ToolResult,
    Unread,
)
from carrel.core.provider import Call, Given, Provider
from carrel.core.record import Value, replace
from carrel.core.token_counts import TokenCounts
from carrel.core.uri import with_query
from carrel.core.writer import writing_as

_TRIES = 3
"""How often a source that changes during the read is read; after that, the reading says that it is changing."""
_PAUSE_S = 0.005
"""Time for a writer to finish, before the last try."""


class Part(Value, frozen=True):
    """The part of a text to read: at most `most` bytes, of these `lines` (as `10-50`) or of all."""

    most: int
    lines: str = ""


class Catalog:
    """All providers of a server. Safe to use from several threads."""

    def __init__(
        self,
        providers: Sequence[Provider] = (),
        *,
        page_size: int = PAGE_SIZE,
        max_bytes: int = MAX_MESSAGE_BYTES,
        max_listed: int = 0,
    ) -> None:
        """Create an empty catalogue; `max_listed` limits the list that clients are sent, 0 means no limit."""
        self.page_size = page_size
        self.max_listed = max_listed
        self.max_bytes = max_bytes
        self.mounted: tuple[Mounted, ...] = ()
        self.is_remote = False
        """Whether callers come over a network address; they get no tools that are `local`."""
        self.instance = os.urandom(8).hex()
        """Identifies this catalogue, so that a mount of itself is found."""
        self.generation = 0
        self.token_counts = TokenCounts()
        """The known token counts of resources."""
        self._putting = threading.RLock()
        self.mount(*providers)

    def mount(self, *providers: Provider) -> None:
        """Add providers; raise ConfigError if a name is taken."""
        taken = {mounted.provider.name for mounted in self.mounted}
        for provider in providers:
            if provider.name in taken:
                raise ConfigError(f"two providers are named {provider.name!r}; give one another name")
            taken.add(provider.name)
        with self._putting:
            self._put((*self.mounted, *(Mounted(provider) for provider in providers)))
        for provider in providers:
            if isinstance(provider, Gateway):
                # Mounted once more, in case its routes changed before `on_reroute`.
                provider.on_reroute(partial(self.swap, provider, provider))
                self.swap(provider, provider)

    def swap(self, waiting: Provider, ready: Provider) -> None:
        """Replace a provider, as a lazy one whose data appeared."""
        with self._putting:
            self._put(tuple(Mounted(ready, one.chosen) if one.provider is waiting else one for one in self.mounted))

    def _put(self, mounted: tuple[Mounted, ...]) -> None:
        """Use a new table; `generation` shows others that it changed."""
        self._routes = Routes(mounted)
        self._list = FullList(mounted, self._routes)
        self.mounted = mounted
        self.generation += 1

    def clashes(self) -> list[Clash]:
        """Return the URIs, templates and tool names that two providers have."""
        keepers: dict[str, str] = {}
        clashes = list(self._routes.clashes)
        for mounted in self.mounted:
            for tool in mounted.provider.tools() if mounted.has_tools else ():
                keeper = keepers.setdefault(tool.name, mounted.provider.name)
                if keeper != mounted.provider.name:
                    clashes.append(Clash(tool.name, keeper, mounted.provider.name))
        return clashes

    def close(self) -> None:
        """Close every provider; the blocking ones at the same time."""
        closing = [mounted for mounted in self.mounted if "close" in mounted.overrides]
        waiting = [
            threading.Thread(target=mounted.provider.close, name="carrel-closing", daemon=True)
            for mounted in closing
            if mounted.speed == "blocking"
        ]
        for thread in waiting:
            thread.start()
        for mounted in closing:
            if mounted.speed != "blocking":
                mounted.provider.close()
        for thread in waiting:
            thread.join()

    # Listing

    def page(self, cursor: str | None = None, limit: int | None = None) -> Page:
        """Return one page of the list that clients are sent: with a bound, the most useful entries.

        A cursor continues the list that it was made for.
        """
        if self.max_listed and not cursor:
            return self._shortlist().page((), self.page_size if limit is None else limit)
        return self.whole_page(cursor, limit)

    def whole_page(self, cursor: str | None = None, limit: int | None = None, prefix: str = "") -> Page:
        """Return one page of all entries whose URI begins with `prefix`, without a bound."""
        wanted = self.page_size if limit is None else limit
        parts = unseal(cursor) if cursor else ()
        if parts and parts[0] == fly.SECTION:
            return fly.next_page(self.visible(), parts, wanted)
        if parts and parts[0] == shortlist.KIND:
            return self._shortlist().page(parts, wanted)
        return self._list.page(parts, wanted, prefix)

    def chosen(self) -> Chosen:
        """Return the list that clients are sent, and whether it is everything."""
        return self._shortlist().chosen() if self.max_listed else Chosen(tuple(self.entries()), is_whole=True)

    def _shortlist(self) -> Shortlist:
        return Shortlist(self._list, self.max_listed or sys.maxsize)

    def browse(self, request: fly.FlyRequest) -> fly.FlyPage:
        """Return a page as Fly does: files and logs only, numbered, with a total."""
        return fly.browse(self.visible(), request)

    def entries(self, scheme: str | None = None) -> Iterator[Resource]:
        """Yield the whole list, or the entries of one scheme, in order."""
        return self._list.entries(scheme)

    def templates(self, cursor: str | None = None) -> tuple[tuple[Template, ...], str | None]:
        """Return one page of the templates and the cursor of the next."""
        return self._list.templates(unseal(cursor) if cursor else (), self.page_size)

    def read_folder(self, uri: str, cursor: str | None = None, limit: int | None = None) -> Page:
        """Return one page of the direct children of a folder, of any scheme."""
        access.check_read(uri)
        if access.is_limited(uri):
            self._check_targets(uri)
        parts = unseal(cursor) if cursor else ()
        return folders.read_folder(self.visible(), uri, parts, self.page_size if limit is None else limit)

    def _check_targets(self, uri: str) -> None:
        """Raise `Denied` if a link leads out of the part that the caller may read."""
        spelled, scheme = self._routes.spelling(uri), uri.partition(":")[0].lower()
        access.check_read(spelled)
        for mounted in self.visible():
            if "target" in mounted.overrides and scheme in mounted.provider.schemes:
                access.check_target(attempt("target", mounted.provider.target, spelled), uri)

    def skills(self, cursor: str | None = None) -> folders.SkillPage:
        """Return one page of the skills."""
        return folders.list_skills(self.visible(), unseal(cursor) if cursor else (), self.page_size)

    def skill(self, uri: str) -> Skill:
        """Return the skill whose `SKILL.md` has a URI."""
        access.check_read(uri)
        return folders.find_skill(self.visible(), uri)

    def visible(self) -> tuple[Mounted, ...]:
        """Return the providers of which the caller may read anything."""
        return self._list.visible()

    # Reading

    def finds_at_once(self, uri: str) -> bool:
        """Return whether `find` asks no provider, so that it takes microseconds."""
        return self._routes.finds_at_once(uri)

    def find(self, uri: str) -> Found:
        """Return the provider and route of a URI; raise if there is none, or if the caller may not read it."""
        if access.is_unlimited():
            return self._routes.find(uri)
        if access.is_limited(uri):
            return self._find_limited(uri)
        access.check_read(uri)
        return self._routes.find(uri)

    def _find_limited(self, uri: str) -> Found:
        """Find a URI for a caller who may read only parts of its scheme: the spelling that is read decides."""
        spelled = self._routes.spelling(uri)
        access.check_read(spelled)
        found = self._routes.find(spelled)
        if "target" in found.mounted.overrides:
            access.check_target(attempt("target", found.mounted.provider.target, spelled), uri)
        return replace(found, check=access.check_read, shows=self._shows)

    def _shows(self, uri: str) -> bool:
        """Return whether the caller sees a child of a folder: a link may lead out of the part that may be read."""
        try:
            self._check_targets(uri)
        except RequestError:
            return False
        return True

    def read(self, uri: str, wanted: Range | None = None, condition: str | None = None) -> Reading:
        """Read a URI: the whole or the requested range; `unchanged` if the condition names its ETag."""
        return self.read_found(self.find(uri), uri, wanted, condition)

    def read_part(self, uri: str, wanted: Range | None, part: Part) -> Reading:
        """Read a URI; of one item at most a part, which ends at a line end if possible and names its lines."""
        found = self.find(uri)
        if not part.lines or not found.takes("lines"):
            return self.read_found(found, uri, wanted, part=part)
        with_lines = with_query(uri, lines=part.lines)
        return self.read_found(self.find(with_lines), with_lines, wanted, part=replace(part, lines=""))

    def read_found(
        self,
        found: Found,
        uri: str,
        wanted: Range | None = None,
        condition: str | None = None,
        *,
        part: Part | None = None,
    ) -> Reading:
        """Read what `find` found."""
        wanted = range_of(found, uri, wanted)
        reading = self.read_once(found, found.read(condition), uri, wanted, condition, part=part)
        return self.read_again(found, uri, wanted, condition, part=part) if reading is None else reading

    def read_again(
        self,
        found: Found,
        uri: str,
        wanted: Range | None = None,
        condition: str | None = None,
        *,
        part: Part | None = None,
    ) -> Reading:
        """Read a resource again whose source changed while it was read, a few times if necessary."""
        reading, tries = None, 1
        while reading is None:
            if tries > 1:  # it is being written
                sleep(_PAUSE_S)
            tries += 1
            given = found.read(condition)
            reading = self.read_once(found, given, uri, wanted, condition, part=part, is_last=tries >= _TRIES)
        return reading

    def read_once(
        self,
        found: Found,
        given: Given,
        uri: str,
        wanted: Range | None = None,
        condition: str | None = None,
        *,
        part: Part | None = None,
        is_last: bool = False,
    ) -> Reading | None:
        """Return the reading of a provider's result; None if its source changed meanwhile.

        With `is_last`, return a reading even then, which says that it is changing.
        """
        if type(given) is Text and wanted is None and condition is None and part is None:
            # Most reads: nothing to close, nothing that can change.
            item = content.whole(given, uri, self.max_bytes)
            return Reading((item,), mime_type=_mime_type(found), etag=content.etag_of((given,)))
        reading, has_moved = self._read_moving(found, given, uri, wanted, condition, part=part)
        if found.view is not None and not found.query_range:
            self.token_counts.remember(found.uri, reading)
        if not has_moved:
            return reading
        if not is_last:
            return None
        items = tuple(replace(item, meta={**(item.meta or {}), "dev.carrel/changing": True}) for item in reading.items)
        return replace(reading, items=items)

    def open(self, found: Found, condition: str | None = None, given: Given | Unread | None = None) -> Reading:
        """Return the reading of a found URI with its bytes unread: one item is `Stored`, and the caller closes it.

        A folder, or several items, are returned as by any read. `given` is an earlier result of `Found.open`.
        """
        in_query = content.range_in(found.query_range) if found.query_range else None
        given = found.open() if given is None else given
        given = given.read() if isinstance(given, Unread) else given
        reading = given if isinstance(given, Reading) else Reading((given,))
        try:
            wanted = _one_of(in_query, reading.range, found.uri)
            if reading.is_folder or len(reading.items) != 1:
                finished = self._finish(reading, found.uri, wanted, condition, found)
                content.close_sources(reading.items)
                return finished
            item = content.stored(reading.items[0])
            if wanted is not None and reading.error is None:
                item = content.part(item, wanted)
            etag = reading.etag or content.etag_of(reading.items)
        except BaseException:
            content.close_sources(reading.items)
            raise
        mime_type = reading.mime_type or _mime_type(found)
        is_same = condition is not None and reading.error is None and content.matches(condition, etag)
        return replace(reading, items=(item,), mime_type=mime_type, etag=etag, range=None, unchanged=is_same)

    def append(self, uri: str, data: bytes) -> Mapping[str, object]:
        """Add what a client sent to a resource; return facts for the client."""
        access.check_write(uri)
        found = self._routes.find(uri)
        if found.route is None or found.route.append is None:
            raise BadArgument(f"Nothing can be added to {echo(uri)}: only logs take more lines", uri=uri)
        with writing_as(access.current_access().name, "append"):
            return found.route.append(data=data, **found.variables)

    def _read_moving(
        self,
        found: Found,
        given: Given,
        uri: str,
        wanted: Range | None,
        condition: str | None,
        *,
        part: Part | None,
    ) -> tuple[Reading, bool]:
        """Return a finished reading, and whether its source changed meanwhile."""
        is_whole = wanted is None and condition is None and part is None
        if is_whole and type(given) is Reading and given.range is None and given.etag:
            items = given.items
            if len(items) == 1 and type(items[0]) is Stored:
                return self._read_whole(found, given, items[0], uri)
        reading = given if isinstance(given, Reading) else Reading((given,))
        sources = [item.source for item in reading.items if isinstance(item, Stored)]
        try:
            wanted = _one_of(wanted, reading.range, uri)
            if part is not None and len(reading.items) == 1 and not reading.is_folder:
                if part.lines and reading.error is None:
                    lines = content.range_of_lines(reading.items[0], part.lines, uri, self.max_bytes)
                    wanted = _one_of(wanted, lines, uri)
                item, wanted = content.shorten(reading.items[0], wanted, part.most)
                reading = replace(reading, items=(item,))
            finished = self._finish(reading, uri, wanted, condition, found)
            return finished, any(source.has_moved() for source in sources)
        finally:
            content.close_sources(reading.items)

    def _read_whole(self, found: Found, given: Reading, item: Stored, uri: str) -> tuple[Reading, bool]:
        """Return the same for one whole source, in fewer steps: most reads of files are of this kind."""
        source = item.source
        try:
            items = (content.whole(item, uri, self.max_bytes),)
            mime_type = given.mime_type or _mime_type(found)
            made = (mime_type, given.etag, given.last_modified_ms, given.ttl_ms, given.cache_scope)
            return Reading(items, *made, None, given.error, False, given.meta), source.has_moved()
        finally:
            source.close()

    def _finish(self, reading: Reading, uri: str, wanted: Range | None, condition: str | None, found: Found) -> Reading:
        """Apply the ETag and its condition, the range, and the size of one message."""
        etag = reading.etag or content.etag_of(reading.items)
        mime_type = reading.mime_type or _mime_type(found)
        if reading.unchanged or (condition is not None and reading.error is None and content.matches(condition, etag)):
            empty = Text("", FOLDER_TYPE if reading.is_folder else reading.items[0].mime_type if reading.items else "")
            modified = reading.last_modified_ms
            return Reading((empty,), mime_type=mime_type, etag=etag, last_modified_ms=modified, unchanged=True)
        if wanted is None or reading.error is not None:
            items = tuple([content.whole(item, uri, self.max_bytes) for item in reading.items])
            if reading.more is not None:
                items = content.fitting(items, reading.more, self.max_bytes)
        elif len(reading.items) == 1 and not reading.is_folder:
            items = (content.cut(reading.items[0], wanted, uri, self.max_bytes, is_page=reading.range is None),)
        else:
            message = "Invalid parameter: start, length (not for a folder or several items)"
            raise BadArgument(message, data={"parameter": "start"})
        return replace(reading, items=items, mime_type=mime_type, etag=etag, range=None)

    def fingerprint(self, uri: str) -> str | None:
        """Return a token that changes when the URI's content does; raise as a read would."""
        found = self.find(uri)
        if found.route is not None and found.route.fingerprint is not None:
            return found.route.fingerprint(**found.variables)
        if "fingerprint" in found.mounted.overrides:
            return found.mounted.provider.fingerprint(found.uri)
        # `*` matches every ETag, so that no content is loaded. A range, or a folder, is watched as a whole.
        return self.read_found(replace(found, query_range=()), uri, condition="*").etag

    # Completion, tools, instructions

    @property
    def completes(self) -> bool:
        """Whether any provider offers completions."""
        return any(mounted.has_completions for mounted in self.mounted)

    @property
    def calls(self) -> bool:
        """Whether any provider may have tools."""
        return any(mounted.has_tools for mounted in self.mounted)

    def complete(self, reference: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return at most a hundred values for a template's variable, and whether there are more."""
        _check_reference(reference)
        found = self._routes.reference(reference)
        if found is None:
            known = [template.uri_template for template in self.templates()[0]]
            example = f" (resources/templates/list has the known ones; for example {known[0]})" if known else ""
            raise BadArgument(f"Unknown reference: {echo(reference)}{example}", data={"parameter": "ref"})
        meant, variables, mounted = found
        _check_reference(meant)
        if variables is not None and variable not in variables:
            named = f'known: {", ".join(variables)}; for example {{"name": "{variables[0]}", "value": ""}}'
            message = f"Unknown argument: {echo(variable)} ({named})"
            raise BadArgument(message, data={"parameter": "argument"})
        from carrel.catalog.completions import NONE_OFFERED, LimitedCompletion, as_completion  # not needed at start

        if not mounted.has_completions:
            return NONE_OFFERED
        places = access.current_access().places(meant.partition(":")[0].lower())
        if not places:
            return as_completion(mounted.provider.complete(meant, variable, value, context))

        def ask(begin: str) -> Completion | Sequence[str]:
            return mounted.provider.complete(meant, variable, begin, context)

        return LimitedCompletion(meant, variable, context, places, ask, self._can_read).offered(value)

    def _can_read(self, uri: str) -> bool:
        """Return whether the caller may read a URI, whether it exists or not."""
        try:
            return self.find(uri).route is not None
        except RequestError:
            return False

    def tools(self) -> tuple[Tool, ...]:
        """Return every provider's tools that the caller may call, in order; of two with one name, the first."""
        named: dict[str, Tool] = {}
        for mounted in self.mounted:
            for tool in self._tools_of(mounted):
                named.setdefault(tool.name, tool)
        return tuple(named.values())

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool by its name; a tool that the caller may not call is unknown."""
        for mounted in self.mounted:
            if any(tool.name == name for tool in self._tools_of(mounted)):
                with writing_as(access.current_access().name, name):
                    return mounted.provider.call(name, arguments, call)
        raise BadArgument(f"Unknown tool: {echo(name)}", data={"parameter": "name"})

    def _tools_of(self, mounted: Mounted) -> Iterator[Tool]:
        """Yield the tools that the caller may call."""
        if mounted.has_tools:
            for tool in mounted.provider.tools():
                is_allowed = tool.public or access.may_call(tool, mounted.provider.schemes)
                if is_allowed and not (self.is_remote and tool.local):
                    yield tool

    def is_patient(self, name: str) -> bool:
        """Return whether a tool may take long and limits its own time."""
        patient = (one.provider for one in self.mounted if one.has_tools and one.provider.limits_tool_time)
        return any(tool.name == name for provider in patient for tool in provider.tools())

    def instructions(self) -> str:
        """Return the instructions of all providers that the caller may read, the server's own first: hosts cut."""
        whole = (mounted for mounted in self.mounted if access.may_see_all(mounted.provider.schemes))
        in_order = sorted(whole, key=lambda mounted: "carrel" not in mounted.provider.schemes)
        parts = (mounted.provider.instructions() for mounted in in_order)
        return "\n\n".join(part for part in parts if part)


def close_given(given: Given | Unread) -> None:
    """Close the sources of a provider's result that is not used."""
    if not isinstance(given, Unread):
        content.close_sources(given.items if isinstance(given, Reading) else (given,))


def _mime_type(found: Found) -> str:
    return "" if found.route is None or found.view is not None else found.route.mime_type


def _one_of(first: Range | None, second: Range | None, uri: str) -> Range | None:
    """Return the range that was requested; raise if there are two."""
    if first is not None and second is not None:
        raise content.two_ranges(uri)
    return second if first is None else first


def _check_reference(reference: str) -> None:
    """Raise `Denied` for a template none of whose URIs the caller may read."""
    if not access.may_read_some(reference):
        access.check_read(reference)


def range_of(found: Found, uri: str, wanted: Range | None) -> Range | None:
    """Return the requested range, given beside the URI or in its query; raise if both have one."""
    if found.query_range:
        return _one_of(wanted, content.range_in(found.query_range), uri)
    if wanted is not None and not RANGE_NAMES.isdisjoint(found.variables):
        raise content.two_ranges(uri)
    return wanted
