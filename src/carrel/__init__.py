"""Carrel puts a project's knowledge on the desk of an AI assistant, as MCP resources."""

from typing import TYPE_CHECKING

from carrel.core.errors import BadArgument, Denied, NotFound, ProviderError, TooLarge
from carrel.core.model import (
    Annotations,
    Blob,
    Completion,
    Reading,
    Resource,
    ResourceLink,
    Template,
    Text,
    ToolResult,
)
from carrel.core.provider import Project, Provider, Route
from carrel.core.version import __version__

if TYPE_CHECKING:
    from carrel.providers.objects.shelf import Shelf

__all__ = [
    "Annotations",
    "BadArgument",
    "Blob",
    "Completion",
    "Denied",
    "NotFound",
    "Project",
    "Provider",
    "ProviderError",
    "Reading",
    "Resource",
    "ResourceLink",
    "Route",
    "Shelf",
    "Template",
    "Text",
    "TooLarge",
    "ToolResult",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Import `Shelf` when it is first used: a server without one starts faster."""
    if name == "Shelf":
        from carrel.providers.objects.shelf import Shelf

        return Shelf
    raise AttributeError(f"module 'carrel' has no attribute {name!r}")
