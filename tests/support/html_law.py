"""The law for HTML that is made from foreign text, checked with a parser that reads as browsers do."""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

import html5lib

from carrel.core.uri import PATH_SAFE, quote
from carrel.explorer.rendering.markup import ALLOWED, Content, Links, is_allowed, is_web

SCHEMES = frozenset("alc carrel git logs mem sage scopes skill workspace".split())


def page_of(uri: str) -> str | None:
    """Return the address of a URI's page on a desk with `SCHEMES`, as the explorer does."""
    scheme, _, rest = uri.partition("://")
    return (
        f"/{scheme}/{quote(rest.lstrip('/').encode('utf-8', 'replace').decode(), PATH_SAFE + '%')}"
        if scheme in SCHEMES
        else None
    )


def raw_of(uri: str) -> str | None:
    """Return the address of a resource's bytes."""
    return f"/-/raw?uri={quote(uri.encode('utf-8', 'replace').decode(), '')}" if page_of(uri) else None


LINKS = Links(page_of, raw_of)

HOSTILE = (
    "<script>alert(1)</script>",
    "</code></pre><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "[x](javascript:alert(1))",
    "![x](data:text/html,<script>alert(1)</script>)",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>@import url(//evil.example)</style>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><input name=q autofocus></form>",
    "{{ 7*7 }}{% raw %}<b>",
    "&lt;b&gt;&amp;&#60;script&#62;",
    "\x00\x1b[31m\u202eevil\u2066\ufeff\ud800\ufffe",
    "<!--<img src=x>--><![CDATA[<b>]]><?php ?>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<textarea></textarea><title></title><xmp><b></xmp><plaintext>",
)
"""Texts that become script, markup or requests where they are not escaped."""


class Parsed(NamedTuple):
    """HTML as a browser understands it."""

    text: str
    elements: list[Element]

    def all(self, tag: str, class_: str = "") -> list[Element]:
        """Return the elements with a tag, and a class if one is given."""
        found = [one for one in self.elements if tag_of(one) == tag]
        return [one for one in found if not class_ or class_ in one.get("class", "").split()]

    def addresses(self) -> list[str]:
        """Return where links lead, in order."""
        return [one.get("href", "") for one in self.all("a") if one.get("href")]


def tag_of(element: Element) -> str:
    """Return a tag without its namespace."""
    return str(element.tag).rpartition("}")[2]


def text_of(element: Element) -> str:
    """Return all text inside an element."""
    return "".join(element.itertext())


def read(html: str, *, strict: bool = True) -> Parsed:
    """Return HTML as a browser reads it, after a check that only what is allowed is in it.

    With `strict`, raise for anything that a validator of HTML calls a parse error.
    """
    parser = html5lib.HTMLParser(strict=strict, namespaceHTMLElements=False)
    root = parser.parseFragment(html)
    elements = list(_elements(root))
    for element in elements:
        check(element)
    return Parsed(text_of(root), elements)


def _elements(root: Element) -> Iterator[Element]:
    for element in root.iter():
        if element is not root:
            yield element


def check(element: Element) -> None:
    """Fail for a tag, an attribute, an address or a class that is not allowed."""
    assert isinstance(element.tag, str), "a comment"
    tag = tag_of(element)
    assert tag in ALLOWED, tag
    for name, value in element.attrib.items():
        assert is_allowed(tag, name.lower()), f"{tag} {name}"
        if name in ("href", "src"):
            check_address(tag, name, value, element.get("rel"))
        if name == "class":
            assert re.fullmatch(r"[a-z0-9-]+( [a-z0-9-]+)*", value), value
        if name == "id":
            assert re.fullmatch(r"L\d+|md-\S+|[a-z]+-(title|desc)", value), value


def check_address(tag: str, name: str, value: str, rel: str | None) -> None:
    """Fail for an address that leaves the server, but for a link to the web that says nothing of where it was."""
    if value.startswith("/") and not value.startswith(("//", "/\\")):
        assert page_of(f"{value[1:].partition('/')[0]}://") or value.startswith("/-/raw?uri="), value
    elif not value.startswith("#"):
        assert (tag, name) == ("a", "href"), f"{tag} loads {value}"
        assert is_web(value), value
        assert rel == "noopener noreferrer", value


def content(text: str | None, uri: str = "workspace:///a.txt", mime_type: str = "text/plain") -> Content:
    """Return a whole text as something to show."""
    return Content(uri, mime_type, text)
