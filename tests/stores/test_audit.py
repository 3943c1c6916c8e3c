"""The audit record: a row with every write and no row without one, filters, pages, and an end."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial

import psycopg
import pytest

from carrel.core.store_address import parse_address
from carrel.core.writer import LOCAL, writing_as
from carrel.stores.audit import MAX_NAME, AuditFilter, AuditRow, audit_rows
from carrel.stores.database import Database
from carrel.stores.migrations import MIGRATIONS, VERSION
from carrel.stores.store_errors import StoreUnavailable
from tests.support.waiting import until

SECONDS = 20.0
A, B = "scopes://scope/a", "scopes://scope/b"


@pytest.fixture(name="store")
def prepared_store(store_url: str) -> Iterator[Database]:
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        yield store


def write(store: Database, *uris: str, caller: str = "token ci", tool: str = "scopes.update") -> None:
    """Commit a change of some resources."""
    with writing_as(caller, tool), store.writing("scopes", SECONDS) as session:
        for uri in uris:
            session.record(uri, "1", "2")


def rows(store: Database, limit: int = 100, **wanted: object) -> list[AuditRow]:
    """Return the rows that a filter leaves, newest first."""
    with store.reading(SECONDS) as session:
        return audit_rows(session, AuditFilter(**wanted), store.audit_days or 90, limit)  # type: ignore[arg-type]


def age(store: Database, uri: str, days: int) -> None:
    """Make the rows of a URI older."""
    with store.connection() as connection:
        statement = "UPDATE carrel_audit SET at = at - %s * interval '1 day' WHERE uri = %s"
        connection.execute(statement, (days, uri))


def test_a_row_says_who_changed_what_and_when(store: Database) -> None:
    write(store, A)

    [row] = rows(store)
    assert (row.caller, row.tool, row.uri, row.etag_before, row.etag_after) == (
        "token ci",
        "scopes.update",
        A,
        "1",
        "2",
    )
    with store.connection() as connection:
        [(now_ms,)] = connection.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000").fetchall()
    assert 0 <= float(now_ms) - row.time_ms < 60_000


def test_two_changes_of_one_resource_in_one_transaction_are_one_row(store: Database) -> None:
    with store.writing("scopes", SECONDS) as session:
        session.record(A, "1", "2")
        session.record(A, "2", "3")

    assert [(row.etag_before, row.etag_after) for row in rows(store)] == [("1", "3")]


def test_what_is_rolled_back_leaves_no_row(store: Database) -> None:
    with store.writing("scopes", SECONDS, is_rehearsal=True) as session:
        session.record(A)
    for open_ in (partial(store.writing, "scopes", SECONDS), store.changing):
        with suppress(ZeroDivisionError), open_() as session:
            session.record(A)
            raise ZeroDivisionError

    assert rows(store) == []


def test_a_write_whose_row_cannot_be_kept_is_not_made(store: Database) -> None:
    with store.connection() as connection:
        connection.execute("ALTER TABLE carrel_audit ADD CHECK (uri <> 'scopes://scope/b')")
    before = store.generation("scopes")

    with pytest.raises(StoreUnavailable):
        write(store, B)

    assert store.generation("scopes") == before
    assert rows(store) == []


def test_a_report_without_a_record_leaves_no_row(store: Database) -> None:
    with store.writing("logs", SECONDS) as session:
        session.report("logs://run/a_1")

    assert rows(store) == []


def test_rows_are_filtered_by_caller_beginning_of_uri_and_time_and_paged(store: Database) -> None:
    write(store, A, B)
    write(store, "sage://system/a.md", caller="jwt ann", tool="sage_write_system")
    write(store, "scopes://scope/a-b", caller="jwt ann")
    every = rows(store)

    assert [row.uri for row in every] == ["scopes://scope/a-b", "sage://system/a.md", B, A]
    assert [row.uri for row in rows(store, caller="jwt ann")] == ["scopes://scope/a-b", "sage://system/a.md"]
    assert [row.uri for row in rows(store, uri="scopes://scope/a")] == ["scopes://scope/a-b", A]
    assert rows(store, caller="jwt") == []
    assert rows(store, 2) + rows(store, before=every[1].id) == every
    age(store, A, 5)
    assert [row.uri for row in rows(store, since_ms=every[0].time_ms - 86_400_000)][-1] == B


def test_a_caller_on_this_machine_has_the_name_of_its_user(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    write(store, A, caller=LOCAL)

    assert [row.caller for row in rows(store)] == ["local ann"]


def test_a_callers_name_is_kept_whatever_it_holds(store: Database) -> None:
    write(store, A, caller="jwt \0\ud800\x1b[2J" + "x" * 1_000)

    [row] = rows(store)
    assert row.caller.startswith(r"jwt \x00\ud800\x1b[2Jx")
    assert len(row.caller) == MAX_NAME


def test_rows_are_read_and_kept_for_90_days_unless_configured(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, A, B)
    age(store, A, 91)
    age(store, B, 89)
    assert [row.uri for row in rows(store)] == [B]
    store.audit_days = 30
    assert rows(store) == []

    def left() -> list[object]:
        with store.connection() as connection:
            return [uri for (uri,) in connection.execute("SELECT uri FROM carrel_audit ORDER BY id")]

    def is_left(kept: Sequence[str]) -> bool:
        return left() == list(kept)

    c = "scopes://scope/c"
    for days, kept in ((None, [A, B, c]), (90, [B, c, c])):
        store.audit_days = days
        monkeypatch.setattr(store, "_prune_at", 0.0)
        write(store, c)
        assert until(lambda: vars(store)["_prune_at"] > 0)
        assert until(partial(is_left, kept))


def test_old_sessions_and_subscriptions_are_removed_while_servers_run(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.connection() as connection:
        for name, days in (("old", 3), ("young", 1)):
            times = {"name": name, "days": days}
            at = "now() - %(days)s * interval '1 day'"
            connection.execute(f"INSERT INTO carrel_session_uris VALUES (%(name)s, 'x:y', {at})".encode(), times)
            connection.execute(f"INSERT INTO carrel_ended_sessions VALUES (%(name)s, {at})".encode(), times)
    monkeypatch.setattr(store, "_prune_at", 0.0)
    write(store, A)

    def left() -> list[object]:
        statement = "SELECT session FROM carrel_session_uris UNION ALL SELECT session FROM carrel_ended_sessions"
        with store.connection() as connection:
            return [name for (name,) in connection.execute(statement)]

    assert until(lambda: left() == ["young", "young"])


def test_a_store_from_before_the_audit_record_gets_one_and_keeps_its_records(store_url: str) -> None:
    with psycopg.connect(store_url, autocommit=True) as connection:
        for statements in MIGRATIONS[:6]:
            for statement in statements:
                connection.execute(statement.encode())
        connection.execute("CREATE TABLE carrel_schema (version integer NOT NULL)")
        connection.execute("INSERT INTO carrel_schema VALUES (6)")
        connection.execute("INSERT INTO carrel_tokens VALUES ('ci', 'hash', NULL, 1)")

    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        write(store, A)

        assert [row.uri for row in rows(store)] == [A]
        with store.connection() as connection:
            assert connection.execute("SELECT version FROM carrel_schema").fetchall() == [(VERSION,)]
            assert connection.execute("SELECT name FROM carrel_tokens").fetchall() == [("ci",)]
