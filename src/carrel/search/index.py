"""The index of all documents.

It may be deleted at any time; then it is built again. Each `put` and `remove` is one transaction, so a killed process
leaves each document whole or not at all.

A row of the table `words` is a piece of a text; its number contains that of the document. The rows of a removed or
replaced document stay, because SQLite cannot find them again; its number is in the table `dead` and is never used
again. When there are too many of them, the index should be built again (`IndexFacts.should_rebuild`).
"""

import os
import sqlite3
import sys
import threading
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from carrel.core.record import Value
from carrel.search.chunks import PIECE_BITS, Splitter
from carrel.search.finding import Candidate, Candidates, Finder, IndexNumbers
from carrel.search.index_file import MEMORY, FileConnection, IndexUnavailable, SearchFile
from carrel.search.languages import language_of
from carrel.search.query import Query
from carrel.search.ranking import traits_of
from carrel.search.reach import Reach

__all__ = ["MEMORY", "Candidate", "Candidates", "Index", "IndexFacts", "IndexUnavailable", "SourceText"]

_DEAD_SHARE: Final = 0.3
"""Share of rows of removed documents above which the index should be built again."""
_FEW_DEAD: Final = 2_000
"""Up to this many rows of removed documents, the index is not built again."""
FIELD_END: Final = "\x1f"
"""Stands between the fields of a record where they are kept as one text."""
_MERGED_PAGES: Final = 2_000
_MERGES: Final = 500


class SourceText(Value, frozen=True):
    """A document to index. `path` is what `path:` looks at; without a language its ending decides.

    A record has `fields` in place of a text; an index with a weight for each field takes only records.
    """

    uri: str
    fingerprint: str
    scheme: str
    path: str
    text: str
    title: str = ""
    language: str = ""
    modified_ms: int | None = None
    is_partial: bool = False
    fields: tuple[str, ...] = ()
    ticket: int = 0
    """A number that is greater the later the text was read."""


class IndexFacts(Value, frozen=True):
    """How large an index is. `text_bytes` is the length of the texts in characters, `index_bytes` that of its files."""

    documents: int
    text_bytes: int
    index_bytes: int
    dead_share: float
    dead_pieces: int = 0

    @property
    def should_rebuild(self) -> bool:
        """Return whether too much of the index belongs to removed documents."""
        return self.dead_share > _DEAD_SHARE and self.dead_pieces > _FEW_DEAD


class Index:
    """One index. Every method may be called from any thread; several processes may share the file.

    Every method raises `IndexUnavailable` if the file cannot be used. A damaged file is replaced by an empty one.
    """

    def __init__(self, path: str, weights: tuple[float, ...] = ()) -> None:
        """Open or create the index at `path`; a damaged one, or one of an older version, is replaced by an empty one.

        With `weights` it is an index of records, whose fields have these weights.
        """
        self._store = SearchFile(path)
        self._finder = Finder(weights)
        self._splitter = Splitter()
        self._splitter_of = self._store.generation
        self._known = _Known()
        self._known_lock = threading.Lock()

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self._store.path

    @property
    def file(self) -> SearchFile:
        """Return the file."""
        return self._store

    def state(self) -> IndexNumbers:
        """Return numbers that change with every change of the index."""
        with self._store.reading() as connection:
            return _state(connection)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def put(self, batch: Iterable[SourceText]) -> None:
        """Index documents, in place of those with the same URI: all of them, or none if it fails."""
        with self._store.writing() as connection:
            if self._splitter_of != self._store.generation:
                self._forget()
            try:
                for source in batch:
                    _remove(connection, source.uri)
                    self._add(connection, source)
                self._note_words(connection)
            except BaseException:
                self._forget()  # the words that were noted are not in the file
                raise

    def remove(self, uris: Iterable[str]) -> None:
        """Remove documents; ignore those that are not in the index."""
        with self._store.writing() as connection:
            for uri in uris:
                _remove(connection, uri)

    def reset(self) -> None:
        """Delete everything."""
        self._store.reset()

    def known(self, changed: set[str] | None = None) -> Mapping[str, str]:
        """Return the URI of every document with the fingerprint it was indexed with; cheap while nothing changes.

        Add to `changed` the URIs of documents that any process indexed or removed since the last call.
        """
        with self._known_lock, self._store.reading() as connection:
            self._known.follow(connection, connection.generation, set() if changed is None else changed)
            return self._known.fingerprints

    def find(
        self,
        query: Query,
        *,
        reach: Reach | None = None,
        limit: int = 10,
        deadline: float | None = None,
    ) -> Candidates:
        """Return the best documents for a query, at most `limit`, of those within reach, or of all.

        `deadline` is a time of `time.monotonic`.
        """
        with self._store.reading() as connection:
            state = _state(connection)
            return self._finder.find(connection, state, query, reach=reach, limit=limit, deadline=deadline)

    def complete(self, word: str, reach: Reach | None = None) -> tuple[str, ...]:
        """Return the words that an unfinished one may become in documents within reach; none if it is a word."""
        with self._store.reading() as connection:
            return self._finder.complete(connection, _state(connection), word, reach)

    def facts(self) -> IndexFacts:
        """Return how large the index is."""
        with self._store.reading() as connection:
            documents, size, pieces = connection.execute(
                "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(pieces), 0) FROM documents"
            ).fetchone()
            (dead,) = connection.execute("SELECT coalesce(sum(pieces), 0) FROM dead").fetchone()
        share = dead / (dead + pieces) if 0 < dead < dead + pieces else float(dead > 0)
        return IndexFacts(documents, size, self._size(), share, dead)

    def tidy(self) -> None:
        """Make the files small and fast after many writes: merge the parts of the index, and empty the journal."""
        for _ in range(_MERGES):
            with self._store.writing() as connection:
                before = connection.total_changes
                # A negative number begins a merge of everything; later merges continue it.
                connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-_MERGED_PAGES,))
                if connection.total_changes - before < 2:
                    break
        with self._store.writer_lock:
            self._store.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _size(self) -> int:
        return sum(
            os.stat(self.path + ending).st_size
            for ending in ("", "-wal", "-shm")
            if self.path != MEMORY and os.path.exists(self.path + ending)
        )

    def _forget(self) -> None:
        self._splitter = Splitter()
        self._splitter_of = self._store.generation

    def _add(self, connection: sqlite3.Connection, source: SourceText) -> None:
        language = source.language or language_of(source.path)
        if source.fields:
            pieces = self._splitter.split_fields(source.fields)
        else:
            pieces = self._splitter.split(source.text, source.path, source.title, language)
        traits = traits_of(source.text, source.path, language, has_definitions=pieces.has_definitions)
        document = connection.execute(
            "INSERT INTO documents (uri, fingerprint, scheme, path, title, language, modified_ms, is_partial, traits,"
            " lines_each, pieces, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                source.uri,
                source.fingerprint,
                source.scheme,
                _storable(source.path),
                _storable(source.title),
                language,
                source.modified_ms,
                source.is_partial,
                traits,
                pieces.lines_each,
                len(pieces.terms),
                len(source.text) + sum(map(len, source.fields)),
            ),
        ).lastrowid
        if source.fields:
            connection.execute(
                "INSERT INTO records (id, fields) VALUES (?, ?)", (document, FIELD_END.join(source.fields))
            )
        start = (document or 0) << PIECE_BITS
        connection.executemany("INSERT INTO words (rowid, terms) VALUES (?, ?)", enumerate(pieces.terms, start))

    def _note_words(self, connection: sqlite3.Connection) -> None:
        """Keep every word that was not seen before: expressions look for words that hold a piece of theirs."""
        fresh = self._splitter.terms.fresh
        if fresh:
            text = "\n".join(sorted(set(fresh)))
            connection.execute("INSERT INTO vocabulary (words) VALUES (?)", (zlib.compress(text.encode("utf-8"), 6),))
            fresh.clear()


