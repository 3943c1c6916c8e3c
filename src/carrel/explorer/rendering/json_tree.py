"""JSON as a tree that folds. Numbers and strings are shown exactly, and names that occur twice are both shown."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from carrel.core.record import Value
from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.code import render_code
from carrel.explorer.rendering.markup import Content, Html, Links, element, escape, join, link, note

MAX_VALUES: Final = 5_000
"""Values that are shown; the rest is counted."""
MAX_DEPTH: Final = 60
MAX_TEXT: Final = 1_000_000
MAX_OPEN: Final = 200
"""Members of an object or array that is not folded at first."""
_OPEN_DEPTH: Final = 2
_MAX_LINES: Final = 1_000


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Members(Value, frozen=True):
    """The names and values of an object, in order, with repeats."""

    pairs: tuple[tuple[str, object], ...]


class NotReadable(ValueError):
    """The text is not JSON, or nested too deeply; the message says which."""


def parse(text: str) -> object:
    """Return the value of a JSON text; raise NotReadable."""
    if len(text) > MAX_TEXT:
        raise NotReadable("it is too large")
    try:
        value: object = json.loads(
            text.removeprefix("\ufeff"),
            parse_int=Number,
            parse_float=Number,
            parse_constant=Number,
            object_pairs_hook=lambda pairs: Members(tuple(pairs)),
        )
    except json.JSONDecodeError as error:
        raise NotReadable(f"it is not JSON from line {error.lineno}, column {error.colno} on") from None
    except RecursionError:
        raise NotReadable("it is nested too deeply") from None
    return value


def member(value: object, *names: str) -> object:
    """Return a member of nested objects; None if it does not exist."""
    for name in names:
        pairs = value.pairs if isinstance(value, Members) else ()
        value = next((given for known, given in pairs if known == name), None)
    return value


def text_in(value: object, *names: str) -> str:
    """Return a member that is a text, a number or a truth value, as text; empty for anything else."""
    found = member(value, *names)
    if isinstance(found, bool):
        return "yes" if found else "no"
    return found if isinstance(found, str) else ""


def is_object(value: object) -> bool:
    """Return whether a value is a JSON object."""
    return isinstance(value, Members)


def render_json(content: Content, links: Links) -> Html:
    """Return a JSON text as a tree; a part of JSON, or other text, is shown unchanged, with the reason."""
    if not content.is_whole:
        return join((note("This is shown as text: it is only a part of the JSON."), render_code(content)))
    try:
        value = parse(content.text or "")
    except NotReadable as error:
        return join((note(f"This is shown as text: {error}."), render_code(content)))
    return tree(value, links)


def render_json_lines(content: Content, links: Links) -> Html:
    """Return JSON lines: a tree for each line that is JSON, and the text of any other."""
    lines = (content.text or "").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    rows = []
    budget = _Budget()
    for at, line in enumerate(lines[:_MAX_LINES], content.first_line):
        try:
            shown = _Tree(links, budget).value(parse(line), 1)
        except NotReadable:
            shown = element("code", line)
        rows.append(element("li", shown, id=f"L{at}"))
    more = (
        [note(f"{amounts.count(len(lines) - _MAX_LINES)} more lines are not shown.")] if len(lines) > _MAX_LINES else []
    )
    return element("div", element("ol", *rows, start=content.first_line), *more, class_="json lines")


def tree(value: object, links: Links) -> Html:
    """Return a value as a tree."""
    budget = _Budget()
    shown = _Tree(links, budget).value(value, 0)
    more = [note(f"Only the first {amounts.count(MAX_VALUES)} values are shown.")] if budget.left <= 0 else []
    return element("div", shown, *more, class_="json")


class _Budget:
    """How many values may still be shown."""

    def __init__(self) -> None:
        self.left = MAX_VALUES


class _Tree:
    """Shows values, each with those below it."""

    def __init__(self, links: Links, budget: _Budget) -> None:
        self._links = links
        self._budget = budget

    def value(self, value: object, depth: int, name: Html | None = None) -> Html:
        self._budget.left -= 1
        before = join((name, Html(": "))) if name else Html("")
        if isinstance(value, Members | list):
            return self._folded(value, depth, before)
        return join((before, self._leaf(value)))

    def _leaf(self, value: object) -> Html:
        if isinstance(value, Number):
            return element("span", value, class_="m")
        if isinstance(value, str):
            spelled = json.dumps(value, ensure_ascii=False)
            if "://" in value[:40] and len(value) < 2_000 and self._links.page(value):
                return join((Html("&quot;"), link(value, self._links, spelled[1:-1]), Html("&quot;")))
            return element("span", spelled, class_="s")
        return element("span", "true" if value is True else "false" if value is False else "null", class_="k")

    def _folded(self, value: Members | Sequence[object], depth: int, before: Html) -> Html:
        is_map = isinstance(value, Members)
        count = len(value.pairs) if isinstance(value, Members) else len(value)
        start, end, noun = ("{", "}", "member") if is_map else ("[", "]", "item")
        if not count:
            return join((before, escape(start + end)))
        said = element("small", amounts.counted(count, noun))
        head = element("summary", before, start, Html(" "), said)
        if depth >= MAX_DEPTH:
            return join((before, escape(f"{start}…{end} "), said))
        rows = list(self._rows(value, depth + 1))
        left = count - len(rows)
        rows += [element("li", f"… {amounts.count(left)} more", class_="note")] if left else []
        is_open = depth < _OPEN_DEPTH and count <= MAX_OPEN
        return element("details", head, element("ul", *rows), escape(end), open=is_open)

    def _rows(self, value: Members | Sequence[object], depth: int) -> Iterator[Html]:
        if isinstance(value, Members):
            for name, one in value.pairs:
                if self._budget.left <= 0:
                    return
                spelled = element("span", json.dumps(name, ensure_ascii=False), class_="f")
                yield element("li", self.value(one, depth, spelled))
        else:
            for one in value:
                if self._budget.left <= 0:
                    return
                yield element("li", self.value(one, depth))
