"""Outlines: each row keeps its text, and leads to the lines, the file or the folder that it names."""

import re
from typing import Final

from carrel.core.uri import decode_loosely
from carrel.explorer.rendering.amounts import size
from carrel.explorer.rendering.markup import Content, Html, Links, element, escape, join, link, scrolling, visible
from carrel.explorer.rendering.plots import Bar, bars

MAX_ROWS: Final = 10_000
_HEAD: Final = re.compile(r"([a-z][a-z0-9+.-]*://\S*) \(.*\)")
_PART: Final = re.compile(r"(.* )(\?lines=\d{1,9}-\d{1,9})")
_CHILD: Final = re.compile(r"( {0,64})(?:(\d{1,9}) files?, )?(?:(\d{1,18}) bytes? )?(\S+)(\?outline)")


def is_outline(content: Content) -> bool:
    """Return whether a text is an outline: its URI asks for one, and it begins with the URI of its resource."""
    query = content.uri.partition("?")[2]
    names = [piece.partition("=")[0] for piece in query.split("&")]
    first = visible((content.text or "").partition("\n")[0])
    return "outline" in names and content.type == "text/plain" and _HEAD.fullmatch(first) is not None


def render_outline(content: Content, links: Links) -> Html:
    """Return an outline with links."""
    head, *rows = _lines(content)
    found = _HEAD.fullmatch(head)
    top = found[1] if found else ""
    first = join((link(top, links), escape(head[len(top) :]))) if top else escape(head)
    shown = [first, *(_row(row, top, links) for row in rows)]
    lines = Html("\n".join(element("span", row, class_="l") for row in shown))
    return scrolling("Outline", "code listed", element("pre", element("code", lines)))


def sizes(content: Content, links: Links) -> Html:
    """Return the sizes of a folder's children as bars, folders with all that is in them; empty for other outlines."""
    head, *rows = _lines(content)
    found = _HEAD.fullmatch(head)
    children = [_CHILD.fullmatch(row) for row in rows]
    things = [
        Bar(_label(child), int(child[3]), size(int(child[3])), links.page(f"{found[1]}{child[4]}"))
        for child in children
        if found and child and child[3] and not child[1]
    ]
    return bars("Size by child", things, spelled=size) if len(things) > 1 else Html("")


def _label(child: re.Match[str]) -> str:
    return decode_loosely(child[4].strip("/")) + ("/" if child[2] else "")


def _row(row: str, top: str, links: Links) -> Html:
    part = _PART.fullmatch(row)
    if part and top:
        return join((escape(part[1]), link(f"{top}{part[2]}", links, part[2])))
    child = _CHILD.fullmatch(row)
    if child and top:
        uri = f"{top}{child[4]}"
        name, inner = link(uri, links, child[4]), link(f"{uri}{child[5]}", links, child[5], "time")
        return join((escape(row[: child.start(4)]), name, inner))
    return escape(row)


def _lines(content: Content) -> list[str]:
    return visible(content.text or "").removesuffix("\n").split("\n")[:MAX_ROWS]
