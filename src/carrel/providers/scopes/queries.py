"""Queries of the store, each one statement that an index answers.

Siblings have one order everywhere: position, then creation time, then id. No function begins or ends a transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from carrel.core.errors import BadCursor
from carrel.core.hashing import hex_sha256
from carrel.core.isotime import iso_ms
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.scope_errors import StoreFault
from carrel.providers.scopes.values import SCOPE_URI, TREE_URI, Scope, to_json

MAX_ALIASES: Final = 100_000
"""Maximum number of aliases of one scope: a damaged index may be endless, and must not fill the memory."""

MAX_SIBLINGS: Final = 1_000
"""Number of children that one query reads."""

NO_LIMIT: Final = 2**62
"""A limit above every number of rows."""

Sibling = tuple[str, Scope, bool]
"""A sort key, its scope, and whether the scope has children."""

FIELDS: Final = ", ".join(f"s.{column}" for column in Scope.__struct_fields__)
_MOST_INTEGER: Final = 2**63 - 1
_ORDER: Final = "ORDER BY position, created_at, id"


def find(connection: ScopesConnection, alias: str) -> Scope | None:
    """Return the scope that has an alias, canonical or secondary."""
    statement = f"SELECT {FIELDS} FROM aliases a CROSS JOIN scopes s ON s.id = a.scope_id WHERE a.name = ?"
    row = connection.execute(statement, (alias,)).fetchone()
    return None if row is None else Scope(*row)


def by_id(connection: ScopesConnection, scope_id: str) -> Scope | None:
    """Return the scope that has an id."""
    row = connection.execute(f"SELECT {FIELDS} FROM scopes s WHERE s.id = ?", (scope_id,)).fetchone()
    return None if row is None else Scope(*row)


def children(connection: ScopesConnection, parent_id: str | None, skip: int = 0, limit: int = NO_LIMIT) -> list[Scope]:
    """Return the direct children of a scope, or the roots, in order."""
    where, values = below(parent_id)
    statement = f"SELECT {FIELDS} FROM scopes s WHERE {where} {_ORDER} LIMIT ? OFFSET ?"
    return [Scope(*row) for row in connection.execute(statement, (*values, limit, skip))]


def below(parent_id: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the condition for the direct children of a scope, or for the roots, and its values."""
    return ("parent_id IS NULL", ()) if parent_id is None else ("parent_id = ?", (parent_id,))


def children_after(connection: ScopesConnection, parent_id: str | None, after: str) -> list[Sibling]:
    """Return the next children of a scope, or the next roots, after a sort key."""
    place = _place(after)
    where, values = below(parent_id)
    beyond = "" if place is None else "AND (position, created_at, id) > (CAST(? AS BIGINT), CAST(? AS BIGINT), ?)"
    statement = f"""
        SELECT {FIELDS}, EXISTS (SELECT 1 FROM scopes c WHERE c.parent_id = s.id)
        FROM scopes s WHERE {where} {beyond} {_ORDER} LIMIT ?"""
    rows = connection.execute(statement, (*values, *(place or ()), MAX_SIBLINGS))
    found = [(Scope(*row[:-1]), bool(row[-1])) for row in rows]
    return [(f"{one.position:020d} {one.created_at:020d} {one.id}", one, is_parent) for one, is_parent in found]


def _place(key: str) -> tuple[int, int, str] | None:
    """Return the position, the creation time and the id in a sort key; None if it is not a sort key."""
    if not key:
        return None
    try:
        position, created_at, scope_id = key.split(" ")
        place = int(position[:20]), int(created_at[:20])
    except ValueError:
        raise BadCursor from None
    if max(place) > _MOST_INTEGER or "\0" in scope_id:
        raise BadCursor
    return *place, scope_id


def every(connection: ScopesConnection, limit: int) -> list[Scope]:
    """Return all scopes, in any order."""
    return [Scope(*row) for row in connection.execute(f"SELECT {FIELDS} FROM scopes s LIMIT ?", (limit,))]


