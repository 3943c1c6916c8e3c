"""The class that every source of resources inherits from, and what it works with.

A provider sets `name` and `schemes`, defines `routes`, and overrides the methods for what else it has. Every other
method has a default that means "nothing of that kind". The catalogue looks once, when the provider is mounted, which
methods are overridden; a method of any other name means nothing to it.

    routes            URI templates and their readers (required)
    entries           the listed resources, in order
    shortlist         the most useful entries first, where not all of them fit
    browse            the entries below a folder or with a prefix
    children          the direct children of a folder
    read_unmatched    read URIs of its schemes that no route matches
    canonical         respell URIs whose rules the templates do not express
    refusal           word the errors for URIs that do not fit
    complete          values for a template's variables
    fingerprint       a cheap token per URI, to notice changes by polling
    list_fingerprint  a cheap token of the list, to notice changes by polling
    watch             report changes instead of being polled
    skills            its Agent Skills, with the digest of each file
    documents         what search finds, where that is more than the entries
    document_changes  what changed among them, where that is known without looking at all
    search            answer a search itself
    tools, call       tools, and a call of one
    instructions      text for the start of a conversation
    health            facts for `carrel://health`
    close             release everything

A provider may be called from several threads at once. A read has no side effects. Providers that pass on what others
have (another server, a foreign object) inherit from `carrel.core.gateway.Gateway`, which has a few more methods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from os.path import basename
from typing import ClassVar, Final, Literal, NewType, Protocol

from carrel.core.arguments import Arguments
from carrel.core.errors import CarrelError, ConfigError, NotFound, RequestError
from carrel.core.hierarchy import children_of, folder_of, start_of
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.core.model import Blob, Completion, Meta, Reading, Resource, Skill, Stored, Text, Tool, ToolResult, Unread
from carrel.core.record import Value
from carrel.core.store_address import StoreAddress

Given = Reading | Text | Blob | Stored
"""A whole reading, or its one item."""

Reader = Callable[..., Given | Unread]
"""Returns the content of one URI; called with the template's variables as keywords."""

Place = NewType("Place", str)
"""A setting that names a file or folder; one outside the project needs trust."""

Places = NewType("Places", str)
"""A setting that names several, separated as in `PATH`."""

Program = NewType("Program", str)
"""A setting that names something to run; it needs trust."""

Protection = NewType("Protection", bool)
"""A setting that protects the user; to turn it off needs trust."""

Secret = NewType("Secret", str)
"""A setting that may hold a password: it is not shown, and names a place outside the project."""

Exposure = NewType("Exposure", bool)
"""A setting that lets callers on other machines do more; it needs trust."""

Ceiling = NewType("Ceiling", int)
"""A setting that is a bound: a project file may lower it, to raise it needs trust."""

FractionalCeiling = NewType("FractionalCeiling", float)
"""A `Ceiling` that need not be a whole number."""

Injection = bool | Literal["trusted"]
"""Whether a project's text goes into the instructions: always, never, or only if trusted. To raise it needs trust."""

ToolLevel = Literal["off", "read", "write"]
"""Which of a provider's tools exist; above `read` needs trust."""


OUTSIDE: Final = "it names a place outside the project"
"""The reason why a setting that names such a place needs trust."""


class Section(Value, frozen=True):
    """A further section of the configuration for a provider: its fields are the keys.

    The constructor's parameter `flutter: FlutterSettings | None`, of a subclass of this, is the section `[flutter]`;
    `commands: dict[str, Command] | None` is any number of `[commands.<name>]`. `__post_init__` may check more than
    the types, and raises `ConfigError`. `examples` has a value for each key without a default, in TOML.
    """

    examples: ClassVar[Mapping[str, str]] = {}

    def check(self, least: float, most: float, *names: str) -> None:
        """Raise ConfigError for numbers that are too small or too large."""
        for name in names:
            value = getattr(self, name)
            if not least <= value <= most or value == inf:
                bounds = f", {least} or more" if most == inf else f" from {least} to {most}"
                raise ConfigError(f"{name}: expected a number{bounds}, got {value}")


