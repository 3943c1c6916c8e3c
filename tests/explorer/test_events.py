"""The event stream of pages."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.support.explorer_desk import Browsed
from tests.support.http_asking import asking


@pytest.mark.slow
def test_a_change_is_told_and_the_stream_ends_with_the_server(browsed: Browsed, project: Path) -> None:
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
