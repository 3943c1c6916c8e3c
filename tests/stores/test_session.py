"""Statements of the common form, on Postgres."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from carrel.core.store_address import parse_address
from carrel.stores.constraints import ConstraintViolated
from carrel.stores.database import Database
from carrel.stores.session import StoreSession, translated

SECONDS = 20.0


@pytest.fixture(name="session")
def writing_session(store_url: str) -> Iterator[StoreSession]:
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        with store.writing("scopes", SECONDS, is_rehearsal=True) as session:
            yield session


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a FROM scopes WHERE id = ?", "SELECT a FROM carrel_scopes WHERE id = %s"),
        (
            "SELECT a FROM scopes s CROSS JOIN aliases a ON 1",
            "SELECT a FROM carrel_scopes s JOIN carrel_aliases a ON 1",
        ),
        ("SELECT 7 % 2", "SELECT 7 %% 2"),
        ("WHERE kind = 'scopes'", "WHERE kind = 'scopes'"),
        ("scopes_sibling_title", "scopes_sibling_title"),
    ],
)
def test_a_statement_is_translated(statement: str, expected: str) -> None:
    assert translated(statement) == expected


def test_rows_are_counted(session: StoreSession) -> None:
    rows = [("documents", "a", b"1", 0, 1), ("documents", "b", b"2", 0, 1)]
    session.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", rows)

    assert session.count_changed("DELETE FROM documents WHERE name >= ?", ("a",)) == 2


def test_ids_come_with_their_ranks(session: StoreSession) -> None:
    source, values = session.ranked(["c", "a", "b"])

    found = session.execute(f"SELECT p.rank, p.id FROM {source} p ORDER BY p.rank", values).fetchall()

    assert found == [(0, "c"), (1, "a"), (2, "b")]


def test_a_broken_constraint_is_named(session: StoreSession) -> None:
    session.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?)", ("a", "b", "c", "d", 1))

    with pytest.raises(ConstraintViolated) as broken:
        session.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?)", ("a", "b", "c", "d", 1))

    assert broken.value.constraint == "carrel_idempotency_pkey"


def test_changes_are_recorded_once_each_by_scheme(session: StoreSession) -> None:
    for uri in ("scopes://scope/a", "sage://system/b.md", "scopes://scope/a"):
        session.record(uri)

    assert list(session.changed) == [("scopes", "scopes://scope/a"), ("sage", "sage://system/b.md")]
