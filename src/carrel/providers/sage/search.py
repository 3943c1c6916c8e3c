"""Finding items: the engine that is there, over an index that is brought up to date before each search."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeVar

from carrel.core.record import Value
from carrel.files.userdirs import cache_folder
from carrel.providers.sage.file_format import Broken
from carrel.providers.sage.folders import Gone
from carrel.providers.sage.memory import Memory
from carrel.providers.sage.record_folders import Shelf, time_in, time_of, words_of
from carrel.providers.sage.records import Checkpoint, Failure, Knowledge
from carrel.providers.sage.search_index import Document, Hit, Index, place_for
from carrel.providers.sage.semantic import Meaning, is_installed
from carrel.providers.sage.system_files import walk

Engine = Literal["bm25", "hybrid", "substring"]
JOINED: Final = 50
RANK_OFFSET: Final = 60
ALL: Final = 1_000_000

T = TypeVar("T", Checkpoint, Failure)


class Found(Value, frozen=True):
    """What a search gave: the engine, how many there are, the best of them."""

    engine: Engine
    total: int
    hits: tuple[Hit, ...]


class Searching:
    """Search over one memory."""

    def __init__(self, memory: Memory, environment: Mapping[str, str], wanted: Literal["auto", "bm25"]) -> None:
        self._memory = memory
        self._index = Index(place_for(cache_folder(environment), memory.home.place))
        self._meaning = Meaning(self._index) if wanted == "auto" and is_installed() else None

    def search(self, kind: str, query: str, limit: int | None) -> Found:
        """Give the best of a kind; without a limit, all."""
        wanted = ALL if limit is None else limit
        try:
            self._refresh(kind)
            return self._search(kind, query, wanted)
        except sqlite3.DatabaseError:
            self._index.discard()
            self._refresh(kind)
            return self._search(kind, query, wanted)

    def _search(self, kind: str, query: str, wanted: int) -> Found:
        by_words, total = self._index.by_words(kind, query, max(wanted, JOINED))
        is_hybrid = self._meaning is not None and bool(query.strip()) and self._meaning.load()
        if not by_words:
            parts = self._index.by_parts(kind, query)
            if parts:
                return Found("substring", len(parts), tuple(parts[:wanted]))
        if self._meaning is None or not is_hybrid:
            return Found("bm25", total, tuple(by_words[:wanted]))
        nearest = self._meaning.nearest(kind, query, JOINED)
        joined = join(by_words[:JOINED], nearest)
        return Found("hybrid", max(total, len(joined)), tuple([*joined, *_rest(by_words, joined)][:wanted]))

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()

    # What is searched

    def _refresh(self, kind: str) -> None:
        if kind == "knowledge":
            self._refresh_knowledge()
        elif kind == "checkpoint":
            checkpoints = self._memory.checkpoints
            self._index.update(kind, _states(checkpoints), lambda stem: _loaded(checkpoints, stem, _of_checkpoint))
        else:
            failures = self._memory.failures
            self._index.update(kind, _states(failures), lambda stem: _loaded(failures, stem, _of_failure))

    def _refresh_knowledge(self) -> None:
        library = self._memory.library
        items = library.items()
        root = self._memory.home.root("knowledge")
        files = {} if root is None else {path: seen for path, seen in walk(root) if not seen.is_link}
        states: dict[str, str] = {}
        for item_id, shelved in items.items():
            seen = files.get(shelved.item.file)
            # Of a file that lies elsewhere or is a link, the state is not told by its name.
            signature = str(seen.signature) if seen is not None else str(self._state_of(shelved.item))
            states[item_id] = f"{signature} {shelved.item.keywords} {shelved.item.added}"

        def read(item_id: str) -> Document | None:
            shelved = items[item_id]
            try:
                content, _ = library.content(shelved.item)
            except Broken:
                return None
            keywords = " ".join(shelved.item.keywords)
            return Document((_id_words(item_id), "", "", keywords, content), library.when(shelved))

        self._index.update("knowledge", states, read)

    def _state_of(self, item: Knowledge) -> object:
        try:
            return self._memory.library.content(item)[1].signature
        except Broken as error:
            return error.reason


def join(first: list[Hit], second: list[Hit]) -> list[Hit]:
    """Join two rankings: the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    times: dict[str, int] = {}
    for ranking in (first, second):
        for rank, hit in enumerate(ranking, 1):
            scores[hit.key] = scores.get(hit.key, 0.0) + 1 / (RANK_OFFSET + rank)
            times[hit.key] = hit.when
    hits = [Hit(key, score, times[key]) for key, score in scores.items()]
    return sorted(hits, key=lambda hit: (hit.score, hit.when, hit.key), reverse=True)


def _rest(by_words: list[Hit], joined: list[Hit]) -> list[Hit]:
    """Give what was found by words and is beyond the joined ranking, in its order."""
    taken = {hit.key for hit in joined}
    left = [hit for hit in by_words[JOINED:] if hit.key not in taken]
    return [Hit(hit.key, 1 / (RANK_OFFSET + JOINED + rank + len(joined)), hit.when) for rank, hit in enumerate(left, 1)]


def _states(shelf: Shelf[T]) -> dict[str, str]:
    cards = shelf.cards()
    for card in cards.values():
        if card.is_link:
            shelf.examine(card)  # what it leads to has a state of its own
    return {stem: card.state for stem, card in cards.items()}


def _loaded(shelf: Shelf[T], stem: str, document: Callable[[T, str], Sequence[str]]) -> Document | None:
    try:
        record, read = shelf.load(stem)
    except (Broken, Gone):
        return None
    *fields, told = document(record, stem)
    times = (time_in(stem), time_of(told), read.modified_ms)
    return Document((fields[0], fields[1], fields[2], fields[3], fields[4]), next(t for t in times if t is not None))


def _id_words(text: str) -> str:
    return " ".join(sorted(words_of(text)))


def _of_checkpoint(one: Checkpoint, stem: str) -> Sequence[str]:
    """Give the five fields, and the time that is told inside."""
    evidence = [*one.key_evidence, *(part.content for part in one.contributions)]
    keywords = [_id_words(stem), _id_words(one.id), one.skill, one.action_goal]
    rest = [one.reasoning_trace, *one.open_questions]
    rest += [f"{each.id} {each.take}" for each in one.sources]
    rest += [f"{each.a} {each.b} {each.nature} {each.resolution}" for each in one.tensions]
    rest += [*(ref.file for ref in one.code_refs), *one.files_changed, *one.files_explored, *one.related_knowledge]
    rest += [f"{heading}\n{text}" for heading, text in one.others]
    return one.question, one.thesis, "\n".join(evidence), " ".join(keywords), "\n".join(rest), one.ts


def _of_failure(one: Failure, stem: str) -> Sequence[str]:
    keywords = " ".join(one.keywords)
    return _id_words(one.id or stem), one.approach, one.why_failed, keywords, one.learned, one.added
