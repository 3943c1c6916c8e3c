"""Scopes: a tree that folds, with the status of each, and one scope laid out."""

import re
from collections.abc import Iterator
from typing import Final

from carrel.core.record import Value
from carrel.core.uri import split_query
from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.json_tree import NotReadable, member, parse, render_json, text_in
from carrel.explorer.rendering.markup import Content, Html, Links, element, escape, facts, join, link, note, visible

MAX_NODES: Final = 10_000
MAX_CHILDREN: Final = 1_000
MAX_DEPTH: Final = 5
STATUSES: Final = ("PLANNING", "TODO", "IN_PROGRESS", "BLOCKED", "DONE", "ARCHIVED")

_LINE: Final = re.compile(r"((?:│   |    ){0,64})(├── |└── )?([a-z][a-z0-9_-]{0,200}) \((.*)\) \[([A-Z_]{1,40})\](.*)")
_MORE: Final = re.compile(r"\.\.\. ([\d,]{1,20}) more: (scopes://\S+)")


class ScopeNode(Value, frozen=True):
    """A line of a tree and its level. A line without a scope has only `rest`."""

    level: int
    alias: str
    title: str
    status: str
    rest: str


def render_tree(content: Content, links: Links) -> Html:
    """Return a tree of scopes; the first two levels are open."""
    lines = visible(content.text or "").removesuffix("\n").split("\n")
    nodes = [_node(line) for line in lines[:MAX_NODES]]
    more = (
        [note(f"{amounts.count(len(lines) - MAX_NODES)} more lines are not shown.")] if len(lines) > MAX_NODES else []
    )
    deeper = [_deeper(content.uri, links)] if len(nodes) > 1 else []
    return element("div", Html("".join(_list(nodes, links))), *more, *deeper, class_="scopes")


def _deeper(uri: str, links: Links) -> Html:
    """Return a link to the same tree with all levels that one answer may have; nothing if it has them."""
    bare, query = split_query(uri)
    deepest = f"depth={MAX_DEPTH}"
    if deepest in (query or ""):
        return Html("")
    return element("p", link(f"{bare}?{deepest}", links, f"Show {MAX_DEPTH} levels"))


def _node(line: str) -> ScopeNode:
    found = _LINE.fullmatch(line)
    if not found:
        return ScopeNode(0, "", "", "", line)
    level = len(found[1]) // 4 + (found[2] is not None)
    return ScopeNode(level, found[3], found[4], found[5], found[6])


def _list(nodes: list[ScopeNode], links: Links) -> Iterator[str]:
    """Yield the tags of nested lists. A node that skips levels is shown one below its predecessor."""
    open_levels: list[int] = []
    for at, node in enumerate(nodes):
        while open_levels and open_levels[-1] >= node.level:
            open_levels.pop()
            yield "</ul></details></li></ul>" if not open_levels else "</ul></details></li>"
        following = nodes[at + 1] if at + 1 < len(nodes) else None
        has_children = following is not None and bool(node.alias and following.alias) and following.level > node.level
        name, shown = _name(node, links), _line(node, links)
        if has_children:
            start = "<ul><li>" if not open_levels else "<li>"
            is_open = " open" if len(open_levels) < 2 else ""
            # Some readers cannot reach a link inside a summary that folds.
            yield f"{start}{name}<details{is_open}><summary>{shown}</summary><ul>"
            open_levels.append(node.level)
        else:
            row = element("li", name, shown)
            yield row if open_levels else element("ul", row)
    while open_levels:
        open_levels.pop()
        yield "</ul></details></li></ul>" if not open_levels else "</ul></details></li>"


def _name(node: ScopeNode, links: Links) -> Html:
    return join((link(f"scopes://scope/{node.alias}", links, node.alias, "id"), " ")) if node.alias else Html("")


def _line(node: ScopeNode, links: Links) -> Html:
    if not node.alias:
        found = _MORE.fullmatch(node.rest)
        if found:
            return join((escape(f"... {found[1]} more: "), link(found[2], links)))
        return escape(node.rest)
    return join((element("span", node.title, class_="title"), " ", badge(node.status), escape(node.rest)))


def badge(status: str) -> Html:
    """Return a status as a word with a colour."""
    known = status.lower().replace("_", "-") if status in STATUSES else "other"
    return element("span", status.replace("_", " ").lower(), class_=f"status status-{known}")


def render_scope(content: Content, links: Links) -> Html:
    """Return one scope, laid out; any other text as JSON."""
    try:
        scope = parse(content.text or "")
    except NotReadable:
        return render_json(content, links)
    alias, title = text_in(scope, "alias"), text_in(scope, "title")
    if not alias or not title:
        return render_json(content, links)
    parent = text_in(scope, "parent")
    others = [name for name in _texts(member(scope, "aliases")) if name != alias]
    rows = (
        ("Alias", element("code", alias)),
        ("Status", badge(text_in(scope, "status"))),
        ("Parent", _to(parent, links) if parent else Html("")),
        ("Other aliases", ", ".join(others)),
        ("Created", amounts.moment(text_in(scope, "createdAt"))),
        ("Changed", amounts.moment(text_in(scope, "updatedAt"))),
        ("Tree", link(f"scopes://tree/{alias}?depth={MAX_DEPTH}", links)),
    )
    about = text_in(scope, "description")
    below = _children(_texts(member(scope, "children")), links)
    described = element("p", about, class_="pre") if about else Html("")
    return element("div", element("h2", title), facts(rows), described, below, class_="record")


def _children(names: list[str], links: Links) -> Html:
    omitted = len(names) - MAX_CHILDREN
    rows = [element("li", _to(name, links)) for name in names[:MAX_CHILDREN]]
    rows += [element("li", f"… {amounts.count(omitted)} more", class_="note")] if omitted > 0 else []
    return join((element("h3", "Children"), element("ul", *rows))) if rows else Html("")


def _to(name: str, links: Links) -> Html:
    return link(f"scopes://scope/{name}", links, name, "id")


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
