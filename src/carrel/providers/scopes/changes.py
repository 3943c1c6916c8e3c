"""Changes of scopes. Each function runs inside a writing transaction, and checks before it changes.

Every change of a scope's JSON moves its `updated_at` forward: of its values, aliases, list of children, or its parent's
canonical alias. A call that changes nothing leaves `updated_at` alone.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from carrel.core.errors import echo
from carrel.core.record import Value
from carrel.providers.scopes import queries
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.scope_errors import Archived, ScopeError, invalid
from carrel.providers.scopes.values import MAX_POSITION, SCOPE_URI, Scope, invent_alias, new_id
from carrel.stores.constraints import ConstraintViolated

TRIES: Final = 20
"""Maximum attempts to generate a free alias: with two of three names taken, one call in three thousand fails."""


class Change(Value, frozen=True):
    """The new values of an update. None leaves a value alone, and an empty description clears it."""

    title: str | None = None
    description: str | None = None
    status: str | None = None
    is_restored: bool = False
    expected_updated_at: int | None = None


class Move(Value, frozen=True):
    """The goal of a move. With `leaves`, the new parent is `parent`, or None for a root; else the parent stays."""

    leaves: bool = True
    parent: Scope | None = None
    before: Scope | None = None
    after: Scope | None = None


# Scopes


def create(
    connection: ScopesConnection,
    now: int,
    *,
    title: str,
    description: str | None = None,
    parent: Scope | None = None,
    alias: str | None = None,
    status: str = "TODO",
) -> Scope:
    """Add a scope after its last sibling. The values must be checked."""
    parent_id = None if parent is None else parent.id
    scope = Scope(
        id=new_id(now),
        alias=alias or free_alias(connection),
        parent_id=parent_id,
        title=title,
        description=description,
        status=status,
        position=next_position(connection, parent_id),
        created_at=now,
        updated_at=now,
    )
    insert(connection, scope, [(scope.alias, now)])
    touch(connection, now, parent_id)
    connection.record(SCOPE_URI + scope.alias, None, _etag(connection, scope))
    return scope


def insert(connection: ScopesConnection, scope: Scope, aliases: Iterable[tuple[str, int]]) -> None:
    """Insert a row as it is, with its aliases."""
    with _named(scope.alias, scope.title):
        columns = Scope.__struct_fields__
        statement = f"INSERT INTO scopes ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        connection.execute(statement, [getattr(scope, column) for column in columns])
    for name, created_at in aliases:
        insert_alias(connection, name, scope.id, created_at)


def update(connection: ScopesConnection, now: int, scope: Scope, change: Change) -> Scope:
    """Set the values that differ; only their columns are written."""
    expected = change.expected_updated_at
    if expected is not None and expected != scope.updated_at:
        raise ScopeError("STALE", f"Scope was changed meanwhile: {scope.alias}")
    status = _next_status(scope, change)
    before = _etag(connection, scope)
    new: dict[str, object] = {}
    if change.title is not None and change.title != scope.title:
        new["title"] = change.title
    if change.description is not None and (change.description or None) != scope.description:
        new["description"] = change.description or None
    if status != scope.status:
        new["status"] = status
        if scope.status == "ARCHIVED":
            connection.execute("UPDATE scopes SET status = 'TODO' WHERE id = ?", (scope.id,))
    if new:
        with _named(scope.alias, change.title or scope.title):
            assignments = ", ".join(f"{column} = ?" for column in new)
            connection.execute(f"UPDATE scopes SET {assignments} WHERE id = ?", (*new.values(), scope.id))
        touch(connection, now, scope.id)
        return _recorded(connection, scope, before)
    return scope


def _next_status(scope: Scope, change: Change) -> str:
    status = "TODO" if change.is_restored and scope.status == "ARCHIVED" else scope.status
    if change.status is None or change.status == status:
        return status
    if status == "ARCHIVED":
        raise Archived(scope.alias)
    return change.status


def move(connection: ScopesConnection, now: int, scope: Scope, where: Move) -> Scope:
    """Move a scope below another parent, or among its siblings."""
    goal = None if where.parent is None else where.parent.id
    parent_id = goal if where.leaves else scope.parent_id
    beside = where.before or where.after
    if beside is not None and (beside.id == scope.id or beside.parent_id != parent_id):
        raise invalid(f"Invalid parameter: {beside.alias} is not a sibling under that parent")
    if parent_id == scope.parent_id and beside is None:
        return scope
    if parent_id is not None and queries.is_beneath(connection, parent_id, scope.id):
        raise ScopeError("CYCLE", f"Cannot move a scope under itself or a descendant: {scope.alias}")
    etag = _etag(connection, scope)
    before = queries.child_ids(connection, parent_id) if beside is not None else []
    if parent_id != scope.parent_id:
        with _named(scope.alias, scope.title):
            connection.execute(
                "UPDATE scopes SET parent_id = ?, position = ? WHERE id = ?",
                (parent_id, next_position(connection, parent_id), scope.id),
            )
        touch(connection, now, scope.id, scope.parent_id, parent_id)
    if beside is not None:
        after = [one for one in before if one != scope.id]
        after.insert(after.index(beside.id) + (where.before is None), scope.id)
        renumber(connection, after)
        if parent_id == scope.parent_id and after != before:
            touch(connection, now, parent_id)
    return _recorded(connection, scope, etag)


def delete(connection: ScopesConnection, now: int, scope: Scope, *, cascade: bool) -> int:
    """Delete a scope and, with `cascade`, everything below it; return the number of scopes deleted."""
    count = queries.count_children(connection, scope.id)
    if count and not cascade:
        raise ScopeError("HAS_CHILDREN", f"Scope has {count} children: {scope.alias}")
    if count and connection.audited_children is not None:
        from carrel.providers.scopes.deleted_etags import etags_beneath  # only where there is an audit record

        for alias, etag in etags_beneath(connection, scope, connection.audited_children):
            connection.audit(SCOPE_URI + alias, etag)
    before = _etag(connection, scope)
    removed = connection.count_changed(
        """WITH RECURSIVE beneath(id) AS (SELECT id FROM scopes WHERE id = ? UNION ALL
             SELECT s.id FROM beneath JOIN scopes s ON s.parent_id = beneath.id)
           DELETE FROM scopes WHERE id IN (SELECT id FROM beneath)""",
        (scope.id,),
    )
    touch(connection, now, scope.parent_id)
    connection.record(SCOPE_URI + scope.alias, before)
    return removed


# Aliases


def add_alias(connection: ScopesConnection, now: int, scope: Scope, name: str, *, is_canonical: bool = False) -> Scope:
    """Add an alias to a scope."""
    before = _etag(connection, scope)
    insert_alias(connection, name, scope.id, now)
    if is_canonical:
        return _make_canonical(connection, now, scope, name, before)
    touch(connection, now, scope.id)
    return _recorded(connection, scope, before)


def remove_alias(connection: ScopesConnection, now: int, scope: Scope, name: str) -> Scope:
    """Remove an alias of a scope."""
    _check_holder(connection, scope, name)
    if name == scope.alias:
        raise ScopeError("CANNOT_REMOVE_CANONICAL", f"Cannot remove canonical alias: {name}")
    before = _etag(connection, scope)
    connection.execute("DELETE FROM aliases WHERE name = ?", (name,))
    touch(connection, now, scope.id)
    return _recorded(connection, scope, before)


def rename_alias(connection: ScopesConnection, now: int, old: str, new: str) -> Scope:
    """Rename an alias, which stays canonical or secondary."""
    scope = queries.find(connection, old)
    if scope is None:
        raise ScopeError("ALIAS_NOT_FOUND", f"Alias not found: {old}")
    if old == new:
        return scope
    before = _etag(connection, scope)
    with _named(new, ""):
        connection.execute("UPDATE aliases SET name = ? WHERE name = ?", (new, old))
    touch(connection, now, scope.id)
    if old == scope.alias:
        _touch_around(connection, now, scope)
    return _recorded(connection, scope, before)


def set_canonical(connection: ScopesConnection, now: int, scope: Scope, name: str) -> Scope:
    """Make one of a scope's aliases the canonical one."""
    _check_holder(connection, scope, name)
    if name == scope.alias:
        return scope
    return _make_canonical(connection, now, scope, name, _etag(connection, scope))


