"""The hub index: every package on disk in one JSON text, built again only when one of its files changed.

To notice changes takes one `stat` for each file. Parsed packages and Cards are kept, so only changed files are read
again.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Final

from carrel.core.errors import ProviderError
from carrel.core.isotime import iso
from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.providers.alc import compact_json, files
from carrel.providers.alc.cards import Cards
from carrel.providers.alc.files import AlcFolder, FileError, Stamp, stamp_of
from carrel.providers.alc.layout import INIT, Layout, Package
from carrel.providers.alc.local_packages import LOCAL_FILE
from carrel.providers.alc.packages import PackageSource, ParseBudget, Sources, docstring
from carrel.providers.alc.uris import is_id

SCHEMA: Final = "hub_index/v0"
INSTALLED: Final = "installed.json"
_USER: Final = re.compile(r"(\A|(?<=://))[^/?#]*@")
_LOCAL: Final = re.compile(r"[/~\\]|file:|[A-Za-z]:[\\/]", re.IGNORECASE)

Files = tuple[tuple[str, Stamp], ...]
"""Files by name, each with its state."""


class PackageState(Value, frozen=True, gc=False):
    """A package and its Cards, with the state of their files."""

    package: Package
    cards: Files


class HubIndex(Value, frozen=True):
    """The index, and the state of the files it was built from."""

    packages: tuple[PackageState, ...]
    others: Files
    text: str
    etag: str
    modified_ms: int


class Hub:
    """The index of one home."""

    def __init__(self, layout: Layout, sources: Sources, cards: Cards, max_file_bytes: int) -> None:
        self._layout = layout
        self._sources = sources
        self._cards = cards
        self._max_file_bytes = max_file_bytes
        self._index: HubIndex | None = None
        self._lock = Lock()

    def index(self, variants: Mapping[str, AlcFolder], budget: ParseBudget) -> HubIndex:
        """Return the index of the packages on disk now; raise `ProviderError` if building it takes too long."""
        if not self._lock.acquire(timeout=budget.left):
            raise _unfinished()
        try:
            packages, others = tuple(self._packages(variants)), tuple(self._others())
            if self._index is None or (self._index.packages, self._index.others) != (packages, others):
                self._index = self._build(packages, others, budget)
            return self._index
        finally:
            self._lock.release()

    # The state of the files

    def _packages(self, variants: Mapping[str, AlcFolder]) -> Iterator[PackageState]:
        cards = self._layout.home.below("cards")
        with_cards = set(_names_in(cards))
        folders = list(self._layout.package_folders())
        for name in sorted(set(variants).union(*map(_names_in, folders))):
            is_hidden = name[0] in "._" or not is_id(name)
            package = None if is_hidden else self._layout.find_package(name, variants, folders)
            if package is not None:
                yield PackageState(package, tuple(_cards_in(cards.below(name))) if name in with_cards else ())

    def _others(self) -> Iterator[tuple[str, Stamp]]:
        """Yield the state of the other files that the index depends on."""
        local = self._layout.variants.root().folder
        others = [(self._layout.home, INSTALLED), *([] if local is None else [(AlcFolder(local), LOCAL_FILE)])]
        for folder, name in others:
            stamp = folder.stamp(name)
            if stamp is not None:
                yield f"{folder.path}/{name}", stamp

    # The text

    def _build(self, packages: tuple[PackageState, ...], others: Files, budget: ParseBudget) -> HubIndex:
        installed = self._installed()
        entries = []
        times = [stamp[1] for _, stamp in others]
        for one in packages:
            if budget.is_spent and not self._is_known(one):
                raise _unfinished()
            with budget:
                entry = self._entry(one, installed)
            entries += [] if entry is None else [entry]
            times += [one.package.stamp[1], *(stamp[1] for _, stamp in one.cards)]
        modified_ms = max(times, default=0) // 1_000_000
        text = compact_json.dumps({"packages": entries, "schema_version": SCHEMA, "updated_at": iso(modified_ms)})
        return HubIndex(packages, others, text, files.etag_of(text), modified_ms)

    def _entry(self, state: PackageState, installed: Mapping[str, object]) -> dict[str, object] | None:
        """Return the entry of a package; None if its source cannot be read or has no name."""
        source = self._source(state.package)
        if source is None or not _non_empty(source.facts.meta.get("name")):
            return None
        meta, name = source.facts.meta, state.package.name
        kind, kind_source = _kind(source)
        return {
            "name": name,
            **{key: _non_empty(meta.get(key)) for key in ("version", "description", "category")},
            "docstring": docstring(source.doc),
            "tags": _tags(meta.get("tags")),
            "type": kind,
            "type_source": kind_source,
            "source": {"type": "path"} if state.package.scope == "variant" else origin(installed.get(name)),
            "card_count": len(state.cards),
            "best_card": self._best_card(state),
        }

    def _is_known(self, state: PackageState) -> bool:
        """Return whether a package's source and Cards were all parsed in this state."""
        cards = self._layout.home.below("cards").below(state.package.name)
        return self._sources.known(state.package.init, state.package.stamp) is not None and all(
            self._cards.is_known(f"{cards.path}/{name}", stamp) for name, stamp in state.cards
        )

    def _source(self, package: Package) -> PackageSource | None:
        known = self._sources.known(package.init, package.stamp)
        if known is not None:
            return known
        try:
            with files.open_below(package.folder, INIT) as file:
                return self._sources.read(package.init, file)
        except FileError:
            return None

    def _best_card(self, state: PackageState) -> dict[str, object] | None:
        """Return the Card with the highest pass rate; of equal ones the later, then the one with the greater id."""
        cards, folder = self._layout.home.below("cards"), state.package.name
        found = ((name, self._cards.summary(cards, folder, name, stamp)) for name, stamp in state.cards)
        ranked = [
            (one.pass_rate, one.created_at, name.removesuffix(".toml"), one)
            for name, one in found
            if one is not None and one.pass_rate is not None
        ]
        if not ranked:
            return None
        rate, _, card_id, best = max(ranked, key=lambda rank: rank[:3])
        return {"card_id": card_id, "model": best.model, "pass_rate": rate, "scenario": best.scenario}

    def _installed(self) -> Mapping[str, object]:
        """Return the install records; none if they cannot be read."""
        try:
            records = compact_json.loads(files.read_whole(self._layout.home, INSTALLED, self._max_file_bytes))
        except (FileError, ValueError):
            return {}
        packages = records.get("packages") if isinstance(records, dict) else None
        return packages if isinstance(packages, dict) else {}


