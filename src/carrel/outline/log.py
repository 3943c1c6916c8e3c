"""The errors and warnings of a log, each with the lines around it."""

import re
from typing import Final

from carrel.outline.rows import MAX_ROWS, Row

BEFORE: Final = 2
AFTER: Final = 6
"""Lines around an event: before it and after it."""
MAX_EVENT: Final = 120

_ERROR: Final = re.compile(
    r"\b(?:FATAL|CRITICAL|PANIC|SEVERE|EMERG|ALERT|ERROR|ERR!)(?![\w-])|\bERR\b"
    r"|(?i:\b(?:error|fatal|panic|critical)\b\s*[:\]])|(?i:\[(?:error|fatal|critical)\])"
    r"|(?i:\blevel\"?\s*[=:]\s*\"?(?:error|fatal|critical|panic)\b)"
    r"|^Traceback \(most recent call last\)|\b[A-Z]\w*(?:Exception|Error)\b\s*(?::|$|\()|^[EF]/|\bFAILED\b|^\s*✗"
)
_WARNING: Final = re.compile(
    r"\bWARN(?:ING)?(?![\w-])|(?i:\bwarning\b\s*[:\]])|(?i:\[warn(?:ing)?\])"
    r"|(?i:\blevel\"?\s*[=:]\s*\"?warn(?:ing)?\b)|^W/"
)
_HINTS: Final = tuple("err warn fatal panic critical severe emerg alert exception trace failed ✗".split())
_SHORT: Final = ("E/", "F/", "W/")
"""Words of which every line that one of the two expressions matches has one, in lower case, or at its start."""
TIME: Final = re.compile(
    r"\s*\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d|\[ *\d+\.\d{3,}\])"
)
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|\d+")
_LOOKED_AT: Final = 200


def looks_like_log(lines: list[str]) -> bool:
    """Return whether the first lines of a text begin with a time, or name errors and warnings."""
    head = [line for line in lines[:_LOOKED_AT] if line.strip()]
    timed = sum(TIME.match(line) is not None for line in head)
    return bool(head) and (timed * 3 >= len(head) or any(_ERROR.search(line) or _WARNING.search(line) for line in head))


def events(lines: list[str]) -> list[Row]:
    """Return the errors and warnings, equal ones as one row; warnings are the first to be left out."""
    first_of: dict[str, int] = {}
    times: dict[int, int] = {}
    rows: list[Row] = []
    previous = 0
    for number, line in enumerate(lines, 1):
        kind = level_of(line)
        if not kind or (line[:1].isspace() and previous == number - 1):  # the stack of the one before
            previous = number if previous == number - 1 and line[:1].isspace() else previous
            continue
        previous = number
        like = _VARYING.sub("#", line)[:MAX_EVENT]
        if like in first_of:
            times[first_of[like]] += 1
            continue
        if len(rows) >= MAX_ROWS:
            break
        first_of[like] = len(rows)
        times[len(rows)] = 1
        rows.append(_event(kind, line, number, len(lines)))
    return [_repeated(row, times[at]) for at, row in enumerate(rows)]


def level_of(line: str) -> str:
    """Return `error` or `warning` for a line that is one; empty for any other line."""
    lower = line.lower()
    if not any(hint in lower for hint in _HINTS) and not line.startswith(_SHORT):
        return ""  # most lines; the expressions take twenty times as long
    return "error" if _ERROR.search(line) else "warning" if _WARNING.search(line) else ""


def _event(kind: str, line: str, number: int, total: int) -> Row:
    text = " ".join(line.split())
    text = text if len(text) <= MAX_EVENT else f"{text[: MAX_EVENT - 1]}…"
    around = max(1, number - BEFORE), min(total, number + AFTER)
    return Row(kind, f"{number}: {text[:40]}", f"{number}: {text}", 0, *around, is_inner=kind == "warning")


def _repeated(row: Row, times: int) -> Row:
    from carrel.core.record import replace

    return row if times == 1 else replace(row, signature=f"{row.signature} ({times} times)")
