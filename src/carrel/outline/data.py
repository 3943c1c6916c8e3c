"""The upper keys of JSON, YAML and TOML, with the lines of their values.

Each is scanned once, without recursion; from a malformed text come the keys that were found.
"""

import re
from collections.abc import Iterator
from itertools import count, islice, takewhile
from typing import Final

from carrel.core.record import replace
from carrel.outline.rows import MAX_ROWS, Row, last_lines

MAX_DEPTH: Final = 2
"""Levels of keys that are shown."""
MAX_VALUE: Final = 40
"""Characters of a value that is shown beside its key."""

_JSON: Final = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?|[{}\[\],:\n]|//[^\n]*|[^\s{}\[\],:"/]+')
_YAML_KEY: Final = re.compile(
    r"""( *+)((?:- ++)*+)((?:"[^"]*+"|'[^']*+') *+|[^\s#:'"\[{&*!|>-][^#:]*+|-[^\s#:][^#:]*+):(?: +(.*))?$"""
)
_YAML_BLOCK: Final = re.compile(r"[|>][-+0-9]*(?: +#.*)?$")
_TOML_TABLE: Final = re.compile(r"\s*(\[\[?[^\[\]]+\]\]?)\s*(?:#.*)?$")
_TOML_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=\s*(.*)$""")


def json_keys(text: str) -> list[Row]:
    """Return the keys of the two upper levels; of an array at the top, its elements that are objects or arrays."""
    rows: list[Row] = []
    closing: list[int | None] = []
    line = 1
    latest = key = ""
    key_line = 0
    elements = count()
    for found in takewhile(lambda _: len(rows) < MAX_ROWS, _JSON.finditer(text)):
        token = found[0]
        if token == "\n":
            line += 1
        elif token in ("{", "["):
            if not key and len(closing) == 1:
                key = f"[{next(elements)}]"
            closing.append(_opened(rows, closing, key, key_line or line, token))
            latest = key = ""
            key_line = 0
        elif token in ("}", "]"):
            row = closing.pop() if closing else None
            if row is not None:
                rows[row] = replace(rows[row], last=line)
            key, key_line = "", 0
        elif token == ":":
            key, key_line = latest, line
        elif token == ",":
            key, key_line = "", 0
        else:
            if key and len(closing) <= MAX_DEPTH:
                rows.append(_row(key, f"{key}: {_short(token)}", len(closing) - 1, key_line, line))
                key = ""
            latest = token
    return rows


def _opened(rows: list[Row], closing: list[int | None], key: str, line: int, token: str) -> int | None:
    """Add a row for an object or array that begins, and return the number of the row."""
    depth = len(closing)
    if not 0 < depth <= MAX_DEPTH or not key:
        return None
    rows.append(_row(key, f"{key}: {token}…{'}' if token == '{' else ']'}", depth - 1, line, line))
    return len(rows) - 1


def yaml_keys(lines: list[str]) -> list[Row]:
    """Return the keys of the two upper levels."""
    found: list[tuple[int, int, str, str]] = []
    block: int | None = None
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or (block is not None and indent > block):
            continue
        block = None
        match = _YAML_KEY.match(line)
        if match is None:
            if line.startswith("---") or (line.strip() and not line.lstrip().startswith("#")):
                found.append((number, indent + line.lstrip().startswith("- "), "", ""))
            continue
        value = match[4] or ""
        if _YAML_BLOCK.match(value):
            block = indent
        found.append((number, indent + len(match[2]), match[3].rstrip(" "), value))
    return list(islice(_indented(found, lines), MAX_ROWS))


def _indented(found: list[tuple[int, int, str, str]], lines: list[str]) -> Iterator[Row]:
    """Yield the keys whose indentation is that of the first or second level, up to the next one at their level."""
    second = 0
    ends = last_lines([(number, indent) for number, indent, _, _ in found], len(lines))
    for (number, indent, key, value), last in zip(found, ends, strict=True):
        if indent == 0:
            second = 0
        elif key and not second:
            second = indent
        if not key or (indent and indent != second):
            continue
        end = last
        while end > number and _says_nothing(lines[end - 1]):
            end -= 1
        shown = _short(value) if value and not _YAML_BLOCK.match(value) else "…"
        yield _row(key, f"{key}: {shown}", 1 if indent else 0, number, end)


def toml_keys(lines: list[str]) -> list[Row]:
    """Return the tables and their keys."""
    rows: list[Row] = []
    table: int | None = None
    last = 0
    until = ""
    for number, line in enumerate(lines, 1):
        if until:
            until = "" if until in line else until
            last = number
            rows[-1] = replace(rows[-1], last=number)
            continue
        if len(rows) >= MAX_ROWS:
            break
        header = _TOML_TABLE.match(line)
        pair = None if header else _TOML_KEY.match(line)
        if header:
            if table is not None:
                rows[table] = replace(rows[table], last=last)
            table = len(rows)
            rows.append(_row(header[1], header[1], 0, number, number))
        elif pair:
            until = next((mark for mark in ('"""', "'''") if pair[2].count(mark) == 1), "")
            rows.append(_row(pair[1], f"{pair[1]} = {_short(pair[2])}", 0 if table is None else 1, number, number))
        elif rows and not _says_nothing(line):
            rows[-1] = replace(rows[-1], last=number)  # an array goes on
        last = last if _says_nothing(line) else number
    if table is not None:
        rows[table] = replace(rows[table], last=last)
    return rows


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _row(name: str, signature: str, depth: int, first: int, last: int) -> Row:
    return Row("key", name, signature, depth, first, last, is_inner=depth > 0)


def _short(value: str) -> str:
    value = " ".join(value.split())
    return value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
