"""Search over checkpoints, knowledge and failures; the index is brought up to date before each search.

The engine is that of `carrel.search`: its words, its BM25, its index file. This module has the fields with their
weights, and joins the two rankings.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from carrel.core.hashing import blake2b
from carrel.core.isotime import parse_iso
from carrel.core.record import Value
from carrel.files.userdirs import cache_folder
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.folders import FileMissing, walk
from carrel.providers.sage.memory import SageMemory
from carrel.providers.sage.record_folder import Record, RecordFolder, time_in, without_time, words_of
from carrel.providers.sage.records import Checkpoint, FailureRecord
from carrel.search.index import IndexUnavailable
from carrel.search.records import IndexedRecord, Reader, RecordHit, RecordIndex, best_first, find_parts
from carrel.search.semantic import Embeddings, is_installed

Engine = Literal["bm25", "hybrid", "substring"]
FIELDS: Final = {"question": 4.0, "thesis": 5.0, "evidence": 2.0, "keywords": 6.0, "content": 1.0}
"""The searched fields, each with the weight of a word in it."""
WEIGHTS: Final = tuple(FIELDS.values())
JOINED: Final = 50
RANK_OFFSET: Final = 60
ALL: Final = 1_000_000
_TRIES: Final = 3

Texts = tuple[str, str, str, str, str]


class SearchResult(Value, frozen=True):
    """The engine that answered, the number of items found, and the best of them."""

    engine: Engine
    total: int
    hits: tuple[RecordHit, ...]


def index_path(cache: str | None, folder: str) -> str | None:
    """Return the file for the index of a folder, or None without a cache folder."""
    if cache is None:
        return None
    name = blake2b(os.path.realpath(folder).encode(errors="surrogateescape"), digest_size=12).hexdigest()
    return os.path.join(cache, "carrel", "sage", f"{name}.db")


class SageSearch:
    """Search over one memory."""

    def __init__(self, memory: SageMemory, environment: Mapping[str, str], wanted: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        # The folder of a shared memory belongs to this process only, so its index is kept in memory.
        cache = None if memory.is_shared else cache_folder(environment)
        self._index = RecordIndex(index_path(cache, memory.home.path), WEIGHTS)
        self._embeddings = Embeddings(self._index) if wanted == "auto" and is_installed() else None

    def search(self, kind: str, query: str, limit: int = ALL) -> SearchResult:
        """Return the best items of a kind."""
        for _ in range(_TRIES):
            try:
                return self._search(kind, query, limit)
            except IndexUnavailable as error:
                if not self._index.recover(error):
                    break
        hits = self._find_in_files(kind, query)
        return SearchResult("substring", len(hits), tuple(hits[:limit]))

    def _search(self, kind: str, query: str, limit: int) -> SearchResult:
        self._index.update(kind, *self._records(kind))
        model = self._embeddings if self._embeddings is not None and self._embeddings.load() else None
        hits, total = self._index.find_words(kind, query, max(limit, JOINED))
        engine: Engine = "bm25"
        if not hits and (hits := self._index.find_parts(kind, query)):
            engine, total = "substring", len(hits)
        nearest = model.nearest(kind, query, JOINED) if model is not None else []
        if model is not None and (nearest or engine == "bm25"):
            joined = join(hits[:JOINED], nearest)
            engine, total = "hybrid", max(total, len(joined))
            hits = joined + _rank_rest(hits[JOINED:], joined)
        return SearchResult(engine, total, tuple(hits[:limit]))

    def _find_in_files(self, kind: str, query: str) -> list[RecordHit]:
        """Find without an index, as where SQLite has no FTS5."""
        states, read = self._records(kind)
        return find_parts(((key, record) for key in states if (record := read(key)) is not None), query, WEIGHTS)

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    # What is searched

    def _records(self, kind: str) -> tuple[Mapping[str, str], Reader]:
        """Return the state of every item of a kind, and a function that reads one."""
        if kind == "knowledge":
            return self._knowledge()
        if kind == "checkpoint":
            return self._files(self._memory.checkpoints, _checkpoint_texts)
        return self._files(self._memory.failures, _failure_texts)

    def _files(
        self, folder: RecordFolder[Record], texts: Callable[[Record, str], tuple[Texts, str]]
    ) -> tuple[Mapping[str, str], Reader]:
        files = folder.files()
        for file in files.values():
            if file.is_link:
                folder.examine(file)  # the state is that of the link's target

        def read(stem: str) -> IndexedRecord | None:
            try:
                record, data = folder.load(stem)
            except (BadFile, FileMissing):
                return None
            fields, time = texts(record, stem)
            times = (time_in(stem), parse_iso(time), data.modified_ms)
            return IndexedRecord(fields, next(when for when in times if when is not None))

        return {stem: file.state for stem, file in files.items()}, read

    def _knowledge(self) -> tuple[Mapping[str, str], Reader]:
        knowledge = self._memory.knowledge
        items = knowledge.items()
        files = {path: found for path, found in walk(self._memory.home.root("knowledge")) if not found.is_link}
        states: dict[str, str] = {}
        for item_id, indexed in items.items():
            found = files.get(indexed.item.file)
            # The file may be a link, or its path may be spelled in another way.
            signature = knowledge.signature(indexed.item) if found is None else found.signature
            states[item_id] = f"{signature} {indexed.item.keywords} {indexed.item.added}"

        def read(item_id: str) -> IndexedRecord | None:
            indexed = items[item_id]
            try:
                content, _ = knowledge.content(indexed.item)
            except BadFile:
                return None
            keywords = " ".join(indexed.item.keywords)
            return IndexedRecord((_id_words(item_id), "", "", keywords, content), knowledge.when(indexed))

        return states, read


def join(first: Iterable[RecordHit], second: Iterable[RecordHit]) -> list[RecordHit]:
    """Return two rankings as one, by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    times: dict[str, int] = {}
    for ranking in (first, second):
        for rank, hit in enumerate(ranking, 1):
            scores[hit.key] = scores.get(hit.key, 0.0) + 1 / (RANK_OFFSET + rank)
            times[hit.key] = hit.when
    return best_first(RecordHit(key, score, times[key]) for key, score in scores.items())