def _make_canonical(connection: ScopesConnection, now: int, scope: Scope, name: str, before: str | None) -> Scope:
    connection.execute("UPDATE scopes SET alias = ? WHERE id = ?", (name, scope.id))
    touch(connection, now, scope.id)
    _touch_around(connection, now, scope)
    return _recorded(connection, scope, before)


def _check_holder(connection: ScopesConnection, scope: Scope, name: str) -> None:
    holder = queries.holder(connection, name)
    if holder is None:
        raise ScopeError("ALIAS_NOT_FOUND", f"Alias not found: {name}")
    if holder != scope.id:
        raise ScopeError("ALIAS_OF_DIFFERENT_SCOPE", f"Alias belongs to different scope: {name}")


def insert_alias(connection: ScopesConnection, name: str, scope_id: str, created_at: int) -> None:
    """Insert the row of an alias."""
    with _named(name, ""):
        connection.execute("INSERT INTO aliases VALUES (?, ?, ?)", (name, scope_id, created_at))


def free_alias(connection: ScopesConnection) -> str:
    """Return a generated alias that is free."""
    for _ in range(TRIES):
        alias = invent_alias()
        if queries.holder(connection, alias) is None:
            return alias
    raise ScopeError("ALIAS_GENERATION_FAILED", "No free alias was found; choose one yourself")


