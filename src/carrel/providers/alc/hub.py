"""The hub index: every package on disk in one JSON text, rebuilt only when one of its files changed.

Looking whether anything changed costs a look at each file, no more. What was read of a package or a
Card is kept, so that one changed file is read alone.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from threading import Lock
from time import time_ns
from typing import Final

from carrel.core.errors import ProviderError
from carrel.core.isotime import iso
from carrel.core.record import Value
from carrel.files.sandbox import SandboxError
from carrel.providers.alc import compact_json, files
from carrel.providers.alc.cards import Cards, Summary
from carrel.providers.alc.files import AlcFolder, FileError, Stamp, stamp_of
from carrel.providers.alc.layout import INIT, Layout, Package
from carrel.providers.alc.local_packages import LOCAL_FILE
from carrel.providers.alc.packages import PackageSource, Sources, docstring
from carrel.providers.alc.parse_deadline import Patience
from carrel.providers.alc.uris import is_id

SETTLED_NS: Final = 2_000_000_000
"""A folder changed this lately may change again without its time telling: clocks of file systems are coarse."""
SCHEMA: Final = "hub_index/v0"
INSTALLED: Final = "installed.json"
_USER: Final = re.compile(r"(\A|(?<=://))[^/?#]*@")
_LOCAL: Final = re.compile(r"[/~\\]|file:|[A-Za-z]:[\\/]", re.IGNORECASE)


class Seen(Value, frozen=True, gc=False):
    """A package, the state of its source, and its Cards with theirs."""

    package: Package
    stamp: Stamp
    cards: tuple[tuple[str, Stamp], ...]


class CardNames(Value, frozen=True, gc=False):
    """What was in a folder, and the state it was in then."""

    stamp: Stamp
    names: tuple[str, ...]


class Built(Value, frozen=True):
    """The index as it was built, and what it was built from."""

    seen: tuple[object, ...]
    text: str
    etag: str
    size: int
    modified_ms: int


class Hub:
    """The index of one home."""

    def __init__(self, layout: Layout, sources: Sources, cards: Cards, max_file_bytes: int) -> None:
        self._layout = layout
        self._sources = sources
        self._cards = cards
        self._max_file_bytes = max_file_bytes
        self._built: Built | None = None
        self._names: dict[str, CardNames] = {}
        self._lock = Lock()

    def index(self, variants: Mapping[str, AlcFolder], patience: Patience) -> Built:
        """Return the index of what is on disk now; raise `ProviderError` if building it takes too long."""
        if not self._lock.acquire(timeout=patience.left):
            raise _unfinished()
        try:
            packages = tuple(self._packages(variants))
            others = tuple(self._others())
            seen = (packages, others)
            if self._built is None or self._built.seen != seen:
                self._built = self._build(packages, others, seen, patience)
            return self._built
        finally:
            self._lock.release()

    # Looking

    def _packages(self, variants: Mapping[str, AlcFolder]) -> Iterator[Seen]:
        before, self._names = self._names, {}
        cards = self._layout.place("cards")
        with_cards = set(self._names_in(cards, before))
        folders = self._layout.package_folders()
        names = set(variants).union(*(self._names_in(folder, before) for folder in folders))
        for name in sorted(names):
            found = None if name[0] in "._" or not is_id(name) else _find(name, variants, folders)
            if found is not None:
                yield Seen(*found, tuple(self._cards_in(cards.below(name), before)) if name in with_cards else ())

    def _cards_in(self, folder: AlcFolder, before: Mapping[str, CardNames]) -> Iterator[tuple[str, Stamp]]:
        for name in self._names_in(folder, before):
            if name.endswith(".toml"):
                try:
                    found = folder.stat(name)
                except (OSError, SandboxError):
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield name, stamp_of(found)

    def _names_in(self, folder: AlcFolder, before: Mapping[str, CardNames]) -> tuple[str, ...]:
        """Give what is in a folder; it is scanned only when it changed, since that costs several looks."""
        try:
            found = folder.stat()
            known = before.get(folder.path)
            if known is None or known.stamp != stamp_of(found):
                is_settled = time_ns() - found.st_mtime_ns > SETTLED_NS
                known = CardNames(stamp_of(found) if is_settled else (0, 0, 0), tuple(sorted(_names_of(folder))))
        except (OSError, SandboxError, FileError):
            return ()
        self._names[folder.path] = known
        return known.names

    def _others(self) -> Iterator[tuple[str, Stamp]]:
        local = self._layout.local_folder()
        for folder, name in ((self._layout.home, INSTALLED), *([] if local is None else [(local, LOCAL_FILE)])):
            try:
                yield f"{folder.path}/{name}", stamp_of(folder.stat(name))
            except (OSError, SandboxError):
                continue

    # Building

    def _build(
        self,
        packages: tuple[Seen, ...],
        others: tuple[tuple[str, Stamp], ...],
        seen: tuple[object, ...],
        patience: Patience,
    ) -> Built:
        installed = self._installed()
        entries = []
        for one in packages:
            if patience.is_over and not self._is_known(one):
                raise _unfinished()
            with patience:
                entry = self._entry(one, installed)
            entries += [] if entry is None else [entry]
        times = [stamp[1] for _, stamp in others]
        for one in packages:
            times += [one.stamp[1], *(stamp[1] for _, stamp in one.cards)]
        modified_ms = max(times, default=0) // 1_000_000
        told = {"packages": entries, "schema_version": SCHEMA, "updated_at": iso(modified_ms)}
        text = compact_json.dumps(told)
        return Built(seen, text, files.etag_of(text), len(text.encode()), modified_ms)

    def _entry(self, seen: Seen, installed: Mapping[str, object]) -> dict[str, object] | None:
        source = self._source(seen)
        if source is None or not _non_empty(source.facts.meta.get("name")):
            return None
        meta, name = source.facts.meta, seen.package.name
        kind, kind_source = _kind(source)
        return {
            "name": name,
            **{key: _non_empty(meta.get(key)) for key in ("version", "description", "category")},
            "docstring": docstring(source.doc),
            "tags": _tags(meta.get("tags")),
            "type": kind,
            "type_source": kind_source,
            "source": {"type": "path"} if seen.package.scope == "variant" else origin(installed.get(name)),
            "card_count": len(seen.cards),
            "best_card": self._best_card(seen),
        }

    def _is_known(self, seen: Seen) -> bool:
        """Return whether a package's source and Cards were all parsed as they are now."""
        cards = self._layout.place("cards").below(seen.package.name)
        return self._sources.known(seen.package.init, seen.stamp) is not None and all(
            self._cards.is_known(f"{cards.path}/{name}", stamp) for name, stamp in seen.cards
        )

    def _source(self, seen: Seen) -> PackageSource | None:
        path = seen.package.init
        known = self._sources.known(path, seen.stamp)
        if known is not None:
            return known
        try:
            with files.open_below(seen.package.folder, (INIT,)) as held:
                return self._sources.read(path, held)
        except FileError:
            return None

    def _best_card(self, seen: Seen) -> dict[str, object] | None:
        cards, folder = self._layout.place("cards"), seen.package.name
        best: tuple[float, str, str] | None = None
        chosen: Summary | None = None
        for name, stamp in seen.cards:
            summary = self._cards.known(cards, folder, name, stamp)
            if summary is not None and summary.pass_rate is not None:
                rank = (summary.pass_rate, summary.created_at, name.removesuffix(".toml"))
                if best is None or rank > best:
                    best, chosen = rank, summary
        if best is None or chosen is None:
            return None
        return {
            "card_id": best[2],
            "model": chosen.model,
            "pass_rate": chosen.pass_rate,
            "scenario": chosen.scenario,
        }

    def _installed(self) -> Mapping[str, object]:
        """Give the install records; what cannot be read has none."""
        try:
            records = compact_json.loads(files.read_whole(self._layout.home, INSTALLED, self._max_file_bytes))
        except (FileError, ValueError):
            return {}
        packages = records.get("packages") if isinstance(records, dict) else None
        return packages if isinstance(packages, dict) else {}


