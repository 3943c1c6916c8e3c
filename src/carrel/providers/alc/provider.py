"""The data of algocline, a runner for LLM reasoning packages in Lua, as read-only resources.

alc://types/alc.d.lua               Lua type stubs, and alc_shapes.d.lua
alc://packages/{name}/init.lua      a package's source
alc://packages/{name}/meta          its M.meta table, read without running Lua
alc://packages/{name}/narrative     a description in Markdown
alc://cards/{card_id}               a Card as JSON
alc://cards/{card_id}/samples       its sample rows, ?offset=N&limit=M
alc://scenarios/{name}              a scenario's source
alc://eval/{result_id}              an eval result
alc://logs/{session_id}             a session's log, ?limit=M&max_chars=C
alc://hub/index                     all packages in one index

Nothing is ever written, created or locked, and no Lua is run.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from carrel.core.errors import ConfigError, NotFound, RequestError
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Completion, Meta, Reading, Resource
from carrel.core.provider import Ceiling, Document, Place, Places, Project, Provider, Route
from carrel.providers.alc import uris
from carrel.providers.alc.layout import Layout
from carrel.providers.alc.listing import AlcListing
from carrel.providers.alc.reads import Reader
from carrel.providers.alc.uris import KINDS, SCHEME, AlcQuery, AlcTarget, EvalIds, Kind


class Alc(Provider):
    """Packages, Cards, scenarios, eval results and session logs of algocline."""

    name = "alc"
    schemes = (SCHEME,)
    folders = tuple(sorted({uris.PREFIX + kind.path.partition("/")[0] for kind in KINDS.values()}))
    summary = "algocline: Lua packages with their metadata, Cards and samples, scenarios, eval results, session logs."
    speed = "blocking"

    def __init__(
        self,
        project: Project,
        home: Place | None = None,
        log_dir: Place | None = None,
        packages_path: Places | None = None,
        project_root: Place | None = None,
        eval_ids: EvalIds = "strict",
        list_items: bool = True,
        enabled: Literal["auto"] | bool = "auto",
        poll_seconds: float = 2,
        max_file_bytes: Ceiling = Ceiling(67_108_864),
        max_page_bytes: Ceiling = Ceiling(16_777_216),
    ) -> None:
        del enabled  # decides whether the provider is made
        if poll_seconds <= 0:
            raise ConfigError(f"[alc] poll_seconds: expected a number above 0, got {poll_seconds}")
        for key, value in (("max_file_bytes", max_file_bytes), ("max_page_bytes", max_page_bytes)):
            if value < 2:
                raise ConfigError(f"[alc] {key}: expected a whole number from 2, got {value}")
        self.poll_s = poll_seconds
        self._eval_ids: EvalIds = eval_ids
        layout = Layout(project, home, log_dir, packages_path, project_root)
        self._reader = Reader(layout, max_file_bytes, max_page_bytes, project.max_message_bytes)
        self._listing = AlcListing(self._reader, eval_ids, list_items=list_items)

    def routes(self) -> Sequence[Route]:
        return [self._route(kind) for kind in KINDS]

    def _route(self, kind: Kind) -> Route:
        shown = KINDS[kind]
        return Route(
            shown.template,
            partial(self.read, kind),
            shown.name,
            shown.mime_type,
            shown.title,
            shown.description,
            shown.query,
            partial(self.fingerprint_of_resource, kind),
            takes_uri=True,
            listed=kind not in ("types", "index"),  # of these there are only three, all in the list of resources
        )

    def canonical(self, uri: str) -> str:
        """Return the spelling of the template: an id is what the URI spells, and nothing is percent-decoded."""
        return uris.canonical(uri)

    def refusal(self, uri: str, error: RequestError) -> RequestError:
        """Return the error in the words of alc's documents."""
        return uris.word(uri, error)

    # Reading

    def read(self, kind: Kind, uri: str, query: AlcQuery | None = None, **identity: str) -> Reading:
        """Return a resource; its id is the variable of its template."""
        return self._reader.read(self._target(kind, uri, query, identity))

    def fingerprint_of_resource(
        self, kind: Kind, uri: str, query: AlcQuery | None = None, **identity: str
    ) -> str | None:
        """Return the ETag of a resource; None if there is none yet."""
        target = self._target(kind, uri, query, identity)
        try:
            found = self._reader.find(target)
        except NotFound:
            return None
        found.close()
        return found.etag

    def _target(self, kind: Kind, uri: str, query: AlcQuery | None, identity: Mapping[str, str]) -> AlcTarget:
        return uris.target_of(kind, "".join(identity.values()), uri, query, self._eval_ids)

    # Listing

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the two type stubs, then everything on disk in URI order."""
        return self._listing.entries(after)

    def documents(self) -> Iterator[Document]:
        """Yield everything on disk, without reading it."""
        return self._listing.documents()

    def complete(self, template: str, variable: str, value: str, context: Mapping[str, str]) -> Completion:
        """Return ids: names in order, ids of dated files newest first."""
        del variable, context
        kind = next(key for key, kind in KINDS.items() if kind.template == template)
        found = self._listing.complete(kind, value)
        return Completion(tuple(found[:MAX_COMPLETIONS]), total=len(found), has_more=len(found) > MAX_COMPLETIONS)

    def health(self) -> Meta:
        """Return the problems: what is not served, and what keeps packages from being read."""
        return {"problems": [*self._reader.layout.notes(), *self._listing.notes()]}

    # Changes

    def list_fingerprint(self) -> str:
        """Return a token that changes with the set of listed URIs."""
        return self._listing.fingerprint()