# Positions and times


def next_position(connection: ScopesConnection, parent_id: str | None) -> int:
    """Return the position after the last sibling."""
    where, values = queries.below(parent_id)
    statement = f"SELECT position FROM scopes WHERE {where} ORDER BY position DESC LIMIT 1"
    row = connection.execute(statement, values).fetchone()
    if row is not None and row[0] >= MAX_POSITION:
        siblings = queries.child_ids(connection, parent_id)
        renumber(connection, siblings)
        return len(siblings)
    return 0 if row is None else int(row[0]) + 1


def renumber(connection: ScopesConnection, siblings: Iterable[str]) -> None:
    """Number siblings from 0, in this order."""
    rows = ((place, one, place) for place, one in enumerate(siblings))
    connection.executemany("UPDATE scopes SET position = ? WHERE id = ? AND position <> ?", rows)


_FORWARD: Final = (
    "UPDATE scopes SET updated_at = CASE WHEN updated_at + 1 < CAST(? AS BIGINT) THEN CAST(? AS BIGINT) "
    "ELSE updated_at + 1 END"
)
"""Moves a time to the given one, or by one millisecond if it is there already."""


def touch(connection: ScopesConnection, now: int, *ids: str | None) -> None:
    """Move the `updated_at` of these scopes forward."""
    rows = ((now, now, one) for one in dict.fromkeys(ids) if one is not None)
    connection.executemany(f"{_FORWARD} WHERE id = ?", rows)


def _touch_around(connection: ScopesConnection, now: int, scope: Scope) -> None:
    """Touch the scopes whose JSON has this scope's canonical alias: its parent and its children."""
    touch(connection, now, scope.parent_id)
    connection.execute(f"{_FORWARD} WHERE parent_id = ?", (now, now, scope.id))


def _recorded(connection: ScopesConnection, scope: Scope, before: str | None) -> Scope:
    """Return the scope as it is now, after a change that is recorded with the ETags before and after."""
    found = queries.by_id(connection, scope.id)
    assert found is not None, "a scope does not vanish inside a transaction"
    connection.record(SCOPE_URI + scope.alias, before, _etag(connection, found))
    return found


def _etag(connection: ScopesConnection, scope: Scope) -> str | None:
    """Return the ETag of a scope if changes are audited; else None."""
    children = connection.audited_children
    return None if children is None else queries.current_etag(connection, scope, children)


@contextmanager
def _named(alias: str, title: str) -> Iterator[None]:
    """Turn a broken unique constraint into an error that names the alias or the title."""
    try:
        yield
    except (sqlite3.IntegrityError, ConstraintViolated) as error:
        broken = str(error) if isinstance(error, sqlite3.IntegrityError) else error.constraint or ""
        if "sibling_title" in broken:
            raise ScopeError("DUPLICATE_TITLE", f"Duplicate title: {echo(title)}") from None
        if any(name in broken for name in ("aliases.name", "scopes.alias", "alias_name", "scope_alias")):
            raise ScopeError("DUPLICATE_ALIAS", f"Alias already exists: {alias}") from None
        raise
