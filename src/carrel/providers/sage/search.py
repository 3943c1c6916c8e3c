"""Search over checkpoints, knowledge and failures; the index is brought up to date before each search."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from carrel.core.record import Value
from carrel.files.userdirs import cache_folder
from carrel.providers.sage.fields import BadFile
from carrel.providers.sage.folders import FileMissing, walk
from carrel.providers.sage.memory import SageMemory
from carrel.providers.sage.record_folder import Record, RecordFolder, time_in, time_of, without_time, words_of
from carrel.providers.sage.records import Checkpoint, FailureRecord
from carrel.providers.sage.search_index import Hit, IndexedText, SearchIndex, best_first, index_path
from carrel.providers.sage.semantic import Embeddings, is_installed

Engine = Literal["bm25", "hybrid", "substring"]
JOINED: Final = 50
RANK_OFFSET: Final = 60
ALL: Final = 1_000_000
STOP_WORDS: Final = frozenset(
    "a an and are as at be but by can did do does each for from has have how i if in into is it its many more much not "
    "of on or other our so than that the their them then there these they this to too two was we what when where which "
    "while who why will with you your".split()
)

Texts = tuple[str, str, str, str, str]


class SearchResult(Value, frozen=True):
    """The engine that answered, the number of items found, and the best of them."""

    engine: Engine
    total: int
    hits: tuple[Hit, ...]


class SageSearch:
    """Search over one memory."""

    def __init__(self, memory: SageMemory, environment: Mapping[str, str], wanted: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        self._index = SearchIndex(index_path(cache_folder(environment), memory.home.path))
        self._embeddings = Embeddings(self._index) if wanted == "auto" and is_installed() else None

    def search(self, kind: str, query: str, limit: int = ALL) -> SearchResult:
        """Return the best items of a kind."""
        try:
            return self._search(kind, query, limit)
        except sqlite3.DatabaseError:
            self._index.discard()
            return self._search(kind, query, limit)

    def _search(self, kind: str, query: str, limit: int) -> SearchResult:
        self._update(kind)
        model = self._embeddings if self._embeddings is not None and self._embeddings.load() else None
        # A paraphrase often shares only common words with a text; the model ranks it better without them.
        words = query if model is None else _without_stop_words(query)
        hits, total = self._index.find_words(kind, words, max(limit, JOINED))
        engine: Engine = "bm25"
        if not hits and (hits := self._index.find_parts(kind, words)):
            engine, total = "substring", len(hits)
        nearest = model.nearest(kind, query, JOINED) if model is not None else []
        if model is not None and (nearest or engine == "bm25"):
            joined = join(hits[:JOINED], nearest)
            engine, total = "hybrid", max(total, len(joined))
            hits = joined + _rank_rest(hits[JOINED:], joined)
        return SearchResult(engine, total, tuple(hits[:limit]))

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    # What is searched

    def _update(self, kind: str) -> None:
        if kind == "knowledge":
            self._update_knowledge()
        elif kind == "checkpoint":
            self._update_records(kind, self._memory.checkpoints, _checkpoint_texts)
        else:
            self._update_records(kind, self._memory.failures, _failure_texts)

    def _update_records(
        self, kind: str, folder: RecordFolder[Record], texts: Callable[[Record, str], tuple[Texts, str]]
    ) -> None:
        files = folder.files()
        for file in files.values():
            if file.is_link:
                folder.examine(file)  # the state is that of the link's target

        def read(stem: str) -> IndexedText | None:
            try:
                record, data = folder.load(stem)
            except (BadFile, FileMissing):
                return None
            fields, time = texts(record, stem)
            times = (time_in(stem), time_of(time), data.modified_ms)
            return IndexedText(fields, next(when for when in times if when is not None))

        self._index.update(kind, {stem: file.state for stem, file in files.items()}, read)

    def _update_knowledge(self) -> None:
        knowledge = self._memory.knowledge
        items = knowledge.items()
        files = {path: found for path, found in walk(self._memory.home.root("knowledge")) if not found.is_link}
        states: dict[str, str] = {}
        for item_id, indexed in items.items():
            found = files.get(indexed.item.file)
            # The file may be a link, or its path may be spelled in another way.
            signature = knowledge.signature(indexed.item) if found is None else found.signature
            states[item_id] = f"{signature} {indexed.item.keywords} {indexed.item.added}"

        def read(item_id: str) -> IndexedText | None:
            indexed = items[item_id]
            try:
                content, _ = knowledge.content(indexed.item)
            except BadFile:
                return None
            keywords = " ".join(indexed.item.keywords)
            return IndexedText((_id_words(item_id), "", "", keywords, content), knowledge.when(indexed))

        self._index.update("knowledge", states, read)


def _without_stop_words(query: str) -> str:
    """Return the words of a query that are not common in English, or all of them if every word is."""
    words = query.split()
    return " ".join(word for word in words if word.casefold().strip("?!.,") not in STOP_WORDS) or query


def join(first: Iterable[Hit], second: Iterable[Hit]) -> list[Hit]:
    """Return two rankings as one, by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    times: dict[str, int] = {}
    for ranking in (first, second):
        for rank, hit in enumerate(ranking, 1):
            scores[hit.key] = scores.get(hit.key, 0.0) + 1 / (RANK_OFFSET + rank)
            times[hit.key] = hit.when
    return best_first(Hit(key, score, times[key]) for key, score in scores.items())


def _rank_rest(rest: list[Hit], joined: list[Hit]) -> list[Hit]:
    """Return the hits that only words found, after the joined ranking."""
    taken = {hit.key for hit in joined}
    left = [hit for hit in rest if hit.key not in taken]
    offset = RANK_OFFSET + JOINED + len(joined)
    return [Hit(hit.key, 1 / (offset + rank), hit.when) for rank, hit in enumerate(left, 1)]


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
    keywords = " ".join(one.keywords)
    return (_id_words(one.id or stem), one.approach, one.why_failed, keywords, one.learned), one.added
