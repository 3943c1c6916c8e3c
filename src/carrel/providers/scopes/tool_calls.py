"""The tool calls of scopes.

With an idempotency key, the result is stored in the transaction that made the change. The same call in any process then
returns the stored result and changes nothing.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from carrel.core.arguments import UNSET, InvalidArguments
from carrel.core.content import matches
from carrel.core.hashing import hex_sha256
from carrel.core.isotime import now_ms
from carrel.core.model import ResourceLink, ToolResult
from carrel.core.record import Value, replace
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.changes import Change, Move
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.scope_errors import Archived, ScopeConflict, ScopeError, StoreFault, invalid, not_found
from carrel.providers.scopes.tool_schemas import (
    ARGUMENTS,
    KEY,
    KEY_PATTERN,
    AddAlias,
    CreateScope,
    DeleteScope,
    ListChildren,
    ListRoots,
    MoveScope,
    OneScope,
    RemoveAlias,
    SetCanonicalAlias,
    UpdateScope,
)
from carrel.providers.scopes.values import (
    SCOPE_URI,
    Scope,
    check_alias,
    check_description,
    check_status,
    check_title,
    parse_time,
    to_json,
)

log = logging.getLogger(__name__)

KEPT_MS: Final = 24 * 3_600_000
MAX_KEYS: Final = 10_000

Result = dict[str, Any]


class ToolRun(Value, frozen=True):
    """A running tool call: the connection that it uses, and the time of its changes."""

    connection: ScopesConnection
    now: int
    max_children: int
    if_match: str | None = None

    def find(self, alias: str) -> Scope:
        """Return the scope that has this alias, or raise `SCOPE_NOT_FOUND`."""
        scope = queries.find(self.connection, alias)
        if scope is None:
            raise not_found(alias)
        return scope

    def find_unchanged(self, alias: str) -> Scope:
        """Return the scope that a call changes; raise `ScopeConflict` if it is not the version the caller has read."""
        scope = self.find(alias)
        if self.if_match is not None:
            current = queries.current_etag(self.connection, scope, self.max_children)
            if not matches(self.if_match, current):
                raise ScopeConflict(scope.alias, self.if_match, current)
        return scope

    def describe(self, scope: Scope) -> Result:
        """Return a scope as its resource shows it."""
        return queries.describe(self.connection, scope, self.max_children)

    def aliases(self, scope: Scope) -> list[str]:
        """Return a scope's aliases, the canonical one first."""
        return [name for name, _ in queries.aliases_of(self.connection, scope)]


def call(store: ScopesStore, name: str, arguments: Mapping[str, object], max_children: int) -> ToolResult:
    """Run a tool. Every failure is a result with the error, its code and its status."""
    try:
        given = check_arguments(name, arguments)
        if name in _WRITERS:
            result = _write(store, name, given, arguments, max_children)
        else:
            result = _read(store, name, given, max_children)
    except ScopeError as error:
        text = error.text
        if isinstance(error, StoreFault):
            log.error("%s: %s", name, error.text)
            text = error.shown
        elif isinstance(error, Archived):
            text = error.with_advice("scopes.update with restore true")
        answer: Result = {"error": text, "code": error.code, "status": error.status}
        if isinstance(error, ScopeConflict):
            return conflict_result(answer, error.given, error.current)
        meta = {"dev.carrel/error": "unavailable"} if error.code == "UNAVAILABLE" else None
        return ToolResult((to_json(answer),), is_error=True, meta=meta)
    blocks: list[str | ResourceLink] = [to_json(result)]
    if "links" in result:
        blocks.append(ResourceLink(SCOPE_URI + result["alias"], result["alias"], None, "application/json"))
    return ToolResult(tuple(blocks), result)


def conflict_result(answer: Result, given: str, current: str) -> ToolResult:
    """Return the result of a call that changed nothing, because the resource is another version, with both ETags."""
    meta = {"dev.carrel/error": "conflict", "dev.carrel/if-match": given, "dev.carrel/etag": current}
    return ToolResult((to_json({**answer, "ifMatch": given, "etag": current}),), is_error=True, meta=meta)


# Arguments

