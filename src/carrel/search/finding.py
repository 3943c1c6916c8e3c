"""Find documents in an open index: the rows that contain the terms, their documents, and the order of these.

Common words do not make it slow: the rows of rare terms select the documents, and common terms only count in selected
rows. The number of rows that are read is limited.
"""

import heapq
import json
import sqlite3
import time
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar

from carrel.core.record import Value
from carrel.search import expressions
from carrel.search.chunks import PIECE_BITS, PLACE
from carrel.search.query import Query, QueryFilter
from carrel.search.ranking import Evidence, IndexedDocument, Judged, wanted_by
from carrel.search.reach import Reach
from carrel.search.vocabulary import Vocabulary
from carrel.search.words import terms_of, whole_of

MAX_ROWS: Final = 6_000
"""Maximum rows that are read for the words of one query; more would take too long."""
MAX_COUNTED: Final = 100_000
"""Rows that are counted to learn how frequent a term is."""
MAX_MARKED: Final = 1_500
"""Rows that are looked at for one definition or one word of paths."""
RANKED: Final = 80
"""Documents that are judged by all rules: the best by words alone. Further ones stay in the order of their words."""

MAX_CHOSEN: Final = 8
"""Combinations of filters, and expressions, whose documents are remembered."""

MAX_NAMED: Final = 1_000
"""Documents that are named in one statement; the order of more is that of all documents, which is remembered."""
MAX_LOADED: Final = 8_192
"""Documents whose facts are remembered."""
MAX_KNOWN_COUNTS: Final = 4_096
"""Terms of which it is remembered how frequent they are."""

_COLUMNS: Final = (
    "id, uri, fingerprint, scheme, path, title, language, modified_ms, is_partial, traits, lines_each, pieces"
)


_ROW: Final = (int, str, str, str, str, str, str, int, int, int, int, int)
_ROWS: Final = frozenset({_ROW, (*_ROW[:7], type(None), *_ROW[8:])})
_MAX_LINES: Final = 1 << 40
_MAX_ROWS_EACH: Final = 1 << PIECE_BITS
_LEAST_BEGIN: Final = 2
"""Letters that an unfinished word must have to be completed."""
_LOOKED_LONGER: Final = 16
_COUNTED_LONGER: Final = 100
_COMPLETIONS: Final = 6
"""Words that are searched for in place of an unfinished one; how many are looked at, and how many rows of each."""
_AT_ONCE: Final = 64
"""Terms that are looked for by one question to SQLite."""
_AND_LIVING: Final = f" AND rowid >> {PIECE_BITS} IN (SELECT id FROM documents)"
"""Leaves the rows of removed documents out."""
_UNJUDGED: Final = Judged(0.0, ("it contains words of the query",))
"""What is said of documents beyond those that are judged by all rules."""
_STEPS: Final = 10_000
"""Steps of SQLite between two looks at the clock: about two milliseconds."""
_LAST_ROW: Final = (1 << 63) - 1
_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


class Candidate(Value, frozen=True):
    """A found document, with the lines of its best part; `reasons` explain its rank."""

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
    places: tuple[tuple[int, int], ...] = ()
    """The first and the last lines of the parts that hold most of the query; none if that is not known."""


class Candidates(Value, frozen=True):
    """The found documents, best first.

    With `must_verify`, a candidate is a hit only if `passages.passage` finds the query in its text. `total` is the
    number of matching documents, before `limit`. Without `is_complete` there may be more: the deadline passed, or a
    word is too frequent to count every document that has it.
    """

    found: tuple[Candidate, ...]
    total: int
    is_complete: bool
    must_verify: bool


class IndexNumbers(NamedTuple):
    """Numbers that change with every change of the index; they only grow while the file is the same."""

    generation: int
    documents: int
    dead: int

    def is_before(self, other: "IndexNumbers") -> bool:
        """Return whether everything in this state is known in the other, of the same file."""
        return self.generation == other.generation and self.documents <= other.documents and self.dead <= other.dead


