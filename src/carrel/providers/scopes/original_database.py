"""Read a database of the original Scopes application for an import. Nothing is written to it.

A fixed rule converts its ids, so that a second import finds the scopes of the first. Values that break the rules of
scopes are repaired, with a warning for each repair.
"""

import sqlite3
from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from carrel.core.errors import echo
from carrel.core.hashing import sha256
from carrel.core.limits import STORE_COMMAND_S
from carrel.core.record import replace
from carrel.providers.scopes.json_lines import Record, in_order, numbered
from carrel.providers.scopes.location import named
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault
from carrel.providers.scopes.sqlite import StoreConnection, connect
from carrel.providers.scopes.values import (
    MAX_TIME_MS,
    MAX_TITLE,
    STATUSES,
    Scope,
    check_description,
    check_title,
    invent_alias,
    is_alias,
    make_id,
    normalise_alias,
    without_controls,
)

MAX_TEXT: Final = 1_000_000
"""Maximum bytes of one value or one statement of the schema: more than that application writes."""

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_STATUSES: Final = {"DRAFT": "PLANNING", "ACTIVE": "IN_PROGRESS", "COMPLETED": "DONE", **{one: one for one in STATUSES}}

_QUERIES: Final = {
    "scopes": "SELECT id, title, description, parent_id, created_at, updated_at FROM scopes ORDER BY created_at, id",
    "scope_aliases": "SELECT scope_id, alias_name, alias_type, created_at FROM scope_aliases ORDER BY created_at, id",
    "scope_aspects": "SELECT scope_id, aspect_key, aspect_value FROM scope_aspects ORDER BY scope_id",
}

Row = tuple[Any, ...]


def convert_id(text: str, created_at: int) -> str:
    """Return the scope id for an id of the original application."""
    upper = text.upper()
    if len(upper) == 26 and upper[0] <= "7" and all(letter in _DIGITS for letter in upper):
        bits = 0
        for letter in upper:
            bits = bits << 5 | _DIGITS.index(letter)
        return make_id(bits)
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return make_id((created_at & (1 << 48) - 1) << 80 | int.from_bytes(digest[:10]))


