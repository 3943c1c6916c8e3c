"""The values that providers, the catalogue and the protocol exchange.

Frozen and without behaviour. The spelling on the wire (`mimeType`, base64) exists only in `protocol/`. Times are whole
milliseconds since 1970, UTC; sizes and offsets are bytes.
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
    """The positional arguments of a `Resource`."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""


class Rank(IntEnum):
    """The order of entries in a list with a bound: first what a host cannot get by itself."""

    FRONT = 0
    DOCUMENTS = 1
    SKILLS = 2
    MEMORY = 3
    TASKS = 4
    LOGS = 5
    PACKAGES = 6
    OTHERS = 7
    FILES = 8


class Resource(_ListedUri, frozen=True, gc=False, kw_only=True):
    """One entry of the list. The fields after `meta` are for the catalogue and never sent.

    An entry that is `pinned` stands before those of all other providers. `sort_key` is its place among the entries of
    its provider; without one, that is the URI. `rank` is its place in a list with a bound: by default `FRONT` if it is
    pinned, else `OTHERS`. One that is `guaranteed`, or pinned, stands even in the shortest list. `target` is the URI
    that a link leads to: a caller who may not read that one does not see the link.
    """

    title: str = ""
    annotations: Annotations | None = None
    size: int | None = None
    meta: Meta | None = None
    pinned: bool = False
    sort_key: str = ""
    rank: Rank | None = None
    guaranteed: bool = False
    target: str = ""


class _ListedTemplate(Value, frozen=True, gc=False):
    """The positional arguments of a `Template`."""

    uri_template: str
    name: str
    description: str = ""
    mime_type: str = ""


class Template(_ListedTemplate, frozen=True, gc=False, kw_only=True):
    """A route as clients see it: the form of its URIs and what they return."""

    title: str = ""
    annotations: Annotations | None = None


FOLDER_TYPE: Final = "inode/directory"


class Source(Protocol):
    """Bytes that are read in parts, as from an open file."""

    @property
    def size(self) -> int:
        """Length of the whole, in bytes."""

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, at most `length`; fewer only at the end."""

    def has_moved(self) -> bool:
        """Return whether it changed since it was opened, so that parts may not belong together."""

    def close(self) -> None:
        """Release everything; the catalogue calls it once."""


class Text(Value, frozen=True, gc=False):
    """A text in memory. Without `uri`, it has the requested URI."""

    text: str
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None


class Blob(Value, frozen=True, gc=False):
    """Bytes in memory that are not text."""

    data: bytes
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None


class Stored(Value, frozen=True, gc=False):
    """Bytes in a `Source`: text in `encoding`, or `binary`. Only the requested part is read.

    A byte order mark at the start of a text is removed, unless it is `exact`.
    """

    source: Source
    encoding: Encoding
    mime_type: str = ""
    uri: str | None = None
    meta: Meta | None = None
    exact: bool = False


Item = Text | Blob | Stored


class Range(Value, frozen=True, gc=False):
    """The requested bytes: `length` bytes from `start`, or all to the end."""

    start: int = 0
    length: int | None = None


class Unread(Value, frozen=True):
    """A resource that takes milliseconds or more to read; `read` is called on a worker thread.

    A provider whose speed is `mixed` returns it in place of a reading.
    """

    read: Callable[[], "Reading | Item"]


class Reading(Value, frozen=True, gc=False):
    """The result of a read.

    `mime_type` is the type of items without one. Without `etag`, the catalogue makes one from the content. With
    `range`, the catalogue cuts the one item to it, for readers whose template has `start` and `length`. `error` is one
    of the error words, where a system sends errors as content. `more` is set if the items are the children of a
    folder: it takes a number of children and returns the URI of those after them, or None. Such a reading has no byte
    ranges. `shape` is any object: readings of a URI with the identical shape differ only in the bytes of their one
    `Stored` item.
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
        """Whether the items are the children of a folder."""
        return self.more is not None


class Page(Value, frozen=True, gc=False):
    """One page of a list. Without `next_cursor` it is the last."""

    entries: tuple[Resource, ...]
    next_cursor: str | None = None
    ttl_ms: int = 0
    cache_scope: CacheScope = "private"


class SkillFile(Value, frozen=True, gc=False):
    """A file of a skill: its URI, the SHA-256 of its bytes as `sha256:` and 64 digits, and its size in bytes."""

    uri: str
    digest: str
    size: int


class Skill(Value, frozen=True):
    """An Agent Skill (SEP-2640): the URI of its `SKILL.md`, the front matter of that, and all its files."""

    uri: str
    frontmatter: Meta
    files: tuple[SkillFile, ...]
    meta: Meta | None = None


class Completion(Value, frozen=True, gc=False):
    """Values for a template variable, best first. None means not known."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool | None = None


class Tool(Value, frozen=True, gc=False):
    """A tool as clients see it. Schemas are JSON Schema objects (2020-12).

    `local` and `public` are never sent. A `local` tool is not for callers from the network. A `public` tool needs no
    permission, because it shows only what the caller may read.
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
    meta: Meta | None = None


class ResourceLink(Value, frozen=True, gc=False):
    """A pointer to a resource, as part of a tool's result."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class ToolResult(Value, frozen=True, gc=False):
    """The result of a tool call. A `str` block is text."""

    blocks: tuple[str | ResourceLink, ...]
    structured: object = None
    is_error: bool = False
    meta: Meta | None = None