def child_aliases(connection: ScopesConnection, parent_id: str, limit: int = NO_LIMIT) -> list[str]:
    """Return the canonical aliases of the direct children, in order. The index alone answers this."""
    statement = f"SELECT alias FROM scopes WHERE parent_id = ? {_ORDER} LIMIT ?"
    return [alias for (alias,) in connection.execute(statement, (parent_id, limit))]


def child_ids(connection: ScopesConnection, parent_id: str | None) -> list[str]:
    """Return the ids of the direct children, or of the roots, in order."""
    where, values = below(parent_id)
    return [scope_id for (scope_id,) in connection.execute(f"SELECT id FROM scopes WHERE {where} {_ORDER}", values)]


def count_children(connection: ScopesConnection, parent_id: str | None) -> int:
    """Count the direct children, or the roots."""
    where, values = below(parent_id)
    return int(connection.execute(f"SELECT count(*) FROM scopes WHERE {where}", values).fetchone()[0])


def is_beneath(connection: ScopesConnection, scope_id: str, ancestor_id: str) -> bool:
    """Return whether a scope is the given ancestor, or below it."""
    statement = """
        WITH RECURSIVE up(id) AS (SELECT id FROM scopes WHERE id = ? UNION
          SELECT s.parent_id FROM up JOIN scopes s ON s.id = up.id)
        SELECT 1 FROM up WHERE id = ?"""
    return connection.execute(statement, (scope_id, ancestor_id)).fetchone() is not None


def aliases_of(connection: ScopesConnection, scope: Scope) -> list[tuple[str, int]]:
    """Return a scope's aliases with their times: the canonical one first, the others by name."""
    statement = "SELECT name, created_at FROM aliases WHERE scope_id = ? ORDER BY name LIMIT ?"
    rows = connection.execute(statement, (scope.id, MAX_ALIASES + 1)).fetchall()
    if len(rows) > MAX_ALIASES:
        raise StoreFault(f"the store is damaged: {scope.alias} has more than {MAX_ALIASES} aliases")
    return sorted(rows, key=lambda row: row[0] != scope.alias)


def holder(connection: ScopesConnection, alias: str) -> str | None:
    """Return the id of the scope that an alias belongs to."""
    row = connection.execute("SELECT scope_id FROM aliases WHERE name = ?", (alias,)).fetchone()
    return None if row is None else str(row[0])


def aliases_from(connection: ScopesConnection, prefix: str, limit: int) -> list[str]:
    """Return the aliases that begin with a text, by name."""
    # No character of an alias sorts after "z", so this range holds every continuation of the prefix.
    statement = "SELECT name FROM aliases WHERE name >= ? AND name < ? ORDER BY name LIMIT ?"
    return [name for (name,) in connection.execute(statement, (prefix, prefix + "{", limit))]


def matching(
    connection: ScopesConnection, parent: tuple[str | None] | None, statuses: Sequence[str], offset: int, limit: int
) -> tuple[list[Scope], int]:
    """Return a page of the children of `parent`, or of all scopes by alias, with these statuses, and their number."""
    # Without a condition SQLite counts whole pages and does not check the deadline; this one always holds.
    conditions, values, order = ["s.created_at >= 0"], list[object](), "ORDER BY s.alias"
    if parent is not None:
        where, found = below(parent[0])
        conditions, values, order = [f"s.{where}"], [*found], "ORDER BY s.position, s.created_at, s.id"
    if statuses:
        conditions.append(f"s.status IN ({','.join('?' * len(statuses))})")
        values += statuses
    where = " AND ".join(conditions)
    total = int(connection.execute(f"SELECT count(*) FROM scopes s WHERE {where}", values).fetchone()[0])
    statement = f"SELECT {FIELDS} FROM scopes s WHERE {where} {order} LIMIT ? OFFSET ?"
    return [Scope(*row) for row in connection.execute(statement, (*values, limit, offset))], total


