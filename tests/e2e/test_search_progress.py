"""A call of `search` that asks for progress hears of it over the wire while the index is not complete."""

import asyncio
import os
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

LONG_S = 120.0

Heard = list[tuple[float, float | None, str | None]]


async def heard_during(client: Client, query: str) -> Heard:
    """Search, and return what the server reported meanwhile."""
    heard: Heard = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    result = await client.call_tool("search", {"query": query}, progress_callback=note)
    assert not result.is_error
    # On a busy machine, the time of an answer may end before every text was searched; then it says so.
    assert "workspace:///lib/forecast.dart" in str(result.content) or "partial: " in str(result.content)
    assert heard or "workspace:///lib/forecast.dart" in str(result.content)
    return heard


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_search_reports_progress_until_the_index_is_complete(carrel: str, project: Path, mode: str) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(project.parent / "cache")}
    parameters = StdioServerParameters(command=carrel, args=["serve", "--quiet"], cwd=project, env=environment)

    async def talk() -> None:
        async with Client(parameters, mode=mode, read_timeout_seconds=LONG_S) as client:
            first = await heard_during(client, "forecast")
            assert first, "nothing was indexed before"
            for progress, total, message in first:
                assert total is not None
                assert 0 <= progress <= total
                assert str(message).startswith("partial: ")
            assert [one[0] for one in first] == sorted(one[0] for one in first)
            async with asyncio.timeout(LONG_S):
                while await heard_during(client, "forecast"):
                    pass  # it is completed behind the answers

    asyncio.run(talk())
