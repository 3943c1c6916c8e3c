"""Copy all scopes from one store to another in one transaction, with their ids, aliases, times and idempotency keys."""

from collections.abc import Iterable
from typing import Final

from carrel.core.errors import echo
from carrel.core.isotime import now_ms
from carrel.core.record import replace
from carrel.providers.scopes import importer, json_lines, queries
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.json_lines import Record
from carrel.providers.scopes.scope_errors import ScopeError
from carrel.providers.scopes.values import Scope
from carrel.stores.copying import CopyConflict, CopyReport, CopyUnverified

KIND: Final = "scopes"
_KEYS: Final = "SELECT tool, key, args_hash, result, created_at FROM idempotency"
Key = tuple[str, str, str, str, int]

_ADVICE: Final[dict[str, str]] = {
    "DUPLICATE_ALIAS": (
        "another scope of the target has it: rename one of the two with `carrel scopes alias rename`, "
        "then run the command again"
    ),
    "DUPLICATE_TITLE": (
        "another scope of the target has it under the same parent: change one of the two with "
        "`carrel scopes update --title`, then run the command again"
    ),
}
"""What a user can do about a name that a scope of the source and another one of the target both have."""


def copy_scopes(source: ScopesStore, target: ScopesStore, *, replaces: bool) -> CopyReport:
    """Copy everything; raise `CopyConflict` if the target has other versions, unless `replaces`.

    A scope whose time of change alone differs, as after a new child, is no other version: the later time stays.
    """
    records, keys = _everything(source)
    if not records and not keys:
        return CopyReport(KIND, 0, 0, 0, 0)
    with target.writing(is_long=True) as connection:
        new, others, later = _compared(connection, records)
        if others and not replaces:
            raise CopyConflict(KIND, [one.scope.alias for one in others])
        chosen = {one.scope.id for one in (*new, *others, *later)}
        _import(connection, (one for one in records if one.scope.id in chosen))
        with connection.long_texts():
            connection.executemany("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", keys)
    _verify(records, target)
    return CopyReport(KIND, len(new), len(records) - len(new) - len(others), len(others), len(records))


def _compared(connection: ScopesConnection, records: list[Record]) -> tuple[list[Record], list[Record], list[Record]]:
    """Return the records that the target lacks, those that it has in another version, and those with a later time."""
    new, others, later = [], [], []
    for one in records:
        found = queries.by_id(connection, one.scope.id)
        if found is None:
            new.append(one)
        elif not _is_version(connection, found, one):
            others.append(one)
        elif found.updated_at < one.scope.updated_at:
            later.append(one)
    return new, others, later


def _import(connection: ScopesConnection, records: Iterable[Record]) -> None:
    """Write records with their times; an error names the scope, and what the user can do."""
    named = (replace(one, where=f"{one.scope.alias} ({echo(one.scope.title)})") for one in records)
    try:
        importer.import_records(connection, now_ms(), named, "copy")
    except ScopeError as error:
        if error.code not in _ADVICE:
            raise
        raise ScopeError(error.code, f"nothing was copied: {error.text}; {_ADVICE[error.code]}") from None


def _everything(source: ScopesStore) -> tuple[list[Record], list[Key]]:
    """Return all scopes, parents before their children, and all keys, in one snapshot."""
    with source.reading() as connection:
        if connection is None:
            return [], []
        records = list(json_lines.parse(json_lines.export(connection, None)))
        with connection.long_texts():
            return records, connection.execute(_KEYS).fetchall()


def _is_there(connection: ScopesConnection, record: Record) -> bool:
    """Return whether a store has this version of a scope, with its time of change or a later one."""
    found = queries.by_id(connection, record.scope.id)
    return found is not None and _is_version(connection, found, record) and found.updated_at >= record.scope.updated_at


def _is_version(connection: ScopesConnection, found: Scope, record: Record) -> bool:
    """Return whether a scope and its aliases are those of a record, apart from the time of change."""
    is_same = replace(found, updated_at=record.scope.updated_at) == record.scope
    return is_same and dict(queries.aliases_of(connection, found)) == dict(record.aliases)


def _verify(records: list[Record], target: ScopesStore) -> None:
    with target.reading() as connection:
        for one in records:
            if connection is None or not _is_there(connection, one):
                raise CopyUnverified(KIND, one.scope.alias)