class Original:
    """The content of a database, and the repairs."""

    def __init__(self, path: str) -> None:
        self._repairs: list[tuple[str, str]] = []
        self._left: list[str] = []
        try:
            with closing(_connect(path)) as connection:
                tables = _tables(connection)
                if "scopes" not in tables:
                    raise StoreFault(f"{path} is not a database of the original Scopes application")
                self._scopes, self._aliases, self._aspects = (
                    connection.execute(query).fetchall() if table in tables else [] for table, query in _QUERIES.items()
                )
        except sqlite3.Error as error:
            raise StoreFault(f"{path}: {error}") from None

    def records(self) -> list[Record]:
        """Return the scopes, parents first, with siblings numbered in their order."""
        ids = {row[0]: convert_id(str(row[0]), _time(row[4])) for row in self._scopes}
        if len(set(ids.values())) < len(ids):
            raise ScopeError("DUPLICATE_ID", "Two scopes of the database would get one id")
        statuses = self._statuses(ids)
        aliases = self._names(ids)
        made = [self._record(row, ids, statuses, aliases.get(row[0], [])) for row in self._scopes]
        return numbered(in_order(self._with_own_titles(made)))

    def warnings(self, taken: Container[str]) -> list[str]:
        """Return the repairs of the scopes that were imported, and the number of aspects that were not."""
        left = sum(scope_id in taken for scope_id in self._left)
        repairs = [text for scope_id, text in self._repairs if scope_id in taken]
        return [*repairs, f"{left} aspects are not imported: Carrel has no aspects"] if left else repairs

    def _warn(self, scope_id: str, source: object, text: str) -> None:
        self._repairs.append((scope_id, f"{_where(source)}: {text}"))

    def _record(
        self, row: Row, ids: Mapping[object, str], statuses: Mapping[object, str], aliases: list[tuple[str, str, int]]
    ) -> Record:
        source, title, description, parent, created_at, updated_at = row
        where, created = _where(source), _time(created_at)
        try:
            scope = Scope(
                id=ids[source],
                alias="",
                parent_id=self._parent(source, parent, ids),
                title=check_title(self._repaired(ids[source], source, str(title or ""), "title")),
                description=check_description(
                    self._repaired(ids[source], source, str(description or ""), "description")
                ),
                status=statuses.get(source, "TODO"),
                position=0,
                created_at=created,
                updated_at=max(created, _time(updated_at)),
            )
        except ScopeError as error:
            raise ScopeError(error.code, f"{where}: {error.text}") from None
        canonical = next((name for name, kind, _ in aliases if kind == "CANONICAL"), None)
        rows = [(name, time) for name, _, time in aliases]
        if canonical is None:
            canonical = invent_alias()
            rows.append((canonical, created))
            self._warn(scope.id, source, f"it has no canonical alias; it is now {canonical}")
        return Record(where, replace(scope, alias=canonical), tuple(rows))

    def _parent(self, source: object, parent: object, ids: Mapping[object, str]) -> str | None:
        if parent is None:
            return None
        if parent not in ids:
            self._warn(ids[source], source, f"its parent {echo(str(parent))} is missing; it is a root now")
            return None
        return ids[parent]

    def _repaired(self, scope_id: str, source: object, text: str, what: str) -> str:
        if what == "description":
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        repaired = without_controls(text, is_title=what == "title")
        if repaired != text:
            self._warn(scope_id, source, f"control characters in its {what} became U+FFFD")
        return repaired

    def _statuses(self, ids: Mapping[object, str]) -> dict[object, str]:
        """Return the status of each scope, and note the aspects that are not imported."""
        statuses: dict[object, str] = {}
        for source, key, value in self._aspects:
            if key == "status":
                statuses[source] = _STATUSES.get(str(value).upper(), "TODO")
            elif source in ids:
                self._left.append(ids[source])
        return statuses

    def _names(self, ids: Mapping[object, str]) -> dict[object, list[tuple[str, str, int]]]:
        """Return each scope's aliases with kind and time, oldest first, without invalid and repeated ones."""
        names: dict[object, list[tuple[str, str, int]]] = {}
        taken: set[str] = set()
        for source, text, kind, created_at in self._aliases:
            alias = normalise_alias(str(text))
            if source not in ids:
                continue
            if not is_alias(alias) or alias in taken:
                self._warn(ids[source], source, f"its alias {echo(str(text))} is left out")
                continue
            taken.add(alias)
            names.setdefault(source, []).append((alias, str(kind).upper(), _time(created_at)))
        return names

    def _with_own_titles(self, records: list[Record]) -> Iterator[Record]:
        """Yield the records with a number after each title that an earlier sibling has."""
        taken = {(record.scope.parent_id, record.scope.title) for record in records}
        seen: set[tuple[str | None, str]] = set()
        for record in records:
            scope, number = record.scope, 1
            title = scope.title
            while (scope.parent_id, title) in seen or (number > 1 and (scope.parent_id, title) in taken):
                number += 1
                title = f"{scope.title[: MAX_TITLE - len(str(number)) - 3]} ({number})"
            seen.add((scope.parent_id, title))
            if number > 1:
                self._repairs.append((scope.id, f"{record.where}: a sibling has its title; it is now {echo(title)}"))
            yield replace(record, scope=replace(scope, title=title))


def _connect(path: str) -> StoreConnection:
    """Open the database; anything but a regular file is refused before SQLite opens it."""
    found = named(path).look()
    if found is None:
        raise StoreFault(f"{path} cannot be read: no such file")
    connection = connect(found.path, "ro", is_frozen=found.is_frozen, max_text=MAX_TEXT, max_sql=MAX_TEXT)
    connection.allow_time(STORE_COMMAND_S)
    return connection


def _tables(connection: StoreConnection) -> set[str]:
    """Return the names of the plain tables: no views, virtual tables or computed columns."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 LIMIT 1000")
    return {
        str(name)
        for (name,) in found.fetchall()
        if not connection.execute("SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden > 0", (name,)).fetchone()
    }


def _where(source: object) -> str:
    return f"scope {echo(str(source))}"


def _time(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_TIME_MS:
        raise StoreFault(f"a time in the database is not in milliseconds since 1970: {echo(str(value))}")
    return value
