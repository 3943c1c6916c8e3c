"""What a source of resources implements: one required facet, and optional ones.

A provider is any object with the members of `Provider`. It gains a facet by having
that facet's members too; there is no registration. The catalogue looks once, when the
provider is mounted.

    Provider        routes and sorted entries (required)
    Fronting        a few entries that stand before everybody else's
    Ordering        entries in another order than their URIs'
    Ranking         which entries come first where not all of them fit
    Catching        a better answer than "not found" for URIs of its schemes no route matches
    Claiming        single URIs of its own, which come before every template
    Rerouting       routes or claims that change while it is mounted
    Adopting        schemes that are not known yet
    Conditioning    reads that may be unchanged
    Describing      templates told otherwise than by routes
    Refusing        words of its own for URIs of its schemes that are no URIs at all
    Browsing        a part of the list by folder or prefix, as the Fly documents ask
    Explaining      why a URI is or is not served
    Completing      values for its templates' variables
    Referring       completion of what is no template of its routes
    Fingerprinting  a cheap token per URI, for watching by polling
    Surveying       a cheap token for the whole list, for noticing that it changed
    Watching        events of its own instead of polling
    Following       knowing which URIs are listened to
    Tracing         other URIs under which a change of one is reported
    Calling         tools
    Instructing     text for the start of a conversation
    Reporting       what `carrel://health` should know
    Omitting        what a rule leaves out, and how to change it
    Closing         something to let go of at the end

A provider may be called from several threads at once. A read has no side effects.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from math import inf
from os.path import basename
from typing import Final, Literal, NewType, Protocol, runtime_checkable

from carrel.core.errors import ConfigError, RequestError
from carrel.core.limits import MAX_MESSAGE_BYTES
from carrel.core.model import (
    Blob,
    Completion,
    Meta,
    Reading,
    Resource,
    Stored,
    Template,
    Text,
    Tool,
    ToolResult,
    Unread,
)
from carrel.core.record import Value

Given = Reading | Text | Blob | Stored
"""A whole reading, or its one item."""

Reader = Callable[..., Given | Unread]
"""Gives what one URI holds: called with the template's variables as keywords."""

Place = NewType("Place", str)
"""A setting that names a file or folder; one outside the project needs trust."""

Places = NewType("Places", str)
"""A setting that names several, separated as in `PATH`."""

Program = NewType("Program", str)
"""A setting that names something to run; it needs trust."""

Protection = NewType("Protection", bool)
"""A setting that protects the user; to turn it off needs trust."""

Exposure = NewType("Exposure", bool)
"""A setting that lets callers on other machines do more; it needs trust."""

Ceiling = NewType("Ceiling", int)
"""A setting that is a bound: a project file may lower it, to raise it needs trust."""

FractionalCeiling = NewType("FractionalCeiling", float)
"""A `Ceiling` that need not be a whole number."""

Injection = bool | Literal["trusted"]
"""Whether a project's text goes into the instructions, or only if the project is trusted; as for a `Ceiling`."""

ToolLevel = Literal["off", "read", "write"]
"""Which of a provider's tools exist; above `read` needs trust."""


OUTSIDE: Final = "it names a place outside the project"
"""Why a setting counts only with trust, where that is the reason."""


class Section(Value, frozen=True):
    """Settings that stand in a section of their own beside the provider's: its fields are the keys.

    A constructor's parameter `flutter: FlutterSettings | None`, of a subclass of this, is the section
    `[flutter]`; one `commands: dict[str, Command] | None` is any number of `[commands.<name>]`.
    What a value's kind does not say is checked in `__post_init__`, which raises `ConfigError`.
    """

    def check(self, least: float, most: float, *names: str) -> None:
        """Refuse numbers that are too small or too large."""
        for name in names:
            value = getattr(self, name)
            if not least <= value <= most or value == inf:
                bounds = f", {least} or more" if most == inf else f" from {least} to {most}"
                raise ConfigError(f"{name}: expected a number{bounds}, got {value}")