def _unfinished() -> ProviderError:
    return ProviderError("the index of packages is still being built; ask again", word="busy")


def _names_in(folder: AlcFolder) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return [name for name, _ in folder.scan()] if folder.is_confined else os.listdir(folder.path)
    except (OSError, FileError):
        return []


def _cards_in(folder: AlcFolder) -> Iterator[tuple[str, Stamp]]:
    for name in sorted(_names_in(folder)):
        if name.endswith(".toml"):
            try:
                found = folder.stat(name)
            except (OSError, SandboxError):
                continue
            if stat.S_ISREG(found.st_mode):
                yield name, stamp_of(found)


def _kind(source: PackageSource) -> tuple[str, str]:
    declared = source.facts.meta.get("type")
    if declared in ("runnable", "library"):
        return str(declared), "explicit"
    return ("runnable", "auto_detected_runnable") if source.facts.runs else ("library", "auto_detected_library")


def _non_empty(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _tags(value: object) -> list[str] | None:
    if not isinstance(value, list | dict):
        return None
    items = value.values() if isinstance(value, dict) else value
    return [item for item in items if isinstance(item, str)]


def origin(record: object) -> dict[str, str]:
    """Return the fields of a package's source in `installed.json` that clients may see."""
    source = record.get("source") if isinstance(record, dict) else None
    if isinstance(source, str):
        source = _old_origin(source)
    if not isinstance(source, dict) or not isinstance(source.get("type"), str):
        return {"type": "unknown"}
    shown = {key: source[key] for key in ("type", "rev", "collection") if isinstance(source.get(key), str)}
    url = source.get("url")
    if isinstance(url, str) and not _LOCAL.match(url):
        shown["url"] = _USER.sub("", url, count=1)
    return shown


def _old_origin(source: str) -> dict[str, str]:
    """Return the fields for a source that an old version of algocline wrote as one text."""
    if source in ("", "bundled"):
        return {"type": source or "unknown"}
    return {"type": "installed"} if os.path.isabs(source) else {"type": "git", "url": source}