def _unfinished() -> ProviderError:
    return ProviderError("the index of packages is still being built; ask again", word="busy")


def _names_of(folder: AlcFolder) -> list[str]:
    return [name for name, _ in folder.scan()] if folder.is_confined else os.listdir(folder.path)


def _find(name: str, variants: Mapping[str, AlcFolder], folders: list[AlcFolder]) -> tuple[Package, Stamp] | None:
    """Look a package up as a read does, and give the state of its source with it."""
    variant = variants.get(name)
    if variant is not None and not variant.is_there():
        variant = None
    for place in folders if variant is None else (variant,):
        folder = place.below(name) if variant is None else variant
        try:
            stamp = stamp_of(folder.stat(INIT))
        except (OSError, SandboxError):
            continue
        return Package(name, folder, "global" if variant is None else "variant"), stamp
    return None


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
    """Reduce what `installed.json` says of a package's source to what may be told."""
    source = record.get("source") if isinstance(record, dict) else None
    if isinstance(source, str):
        source = _old_origin(source)
    if not isinstance(source, dict) or not isinstance(source.get("type"), str):
        return {"type": "unknown"}
    told = {key: source[key] for key in ("type", "rev", "collection") if isinstance(source.get(key), str)}
    url = source.get("url")
    if isinstance(url, str) and not _LOCAL.match(url):
        told["url"] = _USER.sub("", url, count=1)
    return told


def _old_origin(source: str) -> dict[str, str]:
    if not source:
        return {"type": "unknown"}
    if source == "bundled":
        return {"type": "bundled"}
    return {"type": "installed"} if os.path.isabs(source) else {"type": "git", "url": source}
