"""The order of what is found: one table of rules, each with its reason.

What a document is worth is a sum over the terms of the query, rare terms counting more (BM25 over the pieces of its
text), and then what its name and its definitions add; factors lower what is seldom meant. Documents that are worth the
same are ordered by their age, the newest first.
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
    """A rule: its weight, the words with which a hit says that it held, and why it is there."""

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
    "exact": Rule(0.6, "it is named {}", "who asks for Router wants router.py before router_settings.py"),
    "prefix": Rule(0.75, "", "names are cut short: config is configuration, impl is implementation"),
    "definition": Rule(0.6, "it defines {}", "the place where a name is made explains it; its uses do not"),
    "type": Rule(0.3, "", "a type or a module is asked for more often than a variable of that name"),
    "defined parts": Rule(0.6, "names in it hold {}", "a file about cookies defines parse_cookie and cookie_jar"),
    "test": Rule(0.6, "lower as a test", "a test repeats the words of what it tests"),
    "test asked for": Rule(0.85, "lower as a test", "`test` in a query may mean tests, or a program for tests"),
    "example": Rule(0.7, "lower as an example", "an example uses a thing, and does not explain how it is made"),
    "generated": Rule(0.6, "lower as generated", "nobody reads or changes what a program wrote"),
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
"""Words of a question that say nothing of what is asked for."""
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


def traits_of(text: str, language: str, *, has_definitions: bool) -> int:
    """Return what the text of a document says of its kind, as bits."""
    traits = GENERATED if _MARKS_OF_PROGRAMS.search(text, 0, 600) else 0
    if language not in _PROSE and language not in _DATA and not has_definitions and len(text) < 20_000:
        lines = text.split("\n")
        passed = sum(_PASSES_ON.match(line) is not None for line in lines)
        traits |= PASSED_ON if passed >= 0.8 * len(lines) else 0
    return traits


def without_grammar(words: Iterable[str]) -> list[str]:
    """Return the words that say what is asked for; all of them if none does."""
    every = list(words)
    return [word for word in every if word.lower().strip("?!.,") not in _GRAMMAR] or every


class Wanted:
    """What a query asks for, as terms of the index with their weights."""

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
    """Return what a query asks for; an expression without words asks for the words that it holds."""
    texts = [*query.phrases]
    if query.expression is not None and not query.words and not query.phrases:
        texts += expressions.need_of(query.expression).texts()
    words = [*query.words, *(word for text in texts for word in WORD.findall(text))]
    return Wanted(dict.fromkeys(words[:_MAX_WORDS]))


class Judged(NamedTuple):
    """What a document is worth, and why, in words."""

    score: float
    reasons: tuple[str, ...]


class Evidence:
    """What the rows of the index say of each document."""

    def __init__(self, wanted: Wanted, count: int, mean_pieces: float, weights: tuple[float, ...] = ()) -> None:
        """`weights` are those of the fields of records: then the number of a piece is that of its field."""
        self._wanted = wanted
        self._weights = weights
        self._count = count
        self._mean = mean_pieces
        self._times: dict[str, Mapping[int, float]] = {}
        self._rarity: dict[str, float] = {}
        self._pieces: defaultdict[int, float] = defaultdict(float)
        self._rough: defaultdict[int, float] = defaultdict(float)
        self._two_best: dict[int, tuple[float, float, int]] | None = None
        self._all: float | None = None

    def add(self, term: str, rows: Collection[int], count: int | None = None) -> None:
        """Take the rows of a term; `count` is how many there are, where only some are given."""
        times = self._count_times(rows)
        if not times:
            return
        documents = len(times) if count is None else min(self._count, len(times) * count // len(rows))
        worth = self._wanted.weights[term] * self._note(term, times, documents)
        rough, pieces = self._rough, self._pieces
        for document, number in times.items():
            rough[document] += worth * 2 * number / (number + _SATURATION)
        # That words stand together means nothing in a record, whose fields are short.
        for row in () if self._weights else rows:
            pieces[row] += worth

    def _count_times(self, rows: Iterable[int]) -> Mapping[int, float]:
        """Return how often documents have a term: in how many pieces, or in fields of which weight."""
        if not self._weights:
            return Counter(row >> PIECE_BITS for row in rows)
        times: defaultdict[int, float] = defaultdict(float)
        last = len(self._weights) - 1
        for row in rows:
            times[row >> PIECE_BITS] += self._weights[min(row & _PIECE, last)]
        return times

    def add_marked(self, term: str, rows: Collection[int]) -> None:
        """Take the rows of a definition, or of a word of paths."""
        times = Counter(row >> PIECE_BITS for row in rows)
        if times:
            rarity = self._note(term, times, len(times))
            weight = 2.0 if term[0] == PLACE else 1.0
            for document in times:
                self._rough[document] += weight * rarity

    def _note(self, term: str, times: Mapping[int, float], documents: int) -> float:
        self._times[term] = times
        self._rarity[term] = rarity = _rarity(self._count, documents)
        return rarity

    @property
    def documents(self) -> set[int]:
        """Return every document that something speaks for."""
        return set(self._rough)

    def best(self, documents: Iterable[int], limit: int) -> list[int]:
        """Return the documents with the most evidence, before names are looked at."""
        two_best = self._best_pieces()
        rough = self._rough
        return heapq.nlargest(limit, documents, key=lambda number: rough[number] + two_best.get(number, _NOTHING)[0])

    def best_piece(self, document: int) -> int:
        """Return the number of the piece in which most of the words stand together."""
        return self._best_pieces().get(document, _NOTHING)[2]

    def _best_pieces(self) -> dict[int, tuple[float, float, int]]:
        """Return of each document the worth of its best piece and of the next best, and the number of the best."""
        if self._two_best is None:
            found: dict[int, tuple[float, float, int]] = {}
            for row, worth in self._pieces.items():
                best, second, _ = known = found.get(row >> PIECE_BITS, _NOTHING)
                if worth > best:
                    found[row >> PIECE_BITS] = (worth, best, row & _PIECE)
                elif worth > second:
                    found[row >> PIECE_BITS] = (best, worth, known[2])
            self._two_best = found
        return self._two_best

    def score(self, document: IndexedDocument) -> Judged:
        """Return what a document is worth by all rules."""
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
        for term, weight in self._wanted.weights.items():
            times = self._times[term].get(document.id, 0) if term in self._times else 0
            if times:
                worth += weight * self._rarity[term] * times * (1 + _SATURATION) / (times + longer)
                if term in self._wanted.spelled:
                    held.append(self._wanted.spelled[term])
        if held:
            reasons.append(f"it holds {', '.join(held)}")
        best, second, _ = self._best_pieces().get(document.id, _NOTHING)
        return worth + RULES["best"].weight * best + RULES["second"].weight * second

    def _definitions(self, document: IndexedDocument, reasons: list[str]) -> float:
        worth, defined, parts = 0.0, [], []
        for whole in dict.fromkeys((*self._wanted.names, *self._wanted.pairs)):
            if rarity := self._rarity_in(DEFINES + whole, document.id):
                worth += RULES["definition"].weight * rarity
                worth += RULES["type"].weight * self._rarity_in(DEFINES_TYPE + whole, document.id)
                defined.append(self._wanted.names.get(whole, whole))
        for part, weight in self._wanted.parts.items():
            if rarity := self._rarity_in(DEFINES_PART + part, document.id):
                times = self._times[DEFINES_PART + part][document.id]
                worth += RULES["defined parts"].weight * weight * rarity * times / (times + 1)
                parts.append(self._wanted.spelled.get(part, part))
        _tell(reasons, "definition", defined)
        _tell(reasons, "defined parts", [] if defined else parts)
        return worth

    def _rarity_in(self, term: str, document: int) -> float:
        """Return how rare a term is that a document has; 0 where it has it not."""
        times = self._times.get(term)
        return self._rarity[term] if times is not None and document in times else 0.0

    def _names(self, document: IndexedDocument, reasons: list[str]) -> float:
        place = _place_of(document.path, document.title)
        most = self._most()
        matched, share, told = self._match(place.name)
        worth = 0.0
        if matched:
            worth += (
                RULES["name"].weight
                * matched
                * ((1 - _NAME_SHARE + _NAME_SHARE * share) * (1 - _QUERY_SHARE + _QUERY_SHARE * matched / most))
            )
            _tell(reasons, "name", told)
        if place.last_folder:
            in_folder, _, told = self._match(place.last_folder)
            worth += RULES["last folder"].weight * in_folder * (1.5 if place.is_unnamed else 1.0)
            _tell(reasons, "last folder", told)
        for part, weight in self._wanted.parts.items():
            if part in place.folders and part not in place.name:
                worth += RULES["folder"].weight * weight * self._rarity_of(part)
        if place.whole in self._wanted.names or place.whole in self._wanted.pairs:
            worth += RULES["exact"].weight * most
            _tell(reasons, "exact", [place.whole])
        return worth

    def _most(self) -> float:
        """Return what a name is worth that holds the whole query."""
        if self._all is None:
            self._all = sum(weight * self._rarity_of(part) for part, weight in self._wanted.parts.items()) or 1.0
        return self._all

    def _rarity_of(self, part: str) -> float:
        return self._rarity.get(part) or _rarity(self._count, 0)

    def _match(self, name: dict[str, str]) -> tuple[float, float, list[str]]:
        """Return what the parts of a name are worth that were asked for, the share of the name, and those parts."""
        worth, found, told = 0.0, set[str](), []
        for part, weight in self._wanted.parts.items():
            spelled = self._wanted.spelled.get(part, part)
            cut = 1.0
            known: str | None = part if part in name else None
            if known is None:
                known = next((key for key, raw in name.items() if _is_cut(raw, spelled)), None)
                cut = RULES["prefix"].weight
            if known is not None:
                worth += cut * weight * self._rarity_of(part)
                found.add(known)
                told.append(spelled)
        return worth, len(found) / max(1, len(name)), told


_MAX_WORDS: Final = 64
_NOTHING: Final = (0.0, 0.0, 0)
_PIECE: Final = (1 << PIECE_BITS) - 1


def _rarity(count: int, documents: int) -> float:
    """Return the inverse document frequency of BM25: the fewer documents have a term, the more it is worth."""
    return math.log(1 + (max(count, documents) - documents + 0.5) / (documents + 0.5))


def _is_cut(name: str, word: str) -> bool:
    """Return whether one of a name and a word is the begin of the other: `config` and `configuration`."""
    if name[:1] != word[:1]:
        return False
    return (len(name) >= 3 and word.startswith(name)) or (len(word) >= 4 and name.startswith(word))


def _tell(reasons: list[str], rule: str, words: list[str]) -> None:
    if words:
        reasons.append(RULES[rule].told.format(", ".join(words)))


class _Place(NamedTuple):
    """What the path and the title of a document say. Parts of names are stems, with how they are spelled."""

    name: dict[str, str]
    last_folder: dict[str, str]
    folders: frozenset[str]
    whole: str
    is_unnamed: bool
    kinds: tuple[str, ...]


@lru_cache(maxsize=50_000)
def _place_of(path: str, title: str) -> _Place:
    folder, _, file = path.rpartition("/")
    bare = file.partition(".")[0] or file
    name = _parts((file.rpartition(".")[0] or file) if title in ("", file) else f"{bare} {title}")
    folders = folder.split("/") if folder else []
    kinds = [kind for kind, pattern in _KINDS.items() if pattern.search(path)]
    return _Place(
        name,
        _parts(folders[-1]) if folders else {},
        frozenset(part for one in folders for part in _parts(one)),
        "".join(part for word in WORD.findall(bare) for part in parts_of(word)),
        bare.lower() in _UNNAMED,
        tuple(kinds),
    )


_KINDS: Final = {
    "test": _TEST,
    "example": _EXAMPLE,
    "vendored": _VENDORED,
    "history": _HISTORY,
    "declared": _DECLARED,
}


def _parts(text: str) -> dict[str, str]:
    return {stem(part): part for word in WORD.findall(text) for part in parts_of(word)}


def _kinds(document: IndexedDocument) -> Iterator[str]:
    """Yield the rules that lower a document."""
    if document.scheme != _WORKSPACE:
        return
    yield from _place_of(document.path, document.title).kinds
    if document.traits & GENERATED:
        yield "generated"
    if document.language in _PROSE:
        yield "prose"
    elif document.language in _DATA:
        yield "data"
    elif document.traits & PASSED_ON:
        yield "passed on"
