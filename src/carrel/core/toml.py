"""Read TOML that strangers wrote: as `tomllib` does, but never for long.

`tomllib` takes time and memory with the square of a key's length, so keys with many dots are refused before it
sees them. Every failure is a `TomlError` whose text may be shown to a client.
"""

import re
from typing import Final

MAX_DOTS: Final = 64
"""Dots in one key. Honest files have three or four."""
_FEW_DOTS: Final = 8
"""A file with no more dots than this is cheap whatever it holds."""
MAX_STEPS: Final = 10_000_000
"""Tables that `tomllib` passes on its way to all keys, headers included: it does that within a second."""
MAX_DEPTH: Final = 100
"""Of tables and arrays in one another, whichever way they are written."""
MAX_WORD: Final = 4_000
"""Characters of a number or bare key. Python itself spells no number of more than 4,300 digits."""

TOO_DEEP: Final = f"nested more than {MAX_DEPTH} deep"

_LONG_WORD: Final = re.compile(rf"[A-Za-z0-9_\-+.]{{{MAX_WORD + 1}}}")
_BASIC: Final = r'"(?:[^"\\\n]++|\\.)*+"?'
_LITERAL: Final = r"'[^'\n]*+'?"
_TOKEN: Final = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5})?"
    rf"|(?P<key>(?:[A-Za-z0-9_\-. \t]++|(?!\"\"\"|'''){_BASIC}|(?!'''){_LITERAL})++)",
    re.DOTALL,
)
_QUOTED: Final = re.compile(f"{_BASIC}|{_LITERAL}", re.DOTALL)


class TomlError(ValueError):
    """The text is not TOML, or asks for too much work; the message says what is wrong, and where if that is known."""


def loads(text: str) -> dict[str, object]:
    """Return the table that a TOML document describes; raise `TomlError` for one that cannot be read."""
    import tomllib  # only where there is something to read

    if text.count(".") > _FEW_DOTS or _LONG_WORD.search(text):
        _check_keys(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
    except RecursionError:
        reason = TOO_DEEP
    except ValueError:  # a date or a number that Python cannot hold; its message is advice for programmers
        reason = "it holds a value that cannot be represented"
    else:
        reason = "" if _is_shallow(table) else TOO_DEEP
        if not reason:
            return table
    raise TomlError(reason)


def _is_shallow(table: dict[str, object]) -> bool:
    """Return whether tables and arrays lie within `MAX_DEPTH`: dotted keys in nested tables add up."""
    level: list[object] = [table]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return True
    return False


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_keys(text: str) -> None:
    """Raise if keys take too many steps, or a key or number is too long. Numbers are taken for keys with one dot."""
    steps = deepest = 0
    for found in _TOKEN.finditer(text):
        if not found["key"]:
            continue
        bare = _QUOTED.sub("", found["key"])
        dots = bare.count(".")
        if dots > MAX_DOTS:
            raise TomlError(f"a key has more than {MAX_DOTS} dots {_place(text, found)}")
        if _LONG_WORD.search(bare):
            raise TomlError(f"a key or number is longer than {MAX_WORD} characters {_place(text, found)}")
        if text[found.start() - 1] == "[":  # perhaps a header, below which the keys after it lie
            deepest = max(deepest, dots)
        steps += (dots + 1) * (dots + deepest)
        if steps > MAX_STEPS:
            raise TomlError("its keys have too many dots in all")


def _place(text: str, found: re.Match[str]) -> str:
    line = text.count("\n", 0, found.start()) + 1
    return f"(at line {line})"
