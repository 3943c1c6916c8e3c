"""Find the best lines of a text for a query, and the definition around them.

Lines are weighted by the words of the query in them: rare words count more than frequent ones, whole names more than
their parts, and the definition of a name most. The passage is the range of lines with the most different words.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import islice
from math import log2
from typing import Final

from carrel.core.record import Value
from carrel.search import expressions
from carrel.search.languages import definition_in
from carrel.search.query import Query
from carrel.search.ranking import without_grammar
from carrel.search.words import MAX_WORD, WORD, bare, needles_of, parts_of, stem, terms_of, whole_of

_WINDOW: Final = 24
"""Lines of a passage."""
_LONGEST: Final = 40
"""Lines of a passage that is one definition."""
_MARGIN: Final = 2
_MARKED: Final = 5
_ELSEWHERE: Final = 2
"""Marked lines that may stand outside the passage: they show where else to look."""
_ALIKE: Final = 0.5
"""What a marked line weighs at least, as a share of the best one; beside a definition, any use counts."""
_MAX_LOOKED: Final = 2_000
"""Lines with words of the query that are weighed."""
_WHOLE, _WORD, _PART, _EXACT, _DEFINED, _DEFINED_PART = 6.0, 2.0, 1.0, 8.0, 12.0, 3.0
"""Weights: a whole name, a word, a part of a name, a phrase or expression, a definition, a part of its name."""
_NEAR: Final = 0.5
"""Weight of the place where the index saw the best part."""
_AT_THE_TOP: Final = 0.6
"""Weight of the first lines of a text, which say what it is about."""
_MAX_NAMES: Final = 3
_MAX_SCANNED: Final = 4_000
"""Maximum characters of a line that are searched: a line of a generated file may have a megabyte."""
_MAX_SPANS: Final = 50
"""Words that are marked in one line."""
_NONE: Final = frozenset[str]()
_MAX_KNOWN: Final = 30_000
"""Different words of texts that are remembered for one query."""
_FLAT: Final = frozenset({"markdown", "toml", "yaml", "css", "text", "json"})
"""Languages in which what follows a definition belongs to it, however far it is indented."""
_ABOVE: Final = ("#", "@", "//", "/*", "*", "--", '"""')
"""How lines begin that stand above a definition and belong to it."""


class MarkedLine(Value, frozen=True):
    """A line that matches: its number from 1, its text, and the spans of characters that match."""

    number: int
    text: str
    spans: tuple[tuple[int, int], ...]


class Passage(Value, frozen=True):
    """The part of a text to show: its lines from `first_line` to `last_line` as `text`, and those of them that match.

    `definition` is the name of the function, class or heading around it; empty if there is none.
    """

    first_line: int
    last_line: int
    lines: tuple[MarkedLine, ...]
    definition: str = ""
    text: str = ""


class _Line:
    """A line with something of the query in it."""

    __slots__ = ("bonus", "number", "spans", "terms")

    def __init__(self, number: int, terms: Set[str] = frozenset()) -> None:
        self.number = number
        self.terms = terms
        self.spans: list[tuple[int, int]] = []
        """Where phrases and the expression match; the words are looked for only in lines that are shown."""
        self.bonus = 0.0


class _SoughtWords(dict[str, frozenset[str]]):
    """The wanted terms of each word, computed when a text first contains the word."""

    def __init__(self, terms: frozenset[str], needles: Sequence[str]) -> None:
        super().__init__()
        self._terms = terms
        self._needles = needles

    def __missing__(self, word: str) -> frozenset[str]:
        if len(self) >= _MAX_KNOWN:
            self.clear()
        whole = whole_of(word)
        known = _NONE
        for needle in self._needles:
            if needle in whole:
                known = self._terms.intersection(terms_of(word))
                break
        self[word] = known
        return known


