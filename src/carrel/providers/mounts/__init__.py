"""Any other MCP server, as a provider."""

from carrel.providers.mounts.provider import Mount
from carrel.providers.mounts.saved_lists import ListMemory
from carrel.providers.mounts.settings import MountSettings

__all__ = ["ListMemory", "Mount", "MountSettings"]