class _Known:
    """The documents of the index, read once; afterwards only the changes are read."""

    def __init__(self) -> None:
        self.fingerprints: dict[str, str] = {}
        self._numbers = array("q")
        """The numbers of documents, in their order, and beside them the URIs; a removed one has none."""
        self._uris: list[str | None] = []
        self._generation = self._last = self._last_dead = 0

    def follow(self, connection: sqlite3.Connection, generation: int, changed: set[str]) -> None:
        """Read the changes; add the URIs of their documents to `changed`."""
        if generation != self._generation:
            self.fingerprints, self._numbers, self._uris = {}, array("q"), []
            self._generation, self._last, self._last_dead = generation, 0, 0
        dead = connection.execute("SELECT number, id FROM dead WHERE number > ? ORDER BY number", (self._last_dead,))
        for number, document in dead:
            self._last_dead = number
            at = bisect_left(self._numbers, document)
            if at < len(self._numbers) and self._numbers[at] == document and (uri := self._uris[at]) is not None:
                self.fingerprints.pop(uri, None)
                self._uris[at] = None
                changed.add(uri)
        # A document that was replaced has another number, which is greater than all before.
        rows = connection.execute("SELECT id, uri, fingerprint FROM documents WHERE id > ? ORDER BY id", (self._last,))
        for document, uri, fingerprint in rows:
            if type(uri) is not str or type(fingerprint) is not str:
                raise sqlite3.DatabaseError("a document that Carrel did not write")
            self._last = document
            self._numbers.append(document)
            shared = sys.intern(uri)  # with the list of documents, which has the same texts
            self._uris.append(shared)
            self.fingerprints[shared] = sys.intern(fingerprint)
            changed.add(shared)


def _remove(connection: sqlite3.Connection, uri: str) -> None:
    row = connection.execute("SELECT id, pieces FROM documents WHERE uri = ?", (uri,)).fetchone()
    if row is not None:
        connection.execute("DELETE FROM documents WHERE id = ?", row[:1])
        connection.execute("DELETE FROM records WHERE id = ?", row[:1])
        connection.execute("INSERT INTO dead (id, pieces) VALUES (?, ?)", row)


def _state(connection: FileConnection) -> IndexNumbers:
    """Return the state that a connection sees: every added, replaced or removed document gets a new number."""
    numbers = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    return IndexNumbers(connection.generation, int(numbers.get("documents", 0)), int(numbers.get("dead", 0)))


def _storable(text: str) -> str:
    """Return a text that can be written as UTF-8: the name of a file may contain other bytes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
