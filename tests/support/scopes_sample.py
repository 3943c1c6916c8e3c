"""A store of scopes for tests: the project of the original documents, and short ways to look at it."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from carrel.core.provider import Project
from carrel.core.store_address import StoreAddress
from carrel.providers.scopes import Scopes, changes, queries
from carrel.providers.scopes.connection import ScopesStore
from carrel.providers.scopes.sqlite import StoreConnection
from carrel.providers.scopes.store import Store
from carrel.providers.scopes.team_store import TeamStore
from carrel.providers.scopes.values import Scope

NOW = 1_794_765_600_123
NOW_SPELLED = "2026-11-15T18:00:00.123Z"

ALPHA = (
    ("project-alpha", "Project Alpha", "IN_PROGRESS", None),
    ("feature-x", "Feature X", "IN_PROGRESS", "project-alpha"),
    ("feature-y", "Feature Y", "PLANNING", "project-alpha"),
    ("task-1", "Implement API", "TODO", "feature-x"),
    ("task-2", "Write tests", "TODO", "feature-x"),
    ("task-3", "Design UI", "TODO", "feature-y"),
)
TREE = """\
project-alpha (Project Alpha) [IN_PROGRESS]
├── feature-x (Feature X) [IN_PROGRESS]
│   ├── task-1 (Implement API) [TODO]
│   └── task-2 (Write tests) [TODO]
└── feature-y (Feature Y) [PLANNING]
    └── task-3 (Design UI) [TODO]"""


_team: list[StoreAddress] = []
"""The address of the store that is used in place of files, if any."""


@contextmanager
def in_team(address: StoreAddress) -> Iterator[None]:
    """Make all projects use an empty team's store meanwhile."""
    with closing(TeamStore(address)) as store, store.writing() as connection:
        for table in ("scopes", "aliases", "idempotency", "outbox"):
            connection.execute(f"DELETE FROM {table}")
    _team.append(address)
    try:
        yield
    finally:
        _team.clear()


def team_url() -> str:
    """Return the URL of the team's store; an empty text if files are used."""
    return _team[0].url if _team else ""


def plant(store: ScopesStore, rows: tuple[tuple[str, str, str, str | None], ...] = ALPHA, now: int = NOW) -> None:
    """Create scopes: alias, title, status, parent."""
    with store.writing() as connection:
        for alias, title, status, parent in rows:
            above = None if parent is None else queries.find(connection, parent)
            changes.create(connection, now, title=title, alias=alias, status=status, parent=above)


def store_in(project: Path) -> ScopesStore:
    """Return the store of a project."""
    return TeamStore(_team[0]) if _team else file_in(project)


def file_in(project: Path) -> Store:
    """Return the store in a project's file."""
    return Store(str(project / ".carrel/scopes.db"))


def planted(project: Path) -> ScopesStore:
    """Make a project with the sample in its store."""
    if not _team:
        return planted_file(project)
    store = store_in(project)
    plant(store)
    return store


def planted_file(project: Path) -> Store:
    """Make a project with the sample in its file."""
    store = file_in(project)
    path = Path(store.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_sample())
    return store


@cache
def _sample() -> bytes:
    """Make the sample once: a commit waits for the disk, a copy does not."""
    with tempfile.TemporaryDirectory(prefix="carrel-test-") as folder:
        store = file_in(Path(folder))
        plant(store)
        store.close()
        return Path(store.path).read_bytes()


def provider_in(project: Path, **settings: Any) -> Scopes:
    """Serve a project's store."""
    return Scopes(Project(str(project), {}, store=_team[0] if _team else None), **settings)


def get(store: ScopesStore, alias: str) -> Scope:
    """Return a scope that is there."""
    with store.reading() as connection:
        assert connection is not None
        found = queries.find(connection, alias)
        assert found is not None, alias
        return found


def told(store: ScopesStore, alias: str) -> dict[str, Any]:
    """Return everything about a scope."""
    with store.reading() as connection:
        assert connection is not None
        found = queries.find(connection, alias)
        assert found is not None, alias
        return queries.describe(connection, found, 10_000)


def check_invariants(store: ScopesStore) -> None:
    """Fail if the store breaks a rule that it must never break."""
    with store.reading() as connection:
        assert connection is not None
        if isinstance(connection, StoreConnection):
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        parents = dict(connection.execute("SELECT id, parent_id FROM scopes"))
        for scope_id, parent_id in parents.items():
            seen, above = {scope_id}, parent_id
            while above is not None:
                assert above not in seen, f"{scope_id} lies beneath itself"
                seen.add(above)
                above = parents[above]
        without = connection.execute(
            "SELECT id FROM scopes s WHERE NOT EXISTS "
            "(SELECT 1 FROM aliases a WHERE a.name = s.alias AND a.scope_id = s.id)"
        ).fetchall()
        assert without == [], f"without a canonical alias of their own: {without}"
        titles = connection.execute(
            "SELECT coalesce(parent_id, ''), title FROM scopes GROUP BY 1, 2 HAVING count(*) > 1"
        ).fetchall()
        assert titles == [], f"siblings of one title: {titles}"
