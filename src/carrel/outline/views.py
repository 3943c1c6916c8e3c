"""What may be asked of any text beside its bytes: its outline, or some of its lines.

`?outline` and `?lines=10-50` are applied here, once for every provider. A provider whose template names `lines`, or
whose reader takes `outline`, gets them itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from carrel.core import content
from carrel.core.errors import BadArgument, echo
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.core.line_ranges import name_lines
from carrel.core.model import Blob, Item, Reading, Resource, Stored, Text
from carrel.core.provider import Given, Provider, Route, overrides
from carrel.core.record import Value, replace
from carrel.core.template import UriTemplate
from carrel.core.uri import decode_loosely, pairs, split_query, without

_RANGE_NAMES: Final = frozenset({"start", "length"})
_ALL: Final = "all"
_LOGS: Final = "logs://"
_TRIES: Final = 3
"""How often a text that changes while it is outlined is read."""


class View(Value, frozen=True):
    """What is asked of the text at `uri`."""

    uri: str
    outline: str | None = None
    lines: str | None = None


class Viewed(Value, frozen=True):
    """Where a view gets what it shows: the resource, its MIME type, and the provider that has it."""

    read: Callable[[], Given]
    mime_type: str
    provider: Provider

    def below(self, folder: str) -> Iterator[Resource]:
        """Return the entries below a folder."""
        if overrides(self.provider, "browse"):
            return self.provider.browse(folder, "")
        return self.provider.browse(None, f"{folder}/")


def find_view(uri: str, names: frozenset[str], rows: Sequence[tuple[UriTemplate, Route, object]]) -> View | None:
    """Return the view that a query asks for, unless the templates of the scheme say that its provider does that."""
    bare = split_query(uri)[0]
    # A URI that no template matches goes to a provider that may know the names of all of its templates.
    for template, route, _ in [row for row in rows if row[0].match(bare) is not None][:1] or rows:
        names -= template.query_variables if route.query is None else route.query.names
    return view_of(uri, names)


def view_of(uri: str, names: frozenset[str]) -> View | None:
    """Return what the query asks for under these names; raise if it cannot be."""
    query = split_query(uri)[1]
    asked = [pair for pair in pairs(query) if pair[0] in names] if query else []
    if not asked:
        return None
    values = dict(asked)
    if len(values) != len(asked):
        name = next(name for name, _ in asked if [other for other, _ in asked].count(name) > 1)
        raise _invalid(name, "given twice", uri)
    outline = values.get("outline")
    if outline not in (None, "", _ALL):
        raise _invalid(f"outline={echo(outline or '')}", "expected ?outline, or ?outline=all for all of it", uri)
    if len(values) > 1:
        raise _invalid("lines", "not together with outline", uri)
    return View(without(uri, names), outline, values.get("lines"))


def show(view: View, viewed: Viewed) -> Reading:
    """Read a resource and return what the view shows of it."""
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
        named = name_lines(item.source, item.encoding, wanted.start, wanted.start + (wanted.length or 0))
        item = replace(item, meta={**(item.meta or {}), **named})
    except BaseException:
        _close(reading)
        raise
    return replace(reading, items=(item,), range=wanted, shape=None)


def _outlined(view: View, viewed: Viewed) -> Reading:
    """Return the outline of a text or folder; of a text that changes while it is read, of its last state."""
    shown, has_moved = _outline_once(view, viewed)
    tries = 1
    while has_moved and tries < _TRIES:
        shown, has_moved = _outline_once(view, viewed)
        tries += 1
    return shown


def _outline_once(view: View, viewed: Viewed) -> tuple[Reading, bool]:
    """Return an outline, and whether the text changed while it was read."""
    given = viewed.read()
    reading = given if isinstance(given, Reading) else Reading((given,))
    if reading.error is not None:
        return reading, False
    try:
        text = _outline(view, viewed, reading)
        has_moved = any(isinstance(item, Stored) and item.source.has_moved() for item in reading.items)
    finally:
        _close(reading)
    modified, ttl_ms, scope = reading.last_modified_ms, reading.ttl_ms, reading.cache_scope
    return Reading((Text(text, "text/plain"),), "", None, modified, ttl_ms, scope), has_moved


def _outline(view: View, viewed: Viewed, reading: Reading) -> str:
    from carrel.outline import outlines, trees

    uri = without(view.uri, _RANGE_NAMES)
    bare = split_query(uri)[0].rstrip("/")
    if reading.is_folder:
        files = ((entry.uri, entry.size) for entry in viewed.below(bare))
        return trees.render(bare, files, is_all=view.outline == _ALL)
    if len(reading.items) != 1:
        return "".join(f"{len(_text_of(item, uri))} characters {item.uri or uri}\n" for item in reading.items)
    item = reading.items[0]
    if isinstance(item, Stored) and item.source.size > outlines.MAX_LOG:
        return outlines.refuse_size(uri, item.source.size)
    text = _text_of(item, uri)
    mime_type = item.mime_type or reading.mime_type or viewed.mime_type
    name = decode_loosely(bare.rpartition("/")[2])
    if bare.startswith(_LOGS):
        name += ".log"  # the name of a process has no ending
    outline = outlines.outline_of(text, name, mime_type)
    return outlines.render(outline, uri, text, is_all=view.outline == _ALL)


def _text_of(item: Item, uri: str) -> str:
    whole = content.whole(item, uri, MAX_MESSAGE_BYTES)
    if isinstance(whole, Blob):
        raise _invalid("outline", "only text has an outline", uri)
    return whole.text


def _close(reading: Reading) -> None:
    for item in reading.items:
        if isinstance(item, Stored):
            item.source.close()


def _invalid(what: str, why: str, uri: str) -> BadArgument:
    return BadArgument(f"Invalid parameter: {what} ({why})", uri=uri, data={"parameter": what.partition("=")[0]})
