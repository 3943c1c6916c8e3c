"""Differences and commits: added and removed lines, by file, with their old and new numbers.

The text that is shown is the text that was read. A patch that is not well formed only has fewer colours.
"""

import re
from collections.abc import Iterator
from typing import Final

from carrel.core.record import Value
from carrel.core.uri import PATH_SAFE, quote
from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.markup import (
    Content,
    Html,
    Links,
    element,
    escape,
    facts,
    join,
    link,
    note,
    scrolling,
    visible,
)

MAX_LINES: Final = 20_000
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_FILE: Final = re.compile(r"diff --git a/(.*) b/(.*)")
_KINDS: Final = {"+": "add", "-": "del", " ": "same"}


class _Numbers(Value, frozen=True):
    """The numbers of the next old and new line in a hunk, and how many of each are left."""

    old: int
    new: int
    old_left: int
    new_left: int

    def after(self, kind: str) -> "_Numbers":
        old, new = kind != "add", kind != "del"
        return _Numbers(self.old + old, self.new + new, self.old_left - old, self.new_left - new)


def render_diff(content: Content, links: Links) -> Html:
    """Return a patch, one section for each file; a single line is a sentence and no patch."""
    text = visible(content.text or "")
    if "\n" not in text.strip():
        return note(text.strip())  # such as "No differences."
    return join(_sections(text, links))


def render_commit(content: Content, links: Links) -> Html:
    """Return a commit: who, when and why, with links to its parents, then its patch."""
    text = visible(content.text or "")
    head, separator, patch = text.partition("\ndiff --git ")
    patch = f"diff --git {patch}" if separator else ""
    lines = head.split("\n")
    names = list(_names(lines, links))
    message = "\n".join(line.removeprefix("    ") for line in lines[len(names) :]).strip("\n")
    return join(
        (
            facts(names),
            element("pre", message, class_="message") if message else "",
            *_sections(patch, links),
        )
    )


def _names(lines: list[str], links: Links) -> Iterator[tuple[str, Html]]:
    """Yield the facts at the start of a commit."""
    for line in lines:
        name, _, value = line.partition(" ")
        if name not in ("commit", "parents", "author", "committer"):
            return
        if name in ("commit", "parents"):
            yield name, join(element("code", link(f"git://commit/{one}", links, one), " ") for one in value.split())
        else:
            yield name, escape(value)


def _sections(text: str, links: Links) -> Iterator[Html]:
    lines = text.removesuffix("\n").split("\n") if text else []
    more = len(lines) - MAX_LINES
    starts = [at for at, line in enumerate(lines[:MAX_LINES]) if _FILE.fullmatch(line)]
    bounds = [0, *starts] if not starts or starts[0] else starts
    for start, end in zip(bounds, [*bounds[1:], min(len(lines), MAX_LINES)], strict=True):
        if end > start:
            yield _section(lines[start:end], links)
    if more > 0:
        yield note(f"{amounts.count(more)} more lines are not shown here.")


def _section(lines: list[str], links: Links) -> Html:
    """Return the patch of one file, or text that belongs to no file."""
    named = _FILE.fullmatch(lines[0])
    rows = list(_rows(lines))
    shown = scrolling("Difference", "code diff", element("pre", element("code", Html("\n".join(rows)))))
    if not named:
        return shown
    came, went = (sum(row.startswith(f'<span class="l {kind}"') for row in rows) for kind in ("add", "del"))
    uri = f"workspace:///{quote(named[2], PATH_SAFE)}"
    counts = element("small", element("ins", f"+{came}"), " ", element("del", f"−{went}"))
    head = element("h2", link(uri, links, named[2]), " ", counts)
    return element("section", head, shown, class_="file", aria_label=f"Changes of {named[2]}")


def _rows(lines: list[str]) -> Iterator[str]:
    numbers: _Numbers | None = None
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk and (numbers is None or not (numbers.old_left or numbers.new_left)):
            numbers = _Numbers(int(hunk[1]), int(hunk[3]), int(hunk[2] or 1), int(hunk[4] or 1))
            yield f'<span class="l hunk">{escape(line)}</span>'
            continue
        kind = _KINDS.get(line[:1]) if numbers and (numbers.old_left > 0 or numbers.new_left > 0) else None
        if numbers is None or kind is None:
            yield f'<span class="l meta">{escape(line)}</span>'
            continue
        old = "" if kind == "add" else f' data-old="{numbers.old}"'
        new = "" if kind == "del" else f' data-new="{numbers.new}"'
        numbers = numbers.after(kind)
        yield f'<span class="l {kind}"{old}{new}>{escape(line)}</span>'
