"""A Lua table as far as its source tells it: what is known, and where something is that is not.

Fields are set as Lua sets them: what stands in a list is stored fifty at a time, after the keys that
stand between. `render` gives JSON, and the paths of what could not be evaluated in source order.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, Union

Key = str | int | float
Scalar = str | int | float | bool | None
Known = Union[Scalar, "Table", "Unresolved"]

MAX_DEPTH: Final = 32
_FLUSH: Final = 50
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHOLE: Final = "M.meta"


class Unresolved:
    """A value that only running the program would give; `at` is where it stands in the source."""

    def __init__(self, at: int) -> None:
        self.at = at


class Table:
    """A table under construction."""

    def __init__(self) -> None:
        self.fields: dict[Key, Known] = {}
        self.lost: int | None = None
        self._pending: list[Known] = []
        self._listed = 0

    def append(self, value: Known) -> None:
        """Put a value next in the list."""
        self.settle(_FLUSH)
        self._pending.append(value)

    def set(self, key: Known, value: Known, at: int) -> None:
        """Set a field; nil removes it, and a key that is not known makes it a lost one."""
        self.settle(_FLUSH)
        if isinstance(key, bool):
            key = str(key).lower()
        if isinstance(key, float) and key.is_integer() and abs(key) < 2**63:
            key = int(key)
        if key is None or isinstance(key, Table | Unresolved):
            self.lose(at)
        elif value is None:
            self.fields.pop(key, None)
        else:
            self.fields[key] = value

    def lose(self, at: int) -> None:
        """Take note that there is a field of which nothing can be said."""
        self.lost = at if self.lost is None else self.lost

    def settle(self, least: int = 1) -> None:
        """Store what stands in the list, if it is that much."""
        if len(self._pending) >= least:
            for value in self._pending:
                self._listed += 1
                self.fields[self._listed] = value
            self._pending = []

    @property
    def is_list(self) -> bool:
        """Tell whether the keys are exactly 1 to n."""
        count = len(self.fields)
        return count > 0 and all(isinstance(key, int) and 1 <= key <= count for key in self.fields)


def render(table: Table) -> tuple[dict[str, object], tuple[str, ...]]:
    """Give the table as a JSON object, and the paths of what is left out of it."""
    left_out: list[tuple[int, str]] = []
    rendered = _object(table, "", left_out)
    return rendered, tuple(dict.fromkeys(path for _, path in sorted(left_out)))


def _object(table: Table, path: str, left_out: list[tuple[int, str]]) -> dict[str, object]:
    _name_lost(table, path, left_out)
    known = _known(table, path, left_out)
    return {str(key): value for key, value, is_known in known if is_known and value is not None}


def _list(table: Table, path: str, left_out: list[tuple[int, str]]) -> list[object]:
    _name_lost(table, path, left_out)
    values = {key: value for key, value, _ in _known(table, path, left_out)}
    return [values[number] for number in range(1, len(values) + 1)]


def _name_lost(table: Table, path: str, left_out: list[tuple[int, str]]) -> None:
    if table.lost is not None:
        left_out.append((table.lost, f"{path}[?]"))


def _known(table: Table, path: str, left_out: list[tuple[int, str]]) -> Iterator[tuple[Key, object, bool]]:
    for key, value in table.fields.items():
        below = path_to(path, key)
        if isinstance(value, Unresolved):
            left_out.append((value.at, below))
            yield key, None, False
        elif isinstance(value, Table):
            yield key, _list(value, below, left_out) if value.is_list else _object(value, below, left_out), True
        else:
            yield key, value, True


def path_to(path: str, key: Key) -> str:
    """Spell the way to a field: `limits.timeout`, `tags[2]`, `x["a b"]`."""
    if not isinstance(key, str):
        return f"{path}[{key}]"
    if _NAME.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
