"""Pictures, and files that are not text.

A picture is loaded from its own address, where it is nothing but a picture. SVG is one too: in an `img`, a browser runs
no script of it and loads nothing else. Its text stands below.
"""

from typing import Final

from carrel.core.uri import decode_loosely, split_query
from carrel.explorer.rendering.amounts import counted
from carrel.explorer.rendering.code import render_code
from carrel.explorer.rendering.markup import Content, Html, Links, element, facts, join

PICTURES: Final = frozenset(
    {"image/avif", "image/bmp", "image/gif", "image/jpeg", "image/png", "image/webp", "image/x-icon"}
)
"""Types that all current browsers show."""


def render_picture(content: Content, links: Links) -> Html:
    """Return a picture with its facts."""
    source = links.raw(content.uri)
    if source is None:
        return render_binary(content, links)
    return join((element("figure", _img(source, content), class_="picture"), render_binary(content, links)))


def render_svg(content: Content, links: Links) -> Html:
    """Return an SVG file as a picture, and its text."""
    source = links.raw(content.uri)
    shown = [element("figure", _img(source, content), class_="picture")] if source and content.is_whole else []
    return join((*shown, render_code(content)))


def render_binary(content: Content, links: Links) -> Html:
    """Return the facts about a file that is not text, and where to download it."""
    source = links.raw(content.uri)
    get = element("a", f"Download {_name(content)}", href=source, download=_name(content)) if source else Html("")
    size = "" if content.size is None else counted(content.size, "byte")
    return facts((("Type", content.mime_type or "not known"), ("Size", size), ("File", get)))


def _img(source: str, content: Content) -> Html:
    return element("img", src=source, alt=f"The picture {_name(content)}", loading="lazy")


def _name(content: Content) -> str:
    """Return the last name in a URI, without what a file name cannot have."""
    name = decode_loosely(split_query(content.uri)[0].rstrip("/").rpartition("/")[2])
    return "".join(one if one.isprintable() and one not in '/\\"' else "_" for one in name)[:200] or "file"
