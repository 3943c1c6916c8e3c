"""The values that travel between providers, the catalogue and the protocol.

Frozen and without behaviour. They promise nothing about the wire: its spelling
(`mimeType`, base64) exists only in `protocol/`. Times are whole milliseconds since
1970, UTC; sizes and offsets are bytes.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, Literal, Protocol

from carrel.core.record import Value

CacheScope = Literal["private", "public"]
Encoding = Literal["utf-8", "utf-16le", "utf-16be", "iso-8859-1", "binary"]
Meta = Mapping[str, object]


class Annotations(Value, frozen=True, gc=False):
    """Hints a host may use to choose among entries."""

    audience: tuple[str, ...] = ()
    priority: float | None = None
    last_modified_ms: int | None = None


class _ListedUri(Value, frozen=True, gc=False):
    """What may be given by position for a `Resource`, in this order."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""


class Rank(IntEnum):
    """The order of entries in a list that cannot hold all of them: first what a host cannot get by itself."""

    FRONT = 0
    DOCUMENTS = 1
    MEMORY = 2
    TASKS = 3
    LOGS = 4
    PACKAGES = 5
    OTHERS = 6
    FILES = 7


class Resource(_ListedUri, frozen=True, gc=False, kw_only=True):
    """One entry of the list. The fields after `meta` are for the catalogue and never sent.

    An entry that is `pinned` stands before those of all other providers. `sort_key` is its place among the entries of
    its provider; without one, that is the URI. `rank` is its place in a list with a bound: by default `FRONT` if it is
    pinned, else `OTHERS`. One that is `guaranteed`, or pinned, stands even in the shortest list.
    """

    title: str = ""
    annotations: Annotations | None = None
    size: int | None = None
    meta: Meta | None = None
    pinned: bool = False
    sort_key: str = ""
    rank: Rank | None = None
    guaranteed: bool = False


class _ListedTemplate(Value, frozen=True, gc=False):
    """What may be given by position for a `Template`, in this order."""

    uri_template: str
    name: str
    description: str = ""
    mime_type: str = ""


class Template(_ListedTemplate, frozen=True, gc=False, kw_only=True):
    """What clients are told of a route: how its URIs look and what they give."""

    title: str = ""
    annotations: Annotations | None = None


FOLDER_TYPE: Final = "inode/directory"


class Source(Protocol):
    """Bytes that stay where they are and are read in parts."""

    @property
    def size(self) -> int:
        """Length of the whole, in bytes."""

    def read(self, start: int, length: int) -> bytes:
        """Give the bytes from `start`, at most `length`; fewer only at the end."""

    def has_moved(self) -> bool:
        """Tell whether the whole changed since it was opened, so that parts may not belong together."""

    def close(self) -> None:
        """Let go of what is held; the catalogue calls it once."""


class Text(Value, frozen=True, gc=False):
    """A text in memory. Without `uri` it is the requested one."""

    text: str
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None


class Blob(Value, frozen=True, gc=False):
    """Bytes in memory that are no text."""

    data: bytes
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None


class Stored(Value, frozen=True, gc=False):
    """Bytes in a `Source`: text in `encoding`, or `binary`. Only what is asked for is read.

    A byte order mark at the start of a text is taken off, unless it is `exact`.
    """

    source: Source
    encoding: Encoding
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None
    exact: bool = False


Item = Text | Blob | Stored


class Range(Value, frozen=True, gc=False):
    """Bytes asked for: from `start`, `length` of them, or to the end."""

    start: int = 0
    length: int | None = None


class Unread(Value, frozen=True):
    """A resource that takes milliseconds or more to read; `read` does that, on a thread that may wait.

    A provider whose speed is `mixed` returns it in place of a reading.
    """

    read: Callable[[], "Reading | Item"]


class Reading(Value, frozen=True, gc=False):
    """What a read gave.

    Its `mime_type` is that of items that name none. Without `etag` the catalogue makes one
    from the content. `range` asks the catalogue
    to cut the one item to it, for readers whose template names `start` and `length`.
    `error` is set where a system answers an error as content: one of the error words.
    `more` is set where the items are the children of a folder: it gives the URI of what comes
    after so many of them, or None if nothing does. Such a reading has no byte ranges.
    `shape` is set where a provider reads one state of one resource again and again: readings of a URI with
    the very same shape differ in nothing but the bytes of their one `Stored` item.
    """

    items: tuple[Item, ...]
    mime_type: str = ""
    etag: str | None = None
    last_modified_ms: int | None = None
    ttl_ms: int = 0
    cache_scope: CacheScope = "private"
    range: Range | None = None
    error: str | None = None
    unchanged: bool = False
    meta: Meta | None = None
    more: Callable[[int], str | None] | None = None
    shape: object = None

    @property
    def is_folder(self) -> bool:
        """Whether the items are children, and not content."""
        return self.more is not None


class Page(Value, frozen=True, gc=False):
    """One page of a list. Without `next_cursor` it is the last."""

    entries: tuple[Resource, ...]
    next_cursor: str | None = None
    ttl_ms: int = 0
    cache_scope: CacheScope = "private"


class Completion(Value, frozen=True, gc=False):
    """Values for a template variable, best first. `None` where it is not known."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool | None = None


class Tool(Value, frozen=True, gc=False):
    """A tool as clients see it. Schemas are JSON Schema objects (2020-12).

    The fields after `open_world` are never sent. A tool that is `local` is not for callers who come over a network
    address. One that is `public` needs no permission: it shows only what the catalogue lets the caller read.
    """

    name: str
    description: str
    input_schema: Meta
    title: str = ""
    output_schema: Meta | None = None
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    local: bool = False
    public: bool = False


class ResourceLink(Value, frozen=True, gc=False):
    """A pointer to a resource, as part of a tool's result."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class ToolResult(Value, frozen=True, gc=False):
    """What a tool gave. A `str` block is text."""

    blocks: tuple[str | ResourceLink, ...]
    structured: object = None
    is_error: bool = False
    meta: Meta | None = None
