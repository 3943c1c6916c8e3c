"""Logs of other machines in the team's store: what is particular to it. Tests of logs that are sent run with it too."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, Conflict, ProviderError
from carrel.core.provider import Project
from carrel.core.store_address import parse_address
from carrel.providers.logs import Logs, team_logs
from carrel.providers.logs.log_index import States
from carrel.stores.database import Database
from carrel.stores.feed import ChangeFeed
from carrel.stores.outbox import OutboxChanges, changes_since
from carrel.stores.shared import acquire, release
from tests.providers.logs.test_pushed_logs import URI, end, entry, header, push
from tests.support.gate import Gate
from tests.support.logging_project import meta, text, writer
from tests.support.postgres import PostgresServer
from tests.support.waiting import PATIENCE_S, until


@pytest.fixture(name="database")
def empty_database(store_url: str) -> Iterator[Database]:
    database = acquire(parse_address(store_url))
    database.prepare()
    yield database
    release(database)


@pytest.fixture(name="replica")
def replica_maker(database: Database, tmp_path: Path) -> Iterator[Callable[..., Logs]]:
    """Return a function that makes one more replica, in a folder of its own."""
    made: list[Logs] = []

    def make(url: str = "", **settings: int) -> Logs:
        folder = tmp_path / f"replica{len(made)}"
        folder.mkdir()
        address = parse_address(url) if url else database.address
        made.append(Logs(Project(str(folder), {}, store=address), **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for provider in made:
        provider.close()


def listed(provider: Logs) -> list[str]:
    """Return the URIs of all logs."""
    return [one.uri for one in provider.entries()]


def test_each_batch_may_go_to_another_replica_and_all_serve_the_same(replica: Callable[..., Logs]) -> None:
    replicas = [replica() for _ in range(3)]
    for seq in range(1, 10):
        assert push(replicas[seq % 3], entry(seq))["newest"] == seq
    push(replicas[0], end(3))

    assert {text(one, URI) for one in replicas} == {"".join(f"line {seq}\n" for seq in range(1, 10))}
    assert len({_answer(one) for one in replicas}) == 1
    assert [listed(one) for one in replicas] == [[URI]] * 3
    assert meta(replicas[2], URI)["exit-code"] == 3


def _answer(provider: Logs) -> tuple[str | None, int | None]:
    reading = Catalog([provider]).read(URI)
    return reading.etag, reading.last_modified_ms


def test_a_new_replica_has_what_was_sent_before(replica: Callable[..., Logs]) -> None:
    push(replica(), entry(1), entry(2), end())

    assert text(replica(), URI) == "line 1\nline 2\n"


def test_a_log_that_is_rewritten_and_one_that_is_removed_are_so_everywhere(replica: Callable[..., Logs]) -> None:
    first, second = (replica(pushed_max_bytes=2_000, pushed_logs=2, pushed_share=100) for _ in range(2))
    for start in range(1, 1_001, 100):
        push(first, *[entry(seq) for seq in range(start, start + 100)])
        assert text(second, URI).endswith(f"line {start + 99}\n")
    push(first, end())
    assert text(first, URI) == text(second, URI)
    for number in (2, 3):
        push(first, entry(1), end(), uri=f"logs://run/ci_{number}")

    assert listed(second) == listed(first) == ["logs://run/ci_2", "logs://run/ci_3"]


def test_logs_of_a_replicas_own_machine_are_listed_beside_those_of_the_team(
    replica: Callable[..., Logs], tmp_path: Path
) -> None:
    provider, other = replica(), replica()
    push(provider, entry(1), end())
    own = writer(tmp_path / "replica0")
    own.end(0)

    assert listed(provider) == [URI, own.uri]
    assert listed(other) == [URI]
    with pytest.raises(Conflict, match="This machine already has"):
        push(provider, entry(1), uri=own.uri)


def test_a_refused_batch_changes_nothing_and_later_batches_arrive(replica: Callable[..., Logs]) -> None:
    first, second = replica(), replica()
    push(first, entry(1))
    with pytest.raises(Conflict):
        push(second, entry(2), first=header("x" * 24))
    with pytest.raises(BadArgument):
        push(second, {"no": "line"})
    push(first, entry(2))

    assert push(second, entry(3))["newest"] == 3
    assert text(first, URI) == text(second, URI) == "line 1\nline 2\nline 3\n"


def test_a_batch_that_could_not_be_stored_is_taken_when_it_is_sent_again(
    replica: Callable[..., Logs], database: Database
) -> None:
    provider = replica()
    push(provider, entry(1))
    with psycopg.connect(database.address.url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON carrel_log_chunks FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
        with pytest.raises(ProviderError, match="disk is full"):
            push(provider, entry(2))
        assert text(provider, URI) == "line 1\n"
        connection.execute("DROP TRIGGER full_disk ON carrel_log_chunks")

    assert push(provider, entry(2))["newest"] == 2
    assert text(provider, URI) == text(replica(), URI) == "line 1\nline 2\n"


def test_every_batch_is_recorded_with_its_uri(replica: Callable[..., Logs], database: Database) -> None:
    with database.connection() as connection:
        token = changes_since(connection, "").token
    push(replica(), entry(1))

    with database.connection() as connection:
        assert changes_since(connection, token).uris == (("logs", URI),)


def test_a_watcher_of_one_replica_hears_of_lines_that_another_was_sent(replica: Callable[..., Logs]) -> None:
    first, second = replica(), replica()
    heard = Heard()
    stop = second.watch(heard)
    try:
        push(first, entry(1))
        assert until(lambda: {URI, "logs://build", "list"} <= set(heard.uris))
    finally:
        stop()


def test_lines_that_another_replica_was_sent_are_looked_for_as_soon_as_this_one_hears_of_them(
    replica: Callable[..., Logs], database: Database
) -> None:
    first = replica()
    changes, never = database.log_changes, threading.Event()
    known = changes.number
    with closing(ChangeFeed(database)) as feed:
        feed.start()
        push(first, entry(1))
        changes.wait(known, PATIENCE_S, never)

        assert changes.number > known


def test_every_watcher_hears_of_lines_at_once(
    replica: Callable[..., Logs], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_logs, "POLL_S", 10 * PATIENCE_S)
    first, watching, heard = replica(), [replica() for _ in range(3)], [Heard() for _ in range(3)]
    with ExitStack() as ended, closing(ChangeFeed(database)) as feed:
        for provider, changes in zip(watching, heard, strict=True):
            ended.callback(provider.watch(changes))
        feed.start()
        for seq in range(1, 10):
            push(first, entry(seq))
            for changes in heard:
                assert until(lambda: URI in changes.uris)  # noqa: B023 -- called before the next turn
                changes.uris.clear()


def test_a_watcher_pauses_between_two_looks_while_changes_arrive_all_the_time(
    replica: Callable[..., Logs], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def look(self: team_logs.TeamLogIndex) -> States:
        times.append(monotonic())
        database.note(OutboxChanges((("logs", URI),), ""))
        return {}

    monkeypatch.setattr(team_logs.TeamLogIndex, "_states", look)
    stop = replica().watch(Heard())
    until(lambda: len(times) > 5)
    stop()

    assert min(after - before for before, after in pairwise(times)) >= team_logs.PAUSE_S


def test_a_watcher_that_waits_for_changes_stops_at_once(
    replica: Callable[..., Logs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_logs, "POLL_S", 10 * PATIENCE_S)
    monkeypatch.setattr(team_logs, "PAUSE_S", 0)
    before = set(threading.enumerate())
    stop = replica().watch(Heard())
    watching = [one for one in set(threading.enumerate()) - before if one.name == "carrel-spool"]
    stop()

    assert [thread.is_alive() for thread in watching] == [False, False]  # for the team's logs and the machine's own


class Heard:
    """Remembers what is reported."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._lock = threading.Lock()

    def updated(self, uri: str, fingerprint: str = "") -> None:
        """Remember a URI."""
        del fingerprint
        with self._lock:
            self.uris.append(uri)

    updated_below = reconsidered = updated

    def ask_aliases(self, aliases: object) -> None:
        """Do nothing: logs have one URI each."""

    def list_changed(self) -> None:
        """Remember that the list changed."""
        self.updated("list")


def test_a_replica_without_its_store_says_so_and_recovers(
    replica: Callable[..., Logs], database: Database, unused_port: int, postgres: PostgresServer, tmp_path: Path
) -> None:
    with Gate(unused_port, postgres.folder / ".s.PGSQL.5432") as gate:
        provider = replica(gate.url(database.address.url))
        push(provider, entry(1))
        own = writer(tmp_path / "replica0")
        own.end(0)
        gate.shut()

        for act in (lambda: push(provider, entry(2)), lambda: text(provider, URI)):
            with pytest.raises(ProviderError) as failed:
                act()
            assert failed.value.word == "unavailable"
        assert Catalog([provider]).read(own.uri).error is None
        assert own.uri in listed(provider)
        gate.open()

        assert until(lambda: _newest(provider) == 2)
        assert text(provider, URI) == "line 1\nline 2\n"


def _newest(provider: Logs) -> int | None:
    try:
        newest: int = push(provider, entry(2))["newest"]
    except ProviderError:
        return None
    return newest
