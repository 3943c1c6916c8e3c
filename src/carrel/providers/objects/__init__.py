"""Python objects as providers: `Shelf`, and objects with the methods and values of `protocol`."""

from carrel.providers.objects.protocol import (
    BlobContent,
    CallsTools,
    Capable,
    Contents,
    Failure,
    OffersCompletions,
    OffersFingerprints,
    OffersResources,
    OffersTemplates,
    OffersTools,
    Structured,
    TextContent,
    ToolMethod,
    blob_content,
    contents,
    resource,
    resource_template,
    text_content,
)
from carrel.providers.objects.provider import ObjectProvider, serve_built, serve_object
from carrel.providers.objects.settings import ObjectSettings
from carrel.providers.objects.shelf import Shelf

__all__ = [
    "BlobContent",
    "CallsTools",
    "Capable",
    "Contents",
    "Failure",
    "ObjectProvider",
    "ObjectSettings",
    "OffersCompletions",
    "OffersFingerprints",
    "OffersResources",
    "OffersTemplates",
    "OffersTools",
    "Shelf",
    "Structured",
    "TextContent",
    "ToolMethod",
    "blob_content",
    "contents",
    "resource",
    "resource_template",
    "serve_built",
    "serve_object",
    "text_content",
]
