"""Ask an MCP server: list, read, complete, call and listen, in both eras."""

from carrel.client.client import Client

__all__ = ["Client"]
