"""What a plain Python object implements to be served: a few methods, and the values they give.

An object implements what it offers and says so in `capabilities()`; there is no base class and
nothing to register. Look-alikes with the same attributes are taken for the values below, so an
object need not import Carrel at all. The values also have the names of Logtalk's
`mcp_resource_protocol`, with the same order of arguments.

    always        capabilities()
    resources     resources(), resource_read(uri, arguments); optional resource_templates()
    tools         tools(); optional tool_call(name, arguments)
    completions   completion(reference, argument, context)
    any           optional close()

A method may be `async def`. What happens to what an object gives is `providers.objects`' work.
"""

import base64
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from carrel.core.model import Completion, Meta, Resource, ResourceLink, Template
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
    """Bytes that are no text, in base64."""

    meta: Meta | None = None

    @classmethod
    def of(cls, uri: str, mime_type: str, raw_bytes: bytes, *, meta: Meta | None = None) -> "BlobContent":
        """Encode bytes."""
        return cls(uri, mime_type, base64.b64encode(raw_bytes).decode("ascii"), meta=meta)


class Contents(Value, frozen=True):
    """What a resource holds: no item, one, or many."""

    items: Sequence[TextContent | BlobContent]


class Failure(Value, frozen=True):
    """What the object wants the caller to read: one line, of which 200 characters are sent."""

    message: str


class _NamedMethod(Value, frozen=True):
    name: str
    method: str


class Tool(_NamedMethod, frozen=True, kw_only=True):
    """A method, and the name it is offered under."""

    title: str = ""
    read_only: bool = False


class Structured(Value, frozen=True):
    """A tool's result as JSON, and what stands beside it."""

    value: object
    items: Sequence[str | ResourceLink] = ()


Given = Contents | Failure | None
"""What a read may give; None where nothing is."""

resource = Resource
resource_template = Template
contents = Contents
text_content = TextContent
blob_content = BlobContent


# Facets


@runtime_checkable
class Capable(Protocol):
    """Says what it offers."""

    def capabilities(self) -> list[str]:
        """Give the facets that are served; asked once, at start."""


@runtime_checkable
class OffersResources(Capable, Protocol):
    """Has resources."""

    def resources(self) -> list[Resource]:
        """Give what is listed."""

    def resource_read(self, uri: str, arguments: list[Pair]) -> Given:
        """Read a listed URI, or one that a template matches; `arguments` are its query's names and values."""


@runtime_checkable
class OffersTemplates(Protocol):
    """Has resources that are not all listed."""

    def resource_templates(self) -> list[Template]:
        """Give how their URIs look."""


@runtime_checkable
class OffersTools(Capable, Protocol):
    """Has tools."""

    def tools(self) -> list[Tool]:
        """Give the methods that may be called."""


@runtime_checkable
class CallsTools(Protocol):
    """Answers calls of its tools itself."""

    def tool_call(self, name: str, arguments: list[tuple[str, object]]) -> object:
        """Give the result, or NotImplemented to have the tool's method called."""


@runtime_checkable
class OffersCompletions(Capable, Protocol):
    """Completes the variables of its templates."""

    def completion(self, reference: str, argument: Pair, context: list[Pair]) -> list[str] | Completion:
        """Give values for the argument (name, typed so far), best first."""