class Project(Value, frozen=True):
    """The project that a provider serves; a constructor's parameter of this type is no setting.

    `given` are the keys of its section that were set, `named` those that the user or a trusted file set. `is_trusted`
    is whether the user trusts the project's settings; `trusts` returns the same for the path and SHA-256 of another
    file. `deny` are the patterns of project files that must never be opened. `max_message_bytes` is the size of one
    message. `read` reads a URI of any provider. `serves` returns whether `workspace://` may show a file, by its path
    below the root. `store` is the team's store, if one is configured.
    """

    root: str
    environment: Mapping[str, str]
    given: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    is_trusted: bool = False
    trusts: Callable[[str, str], bool] | None = None
    deny: tuple[str, ...] = ()
    max_message_bytes: int = MAX_MESSAGE_BYTES
    read: Callable[[str], Reading] | None = None
    serves: Callable[[tuple[str, ...]], bool] | None = None
    store: StoreAddress | None = None


class PlacesFile(Value, frozen=True):
    """A file of a project, other than its settings, that names places outside the project.

    They count when the user trusts the file, which has this path and SHA-256. `section` is the table in which the
    file names them.
    """

    path: str
    digest: str
    section: str
    places: Mapping[str, str]

    def notes(self) -> list[str]:
        """Return a sentence about each place, for as long as the file is not trusted."""
        name = basename(self.path)
        return [
            f"[{self.section}] {key} in {name} is not in effect: {OUTSIDE}; run `carrel trust` to allow it"
            for key in self.places
        ]


class Route(Value, frozen=True):
    """A URI template and its reader, which gets the template's variables as keyword arguments.

    A template without variables is one resource; `entries` lists it. Without a `name`, the template is named after its
    reader: `read_bed` is `bed`. With `query`, the parameters of the query are those that it declares, even if the
    template shows others; they are checked, and the reader gets the record as `query`. With `takes_uri`, the reader
    gets the URI as sent as `uri`. `fingerprint` is called like the reader, and returns what `Provider.fingerprint`
    does. A template that is not `listed` is only matched. `example` is a query, as `days=7`, which the error about an
    unknown parameter shows. `append` takes what a client sends to be added: it is called like the reader, with the
    bytes as `data`, and returns facts for the client.
    """

    template: str
    reader: Reader
    name: str = ""
    mime_type: str = ""
    title: str = ""
    description: str = ""
    query: Arguments[Value] | None = None
    fingerprint: Callable[..., str | None] | None = None
    takes_uri: bool = False
    listed: bool = True
    example: str = ""
    append: Callable[..., Mapping[str, object]] | None = None


class Document(Value, frozen=True, gc=False):
    """A resource that search finds.

    `fingerprint` is what `Provider.fingerprint` returns for the URI; if it is empty, that is called. `size` is in
    bytes. With `text`, nothing has to be read. A document that is not `settled` may change once more without another
    fingerprint, as a file that was written a moment ago: it is read again for each search. `target` is the URI that a
    link leads to: a caller who may not read that one does not find the link.
    """

    uri: str
    fingerprint: str = ""
    title: str = ""
    mime_type: str = ""
    size: int | None = None
    modified_ms: int | None = None
    text: str | None = None
    settled: bool = True
    target: str = ""


class DocumentChanges(Value, frozen=True):
    """The changes of a provider's documents since an earlier time; with `is_whole`, all its documents.

    `documents` are new or changed, `gone` are the URIs of those that are no more. `token` stands for now; None if
    nothing is remembered.
    """

    documents: Sequence[Document]
    gone: Sequence[str] = ()
    token: object = None
    is_whole: bool = True


