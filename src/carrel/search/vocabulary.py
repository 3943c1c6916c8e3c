"""The list of all words, and the documents that a regular expression can match.

A literal in an expression, such as `fn parse_`, contains runs of letters. Each run lies within one word of the text, so
only documents that contain a word with this run can match; if the expression wants another letter after the run, only
those with a word that goes on after it. The words in the index are in lower case and without underscores; this is the
list of them.

Where letters do not narrow the documents, as in `->\\{`, signs do: those that stand together in the literal must stand
together in the text. The index has a term for each pair.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterable
from itertools import chain, islice
from typing import Final

from carrel.search.expressions import CONTINUED, Need
from carrel.search.words import LONG, MAX_WORD, OPEN, WORD, sign_terms, stem, whole_of

Documents = frozenset[int]
Rows = Callable[[Iterable[str]], Iterable[int]]
"""Returns the documents that hold one of some terms."""

MIN_RUN: Final = 3
"""Letters that a run must have to be looked for; shorter ones are in too many words."""
MAX_WORDS: Final = 1_000
"""Words that one run may lie in; a run in more of them says too little."""
MAX_PLACES: Final = 40 * MAX_WORDS
"""Places that are looked at for one run or one beginning: a forged list may hold one word millions of times."""
MAX_RUNS: Final = 32
"""Runs that are looked for; an expression that has more is looked for in more documents than need be."""
MAX_SIGNS: Final = 8
"""Pairs of signs that are looked for; more of them hardly narrow the documents."""
_KEPT_BYTES: Final = 48 << 20


class Vocabulary:
    """The words, unpacked: read once, later only the added ones. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: list[str] = []
        self._last = 0
        self._generation = 0

    def candidates(
        self, connection: sqlite3.Connection, generation: int, need: Need, documents_with: Rows
    ) -> Documents | None:
        """Return the documents that may contain what is needed; None if all may."""
        found = _Lookup(self._load(connection, generation), documents_with).candidates(need)
        # Words that are too long for the index may contain anything.
        return None if found is None else found | frozenset(documents_with((LONG,)))

    def beginning_with(self, connection: sqlite3.Connection, generation: int, begin: str) -> list[str]:
        """Return words that are longer than `begin` and begin with it, the shortest first."""
        found: set[str] = set()
        left = MAX_PLACES  # far more than are looked at: most of them may be words of texts that others read
        for text in self._load(connection, generation):
            at = text.find(f"\n{begin}")
            while at >= 0 and left > 0:
                left -= 1
                end = text.find("\n", at + 1)
                found.add(text[at + 1 : len(text) if end < 0 else end])
                at = text.find(f"\n{begin}", at + 1)
            if text.startswith(begin):
                found.add(text.partition("\n")[0])
        return sorted((word for word in found - {begin} if word[-1] != OPEN), key=lambda word: (len(word), word))

    def _load(self, connection: sqlite3.Connection, generation: int) -> Collection[str]:
        with self._lock:
            if generation != self._generation:
                self._texts, self._last, self._generation = [], 0, generation
            sql = "SELECT id, words FROM vocabulary WHERE id > ? ORDER BY id"
            rows = connection.execute(sql, (self._last,)).fetchall()
            fresh = [_unpacked(words) for _, words in rows]
            texts = [*self._texts, *fresh]
            if fresh and sum(map(len, texts)) <= _KEPT_BYTES:
                # One text is searched faster than many.
                self._texts = ["\n".join(texts)]
                self._last = rows[-1][0]
                return self._texts
            return texts


class _Lookup:
    """The search for the words of one expression."""

    def __init__(self, texts: Collection[str], documents_with: Rows) -> None:
        self._texts = texts
        self._documents_with = documents_with
        self._runs_left = MAX_RUNS

    def candidates(self, need: Need) -> Documents | None:
        """Return the documents that may contain what is needed; None if all may."""
        known = [self.candidates(inner) for inner in need.needs]
        if need.is_any:
            return None if None in known else frozenset().union(*(found for found in known if found is not None))
        for literal in need.literals:
            for run, is_continued in _runs(literal):
                self._runs_left -= 1
                words = _words_with(self._texts, run, is_continued=is_continued) if self._runs_left >= 0 else None
                known.append(None if words is None else _documents(words, self._documents_with))
        certain = [found for found in known if found is not None]
        if not certain:
            certain = [frozenset(self._documents_with((term,))) for term in _signs(need)]
        return frozenset.intersection(*certain) if certain else None


def _unpacked(words: bytes) -> str:
    """Return the words of a row; raise `DatabaseError` if it has none."""
    try:
        return zlib.decompressobj().decompress(words, _KEPT_BYTES).decode("utf-8")
    except (TypeError, ValueError, zlib.error):
        raise sqlite3.DatabaseError("words that Carrel did not write") from None


def _runs(literal: str) -> list[tuple[str, bool]]:
    """Return the runs of letters in a literal, and for each whether a word goes on after it."""
    bare = literal.removesuffix(CONTINUED)
    matches = list(WORD.finditer(bare))
    runs = [(whole_of(word), False) for match in matches for word in match[0].split("-")]
    if bare != literal and matches and matches[-1].end() == len(bare):
        runs[-1] = runs[-1][0], True
    return [one for one in runs if len(one[0]) >= (MIN_RUN if one[0].isascii() else 2)]


def _signs(need: Need) -> list[str]:
    """Return the terms of signs that a text must contain."""
    every = chain.from_iterable(map(sign_terms, need.literals))
    return list(islice(dict.fromkeys(every), MAX_SIGNS))


def _words_with(texts: Collection[str], run: str, *, is_continued: bool) -> set[str] | None:
    """Return every word that contains a run, or goes on after it; None if there are too many."""
    words: set[str] = set()
    places = 0
    for text in texts:
        at = text.find(run)
        while at >= 0:
            places += 1
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            if end > at + len(run) or not is_continued:
                words.add(text[text.rfind("\n", 0, at) + 1 : end])
            if len(words) > MAX_WORDS or places > MAX_PLACES:
                return None
            at = text.find(run, end)
    return words


def _documents(words: Iterable[str], documents_with: Rows) -> Documents:
    # A name of several parts is kept as a whole, a single word by its stem.
    terms = {term for word in words for term in (word[:MAX_WORD], stem(word))}
    return frozenset(documents_with(terms))
