"""Finding documents in an open index: which rows hold the terms, which documents those are, in which order.

Common words do not make it slow: the rows of rare terms choose the documents, and common terms only count in rows that
a rare one chose. The number of rows that are looked at is bounded.
"""

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from carrel.core.record import Value
from carrel.search import expressions
from carrel.search.chunks import PIECE_BITS
from carrel.search.query import Query, QueryFilter
from carrel.search.ranking import Evidence, IndexedDocument, wanted_by
from carrel.search.vocabulary import Vocabulary

MAX_ROWS: Final = 6_000
"""Rows that are looked at for the words of one query; more take longer than somebody likes to wait."""
MAX_COUNTED: Final = 100_000
"""Rows that are counted to learn how frequent a term is."""
MAX_MARKED: Final = 1_500
"""Rows that are looked at for one definition or one word of paths."""
RANKED: Final = 120
"""Documents that are put in order by all rules; the first of these by words alone are chosen."""

MAX_CHOSEN: Final = 8
"""Combinations of filters whose documents are remembered."""

_COLUMNS: Final = (
    "id, uri, fingerprint, scheme, path, title, language, modified_ms, is_partial, traits, lines_each, pieces"
)


_ROW: Final = (int, str, str, str, str, str, str, int, int, int, int, int)
_ROWS: Final = frozenset({_ROW, (*_ROW[:7], type(None), *_ROW[8:])})
_MAX_LINES: Final = 1 << 40


class Candidate(Value, frozen=True):
    """A document that was found, with the lines of its best part; `reasons` says in words why it stands there."""

    uri: str
    fingerprint: str
    scheme: str
    path: str
    title: str
    language: str
    modified_ms: int | None
    is_partial: bool
    score: float
    reasons: tuple[str, ...]
    first_line: int
    last_line: int


class Candidates(Value, frozen=True):
    """What was found, best first.

    With `must_verify` a candidate counts only if `passages.passage` finds the query in its text. `total` is how many
    documents match, before `limit`. Without `is_complete` the deadline came first, and there may be more.
    """

    found: tuple[Candidate, ...]
    total: int
    is_complete: bool
    must_verify: bool


