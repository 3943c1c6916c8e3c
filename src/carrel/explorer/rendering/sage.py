"""Records of an assistant's memory, laid out: what is known about a record, then its sections.

The text is the Markdown that clients get. What does not look like a record is shown as any other document.
"""

import re
from typing import Final

from carrel.explorer.rendering.markdown import is_intricate, laid_out, render_markdown
from carrel.explorer.rendering.markup import Content, Html, Links, element, facts, visible

_ABOUT: Final = re.compile(r"\*([A-Z][A-Za-z ]{0,30}: .*)\*")
_FACT: Final = re.compile(r"([A-Z][A-Za-z ]{0,30}): (.*)")
_FAILURE: Final = re.compile(
    r"## (?P<id>[^\n]*)\n\*\*Approach:\*\* (?P<approach>.*)\n\*\*Why it failed:\*\* (?P<why>.*)"
    r"\n\*\*Learned:\*\* (?P<learned>.*)",
    re.DOTALL,
)
KINDS: Final = ("checkpoint", "knowledge", "failure")


def record_kind(content: Content) -> str:
    """Return which kind of record a URI names; empty for anything else."""
    kind = content.uri.partition("://")[2].partition("/")[0].lower()
    return kind if content.scheme == "sage" and content.type == "text/markdown" and kind in KINDS else ""


def render_record(content: Content, links: Links) -> Html:
    """Return a checkpoint, a knowledge item or a failure, laid out."""
    text = visible(content.text or "")
    if is_intricate(text) or not content.is_whole:
        return render_markdown(content, links)
    if record_kind(content) == "failure":
        return _failure(text, content.uri, links)
    return _record(text, content.uri, links)


def _failure(text: str, uri: str, links: Links) -> Html:
    found = _FAILURE.fullmatch(text.rstrip("\n"))
    if not found:
        return element("div", laid_out(text, uri, links), class_="prose record")

    def part(name: str) -> Html:
        return laid_out(found[name], uri, links)

    rows = (("Approach", part("approach")), ("Why it failed", part("why")), ("Learned", part("learned")))
    is_named = uri.partition("?")[0].rpartition("/")[2] == found["id"]  # the page has this title already
    head = Html("") if is_named else element("h2", found["id"])
    return element("div", head, facts(rows), class_="prose record failure")


def _record(text: str, uri: str, links: Links) -> Html:
    lines = text.split("\n")
    title = lines[0].lstrip("#").strip()
    about, at = [], 1
    while at < len(lines) and (found := _ABOUT.fullmatch(lines[at])):
        about += [fact for part in found[1].split(" | ") if (fact := _fact(part))]
        at += 1
    if not lines[0].startswith("#") or not about:
        return element("div", laid_out(text, uri, links), class_="prose record")
    body = "\n".join(lines[at:])
    head = element("h2", title)
    # The head stands as `h2`, whatever level the text gives it: what is below follows it.
    made = laid_out(body, uri, links, 1 if lines[0].startswith("# ") else 0)
    return element("div", head, facts(about), made, class_="prose record")


def _fact(text: str) -> tuple[str, str] | None:
    found = _FACT.fullmatch(text)
    return (found[1], found[2]) if found else None
