"""Rename or comment out one key or section of a TOML file; no other byte changes.

The text is changed line by line, and the result is parsed: if it is not exactly the intended settings, nothing is
written.
"""

import copy
import os
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Final

from carrel.core.errors import ConfigError
from carrel.files.atomic import new_private

_HEADER: Final = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_MARK: Final = "\ufeff"


def rename(path: str, section: Sequence[str], key: str, name: str) -> None:
    """Rename a key or, with an empty `key`, a section; raise ConfigError if that is not possible."""
    _change(path, section, key, name)


def comment_out(path: str, section: Sequence[str], key: str) -> None:
    """Turn a key, or with an empty `key` a section, into comments; raise ConfigError if that is not possible."""
    _change(path, section, key, None)


def _change(path: str, section: Sequence[str], key: str, name: str | None) -> None:
    target = os.path.realpath(path)
    with open(target, encoding="utf-8", newline="") as file:
        whole = file.read()
    before = whole.removeprefix(_MARK)
    try:
        lines = before.splitlines(keepends=True)
        after = "".join(_changed(lines, tuple(section), key, name))
        is_right = tomllib.loads(after) == _meant(before, section, key, name)
    except (KeyError, tomllib.TOMLDecodeError):
        after, is_right = before, False
    if not is_right or after == before:
        raise ConfigError(
            f"{path}: cannot be changed safely; change [{'.'.join(section)}] {key}".rstrip() + " yourself"
        )
    with new_private(target, os.stat(target).st_mode & 0o777) as file:
        file.write(f"{whole[: len(whole) - len(before)]}{after}")


def _meant(before: str, section: Sequence[str], key: str, name: str | None) -> dict[str, Any]:
    """Return the settings that the file should have after the change; raise KeyError if the name is taken."""
    table = copy.deepcopy(tomllib.loads(before))
    *above, last = (*section, key) if key else section
    here: dict[str, Any] = table
    for part in above:
        here = here[part]
    value = here.pop(last)
    if name is not None:
        if name in here:
            raise KeyError(name)
        here[name] = value
    elif not key:
        _drop_empty(table, above)
    return table


def _drop_empty(table: dict[str, Any], path: Sequence[str]) -> None:
    """Remove tables that are there only because of the section below them."""
    if path:
        _drop_empty_at = table
        for part in path[:-1]:
            _drop_empty_at = _drop_empty_at[part]
        if not _drop_empty_at[path[-1]]:
            del _drop_empty_at[path[-1]]
            _drop_empty(table, path[:-1])


def _changed(lines: list[str], section: tuple[str, ...], key: str, name: str | None) -> list[str]:
    here: tuple[str, ...] = ()
    changed = list(lines)
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header:
            here = _parts(header["name"])
            if not key and name is not None and here[: len(section)] == section:
                changed[number] = line.replace(section[-1], name, 1)
        if not key and name is None and here[: len(section)] == section:
            changed[number] = _commented(line)
        elif key and not header and here == section and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
            if name is not None:
                changed[number] = line.replace(key, name, 1)
            else:
                end = _end_of_value(lines, number)
                changed[number:end] = map(_commented, lines[number:end])
    return changed


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def _commented(line: str) -> str:
    return f"# {line}" if line.strip() and not line.lstrip().startswith("#") else line


def _end_of_value(lines: list[str], start: int) -> int:
    """Return the number of the line after a value that may have several lines."""
    for end in range(start + 1, len(lines) + 1):
        try:
            tomllib.loads("".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return start + 1
