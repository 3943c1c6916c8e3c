"""The event stream of pages."""

import asyncio
import os
from pathlib import Path
from time import time

import pytest

from carrel.catalog.access import Access
from carrel.transports.http.visits import COOKIE_S
from tests.support.explorer_desk import Browsed, Clock
from tests.support.http_asking import asking


@pytest.mark.slow
def test_a_change_is_reported_and_the_stream_ends_with_the_server(browsed: Browsed, project: Path) -> None:
    async def talk() -> None:
        async with asking(browsed.app, "GET", "/-/events?uri=workspace:///README.md") as exchange:
            assert await exchange.parts.get() is not None  # the first comment
            assert exchange.headers["content-type"] == "text/event-stream"
            (project / "README.md").write_text("# Changed\n", "utf-8")
            os.utime(project / "README.md")
            assert await exchange.message() == {"uri": "workspace:///README.md"}
            assert len(browsed.desk.server.watcher.subscriptions()) == 1
            browsed.app.end()
            assert await exchange.message() is None
        assert browsed.desk.server.watcher.subscriptions() == ()

    asyncio.run(talk())


@pytest.mark.parametrize("target", ["/-/events", "/-/events?x=1", "/-/events?" + "&".join(["uri=a:b"] * 40)])
def test_a_stream_must_name_what_is_watched(browsed: Browsed, target: str) -> None:
    assert browsed.get(target).status == 400


def test_what_a_caller_may_not_read_is_not_watched(guarded: Browsed) -> None:
    async def talk() -> None:
        target = "/-/events?uri=workspace:///README.md"
        async with asking(guarded.app, "GET", target, {"authorization": "Bearer logs"}) as exchange:
            await exchange.parts.get()
            [found] = guarded.desk.server.watcher.subscriptions()
            assert found.uris == set()

    asyncio.run(talk())


def test_a_stream_ends_when_its_cookie_has_expired(project: Path) -> None:
    clock = Clock()
    browsed = Browsed(project, {}, clock=clock)
    cookie = browsed.let_in()

    async def talk() -> None:
        target = "/-/events?uri=workspace:///README.md"
        async with asking(browsed.app, "GET", target, {"cookie": cookie}) as exchange:
            assert await exchange.parts.get() is not None
            assert exchange.status == 200
            clock.now += COOKIE_S
            for outbox in browsed.app.outboxes:
                outbox.wake()
            assert await exchange.message() is None
        assert browsed.desk.server.watcher.subscriptions() == ()

    asyncio.run(talk())
    browsed.close()


def test_a_stream_is_woken_when_its_token_expires(project: Path) -> None:
    browsed = Browsed(project, {"brief": Access("token brief", None, time() + 0.2)})

    async def talk() -> None:
        target = "/-/events?uri=workspace:///README.md"
        async with asking(browsed.app, "GET", target, {"authorization": "Bearer brief"}) as exchange:
            assert await exchange.message() is None
            assert exchange.status == 200

    asyncio.run(talk())
    browsed.close()
