"""A server on the official SDK, as its documentation writes one: to be mounted."""

from mcp.server import MCPServer

server = MCPServer("library")


@server.resource("library://motto", name="motto", mime_type="text/plain")
def motto() -> str:
    """Give a fixed text."""
    return "Sapere aude — ☀"


@server.resource("library://shelf/{number}", name="shelf", mime_type="text/plain")
def shelf(number: str) -> str:
    """Give the text of one shelf."""
    return f"shelf {number}"


if __name__ == "__main__":
    server.run("stdio")
