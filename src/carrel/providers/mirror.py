"""The same resources as tools, for hosts that know only tools.

    list_resources   a page of the list
    read_resource    one resource, or a part of it

An answer fits the host that asked, because hosts cut longer ones, some silently in the middle. The first and the last
line of a part say which lines it holds and how to read the next part.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Annotated, Final

from carrel.catalog.catalog import Catalog, Part
from carrel.core.arguments import Argument, Arguments, InvalidArguments
from carrel.core.content import NEXT
from carrel.core.errors import NotFound, ProviderError, RequestError, echo
from carrel.core.hosts import ALWAYS_LOADED, LONG_RESULTS, answer_length, length_in_json
from carrel.core.model import Blob, Item, Meta, Page, Range, Reading, Resource, ResourceLink, Text, Tool, ToolResult
from carrel.core.provider import Call, Provider, Route
from carrel.core.record import Value, replace
from carrel.core.uri import with_query
from carrel.outline.part_notes import SHOWN, counted, names_in, next_in, noted, number_in, with_next, with_tokens

_TRIES: Final = 4
"""How often a part is read again with a smaller size, because its length in an answer is known only afterwards."""
_NOTE_LENGTH: Final = 280
"""Length of a note without the URI of the next part, with a margin."""
LIST_LENGTH: Final = 100
_LIST_MARGIN: Final = 20
"""By how many tokens a suggested budget of a list is larger than what it must be."""

_GUIDE_FIRST: Final = " Read carrel://guide first; it explains the URIs."


_Budget = Annotated[int, Argument(ge=1, description="Maximum tokens of the answer.", examples=[2000])]


class ListArguments(Value, frozen=True):
    """The arguments of `list_resources`."""

    cursor: Annotated[str, Argument(description="The cursor from the previous page.")] | None = None
    prefix: (
        Annotated[
            str,
            Argument(
                description="List only URIs that begin with this, such as workspace:///src/ or src/.",
                examples=["workspace:///src/"],
            ),
        ]
        | None
    ) = None
    budget: _Budget | None = None


class ReadArguments(Value, frozen=True):
    """The arguments of `read_resource`."""

    uri: Annotated[
        str,
        Argument(
            min_length=1,
            description="A URI from the list or from a template, or the path of a file.",
            examples=["README.md"],
        ),
    ]
    lines: Annotated[str, Argument(description="Lines to return, counted from 1: 10-50, 10- or 10.")] | None = None
    start: Annotated[int, Argument(ge=0, description="First byte to return.")] | None = None
    length: Annotated[int, Argument(ge=0, description="Number of bytes to return.")] | None = None
    budget: _Budget | None = None


_LIST: Final = Arguments(ListArguments)
_READ: Final = Arguments(ReadArguments)


def _tools(*, has_guide: bool) -> tuple[Tool, Tool]:
    """Return the two tools; mention the guide only if it is served."""
    listing = (
        "List the resources of this server, the most useful first: one URI and description per line. "
        f"With a prefix, list every URI that begins with it.{_GUIDE_FIRST if has_guide else ''}"
    )
    reading = (
        "Read one resource by its URI, or a file by its path. Long texts are returned in parts; "
        "the first and the last line of the answer name the next part."
    )
    return (
        _tool("list_resources", listing, _LIST.schema, "List resources", ALWAYS_LOADED),
        _tool("read_resource", reading, _READ.schema, "Read a resource", {**ALWAYS_LOADED, **LONG_RESULTS}),
    )


def _tool(name: str, description: str, schema: Meta, title: str, meta: Meta) -> Tool:
    return Tool(
        name,
        description,
        schema,
        title=title,
        read_only=True,
        idempotent=True,
        open_world=False,
        public=True,
        meta=meta,
    )


class Mirror(Provider):
    """The tools `list_resources` and `read_resource`."""

    name = "mirror"

    def __init__(self, catalog: Catalog, part_chars: int = 0) -> None:
        """Answers have at most `part_chars` characters; 0 means what the host takes."""
        self._catalog = catalog
        self._part_chars = part_chars

    def routes(self) -> Sequence[Route]:
        return ()

    def tools(self) -> Sequence[Tool]:
        return _tools(has_guide=any(mounted.provider.name == "guide" for mounted in self._catalog.mounted))

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        room = self._part_chars or answer_length(call.client)
        try:
            if name == "list_resources":
                return self._list(_LIST.check(arguments), room)
            return self._read(_READ.check(arguments), room)
        except InvalidArguments as error:
            return error.result("budget")  # of a tool too it is -32602
        except (RequestError, ProviderError) as error:
            if error.data.get("parameter") == "budget":
                raise
            return ToolResult((self._explain(error),), is_error=True, meta={"dev.carrel/error": error.word})

    def _explain(self, error: RequestError | ProviderError) -> str:
        """Return the message of an error with advice: similar URIs, or the schemes that are served."""
        if isinstance(error, NotFound):
            question = self._question(error.uri or "")
            return f"{error.message}; {question}" if question else error.message
        if not isinstance(error, RequestError):
            return error.message
        from carrel.catalog import suggestions  # not needed to start

        return suggestions.with_advice(self._catalog, error).message

    # Listing

    def _list(self, asked: ListArguments, room: int) -> ToolResult:
        from carrel.catalog import suggestions  # not needed to start
        from carrel.core.tokens import estimate_tokens

        cursor, prefix = asked.cursor or None, asked.prefix or ""
        if prefix and not suggestions.has_scheme(prefix):
            prefix = suggestions.as_uri(prefix)
        note = "" if cursor or prefix or self._catalog.chosen().is_whole else _NOT_ALL
        page, text = self._list_page(cursor, prefix, LIST_LENGTH), "No resources."
        if prefix and not (cursor or page.entries):
            question = "" if prefix.endswith("//") else self._question(prefix)
            text = f"No listed URI begins with {echo(prefix)}{'; ' if question else ''}{question}"
        while page.entries:
            text = _list_text(page, self._catalog.token_counts.of(page.entries), note, asked.budget)
            if asked.budget is None:
                if length_in_json(text) <= room or len(page.entries) == 1:
                    break
            elif estimate_tokens(text) <= asked.budget:
                break
            elif len(page.entries) == 1:
                least = estimate_tokens(text) + _LIST_MARGIN
                text = f"[no entry fits budget={asked.budget}; call list_resources with budget={least}]"
                return ToolResult((text,), meta={NEXT: cursor or ""})
            # Ask again for a shorter page: its cursor belongs to its length.
            page = self._list_page(cursor, prefix, max(1, len(page.entries) * 3 // 4))
        return ToolResult((text,), meta={NEXT: page.next_cursor} if page.next_cursor else None)

    def _list_page(self, cursor: str | None, prefix: str, limit: int) -> Page:
        return self._catalog.whole_page(cursor, limit, prefix) if prefix else self._catalog.page(cursor, limit)

    # Reading

    def _read(self, asked: ReadArguments, room: int) -> ToolResult:
        from carrel.catalog import suggestions  # not needed to start

        uri = suggestions.as_uri(asked.uri)
        if asked.budget is not None or "budget" in names_in(uri):
            reading, blocks = self._within_budget(uri, asked)
        else:
            is_range = asked.start is not None or asked.length is not None
            wanted = Range(asked.start or 0, asked.length) if is_range else None
            if asked.length is not None or "length" in names_in(uri):
                room = self._catalog.max_bytes  # a length that somebody chose wins over what the host takes
            reading, blocks = self._fitting(uri, wanted, asked.lines or "", room)
            self._catalog.token_counts.remember(uri, with_tokens(reading))
        if reading.error == "not_found" and (question := self._question(uri)):
            blocks = [*blocks, question]
        return ToolResult(tuple(blocks), is_error=reading.error is not None, meta=next_in(reading))

    def _within_budget(self, uri: str, asked: ReadArguments) -> tuple[Reading, Sequence[str | ResourceLink]]:
        """Return what the catalogue gives for a budget, which says itself what is missing."""
        parts = {"lines": asked.lines, "start": asked.start, "length": asked.length, "budget": asked.budget}
        uri = with_query(uri, **{name: value for name, value in parts.items() if value is not None})
        reading = self._catalog.read(uri)
        is_one = len(reading.items) == 1 and reading.items[0].uri is None
        return reading, _blocks(reading.items[0], uri) if is_one else _several(reading, uri, self._catalog.max_bytes)

    def _fitting(
        self, uri: str, wanted: Range | None, lines: str, room: int
    ) -> tuple[Reading, Sequence[str | ResourceLink]]:
        """Read as much as fits one answer; if it is too long, read a shorter part again."""
        asked = with_query(uri, lines=lines) if lines else uri
        reading, blocks = self._shown(uri, asked, wanted, Part(room, lines))
        most = room
        for _ in range(_TRIES):
            taken = sum(map(_length, blocks))
            if taken <= room or len(reading.items) != 1 or not isinstance(reading.items[0], Text):
                break
            text = _length(reading.items[0].text)
            most = max(1, most * (text - (taken - room) - 1) // text)
            reading, blocks = self._shown(uri, asked, wanted, Part(most, lines))
        return reading, blocks

    def _shown(
        self, uri: str, asked: str, wanted: Range | None, part: Part
    ) -> tuple[Reading, Sequence[str | ResourceLink]]:
        reading = self._catalog.read_part(uri, wanted, part)
        if len(reading.items) != 1 or reading.more is not None:
            return reading, _several(reading, uri, part.most)
        if reading.error is not None:
            return reading, _blocks(reading.items[0], uri)
        item = with_next(reading.items[0], asked)
        blocks = [noted(item, asked)] if isinstance(item, Text) else _blocks(item, asked)
        return replace(reading, items=(item,)), blocks

    def _question(self, uri: str) -> str:
        """Return a question that names URIs which exist and are spelled much like this one."""
        from carrel.catalog import suggestions  # not needed to start

        return suggestions.question(suggestions.nearest(self._catalog, uri))


_NOT_ALL: Final = "[only the most useful entries; to list a whole folder, call list_resources with a prefix such as workspace:///src/]"


def _length(block: str | ResourceLink) -> int:
    """Return the length of a block as hosts count it."""
    return length_in_json(block if isinstance(block, str) else block.uri + block.name)


def _list_text(page: Page, tokens: Sequence[int | None], note: str, budget: int | None) -> str:
    """Return a page of the list as text; its last line names the next page."""
    lines = [_line(entry, count) for entry, count in zip(page.entries, tokens or repeat(None), strict=False)]
    if page.next_cursor:
        same = "" if budget is None else f" and budget={budget}"
        lines.append(f"[more: list_resources with cursor {page.next_cursor}{same}]")
    return "\n".join([note, *lines, note] if note and budget is None else lines)


def _line(entry: Resource, tokens: int | None) -> str:
    size = "" if entry.size is None else counted(entry.size, "byte")
    title = "" if entry.name.endswith(entry.title) else entry.title
    cost = "" if tokens is None else f", {tokens} tokens"
    return f"{entry.uri}  {entry.description or title or size or entry.name}{cost}"


def _several(reading: Reading, uri: str, room: int) -> list[str | ResourceLink]:
    """Return as many items as fit, one per line, with the way to the others in the first and last line."""
    shown: list[str | ResourceLink] = []
    left = room - 2 * (_NOTE_LENGTH + 2 * len(uri))
    note = ""
    for count, item in enumerate(reading.items):
        blocks = _blocks(item, uri)
        left -= sum(map(_length, blocks))
        if left < 0:
            rest = reading.items[count].uri or f"{uri}, as a resource"
            following = reading.more(count) if reading.more is not None and count else rest
            note = f"[{count} of {len(reading.items)} shown; next: {following}]"
            break
        shown += blocks
    if not note and reading.items:
        last = (reading.items[-1].meta or {}).get(NEXT)
        shown_of = (reading.meta or {}).get(SHOWN)
        words = f"{shown_of} shown; " if shown_of else ""
        note = "" if last is None or not reading.is_folder else f"[{words}next: {last}]"
    return _joined([note, *shown, note] if note else shown)


def _joined(blocks: Sequence[str | ResourceLink]) -> list[str | ResourceLink]:
    """Return the blocks with consecutive texts joined."""
    joined: list[str | ResourceLink] = []
    for block in blocks:
        if isinstance(block, str) and joined and isinstance(joined[-1], str):
            joined[-1] = f"{joined[-1]}\n{block}"
        else:
            joined.append(block)
    return joined


def _blocks(item: Item, uri: str) -> list[str | ResourceLink]:
    if isinstance(item, Text):
        return [item.text if item.uri is None else f"{item.uri}  {item.text}"]
    assert isinstance(item, Blob)
    name = (item.uri or uri).rpartition("/")[2] or uri
    note = f"Binary content of {counted(number_in(item, 'total') or len(item.data), 'byte')}; read it as a resource."
    return [note, ResourceLink(item.uri or uri, name, None, item.mime_type or None)]