def levels(connection: ScopesConnection, parents: Sequence[str], limit: int) -> Iterator[tuple[Any, ...]]:
    """Yield at most `limit` children of these parents: the parent's rank, id, alias, title, status, time of change."""
    source, values = connection.ranked(parents)
    yield from connection.execute(level_statement(source), (*values, limit))


def level_statement(source: str) -> str:
    """Return the statement for the children of the parents in `source`."""
    return f"""
    SELECT p.rank, c.id, c.alias, c.title, c.status, c.updated_at
    FROM {source} p CROSS JOIN scopes c ON c.parent_id = p.id
    ORDER BY p.rank, c.position, c.created_at, c.id LIMIT ?"""


WINDOW: Final = f"""
    SELECT 0, id, alias, title, status, updated_at FROM scopes WHERE parent_id = ? {_ORDER} LIMIT ? OFFSET ?"""


def window(connection: ScopesConnection, parent_id: str, skip: int, limit: int) -> Iterator[tuple[Any, ...]]:
    """Yield a window of one scope's children, in the form of `levels`."""
    yield from connection.execute(WINDOW, (parent_id, limit, skip))


# A scope as JSON


def describe(connection: ScopesConnection, scope: Scope, max_children: int) -> dict[str, Any]:
    """Return everything about a scope, as its resource shows it."""
    listed = child_aliases(connection, scope.id, max_children + 1)
    above = None if scope.parent_id is None else by_id(connection, scope.parent_id)
    parent = None if above is None else above.alias
    names = [name for name, _ in aliases_of(connection, scope)]
    omitted = count_children(connection, scope.id) - max_children if len(listed) > max_children else 0
    return as_described(scope, parent, names, listed[:max_children], omitted)


def as_described(
    scope: Scope, parent: str | None, names: list[str], children: list[str], omitted: int
) -> dict[str, Any]:
    """Return the description of a scope: its parent's alias, its own aliases, and the children that are listed."""
    links = [{"rel": "self", "uri": SCOPE_URI + scope.alias}, {"rel": "tree", "uri": TREE_URI + scope.alias}]
    if parent is not None:
        links.append({"rel": "parent", "uri": SCOPE_URI + parent})
    described: dict[str, Any] = {
        "id": scope.id,
        "alias": scope.alias,
        "title": scope.title,
        "status": scope.status,
        "children": children,
        "description": scope.description,
        "parent": parent,
        "aliases": names,
        "createdAt": iso_ms(scope.created_at),
        "updatedAt": iso_ms(scope.updated_at),
        "links": links,
    }
    if omitted:
        described["childrenOmitted"] = omitted
    return described


def etag(scope: Scope, described: Mapping[str, Any], text: str) -> str:
    """Return the ETag of a scope with this description and JSON text. The number grows when the JSON's shape changes.

    For a scope without parent, children and secondary aliases, the time of change is enough. For any other scope the
    ETag also depends on the text, which changes with other scopes, with settings, and with partial imports.
    """
    is_alone = described["parent"] is None and not described["children"] and len(described["aliases"]) == 1
    is_alone = is_alone and "childrenOmitted" not in described
    return hex_sha256(f"scope:1:{scope.id}:{scope.updated_at}{'' if is_alone else f':{text}'}")


def current_etag(connection: ScopesConnection, scope: Scope, max_children: int) -> str:
    """Return the ETag that the resource of a scope has now."""
    described = describe(connection, scope, max_children)
    return etag(scope, described, to_json(described))


def beneath(connection: ScopesConnection, parents: Sequence[str]) -> Iterator[Scope]:
    """Yield all children of these parents, in the order of the parents and then of siblings."""
    source, values = connection.ranked(parents)
    statement = f"""
        SELECT {FIELDS} FROM {source} p CROSS JOIN scopes s ON s.parent_id = p.id
        ORDER BY p.rank, s.position, s.created_at, s.id"""
    for row in connection.execute(statement, values):
        yield Scope(*row)
