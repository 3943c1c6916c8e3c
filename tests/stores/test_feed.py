"""The feed: changes of other servers are heard soon, and none is missed when the connection is cut.

Each test runs with the signals of Postgres and with those of a NATS bus.
"""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from carrel.core.bus_address import parse_bus
from carrel.core.record import replace
from carrel.core.store_address import parse_address
from carrel.stores import feed
from carrel.stores.database import Database
from carrel.stores.feed import ChangeFeed
from carrel.stores.outbox import OutboxChanges
from carrel.stores.session import Row
from carrel.stores.session_registry import SessionRegistry
from carrel.stores.store_errors import StoreUnavailable
from tests.support.nats import NatsServer
from tests.support.waiting import until

PATIENCE_S = 30.0


class Heard:
    """Keeps what a feed says."""

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self.is_all = False
        self._lock = threading.Lock()

    def __call__(self, changes: OutboxChanges) -> None:
        with self._lock:
            self.uris.update(uri for _, uri in changes.uris)
            self.is_all = self.is_all or changes.is_all


@pytest.fixture(name="bus", params=["postgres", "nats"])
def bus_of_signals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NatsServer | None]:
    """Run the bus that carries the signals; None if it is Postgres."""
    if request.param == "postgres":
        yield None
        return
    with NatsServer(tmp_path).running() as server:
        yield server


@pytest.fixture(name="stores")
def stores_of_two_servers(store_url: str, bus: NatsServer | None) -> Iterator[tuple[Database, Database]]:
    address = replace(parse_address(store_url), bus=None if bus is None else parse_bus(bus.url))
    with closing(Database(address)) as one, closing(Database(address)) as other:
        one.prepare()
        yield one, other


def write(store: Database, uri: str) -> None:
    with store.writing("scopes", PATIENCE_S) as session:
        session.record(uri)


def test_a_change_by_another_server_is_heard(stores: tuple[Database, Database]) -> None:
    one, other = stores
    with closing(ChangeFeed(one)) as follower:
        heard = Heard()
        follower.add(heard)
        follower.start()
        assert follower.wait(PATIENCE_S)

        write(other, "scopes://scope/a")

        until(lambda: "scopes://scope/a" in heard.uris, PATIENCE_S)


def test_a_change_is_heard_that_was_made_before_the_thread_has_connected(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    may_connect, connect = threading.Event(), one.dedicated

    def connect_later() -> psycopg.Connection[Row]:
        assert may_connect.wait(PATIENCE_S)
        return connect()

    monkeypatch.setattr(one, "dedicated", connect_later)
    with closing(ChangeFeed(one)) as follower:
        heard = Heard()
        follower.add(heard)
        follower.start()
        write(other, "scopes://scope/a")
        may_connect.set()

        until(lambda: "scopes://scope/a" in heard.uris, PATIENCE_S)


@pytest.mark.slow
def test_no_change_is_missed_when_the_connection_is_cut_again_and_again(
    stores: tuple[Database, Database], store_url: str, bus: NatsServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    connect, opened = one.dedicated, list[int]()

    def noted() -> psycopg.Connection[Row]:
        connection = connect()
        opened.append(connection.info.backend_pid)
        return connection

    monkeypatch.setattr(one, "dedicated", noted)
    monkeypatch.setattr("carrel.stores.feed.RETRY_S", (0.01,))
    with closing(ChangeFeed(one)) as follower, psycopg.connect(store_url, autocommit=True) as admin:
        heard = Heard()
        follower.add(heard)
        follower.start()
        assert follower.wait(PATIENCE_S)
        for number in range(100 if bus is None else 200):  # a bus is stopped and started 100 times
            if bus is None:
                until(lambda number=number: len(opened) > number)  # type: ignore[misc]
                assert admin.execute("SELECT pg_terminate_backend(%s)", (opened[number],)).fetchone() == (True,)
            elif number % 2:
                bus.start()
            else:
                bus.stop()
            write(other, f"scopes://scope/s{number}")
        expected = {f"scopes://scope/s{number}" for number in range(100 if bus is None else 200)}
        until(lambda: expected <= heard.uris or heard.is_all, PATIENCE_S)
        assert not heard.is_all


def test_a_listener_that_fails_does_not_end_the_feed(stores: tuple[Database, Database]) -> None:
    one, other = stores
    with closing(ChangeFeed(one)) as follower:
        heard = Heard()
        follower.add(lambda _: 1 / 0)  # type: ignore[arg-type]
        follower.add(heard)
        follower.start()
        assert follower.wait(PATIENCE_S)
        write(other, "scopes://scope/a")
        until(lambda: "scopes://scope/a" in heard.uris, PATIENCE_S)
        write(other, "scopes://scope/b")
        until(lambda: "scopes://scope/b" in heard.uris, PATIENCE_S)


def test_a_listener_that_could_not_ask_the_store_hears_the_changes_again(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    monkeypatch.setattr(feed, "LOOK_S", 0.05)
    heard, refused = Heard(), list[OutboxChanges]()

    def ask(changes: OutboxChanges) -> None:
        if len(refused) < 2:
            refused.append(changes)
            raise StoreUnavailable("The store cannot be reached now; try again later")
        heard(changes)

    with closing(ChangeFeed(one)) as follower:
        follower.add(ask)
        follower.start()
        assert follower.wait(PATIENCE_S)

        write(other, "scopes://scope/a")
        until(lambda: len(refused) > 0, PATIENCE_S)
        write(other, "scopes://scope/b")

        until(lambda: {"scopes://scope/a", "scopes://scope/b"} <= heard.uris, PATIENCE_S)


def test_an_old_token_is_from_before_what_may_still_wait(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = stores
    with closing(ChangeFeed(one)) as follower:
        follower.start()
        assert follower.wait(PATIENCE_S)
        monkeypatch.setattr(feed, "LAG_S", 1_000.0)
        assert follower.old_token() == ""
        monkeypatch.setattr(feed, "LAG_S", 0.0)
        assert follower.old_token() != ""


# The registry


def test_replicas_agree_on_one_key(stores: tuple[Database, Database]) -> None:
    one, other = stores
    key = SessionRegistry(one).key()

    assert len(key) == 32
    assert SessionRegistry(other).key() == key


def test_subscriptions_and_ends_of_sessions_are_shared(stores: tuple[Database, Database]) -> None:
    mine, others = map(SessionRegistry, stores)
    mine.subscribe("s", "scopes://scope/a")
    mine.subscribe("s", "scopes://scope/b")
    mine.subscribe("s", "scopes://scope/a")
    others.unsubscribe("s", "scopes://scope/b")

    assert others.uris("s") == ["scopes://scope/a"]
    assert others.ended() == frozenset()

    others.end(["s"])
    others.end(["s"])

    assert mine.uris("s") == []
    assert mine.ended() == mine.ended(["s", "t"]) == {"s"}
    assert mine.ended(["t"]) == frozenset()


def test_a_token_that_is_not_ours_means_that_everything_changed(stores: tuple[Database, Database]) -> None:
    registry = SessionRegistry(stores[0])

    assert [registry.changes_since(token).is_all for token in ("x", "9:1:", "1:2:3:4", "-1:5:")] == [True] * 4
