"""The methods that a plain Python object has to be served, and the values that they return.

An object implements what it offers and says so in `capabilities()`. It needs no base class and no registration.
Values of other classes with the same attributes are accepted too, so an object need not import Carrel. The values
also have the names of Logtalk's `mcp_resource_protocol`, with the same order of arguments.

    always        capabilities()
    resources     resources(), resource_read(uri, arguments); optional resource_templates(),
                  resource_fingerprint(uri, arguments)
    tools         tools(); optional tool_call(name, arguments)
    completions   completion(reference, argument, context)
    any           optional close()

A method may be `async def`.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from carrel.core.model import Blob, Completion, Meta, Resource, ResourceLink, Stored, Template, Text
from carrel.core.record import Value

Facet = Literal["resources", "tools", "completions"]
Pair = tuple[str, str]


# Values


class _Item(Value, frozen=True):
    uri: str
    mime_type: str


class _Text(_Item, frozen=True):
    text: str


class _Blob(_Item, frozen=True):
    base64_data: str


class TextContent(_Text, frozen=True, kw_only=True):
    """A text. An empty `mime_type` means that of the entry."""

    meta: Meta | None = None


class BlobContent(_Blob, frozen=True, kw_only=True):
    """Bytes, in base64."""

    meta: Meta | None = None

    @classmethod
    def of(cls, uri: str, mime_type: str, raw_bytes: bytes, *, meta: Meta | None = None) -> "BlobContent":
        """Encode bytes."""
        return cls(uri, mime_type, base64.b64encode(raw_bytes).decode("ascii"), meta=meta)


class Contents(Value, frozen=True):
    """The content of a resource: any number of items, also none."""

    items: Sequence[TextContent | BlobContent | Text | Blob | Stored]


class Failure(Value, frozen=True):
    """A message for the caller: one line, cut at 200 characters."""

    message: str


class _NamedMethod(Value, frozen=True):
    name: str
    method: str | Callable[..., object]


class ToolMethod(_NamedMethod, frozen=True, kw_only=True):
    """A method, by its name, or a function, and the name of the tool that calls it."""

    title: str = ""
    read_only: bool = False


class Structured(Value, frozen=True):
    """The result of a tool as JSON, and the texts and links beside it."""

    value: object
    items: Sequence[str | ResourceLink] = ()


ReadResult = Contents | Failure | None
"""The result of a read; None if there is no such resource."""

resource = Resource
resource_template = Template
contents = Contents
text_content = TextContent
blob_content = BlobContent


# Facets


@runtime_checkable
class Capable(Protocol):
    """Declares the facets it offers."""

    def capabilities(self) -> list[str]:
        """Return the names of the facets; called once, at start."""


@runtime_checkable
class OffersResources(Capable, Protocol):
    """Has resources."""

    def resources(self) -> list[Resource]:
        """Return the listed resources."""

    def resource_read(self, uri: str, arguments: list[Pair]) -> ReadResult:
        """Read a listed URI, or one that a template matches; `arguments` are the names and values of its query."""


@runtime_checkable
class OffersTemplates(Protocol):
    """Has resources that are not listed one by one."""

    def resource_templates(self) -> list[Template]:
        """Return the URI templates."""


@runtime_checkable
class OffersFingerprints(Protocol):
    """Can tell cheaply that a resource did not change."""

    def resource_fingerprint(self, uri: str, arguments: list[Pair]) -> str | None:
        """Return a text that changes whenever the resource may have changed; None if that is not known."""


@runtime_checkable
class OffersTools(Capable, Protocol):
    """Has tools."""

    def tools(self) -> list[ToolMethod]:
        """Return the methods that may be called."""


@runtime_checkable
class CallsTools(Protocol):
    """Answers tool calls itself."""

    def tool_call(self, name: str, arguments: list[tuple[str, object]]) -> object:
        """Return the result, or NotImplemented to have the method of the tool called."""


@runtime_checkable
class OffersCompletions(Capable, Protocol):
    """Completes the variables of its templates."""

    def completion(self, reference: str, argument: Pair, context: list[Pair]) -> list[str] | Completion:
        """Return values for the argument (name, text typed so far), best first."""
