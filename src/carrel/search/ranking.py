"""Rank the found documents by one table of rules, each with its reason.

The score of a document is a sum over the terms of the query, in which rare terms count more (BM25 over the pieces of
its text), plus the points for its name and its definitions. Factors lower documents that are seldom wanted.
Documents with equal scores are ordered by age, newest first.
"""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from carrel.core.record import Value
from carrel.search import expressions
from carrel.search.chunks import DEFINES, DEFINES_PART, DEFINES_TYPE, PIECE_BITS, PLACE
from carrel.search.query import Query
from carrel.search.words import WORD, parts_of, stem, terms_of, whole_of


class Rule(Value, frozen=True):
    """A rule: its weight, the words for a hit to which it applied, and the reason for the rule."""

    weight: float
    told: str
    reason: str


RULES: Final = {
    "best": Rule(1.0, "", "words that stand together mean more than words far apart"),
    "second": Rule(0.45, "", "a file that speaks of it in several places is about it"),
    "part": Rule(0.7, "", "a part of a name alone is less than the name"),
    "pair": Rule(0.6, "", "`state manager` is written StateManager in code"),
    "name": Rule(4.5, "its name holds {}", "people name a file for what it is about"),
    "last folder": Rule(2.0, "its folder holds {}", "index.ts and mod.rs are named by their folder"),
    "folder": Rule(0.75, "its path holds {}", "folders say what their files share"),
    "exact": Rule(0.6, "it is named {}", "a search for Router wants router.py before router_settings.py"),
    "prefix": Rule(0.75, "", "names are cut short: config is configuration, impl is implementation"),
    "definition": Rule(0.6, "it defines {}", "the place where a name is made explains it; its uses do not"),
    "type": Rule(0.3, "", "a type or a module is asked for more often than a variable of that name"),
    "defined parts": Rule(0.6, "names in it hold {}", "a file about cookies defines parse_cookie and cookie_jar"),
    "test": Rule(0.6, "lower as a test", "a test repeats the words of what it tests"),
    "test asked for": Rule(0.85, "lower as a test", "`test` in a query may mean tests, or a program for tests"),
    "example": Rule(0.7, "lower as an example", "an example uses a thing, and does not explain how it is made"),
    "generated": Rule(0.6, "lower as generated", "people seldom read or change generated files"),
    "vendored": Rule(0.6, "lower as a copy", "copies of others' work are seldom what is looked for"),
    "history": Rule(0.6, "lower as a list of everything", "changelogs and lock files mention everything"),
    "passed on": Rule(0.9, "lower as it passes names on", "a file that only passes names on explains none"),
    "declared": Rule(0.7, "lower as it only declares", "declarations repeat what another file does"),
    "prose": Rule(0.7, "lower as prose beside code", "text about code comes after the code that does it"),
    "data": Rule(0.8, "lower as data beside code", "settings name a thing, and rarely are the thing"),
}
"""A rule with words for a lower place multiplies, the others add."""

_SATURATION: Final = 1.0
"""How soon more of the same word counts less: k1 of BM25."""
_LENGTH: Final = 0.18
"""How much a long text counts less: b of BM25. Long files are not about less."""
_NAME_SHARE: Final = 0.75
"""How much of a name's worth depends on how much of the name was asked for."""
_QUERY_SHARE: Final = 0.3
"""How much of a name's worth depends on how much of the query is in the name."""

GENERATED: Final = 1
PASSED_ON: Final = 2
_WORKSPACE: Final = "workspace"
"""The scheme of files, where prose and data lie beside code."""

