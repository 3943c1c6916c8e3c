"""A file with a shelf, served by the installed command and read by the official client."""

import asyncio
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ResourceTemplateReference, TextContent, TextResourceContents

GARDEN = '''
from pathlib import Path

from carrel import Shelf

BEDS = {"north": 41.5, "south": 12.0}
shelf = Shelf("garden")


@shelf.resource("garden://beds/{bed}", entries=lambda: BEDS)
def bed(bed: str) -> dict:
    """One bed: name and moisture."""
    print("nobody but the log hears this")
    return {"bed": bed, "moisture": BEDS[bed]}


@shelf.resource("garden://diary{?last}", watch="diary.md")
async def diary(last: int = 100) -> str:
    """The diary."""
    return "".join((Path(__file__).parent / "diary.md").read_text().splitlines(True)[-last:])


@shelf.tool(read_only=True)
def driest(beds: list[str]) -> str:
    """Name the driest of some beds."""
    return min(beds, key=BEDS.__getitem__)
'''


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_shelf_is_served_beside_the_desk(carrel: str, project: Path, tmp_path: Path, mode: str) -> None:
    (tmp_path / "garden.py").write_text(GARDEN, encoding="utf-8")
    (tmp_path / "diary.md").write_text("one\ntwo\n", encoding="utf-8")

    async def talk() -> None:
        words = ["serve", "--quiet", str(tmp_path / "garden.py")]
        parameters = StdioServerParameters(command=carrel, args=words, cwd=project)
        async with Client(parameters, mode=mode, read_timeout_seconds=30) as client:
            listed = [str(entry.uri) for entry in (await client.list_resources()).resources]
            assert [uri for uri in listed if uri.startswith("garden:")] == [
                "garden://beds/north",
                "garden://beds/south",
                "garden://diary",
            ]
            assert any(uri.startswith("workspace:") for uri in listed)
            [item] = (await client.read_resource("garden://beds/north")).contents
            assert isinstance(item, TextResourceContents)
            assert (item.text, item.mime_type) == ('{"bed":"north","moisture":41.5}', "application/json")
            [item] = (await client.read_resource("garden://diary?last=1")).contents
            assert isinstance(item, TextResourceContents)
            assert item.text == "two\n"
            with pytest.raises(MCPError, match="Resource not found: garden://beds/east"):
                await client.read_resource("garden://beds/east")
            reference = ResourceTemplateReference(uri="garden://beds/{bed}")
            offered = await client.complete(reference, {"name": "bed", "value": "s"})
            assert offered.completion.values == ["south"]
            [block] = (await client.call_tool("driest", {"beds": ["north", "south"]})).content
            assert isinstance(block, TextContent)
            assert block.text == "south"

    asyncio.run(talk())
