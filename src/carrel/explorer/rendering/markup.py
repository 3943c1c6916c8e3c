"""Build HTML from foreign text: one table of the tags and attributes that may occur, one way to escape.

Control characters, direction controls and lone surrogates are not allowed in a page, or would hide what is there.
They are shown as escapes such as `\\x1b`, as on a terminal.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from carrel.core.printable import printable
from carrel.core.record import Value

EVERYWHERE: Final = frozenset({"class", "id", "title"})
"""Attributes that every tag may have."""

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys("b br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li p small".split(), frozenset()),
    **dict.fromkeys("q s samp strong sub summary sup table tbody thead tr u ul var blockquote".split(), frozenset()),
    "a": frozenset({"href", "rel", "tabindex", "aria-label", "aria-hidden", "data-n", "download"}),
    "caption": frozenset(),
    "details": frozenset({"open"}),
    "figure": frozenset({"aria-labelledby"}),
    "figcaption": frozenset(),
    "img": frozenset({"src", "alt", "loading", "width", "height"}),
    "ol": frozenset({"start"}),
    "pre": frozenset(),
    "section": frozenset({"aria-label"}),
    "span": frozenset({"data-level", "data-old", "data-new"}),
    "td": frozenset({"colspan", "rowspan"}),
    "th": frozenset({"colspan", "rowspan", "scope"}),
    # Plots
    "svg": frozenset({"viewbox", "preserveaspectratio", "role", "aria-labelledby", "aria-hidden", "focusable"}),
    "rect": frozenset({"x", "y", "width", "height", "rx"}),
    "g": frozenset(),
    "title": frozenset(),
    "desc": frozenset(),
}
"""Every tag in the output of this package, with its attributes besides those of `EVERYWHERE`, in lower case."""

SCROLLING: Final = frozenset({"role", "tabindex", "aria-label"})
"""Attributes of a `div` that scrolls sideways: keys reach it, and it has a name."""
VOID: Final = frozenset({"br", "hr", "img"})

_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\ufff9-\ufffb"
    r"\ufdd0-\ufdef\ud800-\udfff\U000e0000-\U000e007f]"
    r"|[\ufffe\uffff\U0001fffe\U0001ffff\U0002fffe\U0002ffff\U0003fffe\U0003ffff\U0004fffe\U0004ffff\U0005fffe"
    r"\U0005ffff\U0006fffe\U0006ffff\U0007fffe\U0007ffff\U0008fffe\U0008ffff\U0009fffe\U0009ffff\U000afffe\U000affff"
    r"\U000bfffe\U000bffff\U000cfffe\U000cffff\U000dfffe\U000dffff\U000efffe\U000effff\U000ffffe\U000fffff\U0010fffe"
    r"\U0010ffff]"
)
_SPECIAL: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_WEB: Final = re.compile(r"(?:https?://|mailto:)[!-~]+")


class Html(str):
    """Text that is HTML already. A template inserts it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it; template engines call this."""
        return str(self)


Address = Callable[[str], str | None]
"""From a URI to an address on this server; None if the desk has no such scheme."""


class Links(Value, frozen=True):
    """Where resources are on this server: `page` for people, `raw` for the bytes alone. Neither raises."""

    page: Address
    raw: Address


class Content(Value, frozen=True):
    """One item of a reading, or the part of it that is shown. `text` is None if it is not text.

    `uri` is without the range of the part; `first_line` is the number of its first line, and `start` its first byte.
    """

    uri: str
    mime_type: str = ""
    text: str | None = None
    size: int | None = None
    first_line: int = 1
    is_whole: bool = True
    start: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it begins where the whole begins, and not later in the first line."""
        return self.first_line == 1 and self.start == 0

    @property
    def type(self) -> str:
        """The MIME type without parameters, in lower case."""
        return self.mime_type.partition(";")[0].strip().lower()

    @property
    def scheme(self) -> str:
        """The scheme of the URI, in lower case."""
        return self.uri.partition(":")[0].lower()


def visible(text: str) -> str:
    """Return a text as it is shown: line ends become newlines, and invisible characters become escapes."""
    return text if text.isprintable() else _HIDDEN.sub(_spell, text.replace("\r\n", "\n"))


def visible_json(text: str) -> str:
    """Return equal JSON in which every invisible character is an escape."""
    return text if text.isprintable() else _HIDDEN.sub(lambda found: _json_escapes(found[0]), text)


def _json_escapes(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def escape(text: str) -> Html:
    """Return a foreign text as HTML, for content and for attributes."""
    return Html(visible(text).translate(_SPECIAL))


def join(parts: Iterable[str]) -> Html:
    """Return pieces as one. A piece that is not `Html` is escaped."""
    return Html("".join(map(as_html, parts)))


def element(tag: str, /, *children: str, **attributes: str | int | bool | None) -> Html:
    """Return an element. A child that is not `Html` is escaped; attributes that are None or False are left out.

    `class_` stands for `class`, and `_` for `-` inside a name. Raise ValueError for a name that is not allowed.
    """
    spelled = []
    for given, value in attributes.items():
        name = given.rstrip("_").replace("_", "-")
        if not is_allowed(tag, name.lower()):
            raise ValueError(f"<{tag}> may not have {name}")
        if value is True:
            spelled.append(f' {name}=""')
        elif value is not None and value is not False:
            spelled.append(f' {name}="{escape(str(value))}"')
    if tag.lower() not in ALLOWED:
        raise ValueError(f"<{tag}> is not allowed")
    start = f"<{tag}{''.join(spelled)}>"
    return Html(start if tag in VOID else f"{start}{join(children)}</{tag}>")


def as_html(child: str) -> str:
    """Return a child as HTML: escaped, unless it is HTML already."""
    return child if isinstance(child, Html) else escape(child)


def is_allowed(tag: str, attribute: str) -> bool:
    """Return whether an element may have an attribute."""
    own = ALLOWED.get(tag.lower(), frozenset())
    return attribute in EVERYWHERE or attribute in own or (tag == "div" and attribute in SCROLLING)


def scrolling(label: str, class_: str, *children: str) -> Html:
    """Return content that may be wider than the page, in a part that keys can scroll."""
    return element("div", *children, class_=f"{class_} scroll", role="group", tabindex=0, aria_label=label)


def is_web(address: str) -> bool:
    """Return whether an address leads to the web or to a mailbox: no other address outside the desk is linked."""
    return _WEB.fullmatch(address) is not None


def link(uri: str, links: Links, text: str = "", class_: str | None = None) -> Html:
    """Return a link to the page of a URI, or only its text if the desk has no page for it."""
    shown = text or uri
    address = links.page(uri)
    return element("a", shown, href=address, class_=class_) if address else element("span", shown, class_=class_)


def outside(address: str, *children: str) -> Html:
    """Return a link that leaves this server and sends no referrer."""
    return element("a", *children, href=address, rel="noopener noreferrer") if is_web(address) else join(children)


def facts(rows: Iterable[tuple[str, str]], class_: str = "facts") -> Html:
    """Return names and values as a list of definitions; values that are empty are left out."""
    shown = [join((element("dt", name), element("dd", value))) for name, value in rows if value]
    return element("dl", *shown, class_=class_) if shown else Html("")


def note(text: str) -> Html:
    """Return a remark about what is shown, such as why something is missing."""
    return element("p", text, class_="note")


def _spell(found: re.Match[str]) -> str:
    spelled = printable(found[0])
    code = ord(found[0])
    return spelled if spelled != found[0] else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