_GRAMMAR: Final = frozenset(
    "a an and are as at be between but by can did do does during each for from has have how i if in into is it its"
    " many more much not of on or other our so than that the their them then there these they this to too two use used"
    " using via was we what when where which while who why will with you your".split()
)
"""Words of a question that do not describe its subject."""
_TESTS: Final = frozenset({"test", "tests", "testing", "spec", "specs"})
_TEST: Final = re.compile(
    r"(?i:(?:^|/)(?:tests?|specs?|__tests__|testing|testdata|testlib|test[-_]\w+|fixtures?|mocks?|e2e)/"
    r"|(?:^|/)test_[^/]*$|[._-](?:test|spec|tests)\.[a-z]+$|(?:^|/)conftest\.py$)|[a-z]Tests?\.[a-z]+$"
)
_EXAMPLE: Final = re.compile(
    r"(?i)(?:^|/)(?:examples?|samples?|demos?|playgrounds?|tutorials?|docs_src|snippets|bench|benchmarks?)/|benchmark"
)
_VENDORED: Final = re.compile(
    r"(?i)(?:^|/)(?:vendor|vendored|third[-_]?party|node_modules|dist|external|_vendor|site-packages|docsets?)/"
    r"|\.min\.(?:js|css)$"
)
_HISTORY: Final = re.compile(
    r"(?i)(?:^|/)(?:changelog|changes|history|release[-_]?notes|news)[^/]*$|\.lock$|(?:^|/)package-lock\.json$"
)
_DECLARED: Final = re.compile(r"\.d\.[cm]?ts$|\.pyi$")
_UNNAMED: Final = frozenset({"index", "mod", "__init__", "init", "lib", "main", "package"})
_PROSE: Final = frozenset({"markdown", "text", "html", "xml", ""})
_DATA: Final = frozenset({"json", "yaml", "toml", "css"})
_MARKS_OF_PROGRAMS: Final = re.compile(r"(?i)@generated|\bdo not edit\b|auto-?generated|\bgenerated by\b")
_PASSES_ON: Final = re.compile(
    r"\s*(?:import|from|export\s*(?:\*|\{|type)|use |pub use|pub mod|mod |require|#|//|/?\*|\}|\)"
    r"|\w+,?$|$|__all__|\"\w+\",?$)"
)


_KINDS: Final = {
    "test": (4, _TEST),
    "example": (8, _EXAMPLE),
    "vendored": (16, _VENDORED),
    "history": (32, _HISTORY),
    "declared": (64, _DECLARED),
}
"""Kinds of files by their paths. The kind is determined when a file is indexed: after a change of a pattern, increment
the version of the index."""


class IndexedDocument(NamedTuple):
    """A row of the index's table of documents."""

    id: int
    uri: str
    fingerprint: str
    scheme: str
    path: str
    title: str
    language: str
    modified_ms: int | None
    is_partial: int
    traits: int
    lines_each: int
    pieces: int


def traits_of(text: str, path: str, language: str, *, has_definitions: bool) -> int:
    """Return the kinds of a document by its text and its path, as bits."""
    traits = sum(bit for bit, pattern in _KINDS.values() if pattern.search(path))
    traits |= GENERATED if _MARKS_OF_PROGRAMS.search(text, 0, 600) else 0
    if language not in _PROSE and language not in _DATA and not has_definitions and len(text) < 20_000:
        lines = text.split("\n")
        passed = sum(_PASSES_ON.match(line) is not None for line in lines)
        traits |= PASSED_ON if passed >= 0.8 * len(lines) else 0
    return traits


def without_grammar(words: Iterable[str]) -> list[str]:
    """Return the words that describe the subject; all of them if none does."""
    every = list(words)
    return [word for word in every if word.lower().strip("?!.,") not in _GRAMMAR] or every


