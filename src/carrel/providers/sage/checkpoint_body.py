"""A checkpoint's Markdown body: its sections, and the lines in them.

Headings inside a code fence are text. Escaping a text so that it cannot be taken for a heading,
and undoing that, both happen here and nowhere else.
"""

import re
from typing import Final

from carrel.providers.sage.records import CodeRef, Contribution, Source, Tension

_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_HEADING: Final = re.compile(r"\\*##? ")
_ESCAPED: Final = re.compile(r"\\+(?:##? |\s*(?:`{3,}|~{3,}))")
_ESCAPED_FENCE: Final = re.compile(r"\\+\s*(?:`{3,}|~{3,})")
_SOURCE: Final = re.compile(r"- \*\*(.+?)\*\* \((.*?)\):(?: (.*))?")
_TENSION: Final = re.compile(r"- \*\*(.+?)\*\* vs \*\*(.+?)\*\*:(?: (.*))?")
_CONTRIBUTION: Final = re.compile(r"- \*\*(.+?)\*\*:(?: (.*))?")
_CODE_REF: Final = re.compile(r"- \[(.)\] `([^`]+?)(?::(\d+(?:-\d+)?))?`\s*")
_TAIL: Final = " — _"

Sections = list[tuple[str, str]]


class Fence:
    """Whether a line stands inside a code fence, line by line."""

    def __init__(self) -> None:
        self.opened = ""

    def covers(self, line: str) -> bool:
        """Take a line; tell whether it is a fence or lies in one."""
        found = _FENCE.match(line)
        if not self.opened:
            if found is None or (found[1][0] == "`" and "`" in found[2]):
                return False
            self.opened = found[1]
            return True
        if found is not None and found[1].startswith(self.opened) and not found[2].strip():
            self.opened = ""
        return True


def split(body: str) -> tuple[str, Sections]:
    """Give the question and the sections in order, each a heading and its text."""
    question: str | None = None
    parts: list[tuple[str, list[str]]] = []
    fence = Fence()
    for line in body.split("\n"):
        if not fence.covers(line):
            if line.startswith("## "):
                parts.append((line[3:].strip(), []))
                continue
            if line.startswith("# ") and not parts and question is None:
                question = line[2:].strip()
                continue
        if parts:
            parts[-1][1].append(line)
    return question or "", [(heading, "\n".join(lines).strip()) for heading, lines in parts]


def unescape(text: str) -> str:
    """Give a section's text as it was before it was written."""
    if "\\" not in text:
        return text
    return "\n".join(line[1:] if _ESCAPED.match(line) else line for line in text.split("\n"))


def escape(text: str) -> str:
    """Make a text safe to stand in a section: no line of it reads as a heading, no fence in it stays open."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [f"\\{line}" if _HEADING.match(line) or _ESCAPED_FENCE.match(line) else line for line in lines]
    at = _open_fence(lines, 0)
    while at is not None:
        lines[at] = f"\\{lines[at]}"
        at = _open_fence(lines, at + 1)
    return "\n".join(lines)


def _open_fence(lines: list[str], start: int) -> int | None:
    """Give the line of the fence that nothing closes, if there is one."""
    fence = Fence()
    opened = None
    for at in range(start, len(lines)):
        was_open = bool(fence.opened)
        fence.covers(lines[at])
        if fence.opened and not was_open:
            opened = at
    return opened if fence.opened else None


def one_line(text: str) -> str:
    """Turn line breaks into spaces."""
    return " ".join(text.split("\n")) if "\n" in text and "\r" not in text else re.sub(r"\r\n|\r|\n", " ", text)


# Lines


def entries(text: str) -> tuple[str, ...]:
    """Give the entries of a plain list."""
    return tuple(line[2:].strip() for line in text.split("\n") if line.startswith("- ") and line[2:].strip())


def _cut_tail(line: str) -> tuple[str, str]:
    """Take ` — _relation_` off the end of a line."""
    if line.endswith("_") and _TAIL in line:
        head, _, tail = line.rpartition(_TAIL)
        return head, tail[:-1]
    return line, ""


def sources(text: str) -> tuple[Source, ...]:
    """Read `- **id** (type): take — _relation_`."""
    found = []
    for line in text.split("\n"):
        head, relation = _cut_tail(line.rstrip())
        if match := _SOURCE.fullmatch(head):
            found.append(Source(match[1], match[2], (match[3] or "").strip(), relation))
    return tuple(found)


def tensions(text: str) -> tuple[Tension, ...]:
    """Read `- **a** vs **b**: nature — _resolution_`."""
    found = []
    for line in text.split("\n"):
        head, resolution = _cut_tail(line.rstrip())
        if match := _TENSION.fullmatch(head):
            found.append(Tension(match[1], match[2], (match[3] or "").strip(), resolution))
    return tuple(found)


def contributions(text: str) -> tuple[Contribution, ...]:
    """Read `- **type**: content`."""
    matches = (_CONTRIBUTION.fullmatch(line.rstrip()) for line in text.split("\n"))
    return tuple(Contribution(match[1], (match[2] or "").strip()) for match in matches if match)


def code_refs(text: str) -> tuple[CodeRef, ...]:
    """Read ``- [+] `file:1-4` ``; a snippet below is left out."""
    fence = Fence()
    matches = (_CODE_REF.fullmatch(line) for line in text.split("\n") if not fence.covers(line))
    return tuple(CodeRef(match[2], match[3] or "", match[1]) for match in matches if match)
