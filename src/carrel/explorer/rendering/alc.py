"""What `alc://` serves as JSON: a package with its meta, the index of packages, cards, and the log of a session."""

from typing import Final

from carrel.core.uri import quote
from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.json_tree import (
    Members,
    NotReadable,
    is_object,
    member,
    parse,
    render_json,
    text_in,
    tree,
)
from carrel.explorer.rendering.markup import Content, Html, Links, element, facts, join, link, note

MAX_ROWS: Final = 1_000
_META: Final = ("name", "version", "category", "description", "type", "scope")


def render_alc(content: Content, links: Links) -> Html:
    """Return JSON of `alc://`: first what people look for, then all of it as a tree."""
    try:
        value = parse(content.text or "")
    except NotReadable:
        return render_json(content, links)
    path = content.uri.partition("://")[2].partition("?")[0]
    kind, _, name = path.partition("/")
    if not is_object(value):
        return tree(value, links)
    if kind == "packages" and name.endswith("/meta"):
        above = _package(value, name.removesuffix("/meta"), links)
    elif path == "hub/index":
        above = _index(value, links)
    elif kind == "cards":
        above = _card(value, links)
    elif kind == "logs":
        above = _session(value)
    else:
        return tree(value, links)
    whole = element("details", element("summary", "All of it, as JSON"), tree(value, links))
    return element("div", above, whole, class_="record")


def _package(value: object, name: str, links: Links) -> Html:
    rows = [(field.capitalize(), text_in(value, field)) for field in _META]
    rows.append(("Tags", _words(member(value, "tags"))))
    rows.append(("Not known without running it", _words(member(value, "_unresolved"))))
    rows.append(("Source", link(f"alc://packages/{name}/init.lua", links)))
    return facts(rows)


def _index(value: object, links: Links) -> Html:
    packages = member(value, "packages")
    listed = [one for one in packages if is_object(one)] if isinstance(packages, list) else []
    rows = [_index_row(one, links) for one in listed[:MAX_ROWS]]
    head = element(
        "tr", *(element("th", name, scope="col") for name in ("Package", "Version", "Category", "What it does"))
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="data")
    more = (
        [note(f"{amounts.count(len(listed) - MAX_ROWS)} more packages are not shown.")]
        if len(listed) > MAX_ROWS
        else []
    )
    return join((table, *more))


def _index_row(one: object, links: Links) -> Html:
    name = text_in(one, "name")
    to = link(f"alc://packages/{quote(name, '')}/meta", links, name) if name.isprintable() and name else name
    cells = (to, text_in(one, "version"), text_in(one, "category"), text_in(one, "description"))
    return element("tr", *(element("td", cell) for cell in cells))


def _card(value: object, links: Links) -> Html:
    package = text_in(value, "pkg", "name")
    is_name = bool(package) and package.isprintable()
    rows = [
        ("Card", text_in(value, "card_id")),
        ("Package", link(f"alc://packages/{quote(package, '')}/meta", links, package) if is_name else package),
        ("Model", text_in(value, "model", "id")),
        ("Created", amounts.moment(text_in(value, "created_at"))),
    ]
    stats = member(value, "stats")
    if isinstance(stats, Members):
        rows += [(name, text_in(stats, name)) for name, _ in stats.pairs[:50]]
    return facts(rows)


def _session(value: object) -> Html:
    """Return the prompts and answers of a session, in order."""
    said = member(value, "transcript")
    turns = [one for one in said if is_object(one)] if isinstance(said, list) else []
    shown = [
        element("section", facts((name.capitalize(), text_in(one, name)) for name in ("system", "prompt", "response")))
        for one in turns[:MAX_ROWS]
    ]
    about = facts((("Session", text_in(value, "session_id")), ("Strategy", text_in(value, "strategy"))))
    more = [note(f"{amounts.count(len(turns) - MAX_ROWS)} more turns are not shown.")] if len(turns) > MAX_ROWS else []
    return element("div", about, *shown, *more, class_="turns")


def _words(value: object) -> str:
    return ", ".join(one for one in value if isinstance(one, str)) if isinstance(value, list) else ""