class Wanted:
    """The terms of a query, as they stand in the index, with their weights."""

    def __init__(self, words: Iterable[str]) -> None:
        kept = without_grammar(words)
        self.parts: dict[str, float] = {}
        """The stem of each word or part of a name, with its weight."""
        self.spelled: dict[str, str] = {}
        """How each was written, in small letters."""
        self.names: dict[str, str] = {}
        """Each word as a whole name, with how it was written."""
        self.weights: dict[str, float] = {}
        """Every term to look for in the text."""
        for word in kept:
            self._add(word)
        self.pairs = [
            whole_of(first) + whole_of(second)
            for first, second in pairwise(kept)
            if first.isascii() and second.isascii()
        ]
        self.weights |= self.parts
        for pair in self.pairs:
            self.weights.setdefault(pair, RULES["pair"].weight)
        self.asks_for_tests = not _TESTS.isdisjoint(word.lower() for word in kept)

    def _add(self, word: str) -> None:
        terms = terms_of(word)
        for part in parts_of(word):
            self.spelled.setdefault(stem(part), part)
        self.names.setdefault(whole_of(word), word)
        if len(terms) > 1:
            self.weights[terms[0]] = 1.0
        for term in terms[1:] or terms:
            weight = 1.0 if len(terms) == 1 else RULES["part"].weight
            self.parts[term] = max(self.parts.get(term, 0.0), weight)

    def marked(self) -> Iterator[str]:
        """Yield the terms of definitions, names and paths to look for."""
        for whole in dict.fromkeys((*self.names, *self.pairs)):
            yield DEFINES + whole
        for whole in self.names:
            yield DEFINES_TYPE + whole
        for part in self.parts:
            yield DEFINES_PART + part
            yield PLACE + part


def wanted_by(query: Query) -> Wanted:
    """Return the terms of a query; for an expression without words, those of the words in the expression."""
    texts = [*query.phrases]
    if query.expression is not None and not query.words and not query.phrases:
        texts += expressions.need_of(query.expression).texts()
    words = [*query.words, *(word for text in texts for word in WORD.findall(text))]
    return Wanted(dict.fromkeys(words[:_MAX_WORDS]))


class Judged(NamedTuple):
    """The score of a document, and its reasons in words."""

    score: float
    reasons: tuple[str, ...]


