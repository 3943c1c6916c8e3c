"""Tool calls: arguments checked against their schemas, work done, results told.

A call that fails is a result too: one text with the error, its code and its status. With
an idempotency key the result is kept in the very transaction that made it, so that the
same call, in whatever process, gets the same answer and does nothing.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from carrel.core.errors import echo
from carrel.core.model import ResourceLink, ToolResult
from carrel.core.record import Value
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.changes import Change, Move
from carrel.providers.scopes.scope_errors import Archived, ScopeError, StoreFault, invalid, not_found
from carrel.providers.scopes.sqlite import Connection
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.tool_schemas import DEFAULT_PAGE, KEY, KEY_PATTERN, TOOLS
from carrel.providers.scopes.values import (
    SCOPE_URI,
    Scope,
    check_alias,
    check_description,
    check_status,
    check_title,
    hex_sha256,
    now_ms,
    parse_time,
    to_json,
)

log = logging.getLogger(__name__)

KEPT_MS: Final = 24 * 3_600_000
MAX_KEYS: Final = 10_000

Result = dict[str, Any]


class Task(Value, frozen=True):
    """A call under way: where it reads or writes, when, and with which arguments."""

    connection: Connection
    now: int
    given: Mapping[str, Any]
    max_children: int

    def scope(self, name: str) -> Scope:
        """Give the scope that an argument names."""
        return _find(self.connection, self.given[name])

    def told(self, scope: Scope) -> Result:
        """Give a scope as its resource shows it."""
        return queries.describe(self.connection, scope, self.max_children)

    def names(self, scope: Scope) -> list[str]:
        """Give a scope's aliases."""
        return [name for name, _ in queries.aliases_of(self.connection, scope)]


def call(store: Store, name: str, arguments: Mapping[str, object], max_children: int) -> ToolResult:
    """Run a tool; whatever is wrong is told in its result."""
    try:
        given = check_arguments(name, arguments)
        result = (
            _write(store, name, given, max_children) if name in _WRITERS else _read(store, name, given, max_children)
        )
    except ScopeError as error:
        text = error.text
        if isinstance(error, StoreFault):
            log.error("%s: %s", name, error.text)
            text = error.shown
        elif isinstance(error, Archived):
            text = error.with_way_back("scopes.update with restore true")
        return ToolResult((to_json({"error": text, "code": error.code, "status": error.status}),), is_error=True)
    blocks: list[str | ResourceLink] = [to_json(result)]
    if "links" in result:
        blocks.append(ResourceLink(SCOPE_URI + result["alias"], result["alias"], None, "application/json"))
    return ToolResult(tuple(blocks), result)


# Arguments


def check_arguments(name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Give the arguments if they fit the tool's schema, or say what does not."""
    schema: Mapping[str, Any] = TOOLS[name].input_schema
    known = schema["properties"]
    for argument, value in arguments.items():
        if argument not in known:
            raise invalid(f"Unknown parameter: {echo(argument)} (known: {', '.join(known)})")
        _check_value(argument, value, known[argument])
    for argument in schema.get("required", ()):
        if argument not in arguments:
            raise invalid(f"Missing required parameter: {argument}")
    key = arguments.get(KEY)
    if isinstance(key, str) and not re.fullmatch(KEY_PATTERN.strip("^$"), key):
        raise ScopeError("INVALID_IDEMPOTENCY_KEY", "Invalid idempotency key format")
    return dict(arguments)


def _check_value(name: str, value: object, schema: Mapping[str, Any]) -> None:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_is_of(kind, value) for kind in kinds):
        raise invalid(f"Invalid parameter: {name} (expected {' or '.join(kinds)})")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        raise invalid(f"Invalid parameter: {name} (expected at least 1 character)")
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**63 - 1)
        if not low <= value <= high:
            raise invalid(f"Invalid parameter: {name}={value} (expected an integer from {low} to {high})")


def _is_of(kind: str, value: object) -> bool:
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "boolean": bool, "null": type(None)}[kind])


# Reading


def _read(store: Store, name: str, given: Mapping[str, Any], max_children: int) -> Result:
    with store.reading() as connection:
        if connection is None:
            if name == "scopes.roots":
                return {"roots": [], "total": 0, "nextSkip": None}
            raise not_found(check_alias(given["parentAlias" if name == "scopes.children" else "alias"]))
        return _READERS[name](Task(connection, 0, given, max_children))


def _get(task: Task) -> Result:
    return task.told(task.scope("alias"))


def _children(task: Task) -> Result:
    parent = task.scope("parentAlias")
    return {"parent": parent.alias, **_page(task, parent.id, "children")}


def _roots(task: Task) -> Result:
    return _page(task, None, "roots")


def _page(task: Task, parent_id: str | None, name: str) -> Result:
    skip, limit = task.given.get("skip", 0), task.given.get("limit", DEFAULT_PAGE)
    found = queries.children(task.connection, parent_id, skip, limit)
    total = queries.count_children(task.connection, parent_id)
    following = skip + len(found)
    rows = [
        {"alias": one.alias, "title": one.title, "status": one.status, "description": one.description} for one in found
    ]
    return {name: rows, "total": total, "nextSkip": following if found and following < total else None}


def _resolve(task: Task) -> Result:
    scope = task.scope("alias")
    return {
        "alias": check_alias(task.given["alias"]),
        "canonicalAlias": scope.alias,
        "title": scope.title,
        "status": scope.status,
    }


# Writing