class Match(Value, frozen=True):
    """What a provider that answers a search itself found: a URI, and a number that is greater for a better match."""

    uri: str
    score: float
    title: str = ""


class Changes(Protocol):
    """Where a provider reports changes; its methods may be called from any thread."""

    def updated(self, uri: str, fingerprint: str = "") -> None:
        """Report that the content of `uri` changed, appeared or went away; its fingerprint now, if that is known."""

    def updated_below(self, uri: str) -> None:
        """Report that `uri` appeared or went away with everything below it."""

    def reconsidered(self, uri: str) -> None:
        """Report that other rules apply to `uri` and everything below: fingerprints are compared."""

    def list_changed(self) -> None:
        """Report that the set of listed entries, or the routes, changed."""

    def ask_aliases(self, aliases: Callable[[str], Sequence[str]]) -> None:
        """Register `aliases`, which returns the other URIs that change with a URI, such as the target of a link."""


class Call(Protocol):
    """A running tool call, as the tool sees it."""

    @property
    def client(self) -> str:
        """The name that the calling program gave itself; empty if it gave none."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer wants the result."""

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Register `stop`, which is called when the caller gives up; at once if it already has."""

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller; dropped unless it asked for progress and the value rises."""


Speed = Literal["instant", "mixed", "normal", "blocking", "as_others"]
"""How long a call of a provider may take.

    instant    microseconds, as from memory: it is called on the event loop of HTTP, where every client waits
    mixed      reads take microseconds, or return `Unread`, which a worker thread reads; other calls are `normal`
    normal     milliseconds
    blocking   it may wait, as for a network or a database: it is called on a worker thread
    as_others  it asks other providers: it takes as long as the slowest of them
"""


