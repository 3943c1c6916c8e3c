"""Add and remove a table in a TOML text by one splice. tomlkit writes the values, and tables that are inline."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from carrel.connect.errors import BrokenFile, NotSpliceable
from carrel.core.toml import TomlError, loads

_MARK: Final = "\ufeff"
_HEADER: Final = re.compile(r"^[ \t]*\[[^\r\n]*(?=\r?$)", re.MULTILINE)


def read(text: str) -> dict[str, object]:
    """Return the document as plain values; raise BrokenFile if it is not TOML."""
    try:
        return loads(text.removeprefix(_MARK).replace("\r\n", "\n"))
    except TomlError as error:
        raise BrokenFile(str(error)) from None


def insertions(text: str, path: Sequence[str], entry: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    """Yield where to insert which text, best first: a table at the end, or a value in an inline table."""
    line_end = _line_end(text)
    gap = "" if not text.strip(_MARK) or text.endswith("\n") else line_end
    blank = line_end if text.strip(f"{_MARK} \t\r\n") else ""
    yield len(text), gap + blank + rendered(text, path, entry)
    inline = _inline_insertion(text, path, entry)
    if inline is not None:
        yield inline


def rendered(text: str, path: Sequence[str], entry: Mapping[str, object]) -> str:
    """Return an entry as a table with its header."""
    line_end = _line_end(text)
    lines = [f"[{'.'.join(_key(part) for part in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in entry.items()]
    return line_end.join(lines) + line_end


def span(text: str, path: Sequence[str]) -> tuple[int, int]:
    """Return where the table at `path` stands, its sub-tables included."""
    headers = [(found.start(), found.end(), _header_path(found[0])) for found in _HEADER.finditer(text)]
    wanted = tuple(path)
    for number, (start, _, named) in enumerate(headers):
        if named is None or named[: len(wanted)] != wanted:
            continue
        ends = (place for place, _, later in headers[number + 1 :] if later is None or later[: len(wanted)] != wanted)
        end = next(ends, len(text))
        return start, _without_trailing_comments(text, start, end)
    raise NotSpliceable(f"{'.'.join(path)} is not a table with its own header")


def _without_trailing_comments(text: str, start: int, end: int) -> int:
    """Return the end of the last line of values: blank lines and comments after it belong to what follows."""
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return start + sum(map(len, lines))


def _header_path(line: str) -> tuple[str, ...] | None:
    """Return the keys of a table's header; None for any other line, or the header of an array of tables."""
    try:
        table: object = tomllib.loads(line.strip() + "\n")
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while isinstance(table, dict) and table:
        [(key, table)] = table.items()
        path.append(key)
    return tuple(path) if table == {} else None


def _inline_insertion(text: str, path: Sequence[str], entry: Mapping[str, object]) -> tuple[int, str] | None:
    """Return what tomlkit would insert, without the spaces near by that it changes too."""
    import tomlkit  # only where a table at the end is not possible
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text.removeprefix(_MARK))
        here = document
        for part in path[:-1]:
            here = here[part]
        value = tomlkit.inline_table()
        value.update(entry)
        here[path[-1]] = value
        after = text[: len(text) - len(text.removeprefix(_MARK))] + tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return _difference(text, after)


def _difference(before: str, after: str) -> tuple[int, str]:
    """Return what `after` has between the beginning and the end that both texts share."""
    start = _shared_length(before, after)
    ending = _shared_length(before[start:][::-1], after[start:][::-1])
    return start, after[start : len(after) - ending]


def _shared_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: object) -> str:
    import tomlkit  # only where TOML is written

    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    return tomlkit.item(value).as_string().rstrip("\n")