def _rank_rest(rest: list[RecordHit], joined: list[RecordHit]) -> list[RecordHit]:
    """Return the hits that only words found, after the joined ranking."""
    taken = {hit.key for hit in joined}
    left = [hit for hit in rest if hit.key not in taken]
    offset = RANK_OFFSET + JOINED + len(joined)
    return [RecordHit(hit.key, 1 / (offset + rank), hit.when) for rank, hit in enumerate(left, 1)]


def _id_words(*ids: str) -> str:
    """Return the words of ids without the time they begin with, which says nothing about their subject."""
    return " ".join(sorted(frozenset[str]().union(*(words_of(without_time(one)) for one in ids))))


def _checkpoint_texts(one: Checkpoint, stem: str) -> tuple[Texts, str]:
    """Return the fields that are searched, and the time in the file."""
    evidence = [*one.key_evidence, *(part.content for part in one.contributions)]
    keywords = [_id_words(stem, one.id), one.skill, one.action_goal]
    rest = [one.reasoning_trace, *one.open_questions]
    rest += [f"{each.id} {each.take}" for each in one.sources]
    rest += [f"{each.a} {each.b} {each.nature} {each.resolution}" for each in one.tensions]
    rest += [*(ref.file for ref in one.code_refs), *one.files_changed, *one.files_explored, *one.related_knowledge]
    rest += [f"{heading}\n{text}" for heading, text in one.others]
    return (one.question, one.thesis, "\n".join(evidence), " ".join(keywords), "\n".join(rest)), one.ts


def _failure_texts(one: FailureRecord, stem: str) -> tuple[Texts, str]:
    return (_id_words(one.id or stem), one.approach, one.why_failed, " ".join(one.keywords), one.learned), one.added
