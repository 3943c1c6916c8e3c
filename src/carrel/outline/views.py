"""The views of any text besides its bytes: its outline, some of its lines, or what fits a budget of tokens.

`?outline`, `?lines=10-50` and `?budget=2000` are applied here, once for every provider. A provider whose template names
`lines` or `budget`, or whose reader takes `outline`, gets them itself.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from carrel.core import content
from carrel.core.errors import BadArgument, echo
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.core.line_ranges import name_lines
from carrel.core.model import Blob, Item, Meta, Range, Reading, Resource, Stored, Text
from carrel.core.provider import Given, Provider, Route, overrides
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.token_counts import SIZE, TOKENS
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import decode_loosely, pairs, split_query, with_query, without

if TYPE_CHECKING:
    from carrel.outline.budgets import Budget

_RANGE_NAMES: Final = frozenset({"start", "length"})
_BUDGET: Final = frozenset({"budget"})
_ALL: Final = "all"
_LOGS: Final = "logs://"
_TRIES: Final = 3
"""How often a text that changes while it is outlined is read."""


class View(Value, frozen=True):
    """The requested view of the text at `uri`. `asked` is the URI with everything except the budget."""

    uri: str
    outline: str | None = None
    lines: str | None = None
    budget: str | None = None
    asked: str = ""
    range: tuple[tuple[str, str], ...] = ()
    """`start` and `length`, of an outline or for a budget."""


class Viewed(Value, frozen=True):
    """Where a view gets what it shows: the resource, its MIME type, and the provider that has it.

    `shows` returns whether the caller sees an entry; without it, all are seen.
    """

    read: Callable[[], Given]
    mime_type: str
    provider: Provider
    shows: Callable[[Resource], bool] | None = None

    def below(self, folder: str) -> Iterator[Resource]:
        """Return the entries below a folder."""
        has_browse = overrides(self.provider, "browse")
        found = self.provider.browse(folder, "") if has_browse else self.provider.browse(None, f"{folder}/")
        return found if self.shows is None else filter(self.shows, found)


def find_view(uri: str, names: frozenset[str], rows: Sequence[tuple[UriTemplate, Route, object]]) -> View | None:
    """Return the view that a query asks for, unless the templates of the scheme leave that to the provider."""
    bare = split_query(uri)[0]
    # A URI that no template matches goes to a provider that may know the names of all of its templates.
    for template, route, _ in [row for row in rows if row[0].match(bare) is not None][:1] or rows:
        names -= template.query_variables if route.query is None else route.query.names
    return view_of(uri, names)


def view_of(uri: str, names: frozenset[str]) -> View | None:
    """Return what the query asks for under these names; raise if that is not possible."""
    query = split_query(uri)[1]
    given = pairs(query) if query else []
    asked = [pair for pair in given if pair[0] in names]
    if not asked:
        return None
    values = dict(asked)
    if len(values) != len(asked):
        name = next(name for name, _ in asked if [other for other, _ in asked].count(name) > 1)
        raise _invalid(name, "given twice", uri)
    outline = values.get("outline")
    if outline not in (None, "", _ALL):
        raise _invalid(f"outline={echo(outline or '')}", "expected ?outline, or ?outline=all for all of it", uri)
    lines = values.get("lines")
    if outline is not None and "lines" in dict(given):
        raise _invalid("lines", "not together with outline", uri)
    if outline is not None and "budget" not in values:
        ranged = tuple(pair for pair in given if pair[0] in _RANGE_NAMES)
        return View(without(uri, names | _RANGE_NAMES), outline, asked=uri, range=ranged)
    return View(without(uri, names), outline, lines, values.get("budget"), without(uri, _BUDGET))


def show(view: View, viewed: Viewed) -> Reading:
    """Read a resource and return what the view shows of it."""
    if view.budget is not None:
        from carrel.outline.budgets import Budget, parse

        return _budgeted(view, viewed, Budget(parse(view.budget, view.asked), view.asked))
    if view.outline is not None:
        return _outlined(view, viewed)
    given = viewed.read()
    reading = given if isinstance(given, Reading) else Reading((given,))
    if reading.error is not None:
        return reading
    try:
        if reading.is_folder or len(reading.items) != 1:
            raise _invalid("lines", "not for a folder or several items", view.uri)
        if reading.range is not None:
            raise content.two_ranges(view.uri)
        item = content.stored(reading.items[0])
        wanted = content.range_of_lines(item, view.lines or "", view.uri, MAX_MESSAGE_BYTES)
        end = wanted.start + (wanted.length or 0)
        named = name_lines(item.source, item.encoding, wanted.start, end)
        item = replace(item, meta={**content.meta_of_part(item, end), **named})
    except BaseException:
        _close(reading)
        raise
    return replace(reading, items=(item,), range=wanted, shape=None)


def _outlined(view: View, viewed: Viewed) -> Reading:
    """Return the outline of a text or folder."""

    def shown(reading: Reading) -> Reading:
        outline = _outline(view, viewed, reading)
        return _as_text(reading, outline.default(), outline.counted)

    return _settled(viewed, shown)


def _settled(viewed: Viewed, show_of: Callable[[Reading], Reading]) -> Reading:
    """Return the view of a reading; for a text that changes while it is read, the view of its last state."""
    shown, has_moved = _show_once(viewed, show_of)
    tries = 1
    while has_moved and tries < _TRIES:
        shown, has_moved = _show_once(viewed, show_of)
        tries += 1
    return shown


def _show_once(viewed: Viewed, show_of: Callable[[Reading], Reading]) -> tuple[Reading, bool]:
    """Return the view of a reading, and whether the text changed while it was read."""
    given = viewed.read()
    reading = given if isinstance(given, Reading) else Reading((given,))
    if reading.error is not None:
        return reading, False
    try:
        shown = show_of(reading)
        return shown, any(isinstance(item, Stored) and item.source.has_moved() for item in reading.items)
    finally:
        _close(reading)


def _as_text(reading: Reading, text: str, meta: Meta) -> Reading:
    """Return a reading of a text that was made from another reading."""
    modified, ttl_ms, scope = reading.last_modified_ms, reading.ttl_ms, reading.cache_scope
    return Reading((Text(text, "text/plain", meta=meta or None),), "", None, modified, ttl_ms, scope)


# Outlines


class _Outline(Value, frozen=True):
    """An outline, which can be rendered with more or fewer rows."""

    render: Callable[[int | None, bool], str]
    """Takes a number of tokens, and whether to show everything."""
    is_all: bool
    has_rows: bool
    counted: Meta
    """`meta` that says what the text costs."""

    def default(self) -> str:
        """Return the outline that is shown without a budget."""
        return self.render(None, self.is_all)

    def within(self, tokens: int) -> str:
        """Return as much of the outline as fits; an empty text if not even one row does."""
        text = self.render(tokens, False) if self.has_rows else ""
        rows = [line for line in text.splitlines()[1:] if not line.startswith("[")]
        return text if rows and estimate_tokens(text) <= tokens else ""


def _outline(view: View, viewed: Viewed, reading: Reading) -> _Outline:
    from carrel.outline import outlines, trees

    uri = without(view.uri, _RANGE_NAMES)
    bare = split_query(uri)[0].rstrip("/")
    is_all = view.outline == _ALL
    if reading.is_folder:
        files = [(entry.uri, entry.size) for entry in islice(viewed.below(bare), trees.MAX_FILES + 1)]
        top = split_query(uri)[0] if bare.endswith(":") else bare  # a scheme's root keeps its slashes
        return _Outline(lambda tokens, is_all: trees.render(top, files, tokens, is_all=is_all), is_all, bool(files), {})
    item = reading.items[0] if len(reading.items) == 1 else None
    if item is None:
        sizes = "".join(f"{len(_text_of(item, uri))} characters {item.uri or uri}\n" for item in reading.items)
        return _Outline(lambda _tokens, _is_all: sizes, True, False, {})
    if isinstance(item, Stored) and item.source.size > outlines.MAX_LOG:
        refused = outlines.refuse_size(uri, item.source.size)
        return _Outline(lambda _tokens, _is_all: refused, True, False, {})
    text = _text_of(item, uri, outlines.MAX_LOG)
    mime_type = item.mime_type or reading.mime_type or viewed.mime_type
    name = decode_loosely(bare.rpartition("/")[2])
    if bare.startswith(_LOGS):
        name += ".log"  # the name of a process has no ending
    outline = outlines.outline_of(text, name, mime_type)
    cost = estimate_tokens(text)

    def render(tokens: int | None, is_all: bool) -> str:
        return outlines.render(outline, uri, text, tokens, is_all=is_all, cost=cost)

    counted = {TOKENS: cost, SIZE: content.stored(item).source.size}
    return _Outline(render, is_all, bool(outline.rows), counted)


# Budgets


def _budgeted(view: View, viewed: Viewed, budget: "Budget") -> Reading:
    """Return the part of the requested view that fits the budget."""
    wanted = content.range_in(view.range) if view.range else None
    if view.outline is not None:
        return _settled(viewed, lambda reading: _budgeted_outline(view, viewed, reading, budget, wanted))
    if view.lines is None:
        return _settled(viewed, lambda reading: _fit(view, viewed, reading, budget, wanted))
    lines = replace(view, budget=None, range=())
    return _settled(
        replace(viewed, read=lambda: show(lines, viewed)), lambda reading: _fit(view, viewed, reading, budget, wanted)
    )


def _fit(view: View, viewed: Viewed, reading: Reading, budget: "Budget", wanted: Range | None) -> Reading:
    from carrel.outline.budgets import fit

    def outline(tokens: int) -> str:
        return _outline(view, viewed, reading).within(tokens)

    if wanted is not None and reading.range is not None:
        raise content.two_ranges(view.uri)
    return fit(reading, budget, wanted, outline)


def _budgeted_outline(view: View, viewed: Viewed, reading: Reading, budget: "Budget", wanted: Range | None) -> Reading:
    """Return as much of an outline as fits; one with all rows is cut like any text."""
    from carrel.outline.budgets import fit

    outline = _outline(view, viewed, reading)
    everything = outline.render(None, True)
    every = replace(budget, uri=with_query(budget.uri, outline=_ALL))
    if wanted is None and not outline.is_all and not budget.fits(everything):
        shorter = outline.within(budget.tokens)
        if shorter:
            return _as_text(reading, shorter, {**outline.counted, content.NEXT: every.following(every.uri)})
    return fit(_as_text(reading, everything, outline.counted), every, wanted, lambda _: "")


def _text_of(item: Item, uri: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    whole = content.whole(item, uri, limit)
    if isinstance(whole, Blob):
        raise _invalid("outline", "only text has an outline", uri)
    return whole.text


def _close(reading: Reading) -> None:
    for item in reading.items:
        if isinstance(item, Stored):
            item.source.close()


def _invalid(what: str, why: str, uri: str) -> BadArgument:
    return BadArgument(f"Invalid parameter: {what} ({why})", uri=uri, data={"parameter": what.partition("=")[0]})