class Provider:
    """A source of resources."""

    name: str
    """Its section in the configuration."""
    schemes: tuple[str, ...] = ()
    """The URI schemes it owns."""
    summary: str = ""
    """One sentence for the guide."""
    permission: str = ""
    """What stands for its schemes in scopes, if they are not named for its schemes: `audit` for `audit:read`."""
    speed: Speed = "normal"
    deadline_s: float = 0.0
    """How long its slowest call may take, if that is more than usual."""
    poll_s: float | None = None
    """How often its fingerprints are compared, if that is not the usual interval."""
    list_pause_s: float = 1.0
    """The least time between two notifications that its list changed."""
    has_tools: bool = True
    """Whether its tools are served; it has none unless it overrides `tools`."""
    limits_tool_time: bool = False
    """Whether its tools may take long and limit their own time."""
    speaks_fly: bool = False
    """Whether every result has the fields of the Fly documents."""
    folders: tuple[str, ...] = ()
    """URIs of folders that exist even while nothing is in them."""

    def routes(self) -> Sequence[Route]:
        """Return the URI templates and their readers; called once, when the provider is mounted."""
        raise NotImplementedError(f"{type(self).__name__} has no routes()")

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the listed resources in the order of their sort keys, starting after the key `after`.

        The sort key is the URI unless the entry names another one. Pinned entries come first.
        """
        del after
        return iter(())

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return groups that together hold each entry once, the most useful first; for a list with a bound.

        All entries of a group have the same rank; guaranteed ones come first. Sort keys rise within a group, and
        from group to group of the same rank. By default, a group of the pinned entries and one of all others.
        """
        return (self.entries(),)

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Yield, in the order of `entries`, those below a folder, or those whose URI begins with a prefix.

        Raise for a folder that does not exist. By default, a prefix is looked for in `entries`.
        """
        found = self.entries(after) if directory is None else iter(())
        return (entry for entry in found if entry.uri.startswith(prefix))

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Yield the direct children of a folder in the order of their sort keys, starting after the key `after`.

        Folders among them have the type `inode/directory`. Raise `NotFound` or `NotAFolder` for any other URI. By
        default, the folders are the path prefixes of the listed URIs, and those that `folders` names.
        """
        folder = folder_of(uri)
        children = children_of(folder, self.browse(None, start_of(folder)), self.folders)
        return (child for child in children if child.sort_key > after)

    def skills(self) -> Sequence[Skill]:
        """Return its skills, in a stable order; each is the `SKILL.md` of a folder that `children` reads."""
        return ()

    def read_unmatched(self, uri: str) -> Given | Unread:
        """Read a URI of its schemes that no route matches, given exactly as sent; or raise."""
        raise NotFound(uri)

    def canonical(self, uri: str) -> str:
        """Return a URI of its schemes in the spelling that its routes match, or raise; quickly, since it is only text.

        For other spellings, and for systems whose URIs have rules of their own. By default, the URI as sent.
        """
        return uri

    def target(self, uri: str) -> str:
        """Return the URI of what is read for a URI: another one if a link leads there. By default, the URI itself.

        Asked for callers who may read only a part of the scheme: a link in that part opens nothing outside it.
        """
        return uri

    def refusal(self, uri: str, error: RequestError) -> CarrelError:
        """Return the error for a URI that no route matches, or whose query does not fit, in other words.

        If nothing else is served, it words the errors for all other URIs too. By default, `error` itself.
        """
        del uri
        return error

    def complete(
        self, template: str, variable: str, value: str, context: Mapping[str, str]
    ) -> Completion | Sequence[str]:
        """Return values that begin with `value`, best first. `context` holds the variables already chosen."""
        del template, variable, value, context
        return ()

    def fingerprint(self, uri: str) -> str | None:
        """Return a token that changes when the content does; None if nothing is there yet. Raise as a read would.

        By default, the catalogue uses the ETag of a read.
        """
        raise NotFound(uri)

    def list_fingerprint(self) -> str:
        """Return a token that changes when the set of listed entries does. By default, the list is not polled."""
        return ""

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Report to `changes` until the returned function is called. By default, fingerprints are polled."""
        del changes
        return lambda: None

    def documents(self) -> Iterator[Document]:
        """Yield everything that search finds, listed or not, in any order; cheaply, since it reads no content.

        By default, the entries.
        """
        for entry in self.entries():
            modified_ms = None if entry.annotations is None else entry.annotations.last_modified_ms
            title = entry.title or entry.name
            yield Document(entry.uri, "", title, entry.mime_type, entry.size, modified_ms, target=entry.target)

    def document_changes(self, since: object) -> DocumentChanges:
        """Return what changed among the documents since the token of an earlier call; for None, all of them.

        Every change that was made before the call must be among them. By default, all of them each time.
        """
        del since
        return DocumentChanges(tuple(self.documents()))

    def search(self, query: str, limit: int) -> Sequence[Match] | None:
        """Return what it finds for the words of a query, best first; None if its documents are to be indexed."""
        del query, limit
        return None

    def tools(self) -> Sequence[Tool]:
        """Return the tools that can be called now, in a stable order."""
        return ()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool. Bad arguments and failures are results with `is_error`."""
        raise NotImplementedError(f"{type(self).__name__} has no call(): {name}, {arguments}, {call}")

    def instructions(self) -> str:
        """Return a short text that an assistant should have from the start; quickly, since every client waits."""
        return ""

    def health(self) -> Meta:
        """Return JSON-ready facts for people.

        `problems` is a list of sentences. So is `left_out`: for each rule that leaves out what a user may expect, how
        much that is, and the command that changes it.
        """
        return {}

    def close(self) -> None:
        """Release everything; a second call does nothing."""


ATTRIBUTES: Final = tuple(Provider.__annotations__)
METHODS: Final = tuple(name for name, value in vars(Provider).items() if callable(value) and not name.startswith("_"))


def overrides(provider: Provider, method: str) -> bool:
    """Return whether a provider defines this method itself."""
    return getattr(type(provider), method) is not getattr(Provider, method)
