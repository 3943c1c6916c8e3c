"""Answers about a repository that have one line for each thing: commits, branches, tags, blame, status.

Each line keeps its text; the id of a commit and the path of a file become links.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from carrel.core.uri import PATH_SAFE, quote
from carrel.explorer.rendering.code import coloured_lines, language_of
from carrel.explorer.rendering.markup import (
    Content,
    Html,
    Links,
    element,
    escape,
    join,
    link,
    scrolling,
    visible,
)

MAX_ROWS: Final = 20_000
_COMMIT: Final = re.compile(r"([* ] )?(\S{1,400} )?([0-9a-f]{12}) (\d{4}-\d\d-\d\dT\d\d:\d\dZ) (.{0,400}?): (.*)")
_BLAME: Final = re.compile(r"(.)([0-9a-f]{12}|\S{1,20}) (\d{4}-\d\d-\d\d) (.{0,400}?) +(\d{1,9}): ?(.*)", re.DOTALL)
_STATE: Final = re.compile(r"([ MADRCUT?!]{2}) (.+)")


def render_commits(content: Content, links: Links) -> Html:
    """Return a log, the branches or the tags as rows with links to commits."""

    def row(line: str) -> Html:
        found = _COMMIT.fullmatch(line)
        if not found:
            return escape(line)
        mark, name, commit, when, who, subject = found.groups(default="")
        named = element("strong", name) if name else Html("")
        to_commit = link(f"git://commit/{commit}", links, commit, "id")
        time = element("span", when, class_="time")
        person = element("span", f"{who}: ", class_="who")
        return join((escape(mark), named, to_commit, " ", time, " ", person, escape(subject)))

    return _rows(content, row, "Commits")


def render_blame(content: Content, links: Links) -> Html:
    """Return a file with the commit of each line."""
    rows = [_BLAME.fullmatch(line) for line in _lines(content)]
    code = coloured_lines("\n".join(found[6] if found else "" for found in rows) + "\n", language_of(content))
    shown = []
    before = ""
    numbers: set[str] = set()
    for found, line, given in zip(rows, code, _lines(content), strict=True):
        if not found:
            shown.append(element("span", given, class_="l"))
            continue
        commit, number = found[2], found[5]
        to_commit = link(f"git://commit/{commit}", links, commit, "id")
        rest = given[found.end(2) : found.start(6)]
        who = join((escape(found[1]), to_commit, element("span", rest, class_="who")))
        new = " new" if commit != before else ""
        before = commit
        id_ = None if number in numbers else f"L{number}"
        numbers.add(number)
        shown.append(element("span", who, line, class_=f"l blame{new}", id=id_))
    return scrolling("Blame", "code listed", element("pre", element("code", Html("\n".join(shown)))))


def render_status(content: Content, links: Links) -> Html:
    """Return the state of the work tree; each path is a link."""

    def row(line: str) -> Html:
        found = _STATE.fullmatch(line)
        if not found:
            return escape(line)
        uri = f"workspace:///{quote(found[2], PATH_SAFE)}"
        return join((element("span", found[1], class_="id"), " ", link(uri, links, found[2])))

    return _rows(content, row, "Status")


def commit_times(content: Content) -> list[datetime]:
    """Return the times of the commits in a log."""
    found = (_COMMIT.fullmatch(line) for line in _lines(content))
    return [time for one in found if one and (time := _time(one[4])) is not None]


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _lines(content: Content) -> list[str]:
    return visible(content.text or "").removesuffix("\n").split("\n")[:MAX_ROWS]


def _rows(content: Content, row: Callable[[str], Html], label: str) -> Html:
    rows = [element("span", row(line), class_="l") for line in _lines(content)]
    return scrolling(label, "code listed", element("pre", element("code", Html("\n".join(rows)))))