class Finder:
    """Finds; remembers what does not change between two searches."""

    def __init__(self, weights: tuple[float, ...] = ()) -> None:
        """`weights` are those of the fields, in an index of records."""
        self._weights = weights
        self._vocabulary = Vocabulary()
        self._living: _Living | None = None

    def find(
        self,
        connection: sqlite3.Connection,
        state: tuple[int, ...],
        query: Query,
        *,
        schemes: Collection[str] | None,
        limit: int,
        deadline: float | None = None,
    ) -> Candidates:
        """Return the best documents; `state` is another one whenever the index was changed."""
        search = _IndexSearch(connection, query, self._living_now(connection, state), self._weights)
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 2_000)
        try:
            search.choose(self._vocabulary, state[0], schemes)
            search.gather(deadline)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            search.is_complete = False
        finally:
            connection.set_progress_handler(None, 0)
        return search.result(limit)

    def _living_now(self, connection: sqlite3.Connection, state: tuple[int, ...]) -> "_Living":
        """Return what is true of all documents, read again only after a change."""
        living = self._living
        if living is not None and living.state == state:
            return living
        is_same_file = living is not None and living.state[0] == state[0]
        dead, last = (set(living.dead), living.last_dead) if living is not None and is_same_file else (set[int](), 0)
        fresh = connection.execute("SELECT number, id FROM dead WHERE number > ? ORDER BY number", (last,)).fetchall()
        dead.update(document for _, document in fresh)
        last = fresh[-1][0] if fresh else last
        (documents,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        if living is None or not is_same_file or abs(documents - living.documents) > documents // 10:
            (mean,) = connection.execute("SELECT avg(pieces) FROM documents").fetchone()
        else:
            mean = living.mean_pieces
        self._living = _Living(state, frozenset(dead), last, documents, max(1.0, float(mean or 1)), {})
        return self._living


class _Living(NamedTuple):
    """What is true of all documents in one state of the index."""

    state: tuple[int, ...]
    dead: frozenset[int]
    """Documents that were removed; some rows still speak of them."""
    last_dead: int
    documents: int
    mean_pieces: float
    chosen: dict[tuple[str, ...], tuple[frozenset[int], float]]
    """The documents that filters let through, with their mean number of pieces, by the filters."""


class _IndexSearch:
    """One search in one state of the index."""

    def __init__(
        self, connection: sqlite3.Connection, query: Query, living: "_Living", weights: tuple[float, ...]
    ) -> None:
        self._connection = connection
        self._query = query
        self._living = living
        self._weights = weights
        self._allowed: frozenset[int] | None = None
        self._within: frozenset[int] | None = None
        """The documents that filters and the caller's access leave, unless these are all."""
        self._wanted = wanted_by(query)
        self._evidence = Evidence(self._wanted, living.documents, living.mean_pieces, weights)
        self._marked = () if weights else tuple(self._wanted.marked())
        # All records that match are counted; there are not many of them.
        self._max_rows = MAX_COUNTED if weights else MAX_ROWS
        self.is_complete = True

    def choose(self, vocabulary: Vocabulary, generation: int, schemes: Collection[str] | None) -> None:
        """Find out which documents may be found at all: by filters, by phrases and by the expression."""
        condition, values = _condition(self._query.filters, schemes)
        if condition:
            self._allowed, mean_pieces = self._chosen(condition, values)
            if len(self._allowed) < self._living.documents:
                # What is rare, and so the order, follows from these alone: others leave no trace in an answer.
                self._within = self._allowed
                self._evidence = Evidence(self._wanted, len(self._allowed), mean_pieces, self._weights)
        sources = [expressions.phrase_source(phrase) for phrase in self._query.phrases]
        sources += [] if self._query.expression is None else [self._query.expression]
        for source in sources:
            need = expressions.need_of(source)
            found = vocabulary.candidates(self._connection, generation, need, self._documents_with) if need else None
            if found is not None:
                self._allowed = found if self._allowed is None else self._allowed & found

    def _chosen(self, condition: str, values: list[str]) -> tuple[frozenset[int], float]:
        key, chosen = (condition, *values), self._living.chosen
        if key not in chosen:
            sql = f"SELECT id, pieces FROM documents WHERE {condition}"
            pieces = dict(self._connection.execute(sql, values).fetchall())
            if len(chosen) >= MAX_CHOSEN:
                chosen.clear()
            chosen[key] = frozenset(pieces), max(1.0, sum(pieces.values()) / max(1, len(pieces)))
        return chosen[key]

    def _documents_with(self, term: str) -> Iterator[int]:
        return (row >> PIECE_BITS for row in self._all_rows(f'"{term}"', -1))

    def _all_rows(self, match: str, limit: int) -> Iterator[int]:
        sql = "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?"
        return (row for (row,) in self._connection.execute(sql, (match, limit)))

    def _rows(self, match: str, limit: int) -> list[int]:
        """Return rows of the documents that may be found."""
        within = self._within
        if within is None:
            return list(self._all_rows(match, limit))
        # The first rows may all be of documents that are left out.
        return list(islice((row for row in self._all_rows(match, MAX_COUNTED) if row >> PIECE_BITS in within), limit))

    def _count_rows(self, term: str) -> int:
        if self._within is not None:
            return len(self._rows(f'"{term}"', MAX_COUNTED))
        sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
        (count,) = self._connection.execute(sql, (f'"{term}"', MAX_COUNTED)).fetchone()
        return int(count)

    def gather(self, deadline: float | None) -> None:
        """Collect the evidence of all terms, of rare ones first."""
        evidence = self._evidence
        for term in self._marked:
            evidence.add_marked(term, self._rows(f'"{term}"', MAX_MARKED))
        counted = sorted((self._count_rows(term), term) for term in self._wanted.weights)
        left, rare = self._max_rows, list[str]()
        for count, term in counted:
            if deadline is not None and time.monotonic() > deadline:
                self.is_complete = False
                return
            if 0 < count <= left:
                evidence.add(term, self._rows(f'"{term}"', count))
                left -= count
                rare.append(term)
            elif count:
                chosen = " OR ".join(f'"{known}"' for known in rare)
                match = f'"{term}" AND ({chosen})' if rare else f'"{term}"'
                evidence.add(term, self._rows(match, self._max_rows), count)
                rare = rare or [term]

    def result(self, limit: int) -> Candidates:
        """Return the best of what was gathered."""
        evidence, must_verify = self._evidence, self._query.must_verify
        is_listing = not self._wanted.weights or must_verify
        found = evidence.documents - self._living.dead
        if self._allowed is not None:
            found &= self._allowed
        ranked = evidence.best(found, max(RANKED, limit))
        documents = {document.id: document for document in self._load(ranked)}
        scored = [(evidence.score(documents[number]), documents[number]) for number in ranked if number in documents]
        scored.sort(key=lambda item: (-round(item[0].score, 4), -(item[1].modified_ms or 0), item[1].path))
        candidates = [self._candidate(judged.score, judged.reasons, document) for judged, document in scored[:limit]]
        total = len(found)
        if is_listing:
            total = self._count_all(found)
            rest = self._others(found, limit - len(candidates))
            candidates += [self._candidate(0.0, ("only the filters or the expression match",), other) for other in rest]
        return Candidates(tuple(candidates), total, self.is_complete, must_verify)

    def _candidate(self, score: float, reasons: tuple[str, ...], document: IndexedDocument) -> Candidate:
        first = self._evidence.best_piece(document.id) * document.lines_each + 1
        return Candidate(
            document.uri,
            document.fingerprint,
            document.scheme,
            document.path,
            document.title,
            document.language,
            document.modified_ms,
            bool(document.is_partial),
            score,
            reasons,
            first,
            first + document.lines_each - 1,
        )

    def _load(self, numbers: Collection[int]) -> Iterator[IndexedDocument]:
        chosen = ",".join(map(str, numbers))
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM documents WHERE id IN ({chosen})")
        return map(_checked, rows)

    def _count_all(self, found: Collection[int]) -> int:
        if self._allowed is None:
            return self._living.documents
        return len((self._allowed - self._living.dead) | set(found))

    def _others(self, found: Collection[int], limit: int) -> Iterable[IndexedDocument]:
        """Return documents that the words do not rank, the newest first."""
        if limit <= 0:
            return ()
        order = "ORDER BY modified_ms DESC, path"
        if self._allowed is None:
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM documents {order} LIMIT ?", (limit + len(found),))
            loaded = list(map(_checked, rows))
        else:
            loaded = sorted(
                self._load(self._allowed - self._living.dead),
                key=lambda document: (-(document.modified_ms or 0), document.path),
            )
        return [document for document in loaded if document.id not in found][:limit]


def _checked(row: tuple[Any, ...]) -> IndexedDocument:
    """Return a row of the table; raise `DatabaseError` where it holds what is never written there."""
    document = IndexedDocument._make(row)
    is_typed = tuple(map(type, row)) in _ROWS
    if not is_typed or document.pieces < 1 or not 0 <= document.lines_each < _MAX_LINES:
        raise sqlite3.DatabaseError("a document that is none of ours")
    return document


def _condition(filters: Iterable[QueryFilter], schemes: Collection[str] | None) -> tuple[str, list[str]]:
    """Return what SQL asks for, with its values: filters of one kind are alternatives, unless they are negated."""
    clauses: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    negated: list[str] = []
    refused: list[str] = []
    for item in filters:
        clause, wanted = _clause(item)
        if item.is_negated:
            negated.append(f"NOT ({clause})")
            refused += wanted
        else:
            clauses.setdefault(item.kind, []).append(clause)
            values.setdefault(item.kind, []).extend(wanted)
    parts = [f"({' OR '.join(alternatives)})" for alternatives in clauses.values()]
    given = [value for kind in clauses for value in values[kind]]
    if schemes is not None:
        parts.append(f"scheme IN ({','.join('?' * len(schemes))})")
        given += sorted(schemes)
    return " AND ".join(parts + negated), given + refused


def _clause(item: QueryFilter) -> tuple[str, list[str]]:
    if item.kind != "path":
        return ("language = ?" if item.kind == "lang" else "scheme = ?"), [item.value]
    value = item.value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").removeprefix("./")
    if value.startswith("/"):
        return "path LIKE ? ESCAPE '\\'", [f"{value[1:]}%"]
    if "*" in value or "?" in value:
        pattern = value.replace("**/", "*").replace("*", "%").replace("?", "_")
        return "(path LIKE ? ESCAPE '\\' OR path LIKE ? ESCAPE '\\')", [pattern, f"%/{pattern}"]
    return "path LIKE ? ESCAPE '\\'", [f"%{value}%"]
