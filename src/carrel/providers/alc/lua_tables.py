"""A Lua table as far as its source shows it: the known values, and the places of the others.

Fields are set as Lua sets them: items of a list are stored fifty at a time, after the keys between them. `render`
returns JSON, and the paths of values that could not be evaluated, in source order.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, Union

Key = str | int | float
Scalar = str | int | float | bool | None
Known = Union[Scalar, "Table", "Unresolved"]

MAX_DEPTH: Final = 32
_FLUSH: Final = 50
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHOLE: Final = "M.meta"


class Unresolved:
    """A value that is only known when the program runs; `at` is its position in the source."""

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
        """Add a value to the end of the list."""
        self.settle(_FLUSH)
        self._pending.append(value)

    def set(self, key: Known, value: Known, at: int) -> None:
        """Set a field; nil removes it. With an unknown key, the field is a lost one."""
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
        """Note that there is a field with an unknown key and value."""
        self.lost = at if self.lost is None else self.lost

    def settle(self, least: int = 1) -> None:
        """Store the pending items of the list if there are at least this many."""
        if len(self._pending) >= least:
            self.fields.update(enumerate(self._pending, self._listed + 1))
            self._listed += len(self._pending)
            self._pending = []

    def inner(self, keys: Iterable[Known]) -> Known:
        """Return the value at the end of a path of keys; None if there is none."""
        found: Known = self
        for key in keys:
            if not isinstance(found, Table) or not isinstance(key, str | int | float):
                return None
            found = found.fields.get(key)
        return found

    def set_inner(self, keys: Sequence[Known], value: Known, at: int, *, keep_unresolved: bool = False) -> None:
        """Set the value at the end of a path; where the path does not lead through tables, it becomes unresolved.

        With `keep_unresolved`, a value on the path that is already unresolved keeps its position.
        """
        table = self
        for key in keys[:-1]:
            inner = table.inner((key,))
            if not isinstance(inner, Table):
                if not (keep_unresolved and isinstance(inner, Unresolved)):
                    table.set(key, Unresolved(at), at)
                return
            table = inner
        table.set(keys[-1], value, at)

    @property
    def is_list(self) -> bool:
        """Return whether the keys are exactly 1 to n."""
        count = len(self.fields)
        return count > 0 and all(isinstance(key, int) and 1 <= key <= count for key in self.fields)


def render(table: Table) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the table as a JSON object, and the paths of the values left out of it."""
    left_out: list[tuple[int, str]] = []
    rendered = _object(table, "", left_out)
    return rendered, tuple(dict.fromkeys(path for _, path in sorted(left_out)))


def _object(table: Table, path: str, left_out: list[tuple[int, str]]) -> dict[str, object]:
    return {str(key): value for key, value in _values(table, path, left_out).items() if value is not None}


def _values(table: Table, path: str, left_out: list[tuple[int, str]]) -> dict[Key, object]:
    """Return the values of a table by key; None for those that are left out."""
    if table.lost is not None:
        left_out.append((table.lost, f"{path}[?]"))
    values: dict[Key, object] = {}
    for key, value in table.fields.items():
        below = path_to(path, key)
        if isinstance(value, Unresolved):
            left_out.append((value.at, below))
            values[key] = None
        elif not isinstance(value, Table):
            values[key] = value
        elif value.is_list:
            items = _values(value, below, left_out)
            values[key] = [items[number] for number in range(1, len(items) + 1)]
        else:
            values[key] = _object(value, below, left_out)
    return values


def path_to(path: str, key: Key) -> str:
    """Return the path to a field: `limits.timeout`, `tags[2]`, `x["a b"]`."""
    if not isinstance(key, str):
        return f"{path}[{key}]"
    if _NAME.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
