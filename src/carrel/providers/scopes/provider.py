"""A hierarchy of projects, epics and tasks: read-only resources, and tools if the settings turn them on.

scopes://cli-quick-ref                                 the commands of `carrel scopes`
scopes://scope/{alias}                                 one scope, as JSON
scopes://tree/{alias}{?depth,skip,limit,max_nodes}     a scope and everything below it, as text
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from carrel.core.arguments import InvalidArguments
from carrel.core.errors import (
    BadArgument,
    CarrelError,
    ConfigError,
    NotFound,
    ProviderError,
    RequestError,
    UnknownScheme,
    echo,
)
from carrel.core.hashing import hex_sha256
from carrel.core.hierarchy import NotAFolder, folder_entry, folder_of, is_root
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import (
    FOLDER_TYPE,
    Annotations,
    Completion,
    Meta,
    Rank,
    Reading,
    Resource,
    Text,
    Tool,
    ToolResult,
)
from carrel.core.provider import Call, Ceiling, Document, DocumentChanges, Place, Project, Provider, Route, ToolLevel
from carrel.core.record import replace
from carrel.core.uri import decode_loosely
from carrel.providers.scopes import commands, uris
from carrel.providers.scopes.location import DEFAULT, Location
from carrel.providers.scopes.scope_errors import INTERNAL_TEXT, ScopeError, StoreFault
from carrel.providers.scopes.uris import DEFAULT_NODES, MAX_DEPTH, TreeQuery
from carrel.providers.scopes.values import MAX_CHILDREN, SCOPE_URI, Scope, check_alias, normalise_alias

if TYPE_CHECKING:
    from carrel.providers.scopes.connection import ScopesStore
    from carrel.providers.scopes.queries import Sibling
    from carrel.providers.scopes.reader import ScopeReader

log = logging.getLogger(__name__)

QUICK_REFERENCE_TTL_MS: Final = 3_600_000
MAX_CEILING: Final = 100_000

_QUICK: Final = Resource(
    uris.QUICK_REFERENCE,
    "cli-quick-ref",
    "The commands of `carrel scopes`, with which scopes are created and changed",
    "text/markdown",
    title="CLI Quick Reference",
    rank=Rank.TASKS,
    guaranteed=True,
)
_SCOPE_DESCRIPTION: Final = "One scope (a project, an epic or a task): its title, status, parent, children and aliases"
_TREE_DESCRIPTION: Final = (
    "A scope and everything below it, as indented text. Start with depth=1; depth goes up to 5. Look for "
    "(truncated) on the last line: then page with skip and limit, lower the depth, or read a subtree by its alias"
)


_FROZEN: Final = "The store's folder cannot be written: changes made elsewhere may not be seen"
_UNREADABLE: Final = "The store cannot be read; `carrel scopes list` says why"


class Scopes(Provider):
    """The project's scopes."""

    name = "scopes"
    schemes = ("scopes",)
    summary = "Projects, epics and tasks in one hierarchy. `scopes://tree/<alias>?depth=1` shows what is below one."

    def __init__(
        self,
        project: Project,
        enabled: Literal["auto"] | bool = "auto",
        db: Place = Place(DEFAULT),
        tools: ToolLevel = "read",
        max_nodes_ceiling: Ceiling = Ceiling(DEFAULT_NODES),
        max_children_listed: Ceiling = Ceiling(MAX_CHILDREN),
        list_roots: int = 100,
        ttl_ms: int = 0,
    ) -> None:
        del enabled  # read by the application, which decides whether to mount the provider
        _check("max_nodes_ceiling", max_nodes_ceiling, 1, MAX_CEILING)
        _check("max_children_listed", max_children_listed, 0, 1_000_000)
        _check("list_roots", list_roots, 0, 1_000_000)
        _check("ttl_ms", ttl_ms, 0, 2**53 - 1)
        self._address = project.store
        self._location = Location(project, db, is_named="db" in project.named)
        self._level: ToolLevel = tools
        self._ceiling = max_nodes_ceiling
        self._max_children = max_children_listed
        self._ttl_ms = ttl_ms
        self._list_roots = list_roots
        self._opened: ScopeReader | None = None

    def routes(self) -> Sequence[Route]:
        quick = (_QUICK.name, "text/markdown", _QUICK.title)
        scope = ("scope", "application/json", "Scope Details", _SCOPE_DESCRIPTION)
        tree = ("tree", "text/plain", "Scope Tree View", _TREE_DESCRIPTION)
        query = uris.parameters(self._ceiling)
        return (
            Route(uris.QUICK_REFERENCE, _quick_reference, *quick, fingerprint=lambda: uris.QUICK_REFERENCE),
            Route(uris.SCOPE, self.read, *scope, None, self.fingerprint_of_scope, takes_uri=True),
            Route(uris.TREE, self.read, *tree, query, self.fingerprint_of_scope, takes_uri=True),
            # An alias with an escaped slash is refused as an alias.
            Route("scopes://scope/{+alias}", self.read, takes_uri=True, listed=False),
            Route("scopes://tree/{+alias}", self.read, query=query, takes_uri=True, listed=False),
        )

    def canonical(self, uri: str) -> str:
        """Return the URI; the documents of scopes allow one spelling only."""
        try:
            uris.check(uri)
        except ScopeError as error:
            raise _refusal(error, uri) from error
        return uri

    def refusal(self, uri: str, error: RequestError) -> CarrelError:
        """Return the error in the words of the documents of scopes."""
        if isinstance(error, UnknownScheme) or not uri.lower().startswith("scopes:"):
            return error
        if not isinstance(error, InvalidArguments):
            return _refusal(uris.BadUri(uri), uri)
        has_query = uri.startswith(uris.TREE.partition("{")[0])
        return _refusal(uris.bad_query(error) if has_query else uris.BadUri(uri, error.problems[0].expected), uri)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the quick reference and the first roots, by URI."""
        if after < _QUICK.uri:
            yield _QUICK
        if self._list_roots:
            for entry in sorted(self._roots(), key=lambda entry: entry.uri):
                if entry.uri > after:
                    yield entry

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Yield the children of a scope, or the roots, in their order; a scope that has children is a folder."""
        folder = folder_of(uri)
        if is_root(folder):
            listed = (_QUICK, folder_entry(SCOPE_URI.rstrip("/")))
            yield from (replace(one, sort_key=one.uri) for one in listed if one.uri > after)
            return
        is_top = folder == SCOPE_URI.rstrip("/")
        found = self._children(uri, "" if is_top else folder, after)
        if not (found or after or is_top):
            raise NotAFolder(uri)
        while found:
            for key, scope, has_children in found:
                yield _entry(scope, mime_type=FOLDER_TYPE if has_children else "application/json", sort_key=key)
            found = self._children(uri, "" if is_top else folder, found[-1][0])

    def _children(self, uri: str, folder: str, after: str) -> "list[Sibling]":
        """Return the next children of a folder, or of the top without one, after a sort key."""
        try:
            if folder and not folder.startswith(SCOPE_URI):
                raise NotAFolder(uri)
            alias = check_alias(decode_loosely(folder.removeprefix(SCOPE_URI))) if folder else None
            return self._reader().children(alias, after) if self._exists() else []
        except ScopeError as error:
            raise NotAFolder(uri) if error.status in (400, 404) else _refusal(error, uri) from error

    def documents(self) -> Iterator[Document]:
        """Yield every scope, and the quick reference."""
        return iter(self.document_changes(None).documents)

    def document_changes(self, since: object) -> DocumentChanges:
        """Return all scopes if anything was committed since a token, else none."""
        try:
            stamp = self._reader().store.stamp() if self._exists() else None
            if stamp is not None and stamp == since:
                return DocumentChanges((), token=stamp, is_whole=False)
            found = self._reader().documents() if stamp is not None else []
        except ScopeError as error:
            raise _refusal(error, SCOPE_URI) from error
        quick = Document(_QUICK.uri, uris.QUICK_REFERENCE, _QUICK.title, _QUICK.mime_type)
        return DocumentChanges((quick, *found), token=stamp)

    def _roots(self) -> list[Resource]:
        try:
            roots = self._reader().roots(self._list_roots) if self._exists() else []
        except ScopeError as error:
            raise _refusal(error, SCOPE_URI) from error
        return [_entry(scope) for scope in roots]

    def list_fingerprint(self) -> str:
        """Return a token that changes with the listed entries."""
        try:
            return self._reader().list_fingerprint(self._list_roots) if self._exists() else ""
        except ScopeError as error:
            return error.code

    # Reading

    def read(self, alias: str, uri: str, query: TreeQuery | None = None) -> Reading:
        """Return one scope, or with a query its tree."""
        try:
            return self._reader().read(check_alias(alias), query)
        except ScopeError as error:
            raise _refusal(error, uri) from error

    def fingerprint_of_scope(self, alias: str, uri: str, query: TreeQuery | None = None) -> str | None:
        """Return the ETag; None while no scope has the alias."""
        try:
            return self._reader().fingerprint(check_alias(alias), query)
        except ScopeError as error:
            raise _refusal(error, uri) from error

    # Completion, tools, state

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return the aliases or depths that begin with a value."""
        del context
        if variable == "depth" and template == uris.TREE:
            return Completion(tuple(str(n) for n in range(1, MAX_DEPTH + 1) if str(n).startswith(value)))
        if variable != "alias":
            known = 'known: alias, depth; for example {"name": "alias", "value": ""}'
            raise BadArgument(f"Unknown argument: {echo(variable)} ({known})", data={"parameter": "argument"})
        try:
            found = self._reader().aliases_from(normalise_alias(value), MAX_COMPLETIONS + 1)
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
        from carrel.providers.scopes import tool_calls  # loaded by the first call

        return tool_calls.call(self._reader().store, name, arguments, self._max_children)

    def health(self) -> Meta:
        """Return whether the store can be read."""
        try:
            if not self._exists() or self._reader().is_empty():
                return {"store": "empty", "problems": []}
            if self._reader().store.is_frozen:
                return {"store": "read-only", "problems": [_FROZEN]}
            return {"store": "ready", "problems": []}
        except ScopeError as error:
            log.warning("%s", error.text)
            note = error.note if isinstance(error, StoreFault) else error.text
            return {"store": "unreadable", "problems": [note or _UNREADABLE]}

    def close(self) -> None:
        """Close the store."""
        if self._opened is not None:
            self._opened.store.close()
        self._location.close()

    def _exists(self) -> bool:
        return self._address is not None or self._location.identity() is not None

    def _reader(self) -> "ScopeReader":
        if self._opened is None:
            from carrel.providers.scopes.reader import ScopeReader  # takes long to import

            self._opened = ScopeReader(self._store(), self._ceiling, self._max_children, self._ttl_ms)
        return self._opened

    def _store(self) -> "ScopesStore":
        if self._address is not None:
            from carrel.providers.scopes.team_store import TeamStore  # loads the database's driver

            return TeamStore(self._address, max_children=self._max_children)
        from carrel.providers.scopes.store import Store  # loads SQLite

        return Store(self._location)


def _entry(scope: Scope, *, mime_type: str = "application/json", sort_key: str = "") -> Resource:
    return Resource(
        SCOPE_URI + scope.alias,
        scope.alias,
        mime_type=mime_type,
        title=scope.title,
        annotations=Annotations(last_modified_ms=scope.updated_at),
        sort_key=sort_key,
        rank=Rank.TASKS,
    )


def _quick_reference() -> Reading:
    described = (
        (uris.QUICK_REFERENCE, "This text."),
        (uris.SCOPE, f"{_SCOPE_DESCRIPTION}."),
        (uris.TREE, f"{_TREE_DESCRIPTION}."),
    )
    text = commands.quick_reference(described)
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
    """Return the error for the client; the cause of an internal error stays in the log."""
    if error.status == 404:
        return NotFound(uri, error.text, data={"error": error.text, "status": error.status})
    if error.status == 400:
        return BadArgument(error.text, uri=uri, data={"error": error.text, "status": error.status})
    if error.code == "UNAVAILABLE":
        return ProviderError(
            error.text, word="unavailable", uri=uri, data={"error": error.text, "status": error.status}
        )
    log.error("%s", error.text)
    text = error.shown if isinstance(error, StoreFault) else INTERNAL_TEXT
    return ProviderError(text, uri=uri, data={"error": text, "status": 500})


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"[scopes] {name}: expected a whole number from {low} to {high}, got {value}")
