"""A hierarchy of projects, epics and tasks: read-only resources, and tools where they are turned on.

scopes://cli-quick-ref                                 the commands of `carrel scopes`
scopes://scope/{alias}                                 one scope, as JSON
scopes://tree/{alias}{?depth,skip,limit,max_nodes}     a scope and what lies beneath it, as text
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.errors import BadArgument, ConfigError, NotFound, ProviderError, RequestError, echo
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Annotations, Completion, Meta, Reading, Resource, Text, Tool, ToolResult
from carrel.core.provider import Call, Ceiling, Place, Project, Rank, Route, Share, ToolLevel
from carrel.providers.scopes import commands, uris
from carrel.providers.scopes.location import DEFAULT, Location
from carrel.providers.scopes.scope_errors import INTERNAL_TEXT, ScopeError, StoreFault
from carrel.providers.scopes.uris import DEFAULT_NODES, MAX_DEPTH, ScopesTarget
from carrel.providers.scopes.values import SCOPE_URI, hex_sha256, normalise_alias

if TYPE_CHECKING:
    from carrel.providers.scopes.session import Ledger

log = logging.getLogger(__name__)

QUICK_REFERENCE_TTL_MS: Final = 3_600_000
MAX_CEILING: Final = 100_000

_QUICK: Final = Resource(
    uris.QUICK_REFERENCE,
    "cli-quick-ref",
    "The commands of `carrel scopes`, with which scopes are created and changed",
    "text/markdown",
    title="CLI Quick Reference",
)
_SCOPE_TOLD: Final = "One scope (a project, an epic or a task): its title, status, parent, children and aliases"
_TREE_TOLD: Final = (
    "A scope and what lies beneath it, as indented text. Start with depth=1; depth goes up to 5. Look for "
    "(truncated) on the last line: then page with skip and limit, lower the depth, or read a subtree by its alias"
)


_FROZEN: Final = "The store's folder cannot be written: changes made elsewhere may not be seen"
_UNREADABLE: Final = "The store cannot be read; `carrel scopes list` says why"


class Scopes:
    """The project's scopes."""

    name = "scopes"
    schemes = ("scopes",)
    summary = "Projects, epics and tasks in one hierarchy. `scopes://tree/<alias>?depth=1` shows what lies beneath one."

    def __init__(
        self,
        project: Project,
        enabled: Literal["auto"] | bool = "auto",
        db: Place = Place(DEFAULT),
        tools: ToolLevel = "read",
        max_nodes_ceiling: Ceiling = Ceiling(DEFAULT_NODES),
        max_children_listed: Ceiling = Ceiling(10_000),
        list_roots: int = 100,
        ttl_ms: int = 0,
    ) -> None:
        """Make it; `enabled` was for whoever decides whether to."""
        del enabled
        _check("max_nodes_ceiling", max_nodes_ceiling, 1, MAX_CEILING)
        _check("max_children_listed", max_children_listed, 0, 1_000_000)
        _check("list_roots", list_roots, 0, 1_000_000)
        _check("ttl_ms", ttl_ms, 0, 2**53 - 1)
        self._location = Location(project, db, is_named="db" in project.named)
        self._level: ToolLevel = tools
        self._ceiling = max_nodes_ceiling
        self._max_children = max_children_listed
        self._list_roots = list_roots
        self._ttl_ms = ttl_ms
        self._ledger: Ledger | None = None

    def routes(self) -> Sequence[Route]:
        return (
            Route(
                uris.QUICK_REFERENCE,
                self.read,
                name=_QUICK.name,
                title=_QUICK.title,
                mime_type="text/markdown",
                whole=True,
            ),
            Route(
                uris.SCOPE,
                self.read,
                name="scope",
                title="Scope Details",
                mime_type="application/json",
                description=_SCOPE_TOLD,
                whole=True,
            ),
            Route(
                uris.TREE,
                self.read,
                name="tree",
                title="Scope Tree View",
                mime_type="text/plain",
                description=_TREE_TOLD,
                whole=True,
            ),
        )

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the quick reference and the first roots, by URI."""
        if after < _QUICK.uri:
            yield _QUICK
        if self._list_roots:
            for entry in sorted(self._roots(), key=lambda entry: entry.uri):
                if entry.uri > after:
                    yield entry

    def shares(self) -> Sequence[Share]:
        """Return everything as tasks; the quick reference is always listed."""
        return (Share(Rank.TASKS, self.entries, lambda entry: entry.uri, promised=1),)

    def _roots(self) -> list[Resource]:
        try:
            roots = self._ask().roots(self._list_roots) if self._exists() else []
        except ScopeError as error:
            raise _refusal(error, SCOPE_URI) from error
        return [
            Resource(
                SCOPE_URI + scope.alias,
                scope.alias,
                mime_type="application/json",
                title=scope.title,
                annotations=Annotations(last_modified_ms=scope.updated_at),
            )
            for scope in roots
        ]

    def survey(self) -> str:
        """Give a token of what is listed; while nothing was written, it is the one from before."""
        try:
            return self._ask().survey(self._list_roots) if self._exists() else ""
        except ScopeError as error:
            return error.code

    # Reading

    def read(self, uri: str) -> Reading:
        """Read one of the resources; the URI is read by our own rules."""
        try:
            target = uris.parse(uri, self._ceiling)
            if target.kind == "cli-quick-ref":
                return _quick_reference()
            return self._read_scope(target) if target.kind == "scope" else self._read_tree(target)
        except ScopeError as error:
            raise _refusal(error, uri) from error

    unmatched = read

    def refused(self, uri: str, error: RequestError) -> RequestError:
        """Say in our words that a URI is too long or holds what no URI may."""
        del error
        refusal = _refusal(uris.BadUri(uri), uri)
        assert isinstance(refusal, RequestError)
        return refusal

    def _read_scope(self, target: ScopesTarget) -> Reading:
        told = self._ask().scope(target.alias, self._max_children)
        return Reading(
            (Text(told.text),),
            mime_type="application/json",
            etag=told.etag,
            last_modified_ms=told.last_modified_ms,
            ttl_ms=self._ttl_ms,
        )

    def _read_tree(self, target: ScopesTarget) -> Reading:
        shown = self._ask().tree(target.alias, target.query, self._ceiling)
        meta: dict[str, object] = {
            "dev.carrel/depth": shown.depth,
            "dev.carrel/nodes": shown.nodes,
            "dev.carrel/truncated": shown.is_truncated,
        }
        if shown.next_uri is not None:
            meta["dev.carrel/next"] = shown.next_uri
        return Reading(
            (Text(shown.text, meta=meta),),
            mime_type="text/plain",
            etag=shown.etag,
            last_modified_ms=shown.last_modified_ms,
            ttl_ms=self._ttl_ms,
        )

    def fingerprint(self, uri: str) -> str | None:
        """Give the ETag, asked for again only when the store was written to; None where no scope is yet."""
        try:
            target = uris.parse(uri, self._ceiling)
            if target.kind == "cli-quick-ref":
                return uris.QUICK_REFERENCE
            return self._ask().fingerprint(uri, target, self._ceiling, self._max_children)
        except ScopeError as error:
            raise _refusal(error, uri) from error

    # Completion, tools, state

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Offer aliases, or depths, that begin with what is typed."""
        del context
        if variable == "depth" and template == uris.TREE:
            return Completion(tuple(str(n) for n in range(1, MAX_DEPTH + 1) if str(n).startswith(value)))
        if variable != "alias":
            raise BadArgument(
                f"Unknown argument: {echo(variable)} (known: alias, depth)", data={"parameter": "argument"}
            )
        try:
            found = self._ask().aliases_from(normalise_alias(value), MAX_COMPLETIONS + 1)
        except ScopeError as error:
            raise _refusal(error, template) from error
        has_more = len(found) > MAX_COMPLETIONS
        return Completion(tuple(found[:MAX_COMPLETIONS]), total=None if has_more else len(found), has_more=has_more)

    def tools(self) -> Sequence[Tool]:
        if self._level == "off":
            return ()
        from carrel.providers.scopes.tool_schemas import tools_of  # loaded by the first client that uses tools

        return tools_of(self._level)

    def call(self, name: str, arguments: Mapping[str, object], call: Call) -> ToolResult:
        del call
        return self._ask().call(name, arguments, self._max_children)

    def health(self) -> Meta:
        """Tell whether the store can be read."""
        try:
            if not self._exists() or not self._ask().check():
                return {"store": "empty", "problems": []}
            if self._ask().store.is_frozen:
                return {"store": "read-only", "problems": [_FROZEN]}
            return {"store": "ready", "problems": []}
        except ScopeError as error:
            log.warning("%s", error.text)
            note = error.note if isinstance(error, StoreFault) else error.text
            return {"store": "unreadable", "problems": [note or _UNREADABLE]}

    def close(self) -> None:
        """Close the store."""
        if self._ledger is not None:
            self._ledger.close()
        self._location.close()

    def _exists(self) -> bool:
        return self._location.identity() is not None

    def _ask(self) -> "Ledger":
        """Give what works with the store; SQLite is loaded now."""
        if self._ledger is None:
            from carrel.providers.scopes.session import Ledger  # most servers never come here

            self._ledger = Ledger(self._location)
        return self._ledger


def _quick_reference() -> Reading:
    told = (
        (uris.QUICK_REFERENCE, "This text."),
        (uris.SCOPE, f"{_SCOPE_TOLD}."),
        (uris.TREE, f"{_TREE_TOLD}."),
    )
    text = commands.quick_reference(told)
    modified = os.stat(commands.__file__).st_mtime_ns // 1_000_000
    return Reading(
        (Text(text),),
        mime_type="text/markdown",
        etag=hex_sha256(text),
        last_modified_ms=modified,
        ttl_ms=QUICK_REFERENCE_TTL_MS,
        cache_scope="public",
    )


def _refusal(error: ScopeError, uri: str) -> RequestError | ProviderError:
    """Make a wire error of ours: the text is the page's, and what broke stays in the log."""
    if error.status == 404:
        return NotFound(uri, error.text, data={"error": error.text, "status": error.status})
    if error.status == 400:
        return BadArgument(error.text, uri=uri, data={"error": error.text, "status": error.status})
    log.error("%s", error.text)
    text = error.shown if isinstance(error, StoreFault) else INTERNAL_TEXT
    return ProviderError(text, uri=uri, data={"error": text, "status": 500})


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"[scopes] {name}: expected a whole number from {low} to {high}, got {value}")
