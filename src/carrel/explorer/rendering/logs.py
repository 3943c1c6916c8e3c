"""Logs: each line with its level, its time set apart, and an address; terminal colours as classes.

Lines are shown one by one, so that a page which follows a log can add the new ones below.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from carrel.explorer.rendering.lines import numbered, width
from carrel.explorer.rendering.markup import Content, Html, element, escape, join, scrolling
from carrel.outline.log import TIME, level_of, looks_like_log

LEVELS: Final = ("error", "warning", "info", "debug")
MAX_LOOKED_AT: Final = 2_000
"""Characters of a line in which its level is looked for."""

_INFO: Final = re.compile(
    r"\b(?:INFO|NOTICE)\b|\[(?:info|notice)\]|\blevel\"?\s*[=:]\s*\"?(?:info|notice)\b|^I/", re.IGNORECASE
)
_DEBUG: Final = re.compile(
    r"\b(?:DEBUG|TRACE|VERBOSE)\b|\[(?:debug|trace)\]|\blevel\"?\s*[=:]\s*\"?(?:debug|trace)\b|^[DV]/"
)
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[([0-9;]*)m|\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-_])"
)
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_WHOLE_TIME: Final = re.compile(r"\s*\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(?: ?(Z|[+-]\d\d:?\d\d))?")
_REST_OF_TIME: Final = re.compile(r":?\d{0,2}(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?")
_LOG_NAME: Final = re.compile(r"\.log(?:\.\d+)?$|/(?:sys|access|error)log$", re.IGNORECASE)


def is_log(content: Content) -> bool:
    """Return whether a plain text is a log: by its scheme, its name, or times and levels in its first lines."""
    if content.type not in ("", "text/plain"):
        return False
    name = content.uri.partition("?")[0]
    is_named = content.scheme == "logs" or _LOG_NAME.search(name) is not None
    return is_named or (name.endswith(".txt") and _begins_with_times(content.text or ""))


def _begins_with_times(text: str) -> bool:
    lines = text[:20_000].split("\n")[:200]
    return looks_like_log(lines) and sum(TIME.match(line) is not None for line in lines) * 2 > len(lines)


def render_log(content: Content) -> Html:
    """Return a log; its lines are in an element with the class `log`, ready for more."""
    shown = element("pre", element("code", log_lines(content.text or "", content.first_line)))
    return scrolling("Log", f"code log{width(content)}", shown)


def log_lines(text: str, first: int) -> Html:
    """Return lines of a log, numbered from `first`."""
    lines = split_lines(text)
    return numbered([_line(line) for line in lines], first, [level(line) for line in lines])


def split_lines(text: str) -> list[str]:
    """Return the lines of a log; a newline at its end begins no line."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def level(line: str) -> str:
    """Return the level of a line, one of `LEVELS`; empty if it names none."""
    start = plain(line[:MAX_LOOKED_AT])
    return level_of(start) or ("info" if _INFO.search(start) else "debug" if _DEBUG.search(start) else "")


def plain(text: str) -> str:
    """Return a text without the escape sequences of terminals."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def time_of(line: str) -> datetime | None:
    """Return the time at the start of a line, in UTC if it names no zone; None if there is no complete time."""
    found = _WHOLE_TIME.match(plain(line[:200]))
    if found is None:
        return None
    try:
        made = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or '+00:00'}")
        return made.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _line(line: str) -> Html:
    shown = "" if "\x1b" in line else line
    when = TIME.match(shown[:200])
    if when:
        rest = _REST_OF_TIME.match(shown, when.end())
        end = rest.end() if rest else when.end()
        return join((element("span", shown[:end], class_="time"), escape(shown[end:])))
    return escape(line) if shown or not line else join(_coloured(line))


def _coloured(line: str) -> Iterator[Html]:
    """Yield the parts of a line with terminal colours."""
    colour, is_bold, at = "", False, 0
    for found in _ESCAPE.finditer(line):
        yield _part(line[at : found.start()], colour, is_bold=is_bold)
        at = found.end()
        for code in (found[1] or "0").split(";")[:16] if found[1] is not None else ():
            colour, is_bold = _turned(code, colour, is_bold=is_bold)
    yield _part(line[at:], colour, is_bold=is_bold)


def _turned(code: str, colour: str, *, is_bold: bool) -> tuple[str, bool]:
    """Return the colour and the weight after one code of a sequence."""
    number = int(code) if code.isdigit() and len(code) < 4 else 0
    if number == 0:
        return "", False
    if number in (1, 22):
        return colour, number == 1
    if 30 <= number <= 37 or 90 <= number <= 97:
        return _COLOURS[number % 10], is_bold
    return ("" if number == 39 else colour), is_bold


def _part(text: str, colour: str, *, is_bold: bool) -> Html:
    classes = " ".join(name for name in (f"ansi-{colour}" if colour else "", "bold" if is_bold else "") if name)
    if not text:
        return Html("")
    return element("span", text, class_=classes) if classes else escape(text)
