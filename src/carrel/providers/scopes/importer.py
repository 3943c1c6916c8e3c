"""Import scopes into a store, all of them or none.

Only the final state must be valid: two scopes may swap their names. So the checks that need the old state come first,
then the old rows are deleted, then the new ones are inserted.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from carrel.core.record import Value
from carrel.providers.scopes import changes, queries
from carrel.providers.scopes.connection import ScopesConnection
from carrel.providers.scopes.json_lines import Record
from carrel.providers.scopes.scope_errors import ScopeError, invalid
from carrel.providers.scopes.values import MAX_POSITION, SCOPE_URI, Scope

OnConflict = Literal["fail", "skip", "replace", "copy", "exact"]
"""What to do with an id that exists. `copy` replaces it, also with an earlier time of change; `exact` does so too, and
removes all scopes that are not imported."""


class ImportResult(Value, frozen=True):
    """The result of an import; `accepted` are the ids that were imported or replaced."""

    imported: int
    skipped: int
    replaced: int
    removed: int
    accepted: frozenset[str]


def import_records(
    connection: ScopesConnection, now: int, records: Iterable[Record], on_conflict: OnConflict
) -> ImportResult:
    """Import scopes unchanged. The `updated_at` of an existing scope goes back only with `exact` and `copy`."""
    is_exact = on_conflict == "exact"
    plan = ImportPlan(connection)
    for record in records:
        with _located(record):
            plan.accept(record, on_conflict)
    changed = [record for record in plan.accepted.values() if plan.is_changed(record)]
    for record in changed:
        with _located(record):
            plan.check_cycle(record.scope)
    removed = plan.others() if is_exact else []
    before = ScopesBefore(connection)
    if not is_exact:
        for record in changed:
            before.note_around(plan.old.get(record.scope.id), record.scope, plan.is_new)
    connection.defer_constraints()
    gone = (*removed, *(record.scope.id for record in changed if record.scope.id in plan.old))
    connection.executemany("DELETE FROM scopes WHERE id = ?", ((scope_id,) for scope_id in gone))
    for record in changed:
        with _located(record):
            changes.insert(connection, record.scope, record.aliases)
    before.correct_times(now, plan.accepted if on_conflict == "copy" else ())
    if changed or removed:
        connection.record(SCOPE_URI)
    return ImportResult(plan.imported, plan.skipped, plan.replaced, len(removed), frozenset(plan.accepted))


@contextmanager
def _located(record: Record) -> Iterator[None]:
    """Put the place of a record before the text of an error."""
    try:
        yield
    except ScopeError as error:
        raise ScopeError(error.code, f"{record.where}: {error.text}") from None


class ImportPlan:
    """The records to import, by id, and the scopes that the store has under these ids."""

    def __init__(self, connection: ScopesConnection) -> None:
        self._connection = connection
        self.accepted: dict[str, Record] = {}
        self.old: dict[str, Scope] = {}
        self.imported = self.skipped = self.replaced = 0
        self._present: set[str] = set()
        self._sound: set[str] = set()

    def accept(self, record: Record, on_conflict: OnConflict) -> None:
        """Accept a record, skip it or refuse it. Its parent must come before it or, unless `exact`, exist."""
        scope = record.scope
        is_second = scope.id in self.accepted
        old = None if is_second else queries.by_id(self._connection, scope.id)
        if old is not None or is_second:
            if on_conflict == "skip":
                self.skipped += 1
                return
            if on_conflict == "fail":
                raise ScopeError("DUPLICATE_ID", f"Scope already exists: {scope.id}")
        parent_id = scope.parent_id
        if (
            parent_id is not None
            and parent_id not in self.accepted
            and (on_conflict == "exact" or not self._has(parent_id))
        ):
            raise invalid(f"Invalid field: parentId (no scope has the id {parent_id})")
        if old is not None:
            self.old[scope.id] = old
        if old is None and not is_second:
            self.imported += 1
        else:
            self.replaced += 1
        self.accepted[scope.id] = record

    def _has(self, scope_id: str) -> bool:
        if scope_id not in self._present and queries.by_id(self._connection, scope_id) is not None:
            self._present.add(scope_id)
        return scope_id in self._present

    def is_changed(self, record: Record) -> bool:
        """Return whether a record differs from the scope in the store."""
        old = self.old.get(record.scope.id)
        return old != record.scope or dict(queries.aliases_of(self._connection, old)) != dict(record.aliases)

    def is_new(self, scope_id: str | None) -> bool:
        """Return whether a scope is imported and does not exist yet."""
        return scope_id in self.accepted and scope_id not in self.old

    def check_cycle(self, scope: Scope) -> None:
        """Refuse a scope that would be its own ancestor."""
        path: set[str] = set()
        above: str | None = scope.id
        while above is not None and above not in self._sound:
            if above in path:
                alias = self.old.get(scope.id, scope).alias
                raise ScopeError("CYCLE", f"Cannot move a scope under itself or a descendant: {alias}")
            path.add(above)
            record = self.accepted.get(above)
            found = record.scope if record is not None else queries.by_id(self._connection, above)
            above = None if found is None else found.parent_id
        self._sound |= path

    def others(self) -> list[str]:
        """Return the ids in the store that are not imported."""
        every = self._connection.execute("SELECT id FROM scopes")
        return [scope_id for (scope_id,) in every if scope_id not in self.accepted]


class ScopesBefore:
    """Remembers the JSON of scopes before an import, to move `updated_at` forward where it differs afterwards."""

    def __init__(self, connection: ScopesConnection) -> None:
        self._connection = connection
        self._before: dict[str, tuple[int, object]] = {}

    def note_around(self, old: Scope | None, new: Scope, is_new: Callable[[str | None], bool]) -> None:
        """Remember all scopes whose JSON may change when `new` is added or replaces `old`."""
        if not is_new(new.parent_id):
            self._note(new.parent_id)
        if old is None:
            return
        self._note(old.id)
        self._note(old.parent_id)
        if old.alias != new.alias:
            for child in queries.child_ids(self._connection, old.id):
                self._note(child)

    def _note(self, scope_id: str | None) -> None:
        if scope_id is None or scope_id in self._before:
            return
        scope = queries.by_id(self._connection, scope_id)
        if scope is not None:
            self._before[scope_id] = scope.updated_at, self._look(scope)

    def correct_times(self, now: int, kept: Container[str]) -> None:
        """Move `updated_at` forward where it went back, or where the JSON changed without it; not of the `kept` ids."""
        for scope_id, (updated_at, look) in self._before.items():
            if scope_id in kept:
                continue
            scope = queries.by_id(self._connection, scope_id)
            assert scope is not None, "only an exact import removes scopes"
            has_changed = self._look(scope) != look
            if scope.updated_at < updated_at + has_changed:
                moved = max(now, updated_at + 1) if has_changed else updated_at
                self._connection.execute("UPDATE scopes SET updated_at = ? WHERE id = ?", (moved, scope_id))

    def _look(self, scope: Scope) -> object:
        return {**queries.describe(self._connection, scope, MAX_POSITION), "updatedAt": None}
