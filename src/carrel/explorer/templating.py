"""The templates, and how they spell sizes, times and addresses. HTML is escaped unless it is marked as safe."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context
from jinja2.nodes import EvalContext
from markupsafe import escape

from carrel.core.hashing import blake2b
from carrel.core.isotime import iso
from carrel.core.uri import QUERY_SAFE, quote
from carrel.explorer.addresses import short_name
from carrel.explorer.rendering.amounts import count, counted, noun, size
from carrel.explorer.rendering.markup import Html, element, join, visible

FOLDER: Final = os.path.dirname(__file__)
STATIC: Final = {
    "explorer.css": "text/css; charset=utf-8",
    "explorer.js": "text/javascript; charset=utf-8",
    "reading.css": "text/css; charset=utf-8",
    "reading.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files that pages load."""


@cache
def environment() -> Environment:
    """Return the templates, loaded when they are first used."""
    made = Environment(
        loader=FileSystemLoader(os.path.join(FOLDER, "templates")),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        finalize=_shown,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        size=size, count=count, counted=counted, noun=noun, iso=iso, day=day, fenced=fenced, urlquote=urlquote
    )
    made.filters.update(exactly=escape, coded=coded, columns=columns, short_name=short_name)
    made.globals["static"] = static_address
    return made


@pass_eval_context
def _shown(context: EvalContext, value: object) -> object:
    """Return a foreign text as a page shows it; data in Markdown, and HTML, are not changed.

    `|exactly` is for what a form sends back.
    """
    return visible(value) if context.autoescape and isinstance(value, str) and not hasattr(value, "__html__") else value


def coded(text: str) -> Html:
    """Return a sentence in which text between backticks is shown as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return join((text,))
    return join(element("code", piece) if at % 2 else piece for at, piece in enumerate(pieces))


def columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names in any of some rows, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row))


def day(time_ms: int) -> str:
    """Return a time for people: UTC, to the minute."""
    return iso(time_ms)[:16].replace("T", " ")


def fenced(text: str) -> str:
    """Return a text as a code block of Markdown, with a fence that the text does not hold."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def urlquote(text: str) -> str:
    """Return a text as a value in the query of an address."""
    return quote(text.encode("utf-8", "replace").decode(), QUERY_SAFE)


@cache
def static_file(name: str) -> bytes:
    """Return a file that the pages need."""
    with open(os.path.join(FOLDER, "static", name), "rb") as file:
        return file.read()


@cache
def static_address(name: str) -> str:
    """Return the address of a file that the pages need; it changes with the file."""
    return f"/-/static/{name}?v={blake2b(static_file(name), digest_size=6).hexdigest()}"
