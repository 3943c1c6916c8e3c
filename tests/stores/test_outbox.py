"""The outbox: nothing that was committed is missed, and many changes make one signal."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from carrel.core.store_address import parse_address
from carrel.stores.database import Database, Kind
from carrel.stores.outbox import MAX_CHANGES, ChangeBell, OutboxChanges, changes_since, prune
from tests.support.postgres import PostgresServer, fresh_database
from tests.support.waiting import until

SECONDS = 20.0
A, B = "scopes://scope/a", "scopes://scope/b"


@pytest.fixture(name="store_url")
def own_database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database of its own: a signal reaches all listeners of a database."""
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture(name="store")
def prepared_store(store_url: str) -> Iterator[Database]:
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        yield store


def look(store: Database, token: str = "") -> OutboxChanges:
    """Return the changes since a token."""
    with store.connection() as connection:
        return changes_since(connection, token)


def write(store: Database, *uris: str) -> None:
    """Commit changes of some resources."""
    with store.writing("scopes", SECONDS) as session:
        for uri in uris:
            session.record(uri)


def test_a_first_look_returns_a_token_and_no_changes(store: Database) -> None:
    write(store, A)

    first = look(store)

    assert (first.uris, first.is_all) == ((), False)
    assert look(store, first.token).uris == ()


def test_a_look_returns_what_was_committed_since_the_last_one_and_each_once(store: Database) -> None:
    first = look(store)
    write(store, A, B, A)
    write(store, A)

    second = look(store, first.token)

    assert sorted(second.uris) == [("scopes", A), ("scopes", B)]
    assert look(store, second.token).uris == ()


def test_what_is_rolled_back_is_not_reported(store: Database) -> None:
    first = look(store)
    with store.writing("scopes", SECONDS, is_rehearsal=True) as session:
        session.record(A)

    assert look(store, first.token).uris == ()


def test_a_change_that_began_first_and_ended_last_is_not_missed(store: Database) -> None:
    first = look(store)
    with store.writing("sage", SECONDS) as slow:
        slow.record("sage://system/objective.md")
        slow.execute("SELECT pg_current_xact_id()")
        write(store, A)
        second = look(store, first.token)
    third = look(store, second.token)

    assert (second.uris, third.uris) == ((("scopes", A),), (("sage", "sage://system/objective.md"),))


def test_nothing_is_missed_while_many_write(store: Database) -> None:
    seen: list[tuple[str, str]] = []
    token = look(store).token
    uris = [f"scopes://scope/a{number}" for number in range(60)]
    kinds: tuple[Kind, ...] = ("scopes", "sage", "logs")

    def change(number: int) -> None:
        with store.writing(kinds[number % 3], SECONDS) as session:
            session.record(uris[number])

    with ThreadPoolExecutor(6) as writers:
        writing = [writers.submit(change, number) for number in range(60)]
        while not all(one.done() for one in writing):
            found = look(store, token)
            token = found.token
            seen += found.uris
    seen += look(store, token).uris

    assert sorted(uri for _, uri in seen) == sorted(uris)


def test_too_many_changes_count_as_all(store: Database) -> None:
    first = look(store)
    with store.connection() as connection:
        connection.execute(
            "INSERT INTO carrel_outbox (scheme, uri) SELECT 'scopes', 'scopes://scope/a' || n "
            "FROM generate_series(0, %s) n",
            (MAX_CHANGES,),
        )

    second = look(store, first.token)

    assert (second.uris, second.is_all) == ((), True)
    third = look(store, second.token)
    assert (third.uris, third.is_all) == ((), False)


def test_a_listener_that_slept_while_changes_were_pruned_is_told_that_all_changed(store: Database) -> None:
    first = look(store)
    write(store, A)
    with store.connection() as connection:
        assert prune(connection) == 0
        assert prune(connection, hours=0) == 1

    assert look(store, first.token).is_all
    # A token counts as old while transactions run that are older than what was pruned, here those of other tests.
    assert until(lambda: not look(store, look(store).token).is_all)


def test_a_write_is_signalled_to_listeners(store: Database) -> None:
    with psycopg.connect(store.address.url, autocommit=True) as listener:
        listener.execute("LISTEN carrel_changes")
        write(store, A)

        assert [one.channel for one in listener.notifies(timeout=SECONDS, stop_after=1)] == ["carrel_changes"]


def test_a_write_that_changes_nothing_is_not_signalled(store: Database) -> None:
    with psycopg.connect(store.address.url, autocommit=True) as listener:
        listener.execute("LISTEN carrel_changes")
        with store.writing("scopes", SECONDS):
            pass
        store.close()
        listener.execute("NOTIFY carrel_changes, 'end'")

        assert next(listener.notifies(timeout=SECONDS, stop_after=1)).payload == "end"


def test_the_last_change_is_signalled_before_the_store_is_closed(store_url: str) -> None:
    with psycopg.connect(store_url, autocommit=True) as listener:
        listener.execute("LISTEN carrel_changes")
        with closing(Database(parse_address(store_url))) as store:
            store.prepare()
            write(store, A)

        assert len(list(listener.notifies(timeout=SECONDS, stop_after=1))) == 1


def test_old_changes_are_removed_now_and_then(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, A)
    with store.connection() as connection:
        connection.execute("UPDATE carrel_outbox SET written_at = written_at - interval '2 hours'")
    monkeypatch.setattr(store, "_prune_at", 0.0)
    write(store, B)

    def left() -> list[object]:
        with store.connection() as connection:
            return [uri for (uri,) in connection.execute("SELECT uri FROM carrel_outbox")]

    assert until(lambda: left() == [B])


def test_many_rings_make_few_signals() -> None:
    signals: list[int] = []
    is_first, may_go_on = threading.Event(), threading.Event()

    def signal() -> None:
        signals.append(1)
        is_first.set()
        may_go_on.wait(SECONDS)

    bell = ChangeBell(signal)
    bell.ring()
    assert is_first.wait(SECONDS)
    for _ in range(1_000):
        bell.ring()
    may_go_on.set()
    bell.close()

    assert len(signals) == 2


def test_a_bell_that_was_never_rung_starts_no_thread() -> None:
    before = threading.active_count()
    bell = ChangeBell(lambda: None)
    bell.close()
    bell.ring()

    assert threading.active_count() == before
