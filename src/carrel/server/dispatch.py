"""What a catalogue answers to each method. It keeps nothing of who asks."""

from collections.abc import Callable, Mapping
from typing import Final

from carrel.catalog.catalog import Catalog
from carrel.catalog.fly import PAGE_SIZE, Asked
from carrel.catalog.routes import Found, Mounted
from carrel.core import content
from carrel.core.errors import BadArgument, BadCursor, TooLarge
from carrel.core.limits import LIST_TTL_MS, MAX_REMEMBERED_LENGTH
from carrel.core.model import Page, Range, Reading, Stored, Text
from carrel.core.record import Value
from carrel.protocol import jsonrpc, methods, results
from carrel.protocol.eras import Era
from carrel.server.requests import Running

MAX_FRAMES: Final = 1_024
"""Texts of one era of which it is remembered how all but the text is spelled: some 800 bytes each."""

_Frames = dict[tuple[object, str], jsonrpc.Frame]
"""By shape and URI: of the legacy era, and of the modern one."""

_OF_CHARACTERS: Final = frozenset({"dev.carrel/replaced", "dev.carrel/changing"})

Send = Callable[[bytes], None]
"""Gives one encoded message to the client; safe from any thread."""


def _nowhere(_: bytes) -> None:
    """Take what nobody is told."""


def _unseen(_: Page) -> None:
    """Take a page that nobody remembers."""


class Job(Value, frozen=True, gc=False):
    """A call on its way through: with the route it found, its state if it may wait, and where it tells of itself.

    `saw` gets the first page of the list, as the client gets it.
    """

    call: methods.Call
    found: Found | None = None
    running: Running | None = None
    send: Send = _nowhere
    saw: Callable[[Page], None] = _unseen

    @property
    def uri(self) -> str | None:
        return getattr(self.call.params, "uri", None)


class Answers:
    """The answers of one catalogue, encoded."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._fly: tuple[tuple[Mounted, ...], bool] = (), False
        self._frames: tuple[_Frames, _Frames] = {}, {}
        self._first_pages: dict[Era, tuple[Page, jsonrpc.Spelled]] = {}
        self.by_method: Mapping[str, Callable[[Job], bytes | None]] = {
            "resources/read": self.read,
            "resources/list": self.list,
            "resources/templates/list": self.list_templates,
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
        }

    def read(self, job: Job) -> bytes:
        params, found = job.call.params, job.found
        assert found is not None
        is_fly = self._speaks_fly()
        wanted = None
        if params.start is not None or params.length is not None:
            wanted = Range(params.start or 0, params.length)
            is_fly = True
        if is_fly or params.meta.condition or found.query_range:
            reading = self.catalog.read_found(found, params.uri, wanted, params.meta.condition or None)
        else:
            given = found.read()
            if type(given) is Reading and given.shape is not None and type(given.items[0]) is Stored:
                return self._read_shaped(job, found, given, given.items[0])
            reading = self.catalog.read_given(found, given, params.uri)
        result = results.read_result(reading, params.uri, job.call.era, is_fly=is_fly)
        encoded = jsonrpc.answer(job.call.id, result)
        if len(reading.items) > 1 and len(encoded) > self.catalog.max_bytes:
            # A folder has no byte range to suggest.
            size, limit = len(encoded), self.catalog.max_bytes
            raise TooLarge(f"Too large: the answer has {size} bytes, one message holds {limit}", size=size, limit=limit)
        return encoded

    def _read_shaped(self, job: Job, found: Found, given: Reading, item: Stored) -> bytes:
        """Answer with the whole of a text whose state was read before: only the text is spelled anew."""
        call, uri = job.call, job.call.params.uri
        frames = self._frames[call.era is Era.MODERN]
        frame = frames.get((given.shape, uri))
        if frame is None:
            size = item.source.size
            reading = self.catalog.read_given(found, given, uri)
            if _is_plain(reading, size) and reading.etag == given.etag and len(uri) <= MAX_REMEMBERED_LENGTH:
                if len(frames) >= MAX_FRAMES:
                    frames.clear()
                frames[given.shape, uri] = results.read_frame(reading, uri, call.era)
        else:
            text = content.whole_text(item)
            if text is not None:
                return frame.fill(call.id, text)
            reading = self.catalog.read_found(found, uri)
        return jsonrpc.answer(call.id, results.read_result(reading, uri, call.era))

    def list(self, job: Job) -> bytes:
        """Give a page; one that would not fit a message ends earlier."""
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
                result = self._spelled(page, job.call)
            encoded = jsonrpc.answer(job.call.id, result)
            if len(encoded) <= self.catalog.max_bytes or len(page.entries) <= 1:
                if not cursor and prefix is None:
                    job.saw(page)
                return encoded
            limit = len(page.entries) // 2

    def _spelled(self, page: Page, call: methods.Call) -> object:
        """Spell a page of the list; the first one, while it is as it was the last time, is not spelled again."""
        if call.params.cursor or call.params.meta.prefix is not None:
            return results.list_result(page, call.era, is_brief=call.params.meta.prefix is None)
        known = self._first_pages.get(call.era)
        if known is not None and known[0] == page:
            self._first_pages[call.era] = page, known[1]  # the same entries are compared faster the next time
            return known[1]
        result = results.list_result(page, call.era)
        if any(entry.meta for entry in page.entries):
            return result  # what a `meta` holds may change without being replaced
        spelled = jsonrpc.spelled(result)
        self._first_pages[call.era] = page, spelled
        return spelled

    def _browse(self, job: Job) -> bytes:
        """Give a page in Fly's way, with its fields beside the standard ones."""
        params = job.call.params
        if params.cursor is not None:
            raise BadArgument("Invalid parameter: cursor (not together with others)", data={"parameter": "cursor"})
        size = PAGE_SIZE if params.page_size is None else params.page_size
        browsed = self.catalog.browse(Asked(params.directory, params.uri, params.page or 0, size))
        result = results.fly_list_result(browsed.page, browsed.total, params.page or 0, size, job.call.era)
        encoded = jsonrpc.answer(job.call.id, result)
        limit = self.catalog.max_bytes
        if len(encoded) <= limit:
            return encoded
        suggested = max(1, len(browsed.page.entries) * limit // len(encoded) // 2)
        message = f"Too large: the page has {len(encoded)} bytes, one message holds {limit}; ask for fewer entries"
        raise TooLarge(message, size=len(encoded), limit=limit, data={"suggestedPageSize": suggested})

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
        result = results.tools_result(self.catalog.tools(), LIST_TTL_MS, job.call.era)
        return jsonrpc.answer(job.call.id, result)

    def call_tool(self, job: Job) -> bytes:
        assert job.running is not None
        result = self.catalog.call(job.call.params.name, job.call.params.arguments, job.running)
        return jsonrpc.answer(job.call.id, results.call_result(result, job.call.era))

    def _speaks_fly(self) -> bool:
        mounted, speaks = self._fly
        if mounted is not self.catalog.mounted:  # each read asks, and providers seldom change
            mounted = self.catalog.mounted
            speaks = any(one.provider.speaks_fly for one in mounted)
            self._fly = mounted, speaks
        return speaks


def _is_plain(reading: Reading, size: int) -> bool:
    """Return whether a reading is a text of that many bytes, and nothing told of it depends on its characters."""
    item = reading.items[0]
    if len(reading.items) != 1 or type(item) is not Text or not item.meta:
        return False
    return item.meta.get("dev.carrel/length") == size and _OF_CHARACTERS.isdisjoint(item.meta)
