"""Read TOML that somebody else wrote: bounded before it is parsed.

The standard library's parser is correct, but its cost is not bounded by the size of the file. A long dotted key takes
quadratic time and memory, nested brackets exhaust the stack, and a long number cannot be printed in a message. One
linear pass over the text refuses those.
"""

import re
from typing import Final

MAX_BYTES: Final = 1_048_576
MAX_DOTS: Final = 64
"""In one key, as in `a.b.c`."""

MAX_DEPTH: Final = 100
"""Of tables and arrays in one another, whichever way they are written."""

MAX_NUMBER_LENGTH: Final = 64
"""A 64-bit number in binary needs 66 characters; nobody writes one that way here."""

MAX_KEY_COST: Final = 4_000_000
"""The steps the parser takes for dotted keys, roughly: about a second."""

Table = dict[str, object]

_TOKEN: Final = re.compile(
    r'(?P<text>"""(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'[^'\n]*'?)"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<word>[^\s\"'\#.\[\]{},=]+)"
    r"|(?P<dot>\.)"
    r"|(?P<open>[\[{])"
    r"|(?P<close>[\]}])"
    r"|(?P<end>\n)"
    r"|(?P<between>[,=])",
    re.DOTALL,
)


class TomlError(ValueError):
    """The text is not TOML, or is more than is accepted; the message names no file."""


def parse_toml(content: bytes, max_bytes: int = MAX_BYTES) -> Table:
    """Return the table that a TOML file holds; raise `TomlError`, and nothing else, for one that cannot be accepted."""
    import tomllib  # only where there is a file to read

    if len(content) > max_bytes:
        raise TomlError(f"larger than {max_bytes} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TomlError(f"not UTF-8 at byte {error.start}; save it as UTF-8") from None
    _check_cost(text.replace("\r\n", "\n"))
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"not valid TOML: {error}") from None
    except (ValueError, RecursionError):  # a date or a number that Python cannot hold
        raise TomlError("not valid TOML: it holds a value that cannot be represented") from None
    _check_depth(table)
    return table


def _check_cost(text: str) -> None:
    """Raise where parsing would take more than linear time; strings and comments are passed over whole."""
    depth = dots = header_dots = cost = line = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots > MAX_DOTS:
                raise TomlError(f"a key has more than {MAX_DOTS} dots (at line {line + 1})")
            continue
        if kind in ("word", "text"):
            _check_word(kind, token[0], line)
            line += token[0].count("\n")
            continue
        cost += dots * (dots + header_dots)
        if cost > MAX_KEY_COST:
            raise TomlError(f"too many long dotted keys (at line {line + 1})")
        if kind == "close" and depth <= 2:
            header_dots = max(header_dots, dots)
        dots = 0
        if kind == "open":
            depth += 1
            if depth > MAX_DEPTH:
                raise TomlError(f"nested more than {MAX_DEPTH} deep (at line {line + 1})")
        elif kind == "close":
            depth = max(depth - 1, 0)
        line += kind == "end"


def _check_word(kind: str, word: str, line: int) -> None:
    if kind == "word" and len(word) > MAX_NUMBER_LENGTH and word.lstrip("+-")[:1].isdigit():
        raise TomlError(f"a number has more than {MAX_NUMBER_LENGTH} characters (at line {line + 1})")


def _check_depth(table: Table) -> None:
    """Raise where tables lie too deep in one another: dotted keys in nested tables add up."""
    level: list[object] = [table]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise TomlError(f"nested more than {MAX_DEPTH} deep")


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
