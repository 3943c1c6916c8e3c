"""The best lines of a text for a query, and the definition that they stand in.

Lines are weighed by the words of the query in them: rare ones count more than frequent ones, whole names more than
their parts, the definition of a name most. The passage is the stretch of lines with the most different words.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import log2
from typing import Final

from carrel.core.record import Value
from carrel.search import expressions
from carrel.search.languages import Definition, definitions_in
from carrel.search.query import Query
from carrel.search.ranking import without_grammar
from carrel.search.words import WORD, folded, parts_of, stem, terms_of, whole_of

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
_FLAT: Final = frozenset({"markdown", "toml", "yaml", "css", "text", "json"})
"""Languages in which what follows a definition belongs to it, however far it is indented."""
_ABOVE: Final = ("#", "@", "//", "/*", "*", "--", '"""')
"""How lines begin that stand above a definition and belong to it."""


_terms_of = lru_cache(maxsize=30_000)(terms_of)
"""Remembers the words of the texts that are shown most."""


class MarkedLine(Value, frozen=True):
    """A line that matches: its number from 1, its text, and the spans of characters that match."""

    number: int
    text: str
    spans: tuple[tuple[int, int], ...]


class Passage(Value, frozen=True):
    """The part of a text to show: its lines from `first_line` to `last_line`, and those of them that match.

    `definition` names what encloses it: a function, a class, a heading; "" where nothing does.
    """

    first_line: int
    last_line: int
    lines: tuple[MarkedLine, ...]
    definition: str = ""


class _Line:
    """A line with something of the query in it."""

    __slots__ = ("bonus", "number", "spans", "terms")

    def __init__(self, number: int) -> None:
        self.number = number
        self.terms: set[str] = set()
        self.spans: list[tuple[int, int]] = []
        self.bonus = 0.0


def passage(text: str, query: Query, *, language: str = "", near: int = 1) -> Passage | None:
    """Return the best passage of a text; None where the text lacks the expression or a phrase of the query.

    `near` is the line where the index saw the best part. A text that holds none of the words is shown from there.
    """
    lines = text.split("\n")
    starts = _starts(lines)
    exact = _exact_spans(text, query)
    if exact is None:
        return None
    weights = _weights(query)
    found = _matching(text, lines, weights)
    for start, end in exact:
        number = bisect_right(starts, start)
        line = found.setdefault(number, _Line(number))
        line.bonus = _EXACT
        line.spans.append((start - starts[number - 1], min(end, starts[number] - 1) - starts[number - 1]))
    definitions = definitions_in(text, language)
    places = [bisect_right(starts, one.start) for one in definitions]
    _weigh_definitions(definitions, places, query, found)
    if not found:
        first = max(1, min(near, _last_line(lines)) - _MARGIN)
        return Passage(first, min(_last_line(lines), first + _WINDOW), ())
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
    name = _enclosing(lines, definitions, places, best.number, is_flat=language in _FLAT)
    enough = _weight(best, weights) * _ALIKE if best.bonus < _DEFINED else _PART / 2
    others = [line for line in found.values() if not first <= line.number <= last and _weight(line, weights) >= enough]
    return Passage(first, last, _marked(window, others, lines, weights), name)


def _last_line(lines: Sequence[str]) -> int:
    """Return the number of the last line; nothing follows the line break that ends a text."""
    return max(1, len(lines) - (not lines[-1]))


def _starts(lines: Sequence[str]) -> list[int]:
    """Return where each line begins in the text, and where one more would."""
    starts, at = [0], 0
    for line in lines:
        at += len(line) + 1
        starts.append(at)
    return starts


def _exact_spans(text: str, query: Query) -> list[tuple[int, int]] | None:
    """Return where the phrases and the expression of a query match; None if one of them does not."""
    sources = [expressions.phrase_source(phrase) for phrase in query.phrases]
    sources += [query.expression] if query.expression is not None else []
    found = [expressions.spans(source, text) for source in sources]
    return [span for spans in found for span in spans] if all(found) else None


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


def _matching(text: str, lines: Sequence[str], weights: Mapping[str, float]) -> dict[int, _Line]:
    """Return the lines with words of the query, by number."""
    found: dict[int, _Line] = {}
    known: dict[str, set[str]] = {}
    for number in _likely(text, len(lines), weights):
        match = _Line(number)
        for word in WORD.finditer(lines[number - 1]):
            common = known.get(word[0])
            if common is None:
                common = known[word[0]] = weights.keys() & _terms_of(word[0])
            if common:
                match.terms |= common
                match.spans.append(word.span())
        if match.terms:
            found[number] = match
            if len(found) >= _MAX_LOOKED:
                break
    return found


