"""Export scopes as JSON lines, and parse such an export.

The first line is `{"carrelScopes":1}`. Then comes one scope a line, parents before children, in an order that depends
on stored values only, so that an import exports to the same bytes.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from carrel.core.arguments import Argument, Arguments, InvalidArguments
from carrel.core.errors import echo
from carrel.core.isotime import iso_ms
from carrel.core.limits import STORE_COMMAND_S
from carrel.core.record import Value, replace
from carrel.providers.scopes import queries
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.scope_errors import ScopeError, StoreFault, invalid
from carrel.providers.scopes.values import (
    MAX_POSITION,
    Scope,
    check_alias,
    check_description,
    check_status,
    check_title,
    is_id,
    parse_time,
    to_json,
)

LEAST_BYTES: Final = 64
"""Minimum bytes of a scope in a store: its id alone is stored more than twice."""

HEADER: Final = {"carrelScopes": 1}


class ExportedAlias(Value, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An alias of an exported scope."""

    name: str
    created_at: str


class ExportedScope(Value, frozen=True, rename="camel"):
    """One line of an export."""

    id: str
    alias: str
    aliases: list[ExportedAlias]
    title: str
    description: str | None
    status: str
    parent_id: str | None
    position: Annotated[int, Argument(ge=0, le=MAX_POSITION)]
    created_at: str
    updated_at: str


_FIELDS: Final = Arguments(ExportedScope)


class Record(Value, frozen=True):
    """One scope to import: its place in the source, its row, its aliases with their times."""

    where: str
    scope: Scope
    aliases: tuple[tuple[str, int], ...]


# Export


def export(connection: ScopesConnection, top: Scope | None) -> Iterator[str]:
    """Yield the lines of all scopes, or of one and everything below it, without line ends.

    Each scope has its own deadline, because a reader of the lines may be slow.
    """
    yield to_json(HEADER)
    size = connection.size()
    for number, scope in enumerate(_every(connection, top)):
        if number > size // LEAST_BYTES:
            raise StoreFault("the store is damaged: it lists more scopes than it can hold")
        connection.allow_time(STORE_COMMAND_S)
        is_top = top is not None and scope.id == top.id
        yield to_json(
            {
                "id": scope.id,
                "alias": scope.alias,
                "aliases": [
                    {"name": name, "createdAt": iso_ms(created_at)}
                    for name, created_at in queries.aliases_of(connection, scope)
                ],
                "title": scope.title,
                "description": scope.description,
                "status": scope.status,
                "parentId": None if is_top else scope.parent_id,
                "position": scope.position,
                "createdAt": iso_ms(scope.created_at),
                "updatedAt": iso_ms(scope.updated_at),
            }
        )


def _every(connection: ScopesConnection, top: Scope | None) -> Iterator[Scope]:
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


# Import


def parse(lines: Iterable[str | bytes]) -> Iterator[Record]:
    """Yield the records of an export; an error names the line."""
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


def _decoded(line: str | bytes) -> dict[str, object]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise invalid("not valid JSON") from None
    if not isinstance(given, dict):
        raise invalid("not a JSON object")
    return given


def _record(where: str, given: dict[str, object]) -> Record:
    try:
        line = _FIELDS.check(given)
    except InvalidArguments as error:
        problem = error.problems[0]
        words = {"unknown": "Unknown", "missing": "Missing"}.get(problem.fault)
        text = problem.text.replace("argument", "field", 1)
        raise invalid(text if words is None else f"{words} field: {echo(problem.name)}") from None
    scope = Scope(
        id=_id("id", line.id),
        alias=check_alias(line.alias),
        parent_id=None if line.parent_id is None else _id("parentId", line.parent_id),
        title=check_title(line.title),
        description=check_description(line.description),
        status=check_status(line.status),
        position=line.position,
        created_at=parse_time("createdAt", line.created_at),
        updated_at=parse_time("updatedAt", line.updated_at),
    )
    if scope.updated_at < scope.created_at:
        raise invalid("Invalid field: updatedAt (earlier than createdAt)")
    aliases: dict[str, int] = {}
    for one in line.aliases:
        name = check_alias(one.name)
        if name in aliases:
            raise invalid(f"Invalid field: aliases ({name} is given twice)")
        aliases[name] = parse_time("aliases", one.created_at)
    if scope.alias not in aliases:
        raise invalid(f"Invalid field: aliases ({scope.alias} is missing)")
    return Record(where, scope, tuple(aliases.items()))


def _id(name: str, text: str) -> str:
    if not is_id(text):
        raise invalid(f"Invalid field: {name} (expected a UUIDv7 in lower case)")
    return text


def in_order(records: Iterable[Record]) -> list[Record]:
    """Return the records with parents before children; raise `CYCLE` if a scope is its own ancestor."""
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
    """Return the records with siblings numbered in the present order."""
    counts: dict[str | None, int] = {}
    placed = []
    for record in records:
        place = counts.get(record.scope.parent_id, 0)
        counts[record.scope.parent_id] = place + 1
        placed.append(replace(record, scope=replace(record.scope, position=place)))
    return placed
