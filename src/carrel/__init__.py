"""Carrel puts a project's knowledge on the desk of an AI assistant, as MCP resources."""

from carrel.errors import BadArgument, Denied, NotFound, ProviderError, TooLarge
from carrel.model import (
    Annotations,
    Blob,
    Completion,
    Reading,
    Resource,
    ResourceLink,
    Template,
    Text,
    Tool,
    ToolResult,
)
from carrel.provider import Provider, Route
from carrel.version import __version__

__all__ = [
    "Annotations",
    "BadArgument",
    "Blob",
    "Completion",
    "Denied",
    "NotFound",
    "Provider",
    "ProviderError",
    "Reading",
    "Resource",
    "ResourceLink",
    "Route",
    "Template",
    "Text",
    "TooLarge",
    "Tool",
    "ToolResult",
    "__version__",
]