class Evidence:
    """The matching rows of each document, and its score by them."""

    def __init__(
        self,
        wanted: Wanted,
        count: int,
        mean_pieces: float,
        weights: tuple[float, ...] = (),
    ) -> None:
        """`weights` are those of the fields of records: then the number of a piece is that of its field."""
        self._wanted = wanted
        self._weights = weights
        self._count = count
        self._mean = mean_pieces
        self._times: dict[str, Mapping[int, float]] = {}
        self._rarity: dict[str, float] = {}
        self._pieces: dict[int, float] = {}
        self._rough: defaultdict[int, float] = defaultdict(float)
        self._defining: list[tuple[float, set[int], Mapping[int, float]]] = []
        """The rows that define something, with what it is worth that they do, and their documents."""
        self._rows: dict[int, list[tuple[float, int]]] = {}
        """The worths of the rows of the best documents, with the negated numbers of the rows."""
        self._looked_up: _LookedUp | None = None

    def add(self, term: str, rows: Collection[int], count: int | None = None) -> None:
        """Take the rows of a term; `count` is how many there are, where only some are given."""
        times = self._count_times(rows)
        if not times:
            return
        documents = len(times) if count is None else min(self._count, len(times) * count // len(rows))
        worth = self._wanted.weights[term] * self._note(term, times, documents)
        rough, pieces = self._rough, self._pieces
        twice = worth * 2
        for document, number in times.items():
            rough[document] += twice * number / (number + _SATURATION)
        if not self._weights:  # that words stand together means nothing in a record, whose fields are short
            fresh = dict.fromkeys(rows, worth)
            for row in fresh.keys() & pieces.keys() if pieces else ():
                fresh[row] += pieces[row]
            pieces.update(fresh)

    def _count_times(self, rows: Iterable[int]) -> Mapping[int, float]:
        """Return how often documents have a term: in how many pieces, or in fields of which weight."""
        if not self._weights:
            return Counter([row >> PIECE_BITS for row in rows])
        times: defaultdict[int, float] = defaultdict(float)
        last = len(self._weights) - 1
        for row in rows:
            times[row >> PIECE_BITS] += self._weights[min(row & _PIECE, last)]
        return times

    def add_marked(self, term: str, rows: Collection[int]) -> None:
        """Take the rows of a definition, or of a word of paths."""
        times = self._count_times(rows)
        if times:
            rarity = self._note(term, times, len(times))
            weight = 2.0 if term[0] == PLACE else 1.0
            for document in times:
                self._rough[document] += weight * rarity
            if term[0] != PLACE:
                worth = rarity * (1.0 if term[0] == DEFINES_PART else _DEFINED)
                self._defining.append((worth, set(rows), times))

    def _note(self, term: str, times: Mapping[int, float], documents: int) -> float:
        self._times[term] = times
        self._rarity[term] = rarity = _rarity(self._count, documents)
        return rarity

    @property
    def documents(self) -> set[int]:
        """Return every document with a matching row."""
        return set(self._rough)

    def best_by_words(self, documents: Collection[int], limit: int) -> set[int]:
        """Return the documents with the most evidence by single words; of equal ones the first."""
        rough = self._rough
        return set(heapq.nlargest(limit, documents, key=lambda number: (rough[number], -number)))

    def best(self, documents: Collection[int], limit: int) -> list[int]:
        """Return the documents with the most evidence, before names are looked at."""
        rough = self._rough
        if len(documents) > limit:
            least = sorted(map(rough.__getitem__, documents))[-limit] / _MOST
            documents = [number for number in documents if rough[number] >= least]
        rows = self._rows = {number: [] for number in documents}
        found = rows.get
        for row, worth in self._pieces.items():
            known = found(row >> PIECE_BITS)
            if known is not None:
                known.append((worth, -row))
        # Of equal ones the first: the order of a set depends on the numbers, and so on documents of others.
        worths = [(rough[number] + (max(known)[0] if known else 0.0), -number) for number, known in rows.items()]
        return [-number for _, number in heapq.nlargest(limit, worths)]

    def best_piece(self, document: IndexedDocument) -> int:
        """Return the number of the piece in which most of the words stand together."""
        return self._two_best(document)[2]

    def best_pieces(self, document: IndexedDocument) -> list[int]:
        """Return the numbers of the pieces that hold or define most of the query, in their order."""
        start = document.id << PIECE_BITS
        worth = {-row: value for value, row in self._rows.get(document.id, ())}
        if any(document.id in documents for _, _, documents in self._defining):
            for row in range(start, start + document.pieces):
                value = sum(value for value, rows, _ in self._defining if row in rows)
                if value:
                    worth[row] = worth.get(row, 0.0) + value
        shown = heapq.nlargest(_SHOWN, ((value, -row) for row, value in worth.items()))
        return sorted(-row - start for _, row in shown)

    def _two_best(self, document: IndexedDocument) -> tuple[float, float, int]:
        """Return the worth of the best piece of a document and of the next best, and the number of the best."""
        rows = self._rows.get(document.id)
        if not rows:
            return 0.0, 0.0, 0
        (best, row), *others = heapq.nlargest(2, rows) if len(rows) > 1 else rows
        return best, others[0][0] if others else 0.0, -row - (document.id << PIECE_BITS)

    def score(self, document: IndexedDocument) -> Judged:
        """Return the score of a document by all rules."""
        reasons: list[str] = []
        worth = self._words(document, reasons)
        if self._weights:
            return Judged(worth, tuple(reasons))
        worth += self._definitions(document, reasons) + self._names(document, reasons)
        for rule in _kinds(document):
            name = "test asked for" if rule == "test" and self._wanted.asks_for_tests else rule
            worth *= RULES[name].weight
            reasons.append(RULES[name].told)
        return Judged(worth, tuple(reasons))

    def _words(self, document: IndexedDocument, reasons: list[str]) -> float:
        longer = _SATURATION * (1 - _LENGTH + _LENGTH * document.pieces / self._mean)
        worth, held = 0.0, []
        for times_of, value, spelled in self._terms().words:
            times = times_of.get(document.id)
            if times:
                worth += value * times * (1 + _SATURATION) / (times + longer)
                if spelled:
                    held.append(spelled)
        if held:
            reasons.append(f"it holds {', '.join(held)}")
        best, second, _ = self._two_best(document)
        return worth + RULES["best"].weight * best + RULES["second"].weight * second

    def _definitions(self, document: IndexedDocument, reasons: list[str]) -> float:
        worth, defined, parts = 0.0, [], []
        terms = self._terms()
        for times_of, value, type_times, type_value, spelled in terms.definitions:
            if document.id in times_of:
                worth += value + (type_value if document.id in type_times else 0.0)
                defined.append(spelled)
        for times_of, value, spelled in terms.defined_parts:
            times = times_of.get(document.id)
            if times:
                worth += value * times / (times + 1)
                parts.append(spelled)
        _tell(reasons, "definition", defined)
        _tell(reasons, "defined parts", [] if defined else parts)
        return worth

    def _names(self, document: IndexedDocument, reasons: list[str]) -> float:
        place = _place_of(document.path, document.title)
        terms = self._terms()
        matched, share, told = _match(terms.parts, place.name)
        worth = 0.0
        if matched:
            worth += (
                RULES["name"].weight
                * matched
                * ((1 - _NAME_SHARE + _NAME_SHARE * share) * (1 - _QUERY_SHARE + _QUERY_SHARE * matched / terms.most))
            )
            _tell(reasons, "name", told)
        if place.last_folder:
            in_folder, _, told = _match(terms.parts, place.last_folder)
            worth += RULES["last folder"].weight * in_folder * (1.5 if place.is_unnamed else 1.0)
            _tell(reasons, "last folder", told)
        for part, _, value in terms.parts:
            if part in place.folders and part not in place.name:
                worth += RULES["folder"].weight * value
        if place.whole in self._wanted.names or place.whole in self._wanted.pairs:
            worth += RULES["exact"].weight * terms.most
            _tell(reasons, "exact", [place.whole])
        return worth

    def _terms(self) -> "_LookedUp":
        """Return the facts that are the same for every document, computed once after all rows were added."""
        if self._looked_up is None:
            self._looked_up = self._look_up()
        return self._looked_up

    def _look_up(self) -> "_LookedUp":
        wanted, times, rarity = self._wanted, self._times, self._rarity
        words = [
            (times[term], weight * rarity[term], wanted.spelled.get(term, ""))
            for term, weight in wanted.weights.items()
            if term in times
        ]
        definitions = [
            (
                times[DEFINES + whole],
                RULES["definition"].weight * rarity[DEFINES + whole],
                times.get(DEFINES_TYPE + whole, {}),
                RULES["type"].weight * rarity.get(DEFINES_TYPE + whole, 0.0),
                wanted.names.get(whole, whole),
            )
            for whole in dict.fromkeys((*wanted.names, *wanted.pairs))
            if DEFINES + whole in times
        ]
        share = RULES["defined parts"].weight
        defined_parts = [
            (times[DEFINES_PART + part], share * weight * rarity[DEFINES_PART + part], wanted.spelled.get(part, part))
            for part, weight in wanted.parts.items()
            if DEFINES_PART + part in times
        ]
        parts = [
            (part, wanted.spelled.get(part, part), weight * (rarity.get(part) or _rarity(self._count, 0)))
            for part, weight in wanted.parts.items()
        ]
        return _LookedUp(words, definitions, defined_parts, parts, sum(value for _, _, value in parts) or 1.0)


_Times = Mapping[int, float]
"""How often documents have a term, by their numbers."""


class _LookedUp(NamedTuple):
    """The terms of a query that some document has, each with its weight and its spelling."""

    words: list[tuple[_Times, float, str]]
    definitions: list[tuple[_Times, float, _Times, float, str]]
    """The second of each are those of types."""
    defined_parts: list[tuple[_Times, float, str]]
    parts: list[tuple[str, str, float]]
    most: float
    """The weight of a name that contains the whole query."""


def _match(parts: Iterable[tuple[str, str, float]], name: Mapping[str, str]) -> tuple[float, float, list[str]]:
    """Return the weight of the wanted parts of a name, their share of the name, and these parts."""
    worth, found, told = 0.0, set[str](), []
    for part, spelled, value in parts:
        if part in name:
            worth += value
            found.add(part)
            told.append(spelled)
            continue
        initial = spelled[:1]
        for key, raw in name.items():
            if raw[:1] == initial and _is_cut(raw, spelled):
                worth += RULES["prefix"].weight * value
                found.add(key)
                told.append(spelled)
                break
    return worth, len(found) / max(1, len(name)), told


_MAX_WORDS: Final = 64
_SHOWN: Final = 4
"""Pieces of a document in which the lines to show are looked for."""
_DEFINED: Final = 3.0
"""How much more a place counts, among those to show, that defines what is asked for."""
_PIECE: Final = (1 << PIECE_BITS) - 1
_MOST: Final = 1 + (1 + _SATURATION) / 2
"""A document has at most this multiple of its rough evidence: what words that stand together add is limited by it."""


def _rarity(count: int, documents: int) -> float:
    """Return the inverse document frequency of BM25: the fewer documents have a term, the more it is worth."""
    return math.log(1 + (max(count, documents) - documents + 0.5) / (documents + 0.5))


def _is_cut(name: str, word: str) -> bool:
    """Return whether a name is the beginning of a word or the reverse: `config` and `configuration`."""
    return (len(name) >= 3 and word.startswith(name)) or (len(word) >= 4 and name.startswith(word))


def _tell(reasons: list[str], rule: str, words: list[str]) -> None:
    if words:
        reasons.append(RULES[rule].told.format(", ".join(words)))


class _Place(NamedTuple):
    """The words in the path and the title of a document: stems, each with its spelling."""

    name: dict[str, str]
    last_folder: dict[str, str]
    folders: frozenset[str]
    whole: str
    is_unnamed: bool


@lru_cache(maxsize=50_000)
def _place_of(path: str, title: str) -> _Place:
    folder, _, file = path.rpartition("/")
    bare = file.partition(".")[0] or file
    parts = _parts(bare)
    named = (file.rpartition(".")[0] or file) if title in ("", file) else f"{bare} {title}"
    last_folder, folders = _folders_of(folder)
    return _Place(
        _by_stem(parts if named == bare else _parts(named)),
        last_folder,
        folders,
        "".join(parts),
        bare.lower() in _UNNAMED,
    )


@lru_cache(maxsize=5_000)
def _folders_of(folder: str) -> tuple[dict[str, str], frozenset[str]]:
    """Return the parts of the name of a folder, and those of the names of all folders on its path."""
    names = folder.split("/") if folder else []
    return _by_stem(_parts(names[-1])) if names else {}, frozenset(stem(part) for one in names for part in _parts(one))


def _parts(text: str) -> list[str]:
    return [part for word in WORD.findall(text) for part in parts_of(word)]


def _by_stem(parts: Iterable[str]) -> dict[str, str]:
    return {stem(part): part for part in parts}


def _kinds(document: IndexedDocument) -> Iterator[str]:
    """Yield the rules that lower a document."""
    if document.scheme != _WORKSPACE:
        return
    for kind, (bit, _) in _KINDS.items():
        if document.traits & bit:
            yield kind
    if document.traits & GENERATED:
        yield "generated"
    if document.language in _PROSE:
        yield "prose"
    elif document.language in _DATA:
        yield "data"
    elif document.traits & PASSED_ON:
        yield "passed on"
