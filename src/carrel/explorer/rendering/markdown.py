"""Markdown as HTML: CommonMark with tables, strikethrough, task lists and front matter, cleaned by an allow-list.

Links and pictures of the document resolve inside the desk. Nothing is loaded from elsewhere: a picture of another
server becomes a link. Ids get a prefix, so that a document cannot name a part of the page around it.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from posixpath import normpath
from secrets import token_hex
from typing import Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from carrel.core.errors import BadArgument
from carrel.core.uri import PATH_SAFE, decode_loosely, quote, split_query
from carrel.explorer.rendering.code import language_named, render_block, render_code
from carrel.explorer.rendering.markup import (
    ALLOWED,
    Content,
    Html,
    Links,
    element,
    escape,
    facts,
    is_web,
    join,
    note,
    outside,
    scrolling,
    visible,
)

MAX_TEXT: Final = 100_000
"""Characters of a document that are laid out; a longer one is shown as text."""
MAX_BRACKETS: Final = 5_000
"""Opening brackets of a document: each may begin a link, which takes long to find out."""
MAX_TAGS: Final = 1_000
"""Raw tags in a document; with more, they are shown as text."""
MAX_NESTING: Final = 20
PREFIX: Final = "md-"
_TAGS: Final = frozenset(ALLOWED) - {"svg", "rect", "g", "title", "desc", "section", "figure", "figcaption"}
_ATTRIBUTES: Final = {
    "*": {"id"},
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "details": {"open"},
}
_SCHEMES: Final = {"http", "https", "mailto"}
_URI: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,31}://[^\s<>\"'`\\^{|}]{0,1000}[^\s<>\"'`\\^{|}.,;:!?)\]*_]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_LINES: Final = re.compile(r"L\d{1,9}(?:-L\d{1,9})?")
_FRONT: Final = re.compile(r"---[ \t]*\n((?:(?!---[ \t]*\n).*\n){0,200})---[ \t]*(?:\n|$)")
_FIELD: Final = re.compile(r"([\w.-]{1,60}):[ \t]+(\S.*)")
_MARKDOWN_NAME: Final = re.compile(r"\.(?:md|markdown|mdx)$", re.IGNORECASE)
_TAG: Final = re.compile(r"<[A-Za-z/!?]")
_HEADING: Final = re.compile(r"(</?h)([1-5])(?=[ >])")
_PICTURE: Final = re.compile(r'<img((?: [a-z]+="[^"]*")*)>')
_ALT: Final = re.compile(r' alt="([^"]*)"')
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")
_ALIGNED: Final = {"text-align:right": "right", "text-align:center": "center"}
_SCROLL: Final = scrolling("Table", "grid").removesuffix("</div>")
"""What a table stands in: it may be wider than the page. What the cleaner lets through is balanced."""
_TASKS: Final = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


def render_markdown(content: Content, links: Links) -> Html:
    """Return a document as HTML; one that is too large or too intricate as text."""
    text = visible(content.text or "")
    if is_intricate(text):
        return join((note("This document is too large to be laid out. This is its text."), render_code(content)))
    front, body = split_front_matter(text) if content.is_first else ("", text)
    return element("div", front_matter(front), laid_out(body, content.uri, links), class_="prose")


def is_intricate(text: str) -> bool:
    """Return whether a text takes too long to lay out."""
    return len(text) > MAX_TEXT or text.count("[") > MAX_BRACKETS


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the lines between `---` at the start of a document, and the rest."""
    found = _FRONT.match(text)
    return (found[1] or "", text[found.end() :]) if found else ("", text)


def front_matter(text: str) -> Html:
    """Return front matter as facts if each line is a simple one, else as YAML."""
    if not text.strip():
        return Html("")
    fields = [_FIELD.fullmatch(line) for line in text.splitlines()]
    if all(fields):
        return facts((field[1], field[2].strip("\"'")) for field in fields if field)
    return render_block(text, "yaml")


