"""A server on the official SDK, as its documentation writes one: to be mounted.

With a number as its argument it serves HTTP on that port, else the standard streams.
"""

import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import Completion, CompletionArgument

server = MCPServer("library")
words = ["clean"]


@server.resource("library://motto", name="motto", mime_type="text/plain")
def motto() -> str:
    """Return a fixed text."""
    return "Sapere aude — ☀"


@server.resource("library://shelf/{number}", name="shelf", mime_type="text/plain")
def shelf(number: str) -> str:
    """Return the text of one shelf."""
    return f"shelf {number}"


@server.resource("library://slate", name="slate", mime_type="text/plain")
def slate() -> str:
    """Return what was last written."""
    return words[-1]


@server.resource("library://chalk/{word}", name="chalk", mime_type="text/plain")
async def chalk(word: str, context: Context) -> str:
    """Write on the slate, and tell who listens."""
    words.append(word)
    await context.notify_resource_updated("library://slate")
    return word


async def complete(_ref: object, argument: CompletionArgument, _context: object) -> Completion:
    """Offer shelves."""
    return Completion(values=[one for one in ("12", "13", "21") if one.startswith(argument.value)])


offer: Any = server.completion
offer()(complete)


if __name__ == "__main__":
    if sys.argv[-1].isdigit():
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[-1]))
    else:
        server.run("stdio")