class Project(Value, frozen=True):
    """Where a provider works: a constructor that takes one is given it, and it is no setting.

    `given` are the keys that were set for it, `named` those of them that the user or a trusted file set;
    `trusts` tells of a file's path and SHA-256 whether the user trusts that file to name places outside;
    `is_trusted` says that the user trusts the project's file. `deny` are the patterns the operator denies
    to all who open project files; `max_message_bytes` is what one message holds. `read` gives what a URI
    holds, of whichever provider, to one whose tools take URIs.
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
    """A URI template and what reads it.

    A template without variables is one concrete resource: it is dispatched, and listed
    by `entries`, not as a template. With `whole`, the reader gets the URI exactly as it
    was sent as its only argument, for systems that parse their URIs by rules of their own.
    With `open_query`, only what stands before the `?` is matched, and any query may follow.
    """

    template: str
    reader: Reader
    name: str
    mime_type: str = ""
    title: str = ""
    description: str = ""
    whole: bool = False
    open_query: bool = False


class Traits:
    """What a provider may say of itself, in attributes of these names; what it does not say is as it is here.

    They are looked at when it is mounted. One that is misspelt breaks the contract (`carrel.testing.contract`).
    """

    __slots__ = ()

    summary: str = ""
    """What the guide says of it."""
    blocking: bool = False
    """It may wait long in a read, and is called on a worker thread."""
    quick: bool = False
    """Every call takes microseconds, as from memory: HTTP makes it on its event loop, where every client waits."""
    quick_reads: bool = False
    """The same holds for its reads; one that takes longer is returned as `Unread`."""
    asks_others: bool = False
    """It waits where other providers wait."""
    deadline_s: float = 0.0
    """The time its slowest call may take, where that is more than usual."""
    patient: bool = False
    """Its tools take their time, and bound it themselves."""
    calls: bool = True
    """Whether it has tools here, if it is `Calling`."""
    completes: bool = True
    """Whether it has completions here, if it is `Completing`."""
    list_pause_s: float = 1.0
    """The least time between two notifications that its part of the list changed."""
    poll_seconds: float | None = None
    """In which interval it is asked for fingerprints, where that is not the usual one."""
    speaks_fly: bool = False
    """Every result has the fields of the Fly documents."""
    mirrors: bool = False
    """It only shows, through the catalogue, what others have: its tools are for everybody."""
    literal: bool = False
    """It parses its URIs itself: `unmatched` gets all that begin with its scheme, however spelled, and, where
    nobody else serves anything, all others too."""


TRAITS: Final = tuple(Traits.__annotations__)


class Provider(Protocol):
    """A source of resources. It has facets, the protocols below, and may have `Traits`."""

    @property
    def name(self) -> str:
        """Give the provider's name: its section in the configuration."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """Give the URI schemes it owns."""

    def routes(self) -> Sequence[Route]:
        """Give the route table. It is asked once, when the provider is mounted."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the listed resources in key order, starting after the key `after`."""


@runtime_checkable
class Fronting(Protocol):
    """Has a few entries that stand before everybody else's; `entries` leaves them out."""

    def front(self) -> Sequence[Resource]:
        """Give those entries, in key order."""


@runtime_checkable
class Starting(Protocol):
    """Takes a while until it knows all it lists."""

    @property
    def is_starting(self) -> bool:
        """Tell whether the list may still be incomplete."""


@runtime_checkable
class Ordering(Protocol):
    """Lists in another order than that of the URIs."""

    def key(self, entry: Resource) -> str:
        """Give the entry's place, made from the entry alone; `entries` is sorted by it."""


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


class Share(Value, frozen=True):
    """Some of a provider's entries, the most useful first.

    `key` gives an entry's place, made from the entry alone; `entries` is sorted by it. The first
    `promised` entries are listed whatever else there is.
    """

    rank: Rank
    entries: Callable[[], Iterator[Resource]]
    key: Callable[[Resource], str]
    promised: int = 0


@runtime_checkable
class Ranking(Protocol):
    """Knows which of its entries come first where not all of them fit.

    A provider without this facet has two shares: its front, which is promised, and the rest with `Rank.OTHERS`.
    """

    def shares(self) -> Sequence[Share]:
        """Return shares that together hold each entry once; within one rank, keys rise from share to share."""


@runtime_checkable
class Catching(Protocol):
    """Has its own answer for URIs of its schemes that no route matches."""

    def unmatched(self, uri: str) -> Given | Unread:
        """Read the URI, given exactly as sent, or raise."""


@runtime_checkable
class Claiming(Protocol):
    """Owns single URIs. They come before every provider's templates, with any query."""

    def claims(self) -> Sequence[Route]:
        """Give a route for each; its `template` is the URI itself, and it is `whole`."""


@runtime_checkable
class Rerouting(Protocol):
    """Has routes or claims that change while it is mounted."""

    def on_reroute(self, again: Callable[[], None]) -> None:
        """Have `again` called, from any thread, after they changed."""


@runtime_checkable
class Refusing(Protocol):
    """Has its own words for a URI of its schemes that is too long or holds what no URI may."""

    def refused(self, uri: str, error: RequestError) -> RequestError:
        """Give the error to raise instead of the catalogue's."""


@runtime_checkable
class Browsing(Protocol):
    """Can list a part: below a folder, or by the beginning of a URI."""

    def browse(self, directory: str | None, prefix: str, after: str = "") -> Iterator[Resource]:
        """Yield that part in key order, after the key `after`; raise for a folder that is none."""


