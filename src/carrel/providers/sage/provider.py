"""An assistant's memory of a project: the folder `.sage/`, read, searched and, if allowed, written.

sage://system/{+filename}   a file of the system folder, unchanged
sage://checkpoint/{id}      a research checkpoint, formatted
sage://knowledge/{id}       a knowledge item, with metadata and code links
sage://failure/{id}         an approach that failed, why, and what was learned
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.arguments import Arguments
from carrel.core.errors import BadArgument, ConfigError, NotFound, ProviderError
from carrel.core.model import Meta, Reading, Resource, Text, Tool, ToolResult
from carrel.core.provider import Call, Ceiling, DocumentChanges, Injection, Place, Project, Provider, Route, ToolLevel
from carrel.core.record import Value, replace
from carrel.files.data_folder import unreadable
from carrel.files.sandbox import SETTLED_NS
from carrel.providers.sage.folders import FOLDERS, walk
from carrel.providers.sage.listing import SageListing
from carrel.providers.sage.memory import SageError, SageMemory
from carrel.providers.sage.names import KINDS, SCHEME, canonical
from carrel.providers.sage.records import KnowledgeItem

if TYPE_CHECKING:
    from carrel.providers.sage.tools import SageTools

HEALTH_S: Final = 0.5
HEALTH_PROBLEMS: Final = 20
_DESCRIPTIONS: Final = {
    "system/{+filename}": ("system-file", "System file", "A file below .sage/system, unchanged"),
    "checkpoint/{id}": ("checkpoint", "Checkpoint", "A research checkpoint, by full or partial id"),
    "knowledge/{id}": ("knowledge", "Knowledge", "A knowledge item with its metadata and code links"),
    "failure/{id}": ("failure", "Failure", "An approach that failed, why, and what was learned"),
}


class FormatQuery(Value, frozen=True):
    """The format of the text; by default that of tuning.yaml."""

    format: str | None = None


FORMAT: Final = Arguments(FormatQuery)


class Sage(Provider):
    """The memory in a Sage folder."""

    name = "sage"
    schemes = (SCHEME,)
    folders = tuple(f"{SCHEME}://{kind}" for kind in KINDS)
    summary = (
        "What was learned about this project: objective, checkpoints, knowledge, failures. A part of an id is enough."
    )

    def __init__(
        self,
        project: Project,
        enabled: Literal["auto"] | bool = "auto",
        dir: Place = Place(".sage"),  # noqa: A002 the setting is named so
        tools: ToolLevel = "read",
        errors: Literal["text", "protocol"] = "text",
        inject: Injection = True,
        inject_tokens: Ceiling = Ceiling(400),
        inject_failures: int = 3,
        max_file_bytes: Ceiling = Ceiling(1_048_576),
        search: Literal["auto", "bm25"] = "auto",
    ) -> None:
        for key, value in (("inject_tokens", inject_tokens), ("inject_failures", inject_failures)):
            if value < 0:
                raise ConfigError(f"[sage] {key}: expected 0 or more, got {value}")
        if max_file_bytes < 1:
            raise ConfigError(f"[sage] max_file_bytes: expected 1 or more, got {max_file_bytes}")
        self.memory = SageMemory(project, dir, max_file_bytes)
        self.listing = SageListing(self.memory)
        self._project = project
        self._enabled = enabled
        self._level = tools
        self._errors = errors
        self._inject = (inject, inject_tokens, inject_failures)
        self._search = search
        self._lock = Lock()
        self._tools: SageTools | None = None

    def routes(self) -> Sequence[Route]:
        return [route for end in _DESCRIPTIONS for route in self._routes_of(end)]

    def _routes_of(self, end: str) -> Iterator[Route]:
        """Yield the route of a kind, and one for names with slashes, so that the read can refuse them."""
        kind = end.partition("/")[0]
        name, title, description = _DESCRIPTIONS[end]
        given = (FORMAT, partial(self.fingerprint_of_item, kind), True)
        yield Route(f"sage://{end}", partial(self.read, kind), name, "", title, description, *given)
        if "+" not in end:
            yield Route(f"sage://{kind}/{{+name}}", partial(self.read, kind), "", "", "", "", *given, listed=False)

    def canonical(self, uri: str) -> str:
        """Return the spelling of the templates: the kind may have any case, and other parameters are ignored."""
        return canonical(uri)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the system files, then all other entries, newest first within each kind."""
        self.memory.refresh()
        return self.listing.entries(after)

    def shortlist(self) -> Sequence[Iterable[Resource]]:
        """Return the system files, which are always listed, then each kind of memory, newest first."""
        self.memory.refresh()
        return self.listing.kinds()

    def list_fingerprint(self) -> str:
        """Return a token that changes with any file."""
        from carrel.core.hashing import blake2b

        self.memory.refresh()
        state = blake2b(digest_size=8)
        for name in FOLDERS:
            root = self.memory.home.root(name)
            state.update(f"{name}{root is None}".encode())
            for path, found in sorted(walk(root), key=lambda one: one[0]):
                state.update(f"{path}\0{found.signature}".encode(errors="surrogateescape"))
        return state.hexdigest()

    def document_changes(self, since: object) -> DocumentChanges:
        """Return all records if any file changed since a token, else none; a fingerprint depends on the text."""
        token = self.list_fingerprint()
        if token == since:
            return DocumentChanges((), token=token, is_whole=False)
        documents = [replace(one, fingerprint=self._fingerprint_of(one.uri)) for one in self.documents()]
        newest = max(
            (found.signature[0] for name in FOLDERS for _, found in walk(self.memory.home.root(name))), default=0
        )
        # A file that was written a moment ago may change again with the same times: then all records are returned.
        return DocumentChanges(documents, token=token if time_ns() - newest > SETTLED_NS else None)

    def _fingerprint_of(self, uri: str) -> str:
        """Return the fingerprint of an entry."""
        kind, _, name = uri.removeprefix("sage://").partition("/")
        return self._fingerprint(kind, uri, FormatQuery(), name)

    # Reading

    def read(self, kind: str, uri: str, query: FormatQuery, **name: str) -> Reading:
        """Return an item; a failure is a text, or an error if so configured."""
        self.memory.refresh()
        [asked] = name.values()
        try:
            item = self.memory.read(kind, asked, query.format)
        except SageError as error:
            return self._explain(uri, error)
        return Reading((Text(item.text, item.mime_type),), last_modified_ms=item.modified_ms)

    def _explain(self, uri: str, error: SageError) -> Reading:
        """Return an error as a text, or raise it."""
        candidates = {"dev.carrel/candidates": list(error.candidates)} if error.candidates else None
        if self._errors == "text":
            return Reading((Text(error.message, "text/plain", meta=candidates),), error=error.kind, meta=candidates)
        if error.kind == "not_found":
            raise NotFound(uri, error.message, data=candidates)
        if error.kind == "invalid":
            raise BadArgument(error.message, uri=uri)
        raise ProviderError(error.message, word="unreadable", uri=uri)

    def fingerprint_of_item(self, kind: str, uri: str, query: FormatQuery, **name: str) -> str:
        """Return a token that changes with the text, without walking git's history; raise for an invalid name."""
        self.memory.refresh()
        [asked] = name.values()
        return self._fingerprint(kind, uri, query, asked)

    def _fingerprint(self, kind: str, uri: str, query: FormatQuery, asked: str) -> str:
        try:
            item = self.memory.read(kind, asked, query.format, resolves=False)
        except SageError as error:
            if error.kind == "invalid":
                raise BadArgument(error.message, uri=uri) from None
            return f"error {error.message}"
        code = self.memory.code.fingerprint(item.record) if isinstance(item.record, KnowledgeItem) else ""
        return f"{item.mime_type} {item.text} {code}"

    # Completion

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Sequence[str]:
        """Return the ids or file names that begin with the value, then those that contain it, newest first."""
        del variable, context
        self.memory.refresh()
        kind = template.removeprefix("sage://").partition("/")[0]
        # The entries by kind are in the order of the kinds.
        every = [entry.name.partition("/")[2] for entry in self.listing.kinds()[KINDS.index(kind)]]
        return sorted((name for name in every if value in name), key=lambda name: not name.startswith(value))

    # Tools, instructions, health

    @property
    def is_listed(self) -> bool:
        """Whether Sage is listed: the folder exists or may be created, or the user enabled Sage."""
        return self._enabled is True or self._level == "write" or self.memory.home.exists

    @property
    def toolset(self) -> "SageTools":
        """The tools, created when they are first needed."""
        from carrel.providers.sage.tools import SageTools  # search and saving take long to import

        with self._lock:
            if self._tools is None:
                self._tools = SageTools(self._project, self.memory, self._level, self._search)
            return self._tools

    def tools(self) -> Sequence[Tool]:
        """Return the tools that the configuration allows."""
        return self.toolset.tools() if self._level != "off" and self.is_listed else ()

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        """Call a tool."""
        del call
        return self.toolset.call(name, arguments)

    def instructions(self) -> str:
        """Return the system files and the relevant failures, within the budget."""
        from carrel.providers.sage.session_start import SessionText  # only at the start of a conversation

        try:
            self.memory.refresh()
        except ProviderError:
            return ""  # a conversation without its memory is better than none
        return SessionText(self._project, self.memory, *self._inject).text()

    def health(self) -> Meta:
        """Return what cannot be read: folders, and as many files as are found in a short time."""
        try:
            self.memory.refresh()
        except ProviderError as error:
            return {"folder": False, "problems": [error.message]}
        home = self.memory.home.path
        problems = unreadable(self._project.root, home, *(f"{home}/{name}" for name in FOLDERS))
        deadline = monotonic() + HEALTH_S
        for path, reason in self.listing.unlisted(with_hidden=False):
            if len(problems) >= HEALTH_PROBLEMS or monotonic() > deadline:
                problems.append("there may be more: `carrel sage ls --check` names every file that is not listed")
                break
            problems.append(f".sage/{path}: {reason}")
        return {"folder": self.memory.home.exists, "problems": problems}

    def close(self) -> None:
        """Close every handle."""
        if self._tools is not None:
            self._tools.close()
        self.memory.close()
