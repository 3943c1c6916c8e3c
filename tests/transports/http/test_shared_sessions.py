"""Legacy sessions on several replicas: every request may go to any of them, and streams resume on another."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.app.replica import Replica
from carrel.catalog.access import EVERYTHING
from carrel.core.store_address import parse_address
from carrel.stores.database import Database
from carrel.stores.outbox import changes_since
from carrel.stores.session_registry import SessionRegistry
from carrel.stores.store_errors import StoreUnavailable
from carrel.transports.http import shared_sessions
from carrel.transports.http.app import App
from carrel.transports.http.session_seal import SessionSeal
from carrel.transports.http.shared_sessions import SharedSessions
from tests.support.gate import Gate
from tests.support.http_asking import INITIALIZE, JSON, OPEN, Exchange, Reply, ask, asking, legacy, run
from tests.support.postgres import PostgresServer
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

SCOPE = "scopes://scope/garden"


class ReplicaOfDesk:
    """One server of several on one store, each in a folder of its own."""

    def __init__(self, folder: Path, store_url: str, *settings: tuple[str, str, str]) -> None:
        folder.mkdir()
        home = {"HOME": str(folder), "CARREL_STORE_URL": store_url}
        config = load(str(folder), home, [("scopes", "tools", "write"), *settings])
        self.desk: Desk = open_desk(config)
        self.replica = Replica(self.desk.store, config.session_key(), self.desk.server.watcher)
        self.app = App(self.desk.server, OPEN, PATIENCE_S, shared=self.replica.sessions)

    def close(self) -> None:
        """End it as a kill would: nothing is said to the others."""
        self.replica.close()
        self.desk.close()

    async def post(self, message: bytes, session: str = "") -> Reply:
        """Post one message of a session."""
        return await ask(
            self.app, "POST", "/mcp", {**JSON, **({"mcp-session-id": session} if session else {})}, message
        )

    async def open(self) -> str:
        """Open a session; return its id."""
        reply = await self.post(legacy("initialize", INITIALIZE))
        assert reply.status == 200, reply
        session = reply.headers["mcp-session-id"]
        assert (await self.post(legacy("notifications/initialized", request_id=None), session)).status == 202
        return session

    async def subscribe(self) -> str:
        """Open a session, create a scope and subscribe to it; return the id of the session."""
        session = await self.open()
        await self.call(session, "scopes.create", title="Garden", customAlias="garden")
        await self.post(legacy("resources/subscribe", {"uri": SCOPE}), session)
        return session

    async def call(self, session: str, tool: str, **arguments: object) -> Any:
        """Call a tool; return its structured result."""
        reply = await self.post(legacy("tools/call", {"name": tool, "arguments": arguments}), session)
        return reply.json["result"]

    @asynccontextmanager
    async def stream(self, session: str, last_event: str = "") -> AsyncIterator[Exchange]:
        """Open the stream of a session."""
        resumed = {"last-event-id": last_event} if last_event else {}
        headers = {"accept": "text/event-stream", "mcp-session-id": session, **resumed}
        async with asking(self.app, "GET", "/mcp", headers) as exchange:
            yield exchange


@pytest.fixture(name="replicas")
def two_replicas(tmp_path: Path, store_url: str) -> Iterator[tuple[ReplicaOfDesk, ReplicaOfDesk]]:
    with (
        closing(ReplicaOfDesk(tmp_path / "a", store_url)) as one,
        closing(ReplicaOfDesk(tmp_path / "b", store_url)) as other,
    ):
        yield one, other


Pair = tuple[ReplicaOfDesk, ReplicaOfDesk]


async def message_about(exchange: Exchange, uri: str) -> None:
    """Wait for the notification about a URI."""
    while (message := await exchange.message()) is not None:
        if message["params"].get("uri") == uri:
            return
    raise AssertionError("the stream ended")


def test_every_request_of_a_session_may_go_to_any_replica(replicas: Pair) -> None:
    one, other = replicas

    async def talk() -> None:
        session = await one.open()
        for replica in (other, one, other):
            assert (await replica.post(legacy("ping"), session)).json["result"] == {}
        made = await other.call(session, "scopes.create", title="Garden", customAlias="garden")
        assert not made.get("isError"), made
        read = await one.post(legacy("resources/read", {"uri": SCOPE}), session)
        assert "Garden" in read.json["result"]["contents"][0]["text"]

    run(talk)


def test_a_write_on_one_replica_reaches_the_stream_on_another(replicas: Pair) -> None:
    one, other = replicas

    async def talk() -> None:
        session = await one.open()
        await one.call(session, "scopes.create", title="Garden", customAlias="garden")
        async with one.stream(session) as exchange:
            subscribed = await other.post(legacy("resources/subscribe", {"uri": SCOPE}), session)
            assert subscribed.json["result"] == {}
            await other.call(session, "scopes.update", alias="garden", title="Kitchen garden")
            await message_about(exchange, SCOPE)

    run(talk)


def test_a_stream_resumes_on_another_replica_with_what_was_missed(replicas: Pair) -> None:
    one, other = replicas

    async def talk() -> None:
        session = await one.subscribe()
        async with one.stream(session) as exchange:
            await one.call(session, "scopes.update", alias="garden", title="First")
            await message_about(exchange, SCOPE)
        token = await asyncio.to_thread(_token, one)
        await other.call(session, "scopes.update", alias="garden", title="Second")
        async with other.stream(session, token) as exchange:
            await message_about(exchange, SCOPE)

    run(talk)


def _token(replica: ReplicaOfDesk) -> str:
    """Return an event id as a stream of this replica has it now."""
    assert replica.desk.store is not None
    with replica.desk.store.connection() as connection:
        return changes_since(connection, "").token


def test_events_have_ids_that_can_be_resumed_from(replicas: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = replicas
    monkeypatch.setattr("carrel.stores.feed.LAG_S", 0.0)

    async def talk() -> None:
        session = await one.subscribe()
        async with one.stream(session) as exchange:
            await one.call(session, "scopes.update", alias="garden", title="First")
            seen = b""
            async with asyncio.timeout(PATIENCE_S):
                while b"garden" not in seen:
                    seen += await exchange.parts.get() or b""
        assert re.search(rb"(?m)^id: \d+:\d+:[\d,]*$", seen), seen

    run(talk)


@pytest.mark.parametrize("last_event", ["nonsense", "9:1:", "1:1:", "x" * 5_000])
def test_an_event_id_that_is_not_ours_means_everything(replicas: Pair, last_event: str) -> None:
    one, _ = replicas

    async def talk() -> None:
        session = await one.subscribe()
        async with one.stream(session, last_event) as exchange:
            await message_about(exchange, SCOPE)

    run(talk)


def test_a_session_that_ended_on_one_replica_is_unknown_on_all(replicas: Pair) -> None:
    one, other = replicas

    async def talk() -> None:
        session = await one.open()
        assert (await other.post(legacy("ping"), session)).status == 200
        async with other.stream(session) as exchange:
            ended = await ask(one.app, "DELETE", "/mcp", {"mcp-session-id": session})
            assert ended.status == 204
            async with asyncio.timeout(PATIENCE_S):
                while await exchange.parts.get() is not None:
                    pass
        for replica in (one, other):
            assert (await replica.post(legacy("ping"), session)).status == 404

    run(talk)


def test_a_session_that_ended_during_an_outage_is_unknown_on_all_replicas_afterwards(
    tmp_path: Path, store_url: str, unused_port: int, postgres: PostgresServer
) -> None:
    gate = Gate(unused_port, postgres.folder / ".s.PGSQL.5432")
    with ExitStack() as until_closed:
        until_closed.enter_context(gate)
        one = until_closed.enter_context(closing(ReplicaOfDesk(tmp_path / "a", gate.url(store_url))))
        other = until_closed.enter_context(closing(ReplicaOfDesk(tmp_path / "b", store_url)))

        async def talk() -> None:
            sessions = [await one.open() for _ in range(3)]
            gate.shut()
            for session in sessions:
                ended = await ask(one.app, "DELETE", "/mcp", {"mcp-session-id": session})
                assert ended.status == 204
                assert (await one.post(legacy("ping"), session)).status == 404
                assert (await other.post(legacy("ping"), session)).status == 200
            gate.open()
            known = other.replica.sessions
            await asyncio.to_thread(until, lambda: not any(known.find(one, EVERYTHING) for one in sessions))
            for session in sessions:
                assert (await other.post(legacy("ping"), session)).status == 404

        run(talk)


class AwayRegistry(SessionRegistry):
    """A registry whose store is away while `is_away`."""

    is_away = True

    def end(self, session_ids: Iterable[str]) -> None:
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached now; try again later")
        super().end(session_ids)


def test_the_number_of_sessions_that_must_still_end_elsewhere_is_bounded(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_sessions, "MAX_OVERDUE", 2)
    with closing(Database(parse_address(store_url))) as store:
        store.prepare()
        registry = AwayRegistry(store)
        sessions = SharedSessions(SessionSeal(b"a key of this team"), registry)
        for name in ("a", "b", "c"):
            sessions.end(name)
        with pytest.raises(StoreUnavailable):
            sessions.end_overdue()
        assert registry.ended() == frozenset()

        registry.is_away = False
        sessions.end_overdue()
        sessions.end_overdue()

        assert registry.ended() == {"b", "c"}
    assert [sessions.has_ended(name) for name in ("a", "b", "c", "d")] == [True, True, True, False]


def test_a_replica_that_starts_later_knows_which_sessions_have_ended(
    replicas: Pair, tmp_path: Path, store_url: str
) -> None:
    one, _ = replicas

    async def talk() -> None:
        session = await one.open()
        await ask(one.app, "DELETE", "/mcp", {"mcp-session-id": session})
        with closing(ReplicaOfDesk(tmp_path / "late", store_url)) as late:
            assert (await late.post(legacy("ping"), session)).status == 404

    run(talk)


def test_unsubscribing_on_one_replica_holds_on_all(replicas: Pair) -> None:
    one, other = replicas

    async def talk() -> None:
        session = await one.subscribe()
        await other.post(legacy("resources/unsubscribe", {"uri": SCOPE}), session)
        state = one.replica.sessions.find(session, EVERYTHING)
        assert state is not None
        assert (await asyncio.to_thread(one.replica.sessions.resume, state.name, "")).uris == ()

    run(talk)


def test_a_wrong_key_ends_old_sessions_and_nothing_else(replicas: Pair, tmp_path: Path, store_url: str) -> None:
    one, _ = replicas
    key = ("session", "key", "another key of this team")

    async def talk() -> None:
        session = await one.open()
        with closing(ReplicaOfDesk(tmp_path / "c", store_url, key)) as changed:
            refused = await changed.post(legacy("ping"), session)
            assert refused.status == 404
            assert json.loads(refused.body)["error"]["message"].startswith("Unknown session")
            assert (await changed.post(legacy("ping"), await changed.open())).status == 200

    run(talk)