def _write(store: Store, name: str, given: Mapping[str, Any], max_children: int) -> Result:
    """Do it, or find that it was done: both in one transaction."""
    key = given.get(KEY)
    _check_values(given)
    if store.identity() is None and name != "scopes.create":
        raise not_found(check_alias(given["alias" if "alias" in given else "scopeAlias"]))
    if name == "scopes.create" and store.identity() is None and "parentAlias" in given:
        raise not_found(check_alias(given["parentAlias"]))
    with store.writing() as connection:
        now = now_ms()
        digest = hex_sha256(to_json({one: given[one] for one in sorted(given) if one != KEY}))
        kept = None if key is None else _kept(connection, now, name, key, digest)
        if kept is not None:
            return kept
        result = _WRITERS[name](Task(connection, now, given, max_children))
        if key is not None:
            _keep(connection, (name, key, digest, to_json(result), now))
        return result


def _check_values(given: Mapping[str, Any]) -> None:
    """Refuse what no store would take, before one is made for it."""
    checks: dict[str, Callable[[str], object]] = {
        "title": check_title,
        "description": check_description,
        "status": check_status,
        "alias": check_alias,
        "parentAlias": check_alias,
        "customAlias": check_alias,
        "scopeAlias": check_alias,
        "newAlias": check_alias,
    }
    for name, check in checks.items():
        if name in given:
            check(given[name])


def _kept(connection: Connection, now: int, tool: str, key: str, digest: str) -> Result | None:
    """Give the result that was kept for a key, if it was the same call."""
    statement = "SELECT args_hash, result FROM idempotency WHERE tool = ? AND key = ? AND created_at > ?"
    with connection.long_texts():
        row = connection.execute(statement, (tool, key, now - KEPT_MS)).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise ScopeError("IDEMPOTENCY_CONFLICT", "The idempotency key was used with other arguments")
    result: Result = json.loads(row[1])
    return result


def _keep(connection: Connection, row: tuple[str, str, str, str, int]) -> None:
    with connection.long_texts():
        connection.execute("INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)", row)
    # Without the condition SQLite would count page by page, and not look at the deadline meanwhile.
    surplus = connection.execute("SELECT count(*) FROM idempotency WHERE created_at > 0").fetchone()[0] - MAX_KEYS
    if surplus > 0:
        connection.execute(
            "DELETE FROM idempotency WHERE (tool, key) IN "
            "(SELECT tool, key FROM idempotency ORDER BY created_at, tool, key LIMIT ?)",
            (surplus,),
        )


def _create(task: Task) -> Result:
    given = task.given
    scope = changes.create(
        task.connection,
        task.now,
        title=check_title(given["title"]),
        description=check_description(given.get("description")),
        parent=task.scope("parentAlias") if "parentAlias" in given else None,
        alias=check_alias(given["customAlias"]) if "customAlias" in given else None,
        status=check_status(given.get("status", "TODO")),
    )
    return task.told(scope)


def _update(task: Task) -> Result:
    given = task.given
    expected = given.get("expectedUpdatedAt")
    change = Change(
        title=check_title(given["title"]) if "title" in given else None,
        description=(check_description(given["description"]) or "") if "description" in given else None,
        status=check_status(given["status"]) if "status" in given else None,
        is_restored=given.get("restore", False),
        expected_updated_at=None if expected is None else parse_time("expectedUpdatedAt", expected),
    )
    return task.told(changes.update(task.connection, task.now, task.scope("alias"), change))


def _move(task: Task) -> Result:
    given = task.given
    if not given.keys() & {"newParentAlias", "before", "after"}:
        raise invalid("Missing required parameter: newParentAlias, before or after")
    if "before" in given and "after" in given:
        raise invalid("Invalid parameter: before and after (give one of them)")
    parent = given.get("newParentAlias")
    where = Move(
        leaves="newParentAlias" in given,
        parent=None if parent is None else task.scope("newParentAlias"),
        before=task.scope("before") if "before" in given else None,
        after=task.scope("after") if "after" in given else None,
    )
    return task.told(changes.move(task.connection, task.now, task.scope("alias"), where))


def _delete(task: Task) -> Result:
    scope = task.scope("alias")
    count = changes.delete(task.connection, task.now, scope, cascade=task.given.get("cascade", False))
    return {"alias": scope.alias, "deleted": True, "count": count}


def _add_alias(task: Task) -> Result:
    name, is_canonical = check_alias(task.given["newAlias"]), task.given.get("makeCanonical", False)
    scope = changes.add_alias(task.connection, task.now, task.scope("scopeAlias"), name, is_canonical=is_canonical)
    return {"scope": scope.alias, "alias": name, "canonical": is_canonical, "aliases": task.names(scope)}


def _remove_alias(task: Task) -> Result:
    name = check_alias(task.given["aliasToRemove"])
    scope = changes.remove_alias(task.connection, task.now, task.scope("scopeAlias"), name)
    return {"scope": scope.alias, "removed": name, "aliases": task.names(scope)}


def _set_canonical(task: Task) -> Result:
    name = check_alias(task.given["newCanonicalAlias"])
    scope = changes.set_canonical(task.connection, task.now, task.scope("scopeAlias"), name)
    return {"scope": scope.alias, "aliases": task.names(scope)}


def _find(connection: Connection, text: str) -> Scope:
    alias = check_alias(text)
    scope = queries.find(connection, alias)
    if scope is None:
        raise not_found(alias)
    return scope


_READERS: Final[dict[str, Callable[[Task], Result]]] = {
    "scopes.get": _get,
    "scopes.children": _children,
    "scopes.roots": _roots,
    "aliases.resolve": _resolve,
}
_WRITERS: Final[dict[str, Callable[[Task], Result]]] = {
    "scopes.create": _create,
    "scopes.update": _update,
    "scopes.move": _move,
    "scopes.delete": _delete,
    "aliases.add": _add_alias,
    "aliases.remove": _remove_alias,
    "aliases.setCanonical": _set_canonical,
}