def laid_out(text: str, uri: str, links: Links, lowered: int = 1) -> Html:
    """Return Markdown as clean HTML; links are relative to `uri`, and headings stand `lowered` levels lower."""
    return _Layout(uri, links).render(text, lowered)


@lru_cache(maxsize=2)
def _parser(has_tags: bool) -> MarkdownIt:
    options = {"html": has_tags, "maxNesting": MAX_NESTING}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


class _Layout:
    """One document on its way to HTML.

    Parts that the cleaner would spoil, such as code with colours, wait in `_kept`. A mark that no document can know
    holds their place.
    """

    def __init__(self, uri: str, links: Links) -> None:
        self._uri = uri
        self._links = links
        self._mark = token_hex(16)
        self._kept: list[Html] = []
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}

    def render(self, text: str, levels: int) -> Html:
        parser = _parser(len(_TAG.findall(text)) <= MAX_TAGS)
        tokens = parser.parse(text)
        self._prepare(tokens)
        made = nh3.clean(
            parser.renderer.render(tokens, parser.options, {}),
            tags=set(_TAGS),
            attributes=_ATTRIBUTES,
            attribute_filter=self._attribute,
            url_schemes=_SCHEMES,
            link_rel="noopener noreferrer",
            id_prefix=PREFIX,
            allowed_classes={"td": {"right", "center"}, "th": {"right", "center"}},
        )
        # The page has its own heading above: the headings of the document begin one level below it.
        lowered = _HEADING.sub(lambda found: f"{found[1]}{max(2, int(found[2]) + levels)}", made)
        shown = _PICTURE.sub(_without_source, visible(lowered))
        scrolled = shown.replace("<table", f"{_SCROLL}<table").replace("</table>", "</table></div>")
        return Html(re.sub(rf"<pre>{self._mark}(\d+)</pre>", lambda found: self._kept[int(found[1])], scrolled))

    # Tokens

    def _prepare(self, tokens: list[Token]) -> None:
        for at, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", self._slug(tokens[at + 1]))
            elif token.type in ("fence", "code_block"):
                language = language_named(token.info.partition(" ")[0]) if token.info else None
                self._keep(token, render_block(token.content, language))
            elif token.type in ("td_open", "th_open"):
                aligned = _ALIGNED.get(str(token.attrs.pop("style", "")))
                token.attrs.update({"class": aligned} if aligned else {})
            elif token.type == "inline" and token.children:
                if at > 1 and tokens[at - 2].type == "list_item_open":
                    _mark_task(token.children[0])
                token.children = list(self._inline(token.children))

    def _keep(self, token: Token, made: Html) -> None:
        token.type, token.content = "html_block", f"<pre>{self._mark}{len(self._kept)}</pre>\n"
        self._kept.append(made)

    def _slug(self, heading: Token) -> str:
        words = "".join(child.content for child in heading.children or () if child.type in ("text", "code_inline"))
        slug = _NOT_IN_SLUG.sub("", words.lower()).strip().replace(" ", "-")[:200] or "part"
        known, number = slug, self._numbers.get(slug, 0)
        while slug in self._ids:
            number += 1
            slug = f"{known}-{number}"
        self._numbers[known] = number
        self._ids.add(slug)
        return slug

    def _inline(self, children: list[Token]) -> Iterator[Token]:
        depth = 0
        for token in children:
            depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            if token.type == "link_open":
                token.attrSet("href", self._marked(str(token.attrGet("href") or "")))
                yield token
            elif token.type == "image":
                yield self._picture(token, is_linked=depth > 0)
            elif token.type == "text" and not depth:
                yield from self._linked(token)
            else:
                yield token

    def _marked(self, target: str) -> str:
        """Return a link target in a form that the cleaner keeps: it does not know the schemes of the desk."""
        address = self._links.page(target) if "://" in target and not is_web(target) else None
        return f"/{self._mark}{address}" if address else target

    def _picture(self, token: Token, *, is_linked: bool) -> Token:
        """Return a picture; one from another server as a link to it, or, inside a link, as its text."""
        source = str(token.attrGet("src") or "")
        if not is_web(source):
            token.attrSet("src", source)
            return token
        words = token.content or source
        made = Token("html_inline", "", 0)
        made.content = escape(words) if is_linked else outside(source, words)
        return made

    def _linked(self, token: Token) -> Iterator[Token]:
        """Yield a text with links where it names resources of the desk."""
        at, text = 0, token.content
        for found in _URI.finditer(text):
            address = None if is_web(found[0]) else self._links.page(found[0])
            if address:
                yield _text(text[at : found.start()])
                made = Token("html_inline", "", 0)
                made.content = element("a", found[0], href=f"/{self._mark}{address}")
                yield made
                at = found.end()
        yield _text(text[at:])

    # Attributes

    def _attribute(self, tag: str, name: str, value: str) -> str | None:
        """Return the value of an attribute as it may stand in the page; None to leave it out."""
        if name == "href":
            return self._target(value)
        if name == "src":
            uri = None if _SCHEME.match(value) else self._resolved(value)
            return self._links.raw(uri) if uri else None
        if name == "id":
            slug = value.removeprefix(PREFIX)
            if tag[0] == "h" and tag[1:].isdigit():
                return value
            return value if self._is_new(slug) else None
        if name in ("width", "height", "colspan", "rowspan", "start"):
            return value if value.isascii() and value.isdigit() and len(value) < 5 else None
        return value

    def _is_new(self, slug: str) -> bool:
        is_new = slug not in self._ids and bool(slug) and not re.search(r"\s", slug)
        self._ids.add(slug)
        return is_new

    def _target(self, value: str) -> str | None:
        marked = f"/{self._mark}"
        if value.startswith(marked):
            return value.removeprefix(marked)
        if _SCHEME.match(value):
            return value if is_web(value) else None
        path, _, fragment = value.partition("#")
        if not path:
            return f"#{PREFIX}{fragment}" if fragment else None
        uri = self._resolved(path)
        address = self._links.page(uri) if uri else None
        return address and address + _fragment(path, fragment)

    def _resolved(self, path: str) -> str | None:
        """Return the URI of a path that stands in this document; None if it leads out of the desk."""
        scheme, _, rest = split_query(self._uri)[0].partition("://")
        given = decode_loosely(split_query(path)[0])
        folder = decode_loosely(rest.rpartition("/")[0])
        whole = normpath(f"/{given}" if given.startswith("/") else f"/{folder}/{given}").lstrip("/")
        if given.endswith("/") and whole:
            whole += "/"
        try:
            return f"{scheme}://{'/' if rest.startswith('/') else ''}{quote(whole, PATH_SAFE)}"
        except BadArgument:
            return None


def _fragment(path: str, fragment: str) -> str:
    """Return the fragment of a link: a heading of a document, or lines of a file."""
    if not fragment:
        return ""
    if _LINES.fullmatch(fragment):
        return f"#{fragment}"
    return f"#{PREFIX}{fragment}" if _MARKDOWN_NAME.search(split_query(path)[0]) else ""


def _text(content: str) -> Token:
    token = Token("text", "", 0)
    token.content = content
    return token


def _mark_task(token: Token) -> None:
    mark = _TASKS.get(token.content[:4]) if token.type == "text" else None
    if mark:
        token.content = mark + token.content[4:]


def _without_source(found: re.Match[str]) -> str:
    """Return a picture that may be loaded unchanged, and the text in place of any other."""
    if ' src="' in found[1]:
        return f'<img loading="lazy"{found[1]}>' if ' alt="' in found[1] else f'<img loading="lazy" alt=""{found[1]}>'
    alt = _ALT.search(found[1])
    return alt[1] if alt else ""
