"""Copy all scopes from one store to another in one transaction, with their ids, aliases, times and idempotency keys."""

from typing import Final

from carrel.providers.scopes import importer, json_lines, queries
from carrel.providers.scopes.connection import ScopesConnection, ScopesStore
from carrel.providers.scopes.json_lines import Record
from carrel.providers.scopes.values import now_ms
from carrel.stores.copying import CopyConflict, CopyReport, CopyUnverified

KIND: Final = "scopes"
_KEYS: Final = "SELECT tool, key, args_hash, result, created_at FROM idempotency"
Key = tuple[str, str, str, str, int]


def copy_scopes(source: ScopesStore, target: ScopesStore, *, replaces: bool) -> CopyReport:
    """Copy everything; raise `CopyConflict` if the target has other versions, unless `replaces`."""
    records, keys = _everything(source)
    if not records and not keys:
        return CopyReport(KIND, 0, 0, 0, 0)
    with target.writing(is_long=True) as connection:
        new = [one for one in records if queries.by_id(connection, one.scope.id) is None]
        known = {one.scope.id for one in new}
        others = [one for one in records if one.scope.id not in known and not _is_there(connection, one)]
        if others and not replaces:
            raise CopyConflict(KIND, [one.scope.alias for one in others])
        chosen = {one.scope.id for one in (*new, *others)}
        importer.import_records(connection, now_ms(), (one for one in records if one.scope.id in chosen), "replace")
        with connection.long_texts():
            connection.executemany("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", keys)
    _verify(records, target)
    return CopyReport(KIND, len(new), len(records) - len(new) - len(others), len(others), len(records))


def _everything(source: ScopesStore) -> tuple[list[Record], list[Key]]:
    """Return all scopes, parents before their children, and all keys, in one snapshot."""
    with source.reading() as connection:
        if connection is None:
            return [], []
        records = list(json_lines.parse(json_lines.export(connection, None)))
        with connection.long_texts():
            return records, connection.execute(_KEYS).fetchall()


def _is_there(connection: ScopesConnection, record: Record) -> bool:
    """Return whether a store has this version of a scope."""
    found = queries.by_id(connection, record.scope.id)
    return found == record.scope and dict(queries.aliases_of(connection, found)) == dict(record.aliases)


def _verify(records: list[Record], target: ScopesStore) -> None:
    with target.reading() as connection:
        for one in records:
            if connection is None or not _is_there(connection, one):
                raise CopyUnverified(KIND, one.scope.alias)
