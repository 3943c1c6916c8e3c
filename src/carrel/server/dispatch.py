"""Answers the methods that depend on the catalogue alone, not on the connection."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from carrel.catalog.catalog import Catalog, close_given, range_of
from carrel.catalog.fly import PAGE_SIZE, FlyRequest
from carrel.catalog.routes import Found, Mounted
from carrel.core.cancellation import Cancelled
from carrel.core.content import takes_long, whole_text
from carrel.core.errors import BadArgument, BadCursor, TooLarge
from carrel.core.limits import LIST_TTL_MS, MAX_REMEMBERED_LENGTH
from carrel.core.model import Page, Range, Reading, Resource, Stored, Text, Unread
from carrel.core.provider import Given
from carrel.core.record import Value
from carrel.protocol import eras, jsonrpc, methods, results
from carrel.protocol.eras import Era
from carrel.server.requests import Running

MAX_FRAMES: Final = 1_024
"""Number of kept frames in one era; each has some 800 bytes."""

MAX_FRAMED_BYTES: Final = 65_536
"""A longer text is encoded together with the rest: to put it into a frame takes one more copy, which costs more."""

_Frames = dict[tuple[object, str], jsonrpc.Frame]
"""Encoded answers without their texts, by shape and URI."""

_OF_CHARACTERS: Final = frozenset({"dev.carrel/replaced", "dev.carrel/changing"})
"""Keys of `_meta` that are set because of the bytes of one read: an answer with one of them has no frame."""

Send = Callable[[bytes], None]
"""Sends one encoded message to the client; safe from any thread."""


def _ignore(_: object) -> None:
    """Do nothing."""


class Unfinished:
    """A source that was opened on an event loop for a worker thread to read; closed if no thread takes it."""

    __slots__ = ("_given",)

    def __init__(self, given: Given | Unread | None) -> None:
        self._given = [given]

    def take(self) -> Given | Unread | None:
        """Return what was opened to the first caller, and None to every later one."""
        try:
            return self._given.pop()
        except IndexError:
            return None

    def close(self) -> None:
        """Close what was opened, unless a thread has taken it."""
        given = self.take()
        if given is not None:
            close_given(given)


class Job(Value, frozen=True, gc=False):
    """A call, with the route it found, its state if it runs on a worker thread, and where its notifications go.

    `saw` gets the first page of the list as it is sent. On an event loop (`on_loop`) a read that would take long
    returns `Unfinished`, with which another job goes on.
    """

    call: methods.ParsedCall
    found: Found | None = None
    send: Send = _ignore
    on_loop: bool = False
    running: Running | None = None
    unfinished: Unfinished | None = None
    saw: Callable[[Page], None] = _ignore

    @property
    def uri(self) -> str | None:
        return getattr(self.call.params, "uri", None)


class FirstPage(NamedTuple):
    """The first page of the list as it was encoded the last time."""

    page: Page
    with_meta: Sequence[Resource]
    metas: bytes
    tokens: Sequence[int | None]
    encoded: jsonrpc.Encoded


class Dispatch:
    """What all connections share: the catalogue, what its providers can do, and the answers to most methods."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._look()
        self._fly: tuple[tuple[Mounted, ...], bool] = (), False
        self._frames: tuple[_Frames, _Frames] = {}, {}
        self._first_pages: dict[Era, FirstPage] = {}
        self.by_method: Mapping[str, Callable[[Job], bytes | Unfinished | None]] = {
            "resources/read": self.read,
            "resources/list": self.list,
            "resources/templates/list": self.list_templates,
            "resources/directory/read": self.read_folder,
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
        }

    def _look(self) -> None:
        """Note what the providers can do now."""
        catalog = self.catalog
        self._generation = catalog.generation
        self.declared = eras.capabilities(completes=catalog.completes, calls=catalog.calls)
        self._served = {era: eras.served(era, completes=catalog.completes, calls=catalog.calls) for era in Era}
        self.deadline_s = max((mounted.provider.deadline_s for mounted in catalog.mounted), default=0.0)
        self.is_instant = all(mounted.speed == "instant" for mounted in catalog.mounted)

    @property
    def served(self) -> methods.Served:
        """The methods that are served, by era."""
        if self._generation != self.catalog.generation:
            self._look()
        return self._served

    @property
    def has_blocking(self) -> bool:
        """Whether any provider may wait for something outside this process."""
        return any(mounted.speed == "blocking" for mounted in self.catalog.mounted)

    def needs_thread(self, found: Found, on_loop: bool) -> bool:
        """Return whether a read must run on a worker thread; on an event loop, only quick reads need none."""
        speed = found.mounted.speed
        if speed == "as_others":
            others = {mounted.speed for mounted in self.catalog.mounted if mounted is not found.mounted}
            speed = "blocking" if "blocking" in others else "instant" if others <= {"instant"} else "normal"
        return speed == "blocking" or (on_loop and speed == "normal")

    def read(self, job: Job) -> bytes | Unfinished:
        params, found, condition = job.call.params, job.found, job.call.params.meta.condition or None
        assert found is not None
        wanted = None
        if params.start is not None or params.length is not None:
            wanted = Range(params.start or 0, params.length)
        is_fly = wanted is not None or self._speaks_fly()
        if wanted is not None or found.query_range:
            wanted = range_of(found, params.uri, wanted)
        given = found.open(condition) if job.unfinished is None else job.unfinished.take()
        if given is None:
            raise Cancelled
        if job.on_loop and takes_long(given, wanted):
            return Unfinished(given)
        if isinstance(given, Unread):
            given = given.read()
        if type(given) is Reading and given.shape is not None and not (is_fly or condition or wanted):
            return self._read_shaped(job, found, given)
        reading = self.catalog.read_once(found, given, params.uri, wanted, condition)
        if reading is None:
            if job.on_loop:
                return Unfinished(Unread(partial(found.read, condition)))
            reading = self.catalog.read_again(found, params.uri, wanted, condition)
        result = results.read_result(reading, params.uri, job.call.era, is_fly=is_fly)
        encoded = jsonrpc.answer(job.call.id, result)
        if len(reading.items) > 1 and len(encoded) > self.catalog.max_bytes:
            # A folder has no byte range to suggest.
            size, limit = len(encoded), self.catalog.max_bytes
            raise TooLarge(f"Too large: the answer has {size} bytes, one message holds {limit}", size=size, limit=limit)
        return encoded

    def _read_shaped(self, job: Job, found: Found, given: Reading) -> bytes | Unfinished:
        """Answer with a whole text; if its frame is known, only the text is encoded."""
        call, uri, item = job.call, job.call.params.uri, given.items[0]
        assert isinstance(item, Stored)
        frames = self._frames[call.era is Era.MODERN]
        frame = frames.get((given.shape, uri))
        if frame is None:
            size = item.source.size
            reading = self.catalog.read_once(found, given, uri)
            is_same = reading is not None and reading.etag == given.etag
            if reading is not None and is_same and size <= MAX_FRAMED_BYTES and _is_plain(reading, uri, size):
                if len(frames) >= MAX_FRAMES:
                    frames.clear()
                frames[given.shape, uri] = results.read_frame(reading, uri, call.era)
        else:
            text = whole_text(item)
            if text is not None:
                return frame.fill(call.id, text)
            reading = None
        if reading is None:
            if job.on_loop:
                return Unfinished(Unread(found.read))
            reading = self.catalog.read_again(found, uri)
        return jsonrpc.answer(call.id, results.read_result(reading, uri, call.era))

    def list(self, job: Job) -> bytes:
        """Return a page; one that would not fit a message ends earlier."""
        if job.call.params.is_fly:
            return self._browse(job)
        limit = self.catalog.page_size
        cursor, prefix = job.call.params.cursor, job.call.params.meta.prefix
        is_fly = self._speaks_fly() and not cursor
        while True:
            if prefix is None and not is_fly:
                page = self.catalog.page(cursor, limit)
            else:
                page = self.catalog.whole_page(cursor, limit, prefix or "")
            if is_fly:
                total = sum(1 for _ in self.catalog.entries())
                result = results.fly_list_result(page, total, 0, limit, job.call.era)
            else:
                result = self._encoded(page, job.call)
            encoded = jsonrpc.answer(job.call.id, result)
            if len(encoded) <= self.catalog.max_bytes or len(page.entries) <= 1:
                if not cursor and prefix is None:
                    job.saw(page)
                return encoded
            limit = len(page.entries) // 2

    def _encoded(self, page: Page, call: methods.ParsedCall) -> object:
        """Return the result for a page of the list; the first page is encoded again only if it changed."""
        if call.params.cursor or call.params.meta.prefix is not None:
            tokens = self.catalog.token_counts.of(page.entries)
            return results.list_result(page, call.era, tokens, is_brief=call.params.meta.prefix is None)
        known = self._first_pages.get(call.era)
        is_same = known is not None and known.page == page
        with_meta = known.with_meta if known and is_same else [one for one in page.entries if one.meta is not None]
        # The content of a `meta` may change in place.
        metas = jsonrpc.plain([dict(entry.meta or {}) for entry in with_meta])
        tokens = self.catalog.token_counts.of(page.entries)
        is_same = known is not None and is_same and known.metas == metas and known.tokens == tokens
        encoded = (
            known.encoded if known and is_same else jsonrpc.encode_part(results.list_result(page, call.era, tokens))
        )
        # Identical entries are compared faster the next time.
        self._first_pages[call.era] = FirstPage(page, with_meta, metas, tokens, encoded)
        return encoded

    def _browse(self, job: Job) -> bytes:
        """Return a page with the fields of the Fly documents added."""
        params = job.call.params
        if params.cursor is not None:
            raise BadArgument("Invalid parameter: cursor (not together with others)", data={"parameter": "cursor"})
        size = PAGE_SIZE if params.page_size is None else params.page_size
        browsed = self.catalog.browse(FlyRequest(params.directory, params.uri, params.page or 0, size))
        result = results.fly_list_result(browsed.page, browsed.total, params.page or 0, size, job.call.era)
        encoded = jsonrpc.answer(job.call.id, result)
        limit = self.catalog.max_bytes
        if len(encoded) <= limit:
            return encoded
        suggested = max(1, len(browsed.page.entries) * limit // len(encoded) // 2)
        message = f"Too large: the page has {len(encoded)} bytes, one message holds {limit}; ask for fewer entries"
        raise TooLarge(message, size=len(encoded), limit=limit, data={"suggestedPageSize": suggested})

    def read_folder(self, job: Job) -> bytes:
        params, era = job.call.params, job.call.era

        def page_of(limit: int) -> tuple[int, object]:
            page = self.catalog.read_folder(params.uri, params.cursor, limit)
            return len(page.entries), results.list_result(page, era, is_brief=False)

        return self._fitting(job, page_of)

    def list_skills(self, job: Job) -> bytes:
        found = self.catalog.skills(job.call.params.cursor)  # once: digests of many files may be new

        def page_of(limit: int) -> tuple[int, object]:
            page = found.first(limit)
            return len(page.skills), results.skills_result(page.skills, page.next_cursor, page.ttl_ms, job.call.era)

        return self._fitting(job, page_of)

    def get_skill(self, job: Job) -> bytes:
        skill = self.catalog.skill(job.call.params.uri)
        return jsonrpc.answer(job.call.id, results.skill_result(skill, LIST_TTL_MS, job.call.era))

    def _fitting(self, job: Job, page_of: Callable[[int], tuple[int, object]]) -> bytes:
        """Return a page; one that would not fit a message ends earlier. `page_of` takes the limit of a page."""
        limit = self.catalog.page_size
        while True:
            count, result = page_of(limit)
            encoded = jsonrpc.answer(job.call.id, result)
            if len(encoded) <= self.catalog.max_bytes or count <= 1:
                return encoded
            limit = count // 2

    def list_templates(self, job: Job) -> bytes:
        templates, next_cursor = self.catalog.templates(job.call.params.cursor)
        result = results.templates_result(templates, next_cursor, LIST_TTL_MS, job.call.era)
        return jsonrpc.answer(job.call.id, result)

    def complete(self, job: Job) -> bytes:
        params = job.call.params
        if params.ref.type != "ref/resource":
            raise BadArgument("Unknown reference: only ref/resource is known here", data={"parameter": "ref"})
        completion = self.catalog.complete(
            params.ref.uri, params.argument.name, params.argument.value, params.context.arguments
        )
        return jsonrpc.answer(job.call.id, results.completion_result(completion, job.call.era))

    def list_tools(self, job: Job) -> bytes:
        if job.call.params.cursor:
            raise BadCursor
        return jsonrpc.answer(job.call.id, results.tools_result(self.catalog.tools(), LIST_TTL_MS, job.call.era))

    def call_tool(self, job: Job) -> bytes:
        assert job.running is not None
        result = self.catalog.call(job.call.params.name, job.call.params.arguments, job.running)
        return jsonrpc.answer(job.call.id, results.call_result(result, job.call.era))

    def _speaks_fly(self) -> bool:
        mounted, speaks = self._fly
        if mounted is not self.catalog.mounted:  # called for each read, and providers rarely change
            mounted = self.catalog.mounted
            speaks = any(one.provider.speaks_fly for one in mounted)
            self._fly = mounted, speaks
        return speaks


def _is_plain(reading: Reading, uri: str, size: int) -> bool:
    """Return whether a reading is one text of `size` bytes whose metadata does not depend on its characters."""
    item = reading.items[0]
    if len(uri) > MAX_REMEMBERED_LENGTH or len(reading.items) != 1 or type(item) is not Text or not item.meta:
        return False
    return item.meta.get("dev.carrel/length") == size and _OF_CHARACTERS.isdisjoint(item.meta)
