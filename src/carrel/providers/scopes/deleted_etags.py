"""The ETags of all scopes below another one, for the rows of the audit record when they are deleted together."""

from typing import Final

from carrel.providers.scopes import queries
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.values import Scope, to_json

_BENEATH: Final = """
    WITH RECURSIVE beneath(id) AS (SELECT id FROM scopes WHERE id = ? UNION ALL
      SELECT s.id FROM beneath JOIN scopes s ON s.parent_id = beneath.id)"""


def etags_beneath(connection: ScopesConnection, top: Scope, max_children: int) -> list[tuple[str, str]]:
    """Return the alias and the ETag of every scope below another one, at any depth, with two statements."""
    source = "FROM beneath JOIN scopes s ON s.id = beneath.id"
    order = "ORDER BY s.position, s.created_at, s.id"
    found = [
        Scope(*row) for row in connection.execute(f"{_BENEATH} SELECT {queries.FIELDS} {source} {order}", (top.id,))
    ]
    above = {one.id: one.alias for one in found}
    children: dict[str | None, list[str]] = {}
    for one in found:
        children.setdefault(one.parent_id, []).append(one.alias)
    names: dict[str, list[str]] = {}
    statement = f"{_BENEATH} SELECT s.id, a.name {source} JOIN aliases a ON a.scope_id = s.id ORDER BY a.name"
    for scope_id, name in connection.execute(statement, (top.id,)):
        names.setdefault(scope_id, []).append(name)
    etags = []
    for one in found:
        if one.id == top.id or one.parent_id is None:
            continue
        own = sorted(names.get(one.id, []), key=one.alias.__ne__)
        listed = children.get(one.id, [])
        described = queries.as_described(
            one, above[one.parent_id], own, listed[:max_children], len(listed[max_children:])
        )
        etags.append((one.alias, queries.etag(one, described, to_json(described))))
    return etags