_ALIASES: Final = (
    "alias parent_alias custom_alias scope_alias new_alias alias_to_remove new_canonical_alias new_parent_alias "
    "before after"
).split()
_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "title": check_title,
    "description": lambda text: check_description(text) or "",
    "status": check_status,
    **dict.fromkeys(_ALIASES, check_alias),
}
"""How the text of an argument becomes the value that is stored or looked up."""


def check_arguments(name: str, arguments: Mapping[str, object]) -> Value:
    """Return the arguments of a tool, normalised, or raise an error that names what is wrong."""
    try:
        given: Value = ARGUMENTS[name].check(arguments)
    except InvalidArguments as error:
        texts = [
            f"Missing required parameter: {problem.name}" if problem.fault == "missing" else problem.text
            for problem in error.problems
        ]
        raise invalid("; ".join(texts)) from None
    key = getattr(given, "idempotency_key", None)
    if key is not None and not re.fullmatch(KEY_PATTERN.strip("^$"), key):
        raise ScopeError("INVALID_IDEMPOTENCY_KEY", "Invalid idempotency key format")
    values = {name: getattr(given, name) for name in given.__struct_fields__ if name in _CHECKS}
    return replace(given, **{name: _CHECKS[name](value) for name, value in values.items() if isinstance(value, str)})


def _subject(given: Value) -> str | None:
    """Return the alias of the scope that must exist before a call can do anything."""
    names = ("alias", "scope_alias", "parent_alias")
    return next((getattr(given, name) for name in names if getattr(given, name, None)), None)


# Reading


def _read(store: ScopesStore, name: str, given: Value, max_children: int) -> Result:
    with store.reading() as connection:
        if connection is not None:
            return _READERS[name](ToolRun(connection, 0, max_children), given)
        subject = _subject(given)
        if subject is not None:
            raise not_found(subject)
        return {"roots": [], "total": 0, "nextSkip": None}


def _get(run: ToolRun, given: OneScope) -> Result:
    return run.describe(run.find(given.alias))


def _children(run: ToolRun, given: ListChildren) -> Result:
    parent = run.find(given.parent_alias)
    return {"parent": parent.alias, **_page(run, parent.id, "children", given)}


def _roots(run: ToolRun, given: ListRoots) -> Result:
    return _page(run, None, "roots", given)


def _page(run: ToolRun, parent_id: str | None, name: str, given: ListChildren | ListRoots) -> Result:
    found = queries.children(run.connection, parent_id, given.skip, given.limit)
    total = queries.count_children(run.connection, parent_id)
    following = given.skip + len(found)
    rows = [{key: getattr(one, key) for key in ("alias", "title", "status", "description")} for one in found]
    return {name: rows, "total": total, "nextSkip": following if found and following < total else None}


def _resolve(run: ToolRun, given: OneScope) -> Result:
    scope = run.find(given.alias)
    return {"alias": given.alias, "canonicalAlias": scope.alias, "title": scope.title, "status": scope.status}


# Writing


def _write(store: ScopesStore, name: str, given: Value, arguments: Mapping[str, object], max_children: int) -> Result:
    """Run a tool and store its result for its key, or return the stored result: in one transaction."""
    subject = _subject(given)
    if subject is not None and store.identity() is None:
        raise not_found(subject)  # a call that fails creates no store
    key = arguments.get(KEY)
    with store.writing() as connection:
        now = now_ms()
        run = ToolRun(connection, now, max_children, getattr(given, "if_match", None))
        if key is None:
            return _WRITERS[name](run, given)
        digest = hex_sha256(to_json({one: arguments[one] for one in sorted(arguments) if one != KEY}))
        stored = _stored(connection, now, name, str(key), digest)
        if stored is None:
            stored = _WRITERS[name](run, given)
            _store(connection, (name, str(key), digest, to_json(stored), now))
        return stored


def _stored(connection: ScopesConnection, now: int, tool: str, key: str, digest: str) -> Result | None:
    """Return the stored result of a key; None if there is none. Raise if the key was used for another call."""
    statement = "SELECT args_hash, result FROM idempotency WHERE tool = ? AND key = ? AND created_at > ?"
    with connection.long_texts():
        row = connection.execute(statement, (tool, key, now - KEPT_MS)).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise ScopeError("IDEMPOTENCY_CONFLICT", "The idempotency key was used with other arguments")
    result: Result = json.loads(row[1])
    return result