class _Sought:
    """The terms to look for in the texts of all hits of a query, computed once."""

    def __init__(self, query: Query) -> None:
        self.weights = _weights(query)
        self.needles = needles_of(self.weights)
        # A word of a sentence is no name: `read the response` does not ask for everything called `read`.
        self.wholes = {whole_of(word) for word in (query.words if len(query.words) == 1 else query.identifiers)}
        self.parts = {stem(part) for word in query.words for part in parts_of(word)}
        self.known = _SoughtWords(frozenset(self.weights), self.needles)


@lru_cache(maxsize=64)
def _sought_by(query: Query) -> _Sought:
    return _Sought(query)


def passage(
    text: str, query: Query, *, language: str = "", near: int = 1, places: Sequence[tuple[int, int]] = ()
) -> Passage | None:
    """Return the best passage of a text; None if the text lacks the expression or a phrase of the query.

    `near` is the line where the index found the best part. A text without any of the words is shown from there.
    `places` are the first and last lines of the parts in which the index found the query: the rest of the text is
    searched only if these contain nothing of it any more.
    """
    exact = _exact_spans(text, query)
    if exact is None:
        return None
    lines = text.split("\n")
    sought = _sought_by(query)
    found = _found(text, lines, sought, exact, places)
    _weigh_definitions(lines, language, sought, found)
    if not found:
        first = max(1, min(near, _last_line(lines)) - _MARGIN)
        last = min(_last_line(lines), first + _WINDOW)
        return Passage(first, last, (), text="\n".join(lines[first - 1 : last]))
    weights = dict(sought.weights)
    window = _best_window(sorted(found.values(), key=lambda line: line.number), weights, near)
    best = max(window, key=lambda line: (_weight(line, weights), -line.number))
    if best.bonus >= _DEFINED:
        first, last = _extent(lines, best.number)
        window = [line for line in found.values() if first <= line.number <= last]
    else:
        if query.identifiers:  # a line with a part of the name says little beside one with all of it
            window = [line for line in window if _weight(line, weights) >= _weight(best, weights) * _ALIKE]
        first = max(1, window[0].number - _MARGIN)
        last = min(_last_line(lines), max(window[-1].number + _MARGIN, first + _WINDOW // 2))
    enough = _weight(best, weights) * _ALIKE if best.bonus < _DEFINED else _PART / 2
    others = [line for line in found.values() if not first <= line.number <= last and _weight(line, weights) >= enough]
    name = _enclosing(lines, language, best.number)
    marked = _marked(window, others, lines, weights, sought)
    return Passage(first, last, marked, name, "\n".join(lines[first - 1 : last]))


def _last_line(lines: Sequence[str]) -> int:
    """Return the number of the last line; nothing follows the line break that ends a text."""
    return max(1, len(lines) - (not lines[-1]))


def _exact_spans(text: str, query: Query) -> list[tuple[int, int]] | None:
    """Return where the phrases and the expression of a query match; None if one of them does not."""
    sources = [expressions.phrase_source(phrase) for phrase in query.phrases]
    sources += [query.expression] if query.expression is not None else []
    every: list[tuple[int, int]] = []
    for source in sources:
        spans = expressions.spans(source, text)
        if not spans:
            return None
        every += spans
    return sorted(every)


def _weights(query: Query) -> dict[str, float]:
    """Return the weight of each term that the words of a query are found by."""
    weights: dict[str, float] = {}
    for word in without_grammar((*query.words, *" ".join(query.phrases).split())):
        whole, *parts = terms_of(word) or ("",)
        weights[whole] = max(weights.get(whole, 0.0), _WHOLE if parts else _WORD)
        for part in parts:
            weights[part] = max(weights.get(part, 0.0), _PART)
    weights.pop("", None)
    return weights


def _found(
    text: str,
    lines: Sequence[str],
    sought: _Sought,
    exact: Sequence[tuple[int, int]],
    places: Sequence[tuple[int, int]],
) -> dict[int, _Line]:
    """Return the lines with something of the query, by number: those of the places, or of the whole text."""
    matches = _exact_lines(text, lines, exact)
    whole = [(1, len(lines))]
    if matches:  # words count only beside what matches exactly
        places = _joined((number - _WINDOW, number + _WINDOW) for number in matches)
    found = _matching(lines, sought, places or whole)
    if not found and not matches and places:
        found = _matching(lines, sought, whole)
    for number, spans in matches.items():
        line = found.setdefault(number, _Line(number))
        line.bonus = _EXACT
        line.spans += spans
    return found


def _exact_lines(text: str, lines: Sequence[str], exact: Iterable[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Return the lines in which spans of a text begin, with the spans in them.

    A span behind the line break that ends the text is one of the last line: no line follows.
    """
    matches: dict[int, list[tuple[int, int]]] = {}
    number, begin = 1, 0
    for found, end in exact:
        start = min(found, len(text) - text.endswith("\n"))
        passed = text.count("\n", begin, start)
        if passed:
            number += passed
            begin = text.rfind("\n", begin, start) + 1
        matches.setdefault(number, []).append((start - begin, min(end - begin, len(lines[number - 1]))))
    return matches


def _joined(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches of lines in their order, those that touch as one."""
    kept: list[tuple[int, int]] = []
    for first, last in sorted(places):
        if kept and first <= kept[-1][1] + 1:
            kept[-1] = (kept[-1][0], max(kept[-1][1], last))
        else:
            kept.append((max(1, first), last))
    return kept


def _matching(lines: Sequence[str], sought: _Sought, places: Iterable[tuple[int, int]]) -> dict[int, _Line]:
    """Return the lines of some places with words of the query, by number."""
    found: dict[int, _Line] = {}
    terms_of_word = sought.known.__getitem__
    for number in _likely(lines, sought.needles, places):
        terms = _NONE.union(*map(terms_of_word, WORD.findall(_scanned(lines[number - 1], sought))))
        if terms:
            found[number] = _Line(number, terms)
            if len(found) >= _MAX_LOOKED:
                break
    return found


def _scanned(line: str, sought: _Sought) -> str:
    """Return a line as far as its words are looked at: of a very long one, the part around the first wanted word."""
    if len(line) <= _MAX_SCANNED:
        return line
    for start in range(0, len(line), _MAX_SCANNED):
        part = line[start : start + _MAX_SCANNED + MAX_WORD]
        for _ in _likely((part,), sought.needles, ((1, 1),)):
            for word in WORD.finditer(part):
                if sought.known[word[0]]:
                    begin = max(0, start + word.start() - _MAX_SCANNED // 4)
                    return line[begin : begin + _MAX_SCANNED]
    return line[:_MAX_SCANNED]


def _likely(lines: Sequence[str], needles: Sequence[str], places: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the numbers of the lines in which a word of the query may stand; most lines are passed over quickly."""
    for first, last in places:
        part = bare("\n".join(lines[first - 1 : last]))
        present = [needle for needle in needles if needle in part]
        for number, line in enumerate(part.split("\n"), first) if present else ():
            for needle in present:
                if needle in line:
                    yield number
                    break


def _weigh_definitions(lines: Sequence[str], language: str, sought: _Sought, found: Mapping[int, _Line]) -> None:
    """Add to the lines that define what the query names, or that have a part of it in their name."""
    for number, line in found.items():
        one = definition_in(lines[number - 1], language)
        if one is None:
            continue
        if whole_of(one.name.rpartition(".")[2]) in sought.wholes:
            line.bonus = max(line.bonus, _DEFINED + one.is_type)
        elif sought.parts:
            share = len(sought.parts & {stem(part) for part in parts_of(one.name)}) / len(sought.parts)
            line.bonus = max(line.bonus, _DEFINED_PART * share)


def _weight(line: _Line, weights: Mapping[str, float]) -> float:
    return line.bonus + sum(weights[term] for term in line.terms)


def _best_window(found: Sequence[_Line], weights: dict[str, float], near: int) -> list[_Line]:
    """Return the lines of the stretch that has most of the query; frequent words count less from here on."""
    counts = Counter(term for line in found for term in line.terms)
    for term, count in counts.items():
        weights[term] /= 1 + log2(count)
    best = (0, 0)
    best_weight = -1.0
    end = 0
    for at, first in enumerate(found):
        while end < len(found) and found[end].number < first.number + _WINDOW:
            end += 1
        window = found[at:end]
        terms = _NONE.union(*[line.terms for line in window])
        weight = sum([weights[term] for term in terms]) + max([line.bonus for line in window]) + 0.001 * len(window)
        weight += _AT_THE_TOP * (first.number <= _WINDOW // 4)
        weight += _NEAR * (near - _WINDOW <= first.number <= near + 2 * _WINDOW)
        if weight > best_weight + 1e-9:
            best, best_weight = (at, end), weight
    return list(found[best[0] : best[1]])


def _extent(lines: Sequence[str], number: int) -> tuple[int, int]:
    """Return the first and the last line of a definition: by its indentation, with what stands above it."""
    first = number
    while first > 1 and number - first < _MARGIN + 1 and lines[first - 2].strip().startswith(_ABOVE):
        first -= 1
    indent = _indent(lines[number - 1])
    last = number
    for at in range(number + 1, min(len(lines), number + _LONGEST) + 1):
        line = lines[at - 1]
        if line.strip() and _indent(line) <= indent:
            if line.strip()[0] in ")}]" or line.strip().startswith("end"):
                last = at
            elif last == number:  # a signature, or a text that is not indented
                continue
            break
        if line.strip():
            last = at
    return first, max(last, min(_last_line(lines), number + _MARGIN))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _enclosing(lines: Sequence[str], language: str, number: int) -> str:
    """Return the names of the definitions around a line, the outermost first."""
    own = definition_in(lines[number - 1], language)
    if language in _FLAT:
        above = (definition_in(lines[at - 1], language) for at in range(number - 1, 0, -1))
        nearest = own or next((one for one in above if one is not None), None)
        return "" if nearest is None else nearest.name.strip()
    names: list[str] = []
    inner = _indent(lines[number - 1]) + (own is not None)
    at = number
    while at > 0 and inner > 0 and len(names) < _MAX_NAMES:
        line = lines[at - 1]
        indent = _indent(line)
        if indent < inner and (one := definition_in(line, language)) is not None:
            names.append(one.name)
            inner = indent
        at -= 1
    return ".".join(reversed(names))


def _marked(
    window: Sequence[_Line],
    others: Sequence[_Line],
    lines: Sequence[str],
    weights: Mapping[str, float],
    sought: _Sought,
) -> tuple[MarkedLine, ...]:
    """Return the best lines of a passage, and a few from the rest of the text, in their order."""

    def best_of(every: Sequence[_Line], most: int) -> list[_Line]:
        return sorted(every, key=lambda line: (-_weight(line, weights), line.number))[:most]

    best = best_of(window, _MARKED - min(_ELSEWHERE, len(others)))
    best += best_of(others, min(_ELSEWHERE, _MARKED - len(best)))
    marked = []
    for line in sorted(best, key=lambda line: line.number):
        text = lines[line.number - 1]
        words = _word_spans(text, sought) if line.terms else []
        spans = sorted({(a, min(b, len(text))) for a, b in (*line.spans, *words) if a <= len(text)})
        marked.append(MarkedLine(line.number, text, tuple(_apart(spans))))
    return tuple(marked)


def _word_spans(text: str, sought: _Sought) -> list[tuple[int, int]]:
    """Return where words of the query stand in a line; of a very long one, where they are looked at."""
    scanned = _scanned(text, sought)
    start = text.find(scanned)
    every = (word.span() for word in WORD.finditer(scanned) if sought.known[word[0]])
    return [(start + first, start + last) for first, last in islice(every, _MAX_SPANS)]


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that do not overlap."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if kept and start < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(kept[-1][1], end))
        else:
            kept.append((start, end))
    return kept
