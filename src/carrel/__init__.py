"""Carrel puts a project's knowledge on the desk of an AI assistant, as MCP resources."""

from typing import TYPE_CHECKING

from carrel.core.errors import BadArgument, Denied, NotFound, ProviderError, TooLarge
from carrel.core.model import Annotations, Blob, Completion, Reading, Resource, ResourceLink, Template, Text, ToolResult
from carrel.core.provider import Project, Provider, Route
from carrel.core.version import __version__

if TYPE_CHECKING:
    from carrel.providers.objects.protocol import (
        BlobContent,
        CallsTools,
        Capable,
        Contents,
        Failure,
        OffersCompletions,
        OffersResources,
        OffersTemplates,
        OffersTools,
        Structured,
        TextContent,
        blob_content,
        contents,
        resource,
        resource_template,
        text_content,
    )
    from carrel.providers.objects.protocol import ToolMethod as Tool
    from carrel.providers.objects.shelf import Shelf

__all__ = [
    "Annotations",
    "BadArgument",
    "Blob",
    "BlobContent",
    "CallsTools",
    "Capable",
    "Completion",
    "Contents",
    "Denied",
    "Failure",
    "NotFound",
    "OffersCompletions",
    "OffersResources",
    "OffersTemplates",
    "OffersTools",
    "Project",
    "Provider",
    "ProviderError",
    "Reading",
    "Resource",
    "ResourceLink",
    "Route",
    "Shelf",
    "Structured",
    "Template",
    "Text",
    "TextContent",
    "TooLarge",
    "Tool",
    "ToolResult",
    "__version__",
    "blob_content",
    "contents",
    "resource",
    "resource_template",
    "text_content",
]


def __getattr__(name: str) -> object:
    """Import what only objects and shelves need when it is first used: a server without them starts faster."""
    if name == "Shelf":
        from carrel.providers.objects.shelf import Shelf

        return Shelf
    if name in __all__:
        from carrel.providers.objects import protocol

        return protocol.ToolMethod if name == "Tool" else getattr(protocol, name)
    raise AttributeError(f"module 'carrel' has no attribute {name!r}")
