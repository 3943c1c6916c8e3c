"""The list and completions. Names are collected first; files are opened only for the entries that are shown."""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from carrel.core.errors import CarrelError
from carrel.core.model import Annotations, Rank, Resource
from carrel.core.provider import Document
from carrel.core.record import replace
from carrel.providers.alc.files import AlcFolder, FileError, etag_of, open_below
from carrel.providers.alc.layout import INIT
from carrel.providers.alc.packages import ParseBudget
from carrel.providers.alc.reads import FoundResource, Reader
from carrel.providers.alc.uris import (
    KINDS,
    PREFIX,
    RELAX,
    TYPE_STUBS,
    AlcTarget,
    EvalIds,
    Kind,
    is_eval_id,
    is_id,
    listed_target,
)

DESCRIPTION_LENGTH: Final = 300
PARSING_S: Final = 3.0
"""Seconds that one list may parse files. Files not parsed by then are listed without size; the next list goes on."""


class AlcListing:
    """The entries and the completions of one home."""

    def __init__(self, reader: Reader, eval_ids: EvalIds, *, list_items: bool) -> None:
        self._reader = reader
        self._layout = reader.layout
        self._eval_ids = eval_ids
        self._list_items = list_items

    def entries(self, after: str) -> Iterator[Resource]:
        """Yield the entries after a key: the type stubs, then all others in URI order."""
        budget = ParseBudget(PARSING_S)
        for name, description in TYPE_STUBS.items():
            target = listed_target("types", name)
            sort_key = f"!{target.uri}"  # before everything that begins with the scheme
            if sort_key > after:
                title = f"{KINDS['types'].title} ({name})"
                entry = self._entry(target, name, title, description, budget)
                yield replace(entry, sort_key=sort_key, guaranteed=True)
        variants = self._layout.variants.folders_or_none() if self._list_items else {}
        for target in sorted(self._targets(variants), key=attrgetter("uri")):
            if target.uri > after and self._is_listed(target, variants):
                yield self._item(target, variants, budget)

    def documents(self) -> Iterator[Document]:
        """Yield everything but the index of the packages, with its ETag; no file is read or parsed."""
        variants = self._layout.variants.folders_or_none() if self._list_items else {}
        stubs = (listed_target("types", name) for name in TYPE_STUBS)
        for target in (*stubs, *self._targets(variants)):
            if target.kind == "index" or not self._is_listed(target, variants):
                continue
            try:
                found = self._reader.find(target)
            except CarrelError:
                continue
            found.close()
            kind = KINDS[target.kind]
            title = f"{kind.title}: {target.id}"
            yield Document(target.uri, found.etag, title, kind.mime_type, found.file_size, found.modified_ms)

    def fingerprint(self) -> str:
        """Return a token that changes with the set of listed URIs."""
        if not self._list_items:
            return ""
        variants = self._layout.variants.folders_or_none()
        return etag_of(*sorted(target.uri for target in self._targets(variants) if self._is_listed(target, variants)))

    def notes(self) -> list[str]:
        """Return a sentence about the number of eval results that the strict pattern refuses."""
        if self._eval_ids == "relaxed":
            return []
        names = (name for name in self._layout.ids("eval") if not is_eval_id(name, "strict"))
        count = sum(is_eval_id(name, "relaxed") for name in names)
        return [f"eval results that are not served: {count}; {RELAX}"] if count else []

    def _targets(self, variants: Mapping[str, AlcFolder]) -> Iterator[AlcTarget]:
        """Yield everything that may be listed, without checking that the packages exist."""
        if not self._list_items:
            return
        yield listed_target("index", "index")
        for kinds in (("init", "meta"), ("card",), ("scenario",), ("eval",), ("log",)):
            for identity in self._ids(kinds[0], variants):
                yield from (listed_target(kind, identity) for kind in kinds)

    def _ids(self, kind: Kind, variants: Mapping[str, AlcFolder]) -> Iterable[str]:
        """Return the ids of a kind by the names on disk, without checking that the packages exist."""
        if kind == "eval":
            return (name for name in self._layout.ids(kind) if is_eval_id(name, self._eval_ids))
        if kind in ("init", "meta", "narrative"):
            return filter(is_id, self._layout.package_names(variants))
        return filter(is_id, self._layout.cards() if kind in ("card", "samples") else self._layout.ids(kind))

    def _is_listed(self, target: AlcTarget, variants: Mapping[str, AlcFolder]) -> bool:
        return target.kind not in ("init", "meta") or self._layout.is_listed(target.id, variants)

    # Entries

    def _item(self, target: AlcTarget, variants: Mapping[str, AlcFolder], budget: ParseBudget) -> Resource:
        kind = KINDS[target.kind]
        if target.kind == "index":
            return self._entry(target, kind.name, kind.title, kind.description, budget)
        description = self._package_description(target.id, variants, budget) if target.kind in ("init", "meta") else ""
        title, name = f"{kind.title}: {target.id}", target.uri.removeprefix(PREFIX)
        return self._entry(target, name, title, description or kind.description, budget)

    def _entry(self, target: AlcTarget, name: str, title: str, description: str, budget: ParseBudget) -> Resource:
        mime_type = KINDS[target.kind].mime_type
        entry = Resource(target.uri, name, description, mime_type, title=title, rank=Rank.PACKAGES)
        try:
            is_index = target.kind == "index"
            found = self._reader.find_index(target, budget) if is_index else self._reader.find(target)
        except CarrelError:
            return entry
        try:
            size = self._size(target, found, budget)
        finally:
            found.close()
        annotations = Annotations(last_modified_ms=found.modified_ms)
        return replace(entry, annotations=annotations, size=size, meta={"dev.carrel/etag": found.etag})

    def _size(self, target: AlcTarget, found: FoundResource, budget: ParseBudget) -> int | None:
        """Return the size of the file or of the text; None if the text cannot be made, or not within the budget."""
        if found.file_size is not None:
            return found.file_size
        if budget.is_spent and not found.is_parsed():
            return None
        try:
            with budget:
                if target.kind == "card" and found.file is not None:
                    return self._reader.cards.size(found.file)
                return found.size
        except CarrelError:
            return None

    def _package_description(self, name: str, variants: Mapping[str, AlcFolder], budget: ParseBudget) -> str:
        package = self._layout.find_package(name, variants)
        if package is None:
            return ""
        try:
            with open_below(package.folder, INIT) as file:
                if budget.is_spent and self._reader.sources.known(package.init, file.stamp) is None:
                    return ""
                with budget:
                    description = self._reader.sources.read(package.init, file).facts.meta.get("description")
        except FileError:
            return ""
        if not isinstance(description, str):
            return ""
        return description if len(description) <= DESCRIPTION_LENGTH else description[:DESCRIPTION_LENGTH] + "…"

    # Completion

    def complete(self, kind: Kind, prefix: str) -> list[str]:
        """Return the ids of a kind that begin with a prefix: names in order, ids of dated files newest first."""
        variants = self._layout.variants.folders_or_none()
        cards = self._layout.cards() if kind in ("card", "samples") else {}
        names = filter(is_id, cards) if cards else self._ids(kind, variants)
        ids = sorted(name for name in names if name.startswith(prefix))
        if kind in ("init", "meta", "narrative"):
            return [name for name in ids if self._layout.is_listed(name, variants)]
        if kind == "scenario":
            return ids

        def age(identity: str) -> int:
            folder = self._layout.home.below("cards").below(cards[identity]) if cards else self._layout.folder(kind)
            stamp = None if folder is None else folder.stamp(f"{identity}.toml" if cards else f"{identity}.json")
            return 0 if stamp is None else -stamp[1]

        return sorted(ids, key=age)