class Finder:
    """Finds documents, and caches facts that do not change between two searches. Safe to use from several threads."""

    def __init__(self, weights: tuple[float, ...] = ()) -> None:
        """`weights` are those of the fields, in an index of records."""
        self._weights = weights
        self._vocabulary = Vocabulary()
        self._living: _Living | None = None

    def find(
        self,
        connection: sqlite3.Connection,
        state: IndexNumbers,
        query: Query,
        *,
        reach: Reach | None,
        limit: int,
        deadline: float | None = None,
    ) -> Candidates:
        """Return the best documents within reach, or of all; `state` is another one whenever the index was changed."""
        search = _IndexSearch(connection, query, self._living_now(connection, state), self._weights)
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            search.choose(self._vocabulary, state.generation, reach)
            search.gather(deadline)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            search.is_complete = False
        finally:
            connection.set_progress_handler(None, 0)
        return search.result(limit)

    def complete(
        self, connection: sqlite3.Connection, state: IndexNumbers, word: str, reach: Reach | None
    ) -> tuple[str, ...]:
        """Return the words that an unfinished one may become, the most frequent first; none if it is a word itself.

        Only documents within reach count.
        """
        search = _IndexSearch(connection, Query(word, (word,)), self._living_now(connection, state), self._weights)
        search.choose(self._vocabulary, state.generation, reach)
        begin = whole_of(word)
        if len(begin) < _LEAST_BEGIN or search.count_some(terms_of(word)[:1]):
            return ()
        longer = self._vocabulary.beginning_with(connection, state.generation, begin)
        # The index has the stem of a word, but a name of several parts unchanged: search for that as two parts.
        forms = [(one, f"{begin}_{one[len(begin) :]}") for one in longer]
        # Words that only other callers may find, or of removed texts, do not count towards the limit.
        held = islice(search.held(forms), _LOOKED_LONGER)
        return tuple(form for count, form in heapq.nlargest(_COMPLETIONS, chain.from_iterable(held)) if count)

    def _living_now(self, connection: sqlite3.Connection, state: IndexNumbers) -> "_Living":
        """Return the facts about all documents, read again only after a change."""
        living = self._living
        if living is not None and living.state == state:
            return living
        # Another thread may have seen a later state than this one.
        is_before = living is not None and living.state.is_before(state)
        (documents,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        if living is None or not is_before or abs(documents - living.documents) > documents // 10:
            (mean,) = connection.execute("SELECT avg(pieces) FROM documents").fetchone()
        else:
            mean = living.mean_pieces
        loaded = living.loaded if living is not None and is_before else {}
        self._living = _Living(state, documents, max(1.0, float(mean or 1)), {}, {}, {}, loaded, array("q"))
        return self._living


class _Living(NamedTuple):
    """The facts about all documents in one state of the index."""

    state: IndexNumbers
    documents: int
    mean_pieces: float
    chosen: dict[tuple[str, ...], tuple[frozenset[int], float]]
    """The documents that filters let through, with their mean number of pieces, by the filters."""
    counts: dict[str, int]
    """In how many rows a term is."""
    matchable: dict[str, frozenset[int] | None]
    """The documents that an expression may match, by the expression; None if all may."""
    loaded: dict[int, IndexedDocument]
    """Documents that were looked at; a number is never used for another document."""
    newest: "array[int]"
    """The numbers of all documents, the newest first; empty until they are needed."""


class _IndexSearch:
    """One search in one state of the index."""

    def __init__(
        self, connection: sqlite3.Connection, query: Query, living: "_Living", weights: tuple[float, ...]
    ) -> None:
        self._connection = connection
        self._query = query
        self._living = living
        self._weights = weights
        # Rows of removed documents say nothing, and must not use up a limit: the oldest rows come first.
        self._and_living = _AND_LIVING if living.state.dead else ""
        self._allowed: frozenset[int] | None = None
        """The documents that filters and the caller's access leave; None if these are all."""
        self._matchable: frozenset[int] | None = None
        """The documents that phrases and the expression may match; None if all may. Words of others decide this too."""
        self._within: frozenset[int] | None = None
        """The same, unless it contains every document."""
        self._range = (-1, _LAST_ROW)
        """Their rows are after the first of these numbers, up to the last: files of one folder have near numbers."""
        self._is_private = False
        """Whether there are documents that the caller cannot read, so that not even their number may show."""
        self._wanted = wanted_by(query)
        self._evidence = Evidence(self._wanted, living.documents, living.mean_pieces, weights)
        self._marked = () if weights else tuple(self._wanted.marked())
        # All records that match are counted; there are not many of them.
        self._max_rows = MAX_COUNTED if weights else MAX_ROWS
        self._kept: dict[str, list[int]] = {}
        """The rows of terms that were read to be counted."""
        self._is_chosen = False
        """Whether the filters and the caller's access were applied: until then nothing may be found."""
        self.is_complete = True
        self._is_counted = True
        """Whether every document with a word of the query was counted."""

    def choose(self, vocabulary: Vocabulary, generation: int, reach: Reach | None) -> None:
        """Find out which documents may be found at all: by filters, by phrases and by the expression."""
        condition, values = _condition(self._query.filters, reach)
        if condition:
            self._allowed, mean_pieces = self._chosen(condition, values)
            # Only these documents decide which terms are rare, and so the order: others must not affect an answer, nor
            # must those that were removed.
            self._evidence = Evidence(self._wanted, len(self._allowed), mean_pieces, self._weights)
            if len(self._allowed) < self._living.documents:
                self._within = self._allowed
                self._range = _range_of(self._allowed)
                readable, _ = self._chosen(*_condition((), reach)) if reach is not None else (self._allowed, 0.0)
                self._is_private = len(readable) < self._living.documents
        self._is_chosen = True
        sources = [expressions.phrase_source(phrase) for phrase in self._query.phrases]
        sources += [] if self._query.expression is None else [self._query.expression]
        for source in sources:
            self._matchable = _in_both(self._matchable, self._matching(vocabulary, generation, source))

    def _chosen(self, condition: str, values: list[str]) -> tuple[frozenset[int], float]:
        key, chosen = (condition, *values), self._living.chosen
        known = chosen.pop(key, None)
        if known is None:
            sql = f"SELECT id, CAST(pieces AS INTEGER) FROM documents WHERE {condition}"
            pieces = dict(self._connection.execute(sql, values).fetchall())
            known = frozenset(pieces), max(1.0, sum(pieces.values()) / max(1, len(pieces)))
        _keep(chosen, key, known)  # what a caller may read is asked for each time
        return known

    def _matching(self, vocabulary: Vocabulary, generation: int, source: str) -> frozenset[int] | None:
        """Return the documents that an expression may match; None if all may."""
        matchable = self._living.matchable
        try:
            found = matchable.pop(source)
        except KeyError:
            need = expressions.need_of(source)
            found = vocabulary.candidates(self._connection, generation, need, self._documents_with) if need else None
        _keep(matchable, source, found)
        return found

    def _documents_with(self, terms: Iterable[str]) -> set[int]:
        """Return the documents that hold one of some terms."""
        left, found = list(terms), set[int]()
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            found.update(self._numbers(f"rowid >> {PIECE_BITS}", _any_of(some), -1))
        return found

    def _numbers(self, what: str, match: str, limit: int, after: int = -1, last: int = _LAST_ROW) -> list[int]:
        """Return a number of each row that matches, of those with greater numbers than `after`, up to `last`."""
        # As one text: Python lets other threads run after every row that SQLite returns, and then waits for them.
        condition = f"words MATCH ? AND rowid > ? AND rowid <= ?{self._and_living}"
        sql = f"SELECT group_concat({what}) FROM (SELECT rowid FROM words WHERE {condition} LIMIT ?)"
        (numbers,) = self._connection.execute(sql, (match, after, last, limit)).fetchone()
        found: list[int] = json.loads(f"[{numbers or ''}]")  # half as long as to split the text
        return found

    def _rows(self, match: str, limit: int) -> list[int]:
        """Return rows of the documents that may be found."""
        within = self._within
        if within is None:
            return self._numbers("rowid", match, limit)
        # The first rows may all be of documents that are left out.
        found: list[int] = []
        (after, last), is_last = self._range, False
        while len(found) < limit and not is_last:
            rows = self._numbers("rowid", match, MAX_COUNTED, after, last)
            found += [row for row in rows if row >> PIECE_BITS in within]
            is_last = len(rows) < MAX_COUNTED or not self._is_private
            after = rows[-1] if rows else after
        return found[:limit]

    def _count_rows(self, term: str) -> int:
        """Return how many rows of the documents that may be found have a term."""
        within = self._within
        if within is None:
            if term not in self._living.counts:  # most terms are rare, and their rows are needed
                rows = self._rows(_any_of((term,)), self._max_rows)
                if len(rows) < self._max_rows:
                    self._kept[term] = rows
                    return len(rows)
            return self._count_all_rows(term)
        if not self._is_private:
            count = self._count_all_rows(term)
            if count > self._max_rows:  # an exact number is not worth reading all rows
                return max(self._max_rows + 1, count * len(within) // max(1, self._living.documents))
        rows = self._kept[term] = self._rows(_any_of((term,)), MAX_COUNTED)
        return len(rows)

    def _count_all_rows(self, term: str) -> int:
        counts = self._living.counts
        count = counts.get(term)
        if count is None:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?{self._and_living} LIMIT ?)"
            (count,) = self._connection.execute(sql, (_any_of((term,)), MAX_COUNTED)).fetchone()
            if len(counts) >= MAX_KNOWN_COUNTS:
                counts.clear()
            counts[term] = count
        return int(count)

    def count_some(self, terms: Sequence[str]) -> int:
        """Return in how many rows of documents that may be found one of some terms is; not more than are counted."""
        return len(self._rows(_any_of(terms), _COUNTED_LONGER)) if terms else 0

    def held(self, words: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[int, str]]]:
        """Yield the forms of each word that documents that may be found have, with about how many rows have them."""
        for at in range(0, len(words), _AT_ONCE):
            some = words[at : at + _AT_ONCE]
            # There may be thousands of words that only others may find.
            if self.count_some([term for forms in some for form in forms for term in terms_of(form)[:1]]):
                counted = ([(self.count_some(terms_of(form)[:1]), form) for form in forms] for forms in some)
                yield from (forms for forms in counted if any(count for count, _ in forms))

    def gather(self, deadline: float | None) -> None:
        """Collect the evidence of all terms, of rare ones first."""
        evidence = self._evidence
        for term in self._marked:
            rows = self._rows(_any_of((term,)), MAX_MARKED)
            self._is_counted = self._is_counted and (len(rows) < MAX_MARKED or term[0] != PLACE)
            evidence.add_marked(term, rows)
        counted = sorted((self._count_rows(term), term) for term in self._wanted.weights)
        left, rare = self._max_rows, list[str]()
        for count, term in counted:
            if deadline is not None and time.monotonic() > deadline:
                self.is_complete = False
                return
            if 0 < count <= left:
                evidence.add(term, self._kept.get(term) or self._rows(_any_of((term,)), count))
                left -= count
                rare.append(term)
            elif count:
                match = f'"{term}" AND ({_any_of(rare)})' if rare else _any_of((term,))
                rows = self._rows(match, self._max_rows)
                self._is_counted = self._is_counted and len(rows) >= count
                evidence.add(term, rows, count)
                rare = rare or [term]

    def result(self, limit: int) -> Candidates:
        """Return the best of the gathered documents."""
        must_verify = self._query.must_verify
        if not self._is_chosen:
            return Candidates((), 0, self.is_complete, must_verify)
        found = self._evidence.documents if self._allowed is None else self._evidence.documents & self._allowed
        allowed = _in_both(self._allowed, self._matchable)
        candidates = [
            self._candidate(judged.score, judged.reasons, document)
            for judged, document in self._ranked(found, limit)[:limit]
        ]
        total, is_complete = len(found), self.is_complete and self._is_counted
        if not self._wanted.weights or must_verify:
            total, is_complete = self._living.documents if allowed is None else len(allowed), self.is_complete
            rest = self._others(found, allowed, limit - len(candidates))
            candidates += [self._candidate(0.0, ("only the filters or the expression match",), other) for other in rest]
        return Candidates(tuple(candidates), total, is_complete, must_verify)

    def _ranked(self, found: set[int], limit: int) -> list[tuple[Judged, IndexedDocument]]:
        """Return the documents with words of the query, best first: at least `limit` of them, if there are so many."""
        evidence = self._evidence
        # How many are judged does not depend on the limit, so that the order is the same on each page.
        if self._query.must_verify:
            judged, others = self._exactly_ranked(found, limit)
        else:
            ranked = evidence.best(found, max(RANKED, limit))
            most = len(ranked) if self._weights else RANKED
            judged, others = ranked[:most], ranked[most:]
        documents = self._load([*judged, *others[:limit]])
        scored = [(evidence.score(one), one) for number in judged if (one := documents.get(number))]
        scored.sort(key=lambda item: (-round(item[0].score, 4), -(item[1].modified_ms or 0), item[1].path, item[1].uri))
        return scored + [(_UNJUDGED, one) for number in others[:limit] if (one := documents.get(number))]

    def _exactly_ranked(self, found: set[int], limit: int) -> tuple[Collection[int], list[int]]:
        """Return the documents that may match: those to judge by all rules, and the others, best first.

        Which are judged does not depend on which may match, since words of texts that only others read decide that too.
        """
        best = self._evidence.best_by_words(found, RANKED)
        may_match = found if self._matchable is None else found & self._matchable
        ranked = self._evidence.best(may_match, max(RANKED, limit))
        return best & may_match, [number for number in ranked if number not in best]

    def _candidate(self, score: float, reasons: tuple[str, ...], document: IndexedDocument) -> Candidate:
        each = document.lines_each
        first = self._evidence.best_piece(document) * each + 1
        # Where a text is verified, the places are those of the phrase or the expression.
        pieces = () if self._query.must_verify else self._evidence.best_pieces(document)
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
            first + each - 1,
            _stretches(pieces, each),
        )

    def _load(self, numbers: Collection[int]) -> dict[int, IndexedDocument]:
        """Return documents by their numbers; those that are not there are left out."""
        loaded = self._living.loaded
        documents = {number: known for number in numbers if (known := loaded.get(number)) is not None}
        chosen = ",".join(str(number) for number in numbers if number not in documents)
        if chosen:
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM documents WHERE id IN ({chosen})").fetchall()
            fresh = {document.id: document for document in map(_checked, rows)}
            if len(loaded) + len(fresh) > MAX_LOADED:
                loaded.clear()
            loaded.update(fresh)
            documents.update(fresh)
        return documents

    def _others(self, found: Collection[int], allowed: frozenset[int] | None, limit: int) -> Iterable[IndexedDocument]:
        """Return allowed documents that the words do not rank, the newest first."""
        if limit <= 0:
            return ()
        if allowed is not None and len(allowed) <= MAX_NAMED:
            newest: Iterable[int] = self._by_age(f"id IN ({','.join(map(str, allowed))})")
        else:
            if not self._living.newest:
                self._living.newest[:] = array("q", self._by_age("1"))  # at once: other threads read it
            newest = self._living.newest
        others = (number for number in newest if number not in found and (allowed is None or number in allowed))
        numbers = list(islice(others, limit))
        documents = self._load(numbers)
        return [documents[number] for number in numbers if number in documents]

    def _by_age(self, condition: str) -> list[int]:
        """Return the numbers of documents, the newest first."""
        sql = f"SELECT id FROM documents WHERE {condition} ORDER BY modified_ms DESC, path, uri"
        return [number for (number,) in self._connection.execute(sql).fetchall()]


