"""Legacy sessions on several replicas: every request may go to any of them, and streams resume on another."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.app.replica import Replica
from carrel.catalog.access import EVERYTHING
from carrel.stores.outbox import changes_since
from carrel.transports.http.app import App
from tests.support.http_asking import INITIALIZE, JSON, OPEN, Exchange, Reply, ask, asking, legacy, run
from tests.support.waiting import PATIENCE_S

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
