"""Choose how to show what a read returned, by its scheme, its MIME type and the query of its URI."""

from collections.abc import Callable
from typing import Final

from carrel.core.record import Value
from carrel.core.uri import split_query
from carrel.explorer.rendering import plots
from carrel.explorer.rendering.alc import render_alc
from carrel.explorer.rendering.code import render_code
from carrel.explorer.rendering.diff import render_commit, render_diff
from carrel.explorer.rendering.git_lines import commit_times, render_blame, render_commits, render_status
from carrel.explorer.rendering.json_tree import render_json, render_json_lines
from carrel.explorer.rendering.logs import is_log, render_log
from carrel.explorer.rendering.markdown import render_markdown
from carrel.explorer.rendering.markup import Content, Html, Links
from carrel.explorer.rendering.media import PICTURES, render_binary, render_picture, render_svg
from carrel.explorer.rendering.outlines import is_outline, render_outline, sizes
from carrel.explorer.rendering.sage import record_kind, render_record
from carrel.explorer.rendering.scopes import render_scope, render_tree
from carrel.explorer.rendering.tables import render_table

Renderer = Callable[[Content, Links], Html]

RENDERERS: Final[dict[str, Renderer]] = {
    "alc": render_alc,
    "binary": render_binary,
    "blame": render_blame,
    "code": lambda content, _: render_code(content),
    "commit": render_commit,
    "commits": render_commits,
    "diff": render_diff,
    "json": render_json,
    "json-lines": render_json_lines,
    "log": lambda content, _: render_log(content),
    "markdown": render_markdown,
    "outline": render_outline,
    "picture": render_picture,
    "sage": render_record,
    "scope": render_scope,
    "scope-tree": render_tree,
    "status": render_status,
    "svg": render_svg,
    "table": lambda content, _: render_table(content),
}
"""How each kind of content is shown."""


class Rendering(Value, frozen=True):
    """A content as HTML. `plot` stands above it and may be empty; `has_lines` if its lines have ids such as `L40`."""

    kind: str
    html: Html
    plot: Html = Html("")
    has_lines: bool = False


def render(content: Content, links: Links, *, as_text: bool = False) -> Rendering:
    """Return a content as HTML; with `as_text`, its source text."""
    kind = kind_of(content)
    if as_text and content.text is not None:
        kind = "code"
    html = RENDERERS[kind](content, links)
    return Rendering(kind, html, _plot(kind, content, links), kind in ("code", "log", "blame", "svg"))


def kind_of(content: Content) -> str:
    """Return which of `RENDERERS` fits a content."""
    if content.text is None:
        return "picture" if content.type in PICTURES or content.type == "image/svg+xml" else "binary"
    by_scheme = _BY_SCHEME.get(content.scheme)
    if is_outline(content):
        return "outline"
    return (by_scheme and by_scheme(content)) or _by_question(content) or _by_type(content)


def _by_type(content: Content) -> str:
    if content.type == "application/json" or content.type.endswith("+json"):
        return "json"
    if content.type == "text/plain" and is_log(content):
        return "log"
    return _BY_TYPE.get(content.type, "code")


_BY_TYPE: Final = {
    "application/jsonl": "json-lines",
    "application/x-ndjson": "json-lines",
    "image/svg+xml": "svg",
    "text/csv": "table",
    "text/markdown": "markdown",
    "text/tab-separated-values": "table",
    "text/x-diff": "diff",
    "text/x-patch": "diff",
}


def _by_question(content: Content) -> str:
    """Return the kind of a text about the history of a file, which `?blame` and `?log` request."""
    names = {piece.partition("=")[0] for piece in (split_query(content.uri)[1] or "").split("&")}
    if content.scheme != "workspace" or content.type != "text/plain":
        return ""
    return "blame" if "blame" in names else "commits" if "log" in names else ""


def _of_git(content: Content) -> str:
    place = content.uri.partition("://")[2].partition("?")[0]
    if content.type != "text/plain":
        return ""
    if place.startswith("commit/"):
        return "commit"
    return {"log": "commits", "branches": "commits", "tags": "commits", "status": "status"}.get(place, "")


def _of_scopes(content: Content) -> str:
    place = content.uri.partition("://")[2]
    if place.startswith("tree/") and content.type == "text/plain":
        return "scope-tree"
    return "scope" if place.startswith("scope/") and content.type == "application/json" else ""


_BY_SCHEME: Final[dict[str, Callable[[Content], str]]] = {
    "alc": lambda content: "alc" if content.type == "application/json" else "",
    "git": _of_git,
    "sage": lambda content: "sage" if record_kind(content) else "",
    "scopes": _of_scopes,
}


def _plot(kind: str, content: Content, links: Links) -> Html:
    if kind == "outline":
        return sizes(content, links)
    if kind == "log":
        return plots.errors_over_time(content.text or "")
    if kind == "commits" and not content.uri.startswith(("git://branches", "git://tags")):
        return plots.changes_over_time(commit_times(content))
    return Html("")