def _in_both(one: frozenset[int] | None, other: frozenset[int] | None) -> frozenset[int] | None:
    """Return the documents in both sets; None stands for all documents."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _keep(cache: dict[_Key, _Known], key: _Key, known: _Known) -> None:
    """Put a value at the end of a cache; drop the oldest ones."""
    cache[key] = known
    for oldest in list(cache)[:-MAX_CHOSEN]:
        cache.pop(oldest, None)


def _range_of(documents: Collection[int]) -> tuple[int, int]:
    """Return the number before the first row of some documents, and that of the last."""
    if not documents:
        return -1, -1
    return (min(documents) << PIECE_BITS) - 1, ((max(documents) + 1) << PIECE_BITS) - 1


def _stretches(pieces: Iterable[int], each: int) -> tuple[tuple[int, int], ...]:
    """Return the first and the last lines of pieces of equal length; pieces that follow each other are one stretch."""
    found: list[tuple[int, int]] = []
    for piece in pieces:
        first, last = piece * each + 1, piece * each + each
        if found and found[-1][1] == first - 1:
            first = found.pop()[0]
        found.append((first, last))
    return tuple(found)


def _any_of(terms: Iterable[str]) -> str:
    """Return the FTS5 query for rows with one of some terms."""
    return " OR ".join(f'"{term}"' for term in terms)


def _checked(row: tuple[Any, ...]) -> IndexedDocument:
    """Return a row of the table; raise `DatabaseError` if it contains values that Carrel never writes."""
    document = IndexedDocument._make(row)
    is_typed = tuple(map(type, row)) in _ROWS
    has_bounds = is_typed and 1 <= document.pieces <= _MAX_ROWS_EACH and 0 <= document.lines_each < _MAX_LINES
    if not has_bounds:
        raise sqlite3.DatabaseError("a document that Carrel did not write")
    return document


def _condition(filters: Iterable[QueryFilter], reach: Reach | None) -> tuple[str, list[str]]:
    """Return the SQL condition and its values: filters of one kind are alternatives, unless they are negated."""
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
    if reach is not None:
        within, wanted = reach.condition()
        parts.append(within)
        given += wanted
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
