"""Scopes written down as JSON lines, and read from them.

The first line is `{"carrelScopes":1}`; then one scope a line, parents before children, in
an order made from what is kept, so that what was taken in is written down as it was.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from carrel.core.errors import echo
from carrel.core.limits import STORE_COMMAND_S
from carrel.core.record import Value, replace
from carrel.providers.scopes import queries
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault, invalid
from carrel.providers.scopes.sqlite import StoreConnection
from carrel.providers.scopes.values import (
    MAX_POSITION,
    MAX_TIME_MS,
    Scope,
    check_alias,
    check_description,
    check_status,
    check_title,
    is_id,
    parse_time,
    spell_time,
    to_json,
)

LEAST_BYTES: Final = 64
"""What one scope takes in a store at least: its id alone is there more than twice."""

HEADER: Final = {"carrelScopes": 1}
FIELDS: Final = (
    "id",
    "alias",
    "aliases",
    "title",
    "description",
    "status",
    "parentId",
    "position",
    "createdAt",
    "updatedAt",
)


class Record(Value, frozen=True):
    """One scope to take in: where it comes from, its row, its aliases with their times."""

    where: str
    scope: Scope
    aliases: tuple[tuple[str, int], ...]


# Out


def export(connection: StoreConnection, top: Scope | None) -> Iterator[str]:
    """Yield the lines of all scopes, or of one and what lies beneath it; without line ends.

    Each scope has its own time, since a reader of the lines may be slow; and there are no more than the file can hold.
    """
    yield to_json(HEADER)
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    for number, scope in enumerate(_every(connection, top)):
        if number > pages * size // LEAST_BYTES:
            raise StoreFault("the store is damaged: it lists more scopes than it can hold")
        connection.allow_time(STORE_COMMAND_S)
        is_top = top is not None and scope.id == top.id
        yield to_json(
            {
                "id": scope.id,
                "alias": scope.alias,
                "aliases": [
                    {"name": name, "createdAt": spell_time(created_at)}
                    for name, created_at in queries.aliases_of(connection, scope)
                ],
                "title": scope.title,
                "description": scope.description,
                "status": scope.status,
                "parentId": None if is_top else scope.parent_id,
                "position": scope.position,
                "createdAt": spell_time(scope.created_at),
                "updatedAt": spell_time(scope.updated_at),
            }
        )


def _every(connection: StoreConnection, top: Scope | None) -> Iterator[Scope]:
    """Yield scopes level by level, siblings in order."""
    level: list[str] = []
    for scope in queries.children(connection, None) if top is None else [top]:
        yield scope
        level.append(scope.id)
    while level:
        below: list[str] = []
        for scope in queries.beneath(connection, level):
            yield scope
            below.append(scope.id)
        level = below


# In


def parse(lines: Iterable[str | bytes]) -> Iterator[Record]:
    """Read what `export` wrote; a line that is wrong is named."""
    number = 0
    for number, line in enumerate(lines, 1):
        where = f"line {number}"
        try:
            given = _decoded(line)
            if number > 1:
                yield _record(where, given)
            elif given != HEADER:
                raise invalid(f"not an export of scopes: it must begin with {to_json(HEADER)}")
        except ScopeError as error:
            raise ScopeError(error.code, f"{where}: {error.text}") from None
    if number == 0:
        raise invalid(f"line 1: not an export of scopes: it must begin with {to_json(HEADER)}")


def _decoded(line: str | bytes) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise invalid("not valid JSON") from None
    if not isinstance(given, dict):
        raise invalid("not a JSON object")
    return given


def _record(where: str, given: dict[str, Any]) -> Record:
    odd = next((name for name in given if name not in FIELDS), None)
    missing = next((name for name in FIELDS if name not in given), None)
    if odd is not None:
        raise invalid(f"Unknown field: {echo(odd)}")
    if missing is not None:
        raise invalid(f"Missing field: {missing}")
    scope = Scope(
        id=_id("id", given["id"]),
        alias=check_alias(_text("alias", given["alias"])),
        parent_id=None if given["parentId"] is None else _id("parentId", given["parentId"]),
        title=check_title(_text("title", given["title"])),
        description=None
        if given["description"] is None
        else check_description(_text("description", given["description"])),
        status=check_status(_text("status", given["status"])),
        position=_whole("position", given["position"], MAX_POSITION),
        created_at=parse_time("createdAt", given["createdAt"]),
        updated_at=parse_time("updatedAt", given["updatedAt"]),
    )
    if scope.updated_at < scope.created_at:
        raise invalid("Invalid field: updatedAt (earlier than createdAt)")
    return Record(where, scope, _aliases(scope, given["aliases"]))


def _aliases(scope: Scope, given: object) -> tuple[tuple[str, int], ...]:
    rows: dict[str, int] = {}
    for one in given if isinstance(given, list) else [None]:
        if not isinstance(one, dict) or set(one) != {"name", "createdAt"}:
            raise invalid("Invalid field: aliases (expected a list of objects with name and createdAt)")
        name = check_alias(_text("aliases", one["name"]))
        if name in rows:
            raise invalid(f"Invalid field: aliases ({name} is given twice)")
        rows[name] = parse_time("aliases", one["createdAt"])
    if scope.alias not in rows:
        raise invalid(f"Invalid field: aliases ({scope.alias} is missing)")
    return tuple(rows.items())


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise invalid(f"Invalid field: {name} (expected a text)")
    return value


def _id(name: str, value: object) -> str:
    if not isinstance(value, str) or not is_id(value):
        raise invalid(f"Invalid field: {name} (expected a UUIDv7 in lower case)")
    return value


def _whole(name: str, value: object, high: int = MAX_TIME_MS) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
        raise invalid(f"Invalid field: {name} (expected a whole number from 0 to {high})")
    return value


def in_order(records: Iterable[Record]) -> list[Record]:
    """Put parents before children; those that are their own ancestors make a cycle, which is refused."""
    every = list(records)
    below: dict[str | None, list[Record]] = {}
    for record in every:
        below.setdefault(record.scope.parent_id, []).append(record)
    ordered = below.get(None, [])[:]
    for record in ordered:
        ordered += below.get(record.scope.id, [])
    if len(ordered) < len(every):
        raise ScopeError("CYCLE", "The scopes to import make a cycle: some are their own ancestors")
    return ordered


def numbered(records: Iterable[Record]) -> list[Record]:
    """Give siblings the positions of the order they are in."""
    counts: dict[str | None, int] = {}
    placed = []
    for record in records:
        place = counts.get(record.scope.parent_id, 0)
        counts[record.scope.parent_id] = place + 1
        placed.append(replace(record, scope=replace(record.scope, position=place)))
    return placed
