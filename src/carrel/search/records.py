"""An index of small records with weighted fields, such as those of a memory: the same words and the same BM25.

It is a separate index file, which also contains the texts of the records, so that parts of words can be found, and
their vectors. A lost or damaged file is replaced by an empty one; if it cannot be used, the index is in memory.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Final

from carrel.core.record import Value
from carrel.search.index import FIELD_END, MEMORY, Index, IndexUnavailable, SourceText
from carrel.search.query import MAX_TERMS, Query
from carrel.search.ranking import without_grammar
from carrel.search.reach import reach_of
from carrel.search.words import WORD, is_unspaced

_MANY: Final = 1_000_000
_BATCH: Final = 500


class IndexedRecord(Value, frozen=True):
    """The texts of one record, in the order of the weights, and its time."""

    fields: tuple[str, ...]
    when: int


class RecordHit(Value, frozen=True):
    """A record that was found."""

    key: str
    score: float
    when: int = 0


Reader = Callable[[str], IndexedRecord | None]
"""Returns a record by its key; None if it cannot be read."""


def best_first(hits: Iterable[RecordHit]) -> list[RecordHit]:
    """Return hits by score; of equal scores, the newest first."""
    return sorted(hits, key=lambda hit: (round(hit.score, 9), hit.when, hit.key), reverse=True)


class RecordIndex:
    """The records of several kinds. Safe to use from several threads.

    Every method but `close` and `recover` raises `IndexUnavailable`. After `recover` the records are read again.
    """

    def __init__(self, path: str | None, weights: tuple[float, ...]) -> None:
        """`path` is the file; without one the index is in memory."""
        self._path = path or MEMORY
        self._weights = weights
        self._lock = RLock()
        self._index: Index | None = None
        self._seen: dict[str, tuple[Mapping[str, str], tuple[int, ...]]] = {}

    def opened(self) -> Index:
        """Return the index, opened."""
        with self._lock:
            if self._index is None:
                self._index = Index(self._path, self._weights)
            return self._index

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._seen.clear()
            if self._index is not None:
                self._index.close()
                self._index = None

    def recover(self, error: IndexUnavailable) -> bool:
        """Continue after an error, in memory unless the file was replaced; return whether that is possible."""
        with self._lock:
            was_in_memory = self._path == MEMORY
            if error.reason != "broken" or self._index is None:
                self._path = MEMORY
            self.close()
            return not was_in_memory

    def update(self, kind: str, states: Mapping[str, str], read: Reader) -> None:
        """Make the index hold exactly these records of a kind in these states; new and changed ones are read."""
        with self._lock:
            index = self.opened()
            if self._seen.get(kind) == (states, index.state()):
                return
            held = {uri.partition("/")[2]: state for uri, state in index.known().items() if _kind(uri) == kind}
            index.remove(f"{kind}/{key}" for key in held.keys() - states.keys())
            batch: list[SourceText] = []
            for key in [key for key, state in states.items() if held.get(key) != state]:
                batch.append(self._source(kind, key, states[key], read(key)))
                if len(batch) >= _BATCH:
                    index.put(batch)
                    batch = []
            if batch:
                index.put(batch)
            self._seen[kind] = dict(states), index.state()

    def _source(self, kind: str, key: str, state: str, record: IndexedRecord | None) -> SourceText:
        """Return a record to index; one that cannot be read has no texts, so that it is not read again."""
        fields = [""] * len(self._weights) if record is None else record.fields
        cleaned = tuple(field.replace("\0", " ").replace(FIELD_END, " ") for field in fields)
        when = 0 if record is None else record.when
        return SourceText(f"{kind}/{key}", state, kind, "", "", modified_ms=when, fields=cleaned)

    def find_words(self, kind: str, query: str, limit: int) -> tuple[list[RecordHit], int]:
        """Return the best records by BM25, and how many match."""
        # In a script without spaces there are no separate words, so parts of the text are searched.
        words = tuple(dict.fromkeys(word for word in WORD.findall(query) if not is_unspaced(word)))[:MAX_TERMS]
        if not words:
            return [], 0
        found = self.opened().find(Query(query, words), reach=reach_of((kind,)), limit=min(limit, _MANY))
        hits = [RecordHit(one.uri.partition("/")[2], one.score, one.modified_ms or 0) for one in found.found]
        return best_first(hits), found.total

    def find_parts(self, kind: str, query: str) -> list[RecordHit]:
        """Return the records that contain a word of the query anywhere, in any case."""
        with self.opened().file.reading() as connection:
            rows = _rows(connection, kind)
            records = ((key, IndexedRecord(tuple(fields.split(FIELD_END)), when or 0)) for key, when, fields in rows)
            return find_parts(records, query, self._weights)

    # Vectors

    def texts_without_vector(self, kind: str) -> list[tuple[int, str]]:
        """Return the number and the text of every record that has no vector."""
        sql = "SELECT id, fields FROM records JOIN documents USING (id) WHERE scheme = ? AND vector IS NULL"
        with self.opened().file.reading() as connection:
            rows = connection.execute(sql, (kind,)).fetchall()
        return [(number, "\n".join(filter(None, fields.split(FIELD_END)))) for number, fields in rows]

    def put_vectors(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Keep the vectors of records, by their numbers."""
        with self.opened().file.writing() as connection:
            rows = [(vector, number) for number, vector in vectors]
            connection.executemany("UPDATE records SET vector = ? WHERE id = ?", rows)

    def vectors(self, kind: str) -> list[tuple[str, int, bytes]]:
        """Return key, time and vector of every record."""
        sql = "SELECT uri, modified_ms, vector FROM records JOIN documents USING (id) WHERE scheme = ?"
        with self.opened().file.reading() as connection:
            rows = connection.execute(f"{sql} AND vector IS NOT NULL", (kind,)).fetchall()
        return [(uri.partition("/")[2], when or 0, vector) for uri, when, vector in rows]


def find_parts(records: Iterable[tuple[str, IndexedRecord]], query: str, weights: tuple[float, ...]) -> list[RecordHit]:
    """Return the records that contain a word of a query anywhere; the weightiest field that does counts."""
    every = without_grammar(word.casefold() for word in query.split())[:MAX_TERMS]
    # Nearly every text contains any one or two letters; in a script without spaces they may be a word.
    words = [word for word in every if len(word) > 2 or not word.isascii()] or every
    hits = []
    for key, record in records:
        texts = [(text.casefold(), weight) for text, weight in zip(record.fields, weights, strict=True)]
        score = sum(max((weight for text, weight in texts if word in text), default=0.0) for word in words)
        if score:
            hits.append(RecordHit(key, score, record.when))
    return best_first(hits)


def _rows(connection: sqlite3.Connection, kind: str) -> list[tuple[str, int, str]]:
    sql = "SELECT uri, modified_ms, fields FROM records JOIN documents USING (id) WHERE scheme = ?"
    rows = connection.execute(sql, (kind,)).fetchall()
    return [(uri.partition("/")[2], when, fields) for uri, when, fields in rows]


def _kind(uri: str) -> str:
    return uri.partition("/")[0]