@runtime_checkable
class Explaining(Protocol):
    """Can say why a URI is or is not served."""

    def explain(self, uri: str) -> Sequence[str]:
        """Give the reasons, a sentence each."""


@runtime_checkable
class Referring(Protocol):
    """Completes more than the templates of its routes: listed URIs, templates that nothing here can match."""

    def refers(self, reference: str) -> str | None:
        """Give the reference as `complete` is to get it, with whatever argument; None if it is none of these."""


@runtime_checkable
class Completing(Protocol):
    """Offers values for its templates' variables."""

    def complete(
        self, template: str, variable: str, value: str, context: Mapping[str, str]
    ) -> Completion | Sequence[str]:
        """Give values that begin with `value`, best first. `context` holds variables already chosen."""


@runtime_checkable
class Adopting(Protocol):
    """May turn out to own schemes that are not known yet."""

    def adopts(self, scheme: str) -> bool:
        """Tell whether URIs of a scheme nobody owns are to be asked of it (`unmatched`)."""


@runtime_checkable
class Conditioning(Protocol):
    """Can tell by itself that a URI still has an ETag, without giving what it holds."""

    def read_if(self, uri: str, condition: str) -> Given:
        """Read the URI, given as sent; or give a reading that is `unchanged`, with its ETag."""


@runtime_checkable
class Describing(Protocol):
    """Tells clients of its templates by itself, also of those that no route can match."""

    def templates(self) -> Sequence[Template]:
        """Give what clients are told."""


@runtime_checkable
class Fingerprinting(Protocol):
    """Can tell cheaply whether a URI changed."""

    def fingerprint(self, uri: str) -> str | None:
        """Give a token that changes when the content does; None where nothing is yet.

        What a read would refuse is refused with the same error.
        """


@runtime_checkable
class Surveying(Protocol):
    """Can tell cheaply whether its list changed."""

    def survey(self) -> str:
        """Give a token that changes when the set of listed entries does."""


class Changes(Protocol):
    """Where a provider reports changes; may be called from any thread."""

    def updated(self, uri: str, fingerprint: str = "") -> None:
        """Say that what `uri` holds changed, appeared or went away; what its fingerprint is now, where it is known."""

    def updated_below(self, uri: str) -> None:
        """Say that `uri` appeared or went away with everything below it: what was there, or is, is told."""

    def reconsidered(self, uri: str) -> None:
        """Say that other rules hold for `uri` and everything below it: what has another fingerprint is told."""

    def list_changed(self) -> None:
        """Say that the set of listed entries, or the routes, changed."""


@runtime_checkable
class Watching(Protocol):
    """Notices changes by itself."""

    def watch(self, changes: Changes) -> Callable[[], None]:
        """Begin to report to `changes`; the result ends it. Called when somebody listens."""


@runtime_checkable
class Following(Protocol):
    """Wants to know which URIs are listened to."""

    def follow(self, uri: str) -> None:
        """Take note that somebody listens to the URI."""

    def unfollow(self, uri: str) -> None:
        """Take note that nobody does any more."""


@runtime_checkable
class Tracing(Protocol):
    """Reports changes under other URIs than it can be asked by: other spellings, or what a link leads to."""

    def traces(self, uri: str) -> Sequence[str]:
        """Give the URIs whose reported changes are changes of this one."""


class Call(Protocol):
    """A running tool call, as the tool sees it."""

    @property
    def client(self) -> str:
        """The name that the calling program gave itself; empty if it gave none."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer wants the result."""

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Have `stop` called when the caller gives up; at once if it already has."""

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the caller how far it is; dropped unless it asked and the value rises."""


@runtime_checkable
class Calling(Protocol):
    """Has tools."""

    def tools(self) -> Sequence[Tool]:
        """Give the tools that can be called now, in a stable order."""

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool. Bad arguments and failures are results with `is_error`."""


@runtime_checkable
class Instructing(Protocol):
    """Has something an assistant should know from the start."""

    def instructions(self) -> str:
        """Give a short text, built now; empty when there is nothing to say. Everybody waits for it: be quick."""


@runtime_checkable
class Reporting(Protocol):
    """Knows more about its state than that it is there."""

    def health(self) -> Meta:
        """Give JSON-ready facts, for people: `problems` is a list of sentences."""


@runtime_checkable
class Omitting(Protocol):
    """Leaves out by a rule what its user may expect to find."""

    def left_out(self) -> Sequence[str]:
        """Return a sentence for each rule: how much it leaves out, and the command that changes it."""


@runtime_checkable
class Closing(Protocol):
    """Holds something to let go of."""

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
