"""Parse TOML from untrusted files in bounded time.

`tomllib` takes time and memory that grow with the square of the dots in a key, so keys with many dots are refused
first. Every failure is a `TomlError` whose text may be shown to a client.
"""

import re
from typing import Final

MAX_DOTS: Final = 64
"""Maximum number of dots in one key. Real files have three or four."""
_FEW_DOTS: Final = 8
"""A file with at most this many dots is always cheap to parse."""
MAX_STEPS: Final = 10_000_000
"""Maximum number of tables that `tomllib` visits for all keys and headers: it takes less than a second for them."""
MAX_DEPTH: Final = 100
"""Maximum nesting of tables and arrays, in any notation."""
MAX_WORD: Final = 4_000
"""Maximum characters of a number or bare key. Python does not convert numbers of more than 4,300 digits."""

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
    """The text is not TOML, or would take too long to parse; the message says what is wrong and, if known, where."""


def loads(text: str) -> dict[str, object]:
    """Return the table of a TOML document; raise `TomlError` if it cannot be parsed."""
    import tomllib  # imported only if there is something to parse

    if text.count(".") > _FEW_DOTS or _LONG_WORD.search(text):
        _check_keys(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
    except RecursionError:
        reason = TOO_DEEP
    except ValueError:  # a date or a number out of Python's range; its message is for programmers
        reason = "it holds a value that cannot be represented"
    else:
        reason = "" if _is_shallow(table) else TOO_DEEP
        if not reason:
            return table
    raise TomlError(reason)


def _is_shallow(table: dict[str, object]) -> bool:
    """Return whether tables and arrays are nested at most `MAX_DEPTH` deep; dotted keys count too."""
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
    """Raise if keys take too many steps, or a key or number is too long. Numbers count as keys with one dot."""
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
        if text[found.start() - 1] == "[":  # perhaps a table header, to which the following keys belong
            deepest = max(deepest, dots)
        steps += (dots + 1) * (dots + deepest)
        if steps > MAX_STEPS:
            raise TomlError("its keys have too many dots in all")


def _place(text: str, found: re.Match[str]) -> str:
    line = text.count("\n", 0, found.start()) + 1
    return f"(at line {line})"