def _store(connection: ScopesConnection, row: tuple[str, str, str, str, int]) -> None:
    with connection.long_texts():
        connection.execute(
            "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?) ON CONFLICT (tool, key) DO UPDATE SET "
            "args_hash = excluded.args_hash, result = excluded.result, created_at = excluded.created_at",
            row,
        )
    # Without the condition SQLite would count page by page, and not check the deadline meanwhile.
    surplus = connection.execute("SELECT count(*) FROM idempotency WHERE created_at > 0").fetchone()[0] - MAX_KEYS
    if surplus > 0:
        connection.execute(
            "DELETE FROM idempotency WHERE (tool, key) IN "
            "(SELECT tool, key FROM idempotency ORDER BY created_at, tool, key LIMIT ?)",
            (surplus,),
        )


def _create(run: ToolRun, given: CreateScope) -> Result:
    if given.if_match is not None and given.parent_alias is None:
        raise invalid("Invalid argument: ifMatch (it is the ETag of the parent: give parentAlias too, or leave it out)")
    scope = changes.create(
        run.connection,
        run.now,
        title=given.title,
        description=given.description or None,
        parent=None if given.parent_alias is None else run.find_unchanged(given.parent_alias),
        alias=given.custom_alias,
        status=given.status,
    )
    return run.describe(scope)


def _update(run: ToolRun, given: UpdateScope) -> Result:
    expected = given.expected_updated_at
    change = Change(
        title=given.title,
        description=given.description,
        status=given.status,
        is_restored=given.restore,
        expected_updated_at=None if expected is None else parse_time("expectedUpdatedAt", expected),
    )
    return run.describe(changes.update(run.connection, run.now, run.find_unchanged(given.alias), change))


def _move(run: ToolRun, given: MoveScope) -> Result:
    if given.new_parent_alias is UNSET and given.before is None and given.after is None:
        raise invalid("Missing required parameter: newParentAlias, before or after")
    if given.before is not None and given.after is not None:
        raise invalid("Invalid argument: before and after (give only one of them)")
    where = Move(
        leaves=given.new_parent_alias is not UNSET,
        parent=run.find(given.new_parent_alias) if isinstance(given.new_parent_alias, str) else None,
        before=None if given.before is None else run.find(given.before),
        after=None if given.after is None else run.find(given.after),
    )
    return run.describe(changes.move(run.connection, run.now, run.find_unchanged(given.alias), where))


def _delete(run: ToolRun, given: DeleteScope) -> Result:
    scope = run.find_unchanged(given.alias)
    count = changes.delete(run.connection, run.now, scope, cascade=given.cascade)
    return {"alias": scope.alias, "deleted": True, "count": count}


def _add_alias(run: ToolRun, given: AddAlias) -> Result:
    name, is_canonical = given.new_alias, given.make_canonical
    scope = run.find_unchanged(given.scope_alias)
    scope = changes.add_alias(run.connection, run.now, scope, name, is_canonical=is_canonical)
    return {"scope": scope.alias, "alias": name, "canonical": is_canonical, "aliases": run.aliases(scope)}


def _remove_alias(run: ToolRun, given: RemoveAlias) -> Result:
    name = given.alias_to_remove
    scope = changes.remove_alias(run.connection, run.now, run.find_unchanged(given.scope_alias), name)
    return {"scope": scope.alias, "removed": name, "aliases": run.aliases(scope)}


def _set_canonical(run: ToolRun, given: SetCanonicalAlias) -> Result:
    name = given.new_canonical_alias
    scope = changes.set_canonical(run.connection, run.now, run.find_unchanged(given.scope_alias), name)
    return {"scope": scope.alias, "aliases": run.aliases(scope)}


_READERS: Final[dict[str, Callable[[ToolRun, Any], Result]]] = {
    "scopes.get": _get,
    "scopes.children": _children,
    "scopes.roots": _roots,
    "aliases.resolve": _resolve,
}
_WRITERS: Final[dict[str, Callable[[ToolRun, Any], Result]]] = {
    "scopes.create": _create,
    "scopes.update": _update,
    "scopes.move": _move,
    "scopes.delete": _delete,
    "aliases.add": _add_alias,
    "aliases.remove": _remove_alias,
    "aliases.setCanonical": _set_canonical,
}
