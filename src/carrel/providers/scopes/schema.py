"""The tables of the store, the steps from older versions, and the check that a store has these tables only.

Constraints keep every program from committing two scopes with one alias, two siblings with one title, a scope without
its own canonical alias, or a scope below itself.
"""

import functools
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

VERSION: Final = 1
"""The `user_version` this code reads and writes."""

TABLES: Final = """
CREATE TABLE scopes (
  id TEXT PRIMARY KEY CHECK (length(id) = 36),
  alias TEXT NOT NULL UNIQUE,                       -- the canonical alias
  parent_id TEXT REFERENCES scopes(id) CHECK (parent_id <> id),
  title TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 200
    AND instr(title, char(10)) = 0 AND instr(title, char(13)) = 0),
  description TEXT CHECK (length(description) BETWEEN 1 AND 1000),
  status TEXT NOT NULL DEFAULT 'TODO' CHECK (status IN ('PLANNING','TODO','IN_PROGRESS','BLOCKED','DONE','ARCHIVED')),
  position INTEGER NOT NULL, created_at INTEGER NOT NULL,  -- times are epoch milliseconds
  updated_at INTEGER NOT NULL CHECK (updated_at >= created_at),
  FOREIGN KEY (alias, id) REFERENCES aliases(name, scope_id) ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE aliases (
  name TEXT PRIMARY KEY CHECK (length(name) BETWEEN 2 AND 64 AND name GLOB '[a-z]*' AND name NOT GLOB '*[^a-z0-9_-]*'
    AND name NOT GLOB '*[-_]' AND name NOT GLOB '*[-_][-_]*'),
  scope_id TEXT NOT NULL REFERENCES scopes(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  created_at INTEGER NOT NULL, UNIQUE (name, scope_id)) WITHOUT ROWID;
CREATE INDEX aliases_by_scope ON aliases(scope_id, name);
CREATE UNIQUE INDEX scopes_sibling_title ON scopes(coalesce(parent_id, ''), title);
CREATE INDEX scopes_children ON scopes(parent_id, position, created_at, id, alias);
CREATE TRIGGER scopes_no_cycle BEFORE UPDATE OF parent_id ON scopes WHEN NEW.parent_id IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'cycle') WHERE NEW.id IN (WITH RECURSIVE up(id) AS (SELECT NEW.parent_id UNION
  SELECT s.parent_id FROM scopes s JOIN up ON s.id = up.id WHERE s.parent_id IS NOT NULL) SELECT id FROM up); END;
CREATE TRIGGER scopes_archived BEFORE UPDATE OF status ON scopes
WHEN OLD.status = 'ARCHIVED' AND NEW.status NOT IN ('ARCHIVED','TODO') BEGIN SELECT RAISE(ABORT, 'archived'); END;
CREATE TABLE idempotency (tool TEXT NOT NULL, key TEXT NOT NULL, args_hash TEXT NOT NULL, result TEXT NOT NULL,
  created_at INTEGER NOT NULL, PRIMARY KEY (tool, key)) WITHOUT ROWID;
"""
"""The tables of version 1. A new store gets them and all `STEPS`, so that it equals one that was migrated."""

STEPS: Final[Mapping[int, str]] = {}
"""For each older version, the statements that lead to the next. There are none yet."""

TEMPORARY: Final = """
CREATE TEMP TABLE IF NOT EXISTS parents (rank INTEGER PRIMARY KEY, id TEXT NOT NULL);
"""
"""The parents of a level, in order. Joined to them, children come out in order without a sort."""

Parts = tuple[tuple[str, str, str, str], ...]
"""Kind, name, table and SQL of each part of a schema, sorted, without comments and white space."""

_MAX_PARTS: Final = 64
_STATISTICS: Final = re.compile(r"CREATE TABLE sqlite_stat[14]\((?:tbl,idx,stat|tbl,idx,neq,nlt,ndlt,sample)\)")
_PARTS: Final = f"SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT {_MAX_PARTS}"


def parts(connection: sqlite3.Connection) -> Parts:
    """Return the parts of a database's schema, up to a bound, without the statistics of `ANALYZE`."""
    return tuple(
        sorted(
            (str(kind), str(name), str(table), _plain(str(sql or "")))
            for kind, name, table, sql in connection.execute(_PARTS)
            if not (kind == "table" and _STATISTICS.fullmatch(str(sql)))
        )
    )


def is_ours(connection: sqlite3.Connection, version: int) -> bool:
    """Return whether a database has the tables, indexes and triggers of a version, and nothing else."""
    return parts(connection) == _expected(version, tuple(STEPS.items()))


@functools.cache
def _expected(version: int, steps: tuple[tuple[int, str], ...]) -> Parts:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        for older, script in steps:
            if older < version:
                connection.executescript(script)
        return parts(connection)


def _plain(sql: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())
