"""The list, completions and what tells that the list changed: names first, files only for what is shown."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from carrel.core.errors import CarrelError
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.record import replace
from carrel.files.sandbox import SandboxError
from carrel.providers.alc import uris
from carrel.providers.alc.files import AlcFolder, FileError, etag_of, stamp_of
from carrel.providers.alc.parse_deadline import Patience
from carrel.providers.alc.reads import MIME_TYPES, FoundResource, Reader
from carrel.providers.alc.uris import PREFIX, RELAX, TYPE_STUBS, AlcTarget, EvalIds, Kind, is_eval_id, is_id

DESCRIPTION_LENGTH: Final = 300
PARSING_S: Final = 3.0
"""How long one list may parse files. What is not yet parsed then is listed without size; the next list goes on."""
STUBS: Final = {
    "alc.d.lua": "Lua type stubs for alc.* StdLib",
    "alc_shapes.d.lua": "Lua type stubs for alc_shapes DSL",
}
TOLD: Final[dict[Kind, tuple[str, str]]] = {
    "init": ("Package Lua Source", "Package init.lua source"),
    "meta": ("Package Metadata", "Package metadata (M.meta table)"),
    "card": ("Card Snapshot", "Full Card JSON"),
    "samples": ("Card Samples", "Card samples JSONL. Supports ?offset=N&limit=M"),
    "scenario": ("Scenario Source", "Scenario source"),
    "eval": ("Eval Result", "Eval result JSON"),
    "log": ("Session Log", "Session log JSON. Supports ?limit=M&max_chars=C"),
    "narrative": ("Package Narrative", "Package narrative in Markdown"),
    "index": ("Hub Index", "Index of all packages on disk (hub_index/v0)"),
}
"""The title and the description of each kind."""


class AlcListing:
    """What of one home is listed."""

    def __init__(self, reader: Reader, eval_ids: EvalIds, *, list_items: bool) -> None:
        self._reader = reader
        self._layout = reader.layout
        self._eval_ids = eval_ids
        self._list_items = list_items

    def entries(self, after: str) -> Iterator[Resource]:
        """Yield the entries after a key: the stubs, then all others in URI order."""
        for name in TYPE_STUBS:
            if stub_key(f"{PREFIX}types/{name}") > after:
                yield self._stub(name)
        if not self._list_items:
            return
        variants = self._layout.variants_or_none()
        patience = Patience(PARSING_S)
        for uri, kind, identity in sorted(self._names(variants)):
            if uri > after:
                if kind in ("init", "meta") and self._layout.list_package(identity, variants) is None:
                    continue
                yield self._entry(AlcTarget(uri, kind, identity, _defaults(kind)), patience)

    def survey(self) -> str:
        """Give a token that changes when the set of listed URIs does."""
        if not self._list_items:
            return ""
        variants = self._layout.variants_or_none()
        names = (
            uri
            for uri, kind, identity in self._names(variants)
            if kind not in ("init", "meta") or self._layout.list_package(identity, variants) is not None
        )
        return etag_of(*sorted(names))

    def notes(self) -> list[str]:
        """Return a sentence about results that are there and not served, if there are any."""
        if self._eval_ids == "relaxed":
            return []
        names = (name for name in self._layout.evals() if not is_eval_id(name, "strict"))
        count = sum(1 for name in names if is_eval_id(name, "relaxed"))
        return [f"{count} eval results are not served: {RELAX}"] if count else []

    def _names(self, variants: dict[str, AlcFolder]) -> Iterator[tuple[str, Kind, str]]:
        """Give every URI that may be listed; whether a package is one is still to be looked up."""
        yield f"{PREFIX}hub/index", "index", "index"
        for name in filter(is_id, self._layout.package_names(variants)):
            yield f"{PREFIX}packages/{name}/init.lua", "init", name
            yield f"{PREFIX}packages/{name}/meta", "meta", name
        for card_id in filter(is_id, self._layout.cards()):
            yield f"{PREFIX}cards/{card_id}", "card", card_id
        for name in filter(is_id, self._layout.scenarios()):
            yield f"{PREFIX}scenarios/{name}", "scenario", name
        for result_id in self._layout.evals():
            if is_eval_id(result_id, self._eval_ids):
                yield f"{PREFIX}eval/{result_id}", "eval", result_id
        for session_id in filter(is_id, self._layout.sessions()):
            yield f"{PREFIX}logs/{session_id}", "log", session_id

    # Entries

    def _stub(self, name: str) -> Resource:
        target = AlcTarget(f"{PREFIX}types/{name}", "types", name)
        title = f"Lua Type Stub ({name})"
        return self._resource(target, name, title, STUBS[name], Patience(PARSING_S))

    def _entry(self, target: AlcTarget, patience: Patience) -> Resource:
        title, description = TOLD[target.kind]
        name = target.uri.removeprefix(PREFIX)
        if target.kind == "index":
            return self._resource(target, "hub-index", title, description, patience)
        if target.kind in ("init", "meta"):
            description = self._package_description(target, patience) or description
        return self._resource(target, name, f"{title}: {target.id}", description, patience)

    def _resource(self, target: AlcTarget, name: str, title: str, description: str, patience: Patience) -> Resource:
        try:
            is_index = target.kind == "index"
            found = self._reader.find_index(patience) if is_index else self._reader.find(target)
        except CarrelError:
            return _listed(target, name, title, description)
        try:
            size = self._size(target, found, patience)
        finally:
            found.close()
        annotations = Annotations(last_modified_ms=found.modified_ms)
        meta = {"dev.carrel/etag": found.etag}
        return replace(_listed(target, name, title, description), annotations=annotations, size=size, meta=meta)

    def _size(self, target: AlcTarget, found: FoundResource, patience: Patience) -> int | None:
        """Return the size of the file or of what is made of it; None where that cannot be made, or not now."""
        if found.size is not None:
            return found.size
        if patience.is_over and not found.is_ready():
            return None
        try:
            with patience:
                if target.kind == "card" and found.held is not None:
                    return self._reader.cards.size(found.held)
                return len(found.make())
        except CarrelError:
            return None

    def _package_description(self, target: AlcTarget, patience: Patience) -> str | None:
        package = self._layout.find_package(target.id, self._layout.variants_or_none())
        if package is None:
            return None
        try:
            with self._reader.open_package(package) as held:
                if patience.is_over and self._reader.sources.known(package.init, held.stamp) is None:
                    return None
                with patience:
                    description = self._reader.sources.read(package.init, held).facts.meta.get("description")
        except FileError:
            return None
        if not isinstance(description, str) or not description:
            return None
        return description if len(description) <= DESCRIPTION_LENGTH else description[:DESCRIPTION_LENGTH] + "…"

    # Completion

    def values(self, kind: Kind, prefix: str) -> list[str]:
        """Give the ids of a kind that begin with a prefix, in the order in which they are offered."""
        if kind in ("init", "meta", "narrative"):
            variants = self._layout.variants_or_none()
            names = _matching(self._layout.package_names(variants), prefix)
            return sorted(name for name in names if self._layout.list_package(name, variants) is not None)
        if kind == "scenario":
            return sorted(_matching(self._layout.scenarios(), prefix))
        if kind == "eval":
            ids = (name for name in self._layout.evals() if is_eval_id(name, self._eval_ids))
            return _newest_first(_matching(ids, prefix), lambda name: self._layout.place("evals").stat(f"{name}.json"))
        if kind == "log":
            folder = self._layout.log_dir()
            if folder is None:
                return []
            sessions = _matching(self._layout.sessions(), prefix)
            return _newest_first(sessions, lambda name: folder.stat(f"{name}.json"))
        cards = self._layout.cards()
        return _newest_first(
            _matching(cards, prefix), lambda name: self._layout.place("cards").below(cards[name]).stat(f"{name}.toml")
        )


def _listed(target: AlcTarget, name: str, title: str, description: str) -> Resource:
    """Return an entry; the type stubs come before all others, and are always listed."""
    is_stub = target.kind == "types"
    return Resource(
        target.uri,
        name,
        description,
        MIME_TYPES[target.kind],
        title=title,
        sort_key=stub_key(target.uri) if is_stub else "",
        rank=Rank.PACKAGES,
        guaranteed=is_stub,
    )


def stub_key(uri: str) -> str:
    """Give the place of a stub in the list: before everything that begins with the scheme."""
    return f"!{uri}"


def _defaults(kind: Kind) -> tuple[int, ...]:
    return tuple(parameter.default for parameter in uris.PARAMETERS.get(kind, ()))


def _matching(names: Iterable[str], prefix: str) -> list[str]:
    return [name for name in names if name.startswith(prefix) and is_id(name)]


def _newest_first(names: list[str], describe: Callable[[str], os.stat_result]) -> list[str]:
    def place(name: str) -> tuple[int, str]:
        try:
            return -stamp_of(describe(name))[1], name
        except (OSError, SandboxError):
            return 0, name

    return sorted(names, key=place)
