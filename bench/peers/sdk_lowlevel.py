"""A peer: the official SDK's low-level server, with one text in memory.

    python bench/peers/sdk_lowlevel.py SIZE

Written as the SDK's own documentation writes such a server; nothing is added that would slow it down.
"""

import sys

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)

URI = "bench://text"


def build(text: str) -> Server[object]:
    """Make a server that lists and reads the one text."""

    async def list_resources(_: ServerRequestContext[object], __: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(uri=URI, name="text", mime_type="text/plain")])

    async def read_resource(_: ServerRequestContext[object], params: ReadResourceRequestParams) -> ReadResourceResult:
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)])

    return Server("sdk-lowlevel", on_list_resources=list_resources, on_read_resource=read_resource)


async def main(size: int) -> None:
    """Serve on the standard streams until they end."""
    server = build("x" * size)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