def _likely(text: str, count: int, weights: Iterable[str]) -> Iterator[int]:
    """Yield the numbers of the lines in which a word of the query may stand; most lines are passed over quickly."""
    # A stem may end in another letter than the word: `queri` is that of `query`.
    needles = re.compile("|".join(re.escape(term if len(term) < 4 else term[:-1]) for term in weights) or "(?!)")
    plain = folded(text)
    plain = plain if plain.count("\n") == count - 1 else text.lower()
    # Names such as `parse_config` hold signs that terms do not.
    bare = plain.replace("_", "").replace("-", "")
    number, at = 1, 0
    while (match := needles.search(bare, at)) is not None:
        number += bare.count("\n", at, match.start())
        yield number
        at = bare.find("\n", match.end()) + 1
        if not at:
            return
        number += 1


def _weigh_definitions(
    definitions: Sequence[Definition], places: Sequence[int], query: Query, found: dict[int, _Line]
) -> None:
    """Add to the lines that define what the query names, or that have a part of it in their name."""
    # A word of a sentence is no name: `read the response` does not ask for everything called `read`.
    wholes = {whole_of(word) for word in (query.words if len(query.words) == 1 else query.identifiers)}
    parts = {stem(part) for word in query.words for part in parts_of(word)}
    for one, number in zip(definitions, places, strict=True):
        line = found.get(number)
        if line is None:
            continue
        if whole_of(one.name.rpartition(".")[2]) in wholes:
            line.bonus = max(line.bonus, _DEFINED + one.is_type)
        elif parts:
            share = len(parts & {stem(part) for part in parts_of(one.name)}) / len(parts)
            line.bonus = max(line.bonus, _DEFINED_PART * share)


def _weight(line: _Line, weights: Mapping[str, float]) -> float:
    return line.bonus + sum(weights[term] for term in line.terms)


def _best_window(found: Sequence[_Line], weights: dict[str, float], near: int) -> list[_Line]:
    """Return the lines of the stretch that has most of the query; frequent words count less from here on."""
    counts = Counter(term for line in found for term in line.terms)
    for term, count in counts.items():
        weights[term] /= 1 + log2(count)
    best: list[_Line] = []
    best_weight = -1.0
    for at, first in enumerate(found):
        end = at
        while end < len(found) and found[end].number < first.number + _WINDOW:
            end += 1
        window = found[at:end]
        terms = set().union(*(line.terms for line in window))
        weight = sum(weights[term] for term in terms) + max(line.bonus for line in window) + 0.001 * len(window)
        weight += _AT_THE_TOP * (first.number <= _WINDOW // 4)
        weight += _NEAR * (near - _WINDOW <= first.number <= near + 2 * _WINDOW)
        if weight > best_weight + 1e-9:
            best, best_weight = list(window), weight
    return best


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


def _enclosing(
    lines: Sequence[str], definitions: Sequence[Definition], places: Sequence[int], number: int, *, is_flat: bool
) -> str:
    """Return the names of the definitions around a line, the outermost first."""
    names: list[str] = []
    at = bisect_right(places, number) - 1
    if at < 0:
        return ""
    if is_flat:
        return definitions[at].name.strip()
    inner = _indent(lines[number - 1]) + (places[at] == number)
    while at >= 0 and len(names) < _MAX_NAMES and inner > 0:
        indent = _indent(lines[places[at] - 1])
        if indent < inner:
            names.append(definitions[at].name)
            inner = indent
        at -= 1
    return ".".join(reversed(names))


def _marked(
    window: Sequence[_Line], others: Sequence[_Line], lines: Sequence[str], weights: Mapping[str, float]
) -> tuple[MarkedLine, ...]:
    """Return the best lines of a passage, and a few from the rest of the text, in their order."""

    def best_of(every: Sequence[_Line], most: int) -> list[_Line]:
        return sorted(every, key=lambda line: (-_weight(line, weights), line.number))[:most]

    best = best_of(window, _MARKED - min(_ELSEWHERE, len(others)))
    best += best_of(others, min(_ELSEWHERE, _MARKED - len(best)))
    marked = []
    for line in sorted(best, key=lambda line: line.number):
        text = lines[line.number - 1]
        spans = sorted({(a, min(b, len(text))) for a, b in line.spans if a <= len(text)})
        marked.append(MarkedLine(line.number, text, tuple(_apart(spans))))
    return tuple(marked)


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that do not overlap."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if kept and start < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(kept[-1][1], end))
        else:
            kept.append((start, end))
    return kept
