"""All words that occur, and which documents a regular expression can match.

A literal that an expression asks for, such as `fn parse_`, holds runs of letters. Each run lies within one word of the
text; so only documents that hold a word with that run in it can match. The words stand in the index, small letters and
without underscores; this list says which there are.
"""

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable
from typing import Final

from carrel.search.expressions import Need
from carrel.search.words import LONG, MAX_WORD, WORD, stem, whole_of

Documents = frozenset[int]
Rows = Callable[[str], Iterable[int]]
"""Returns the documents that hold a term."""

MIN_RUN: Final = 3
"""Letters that a run must have to be looked for; shorter ones are in too many words."""
MAX_WORDS: Final = 400
"""Words that one run may lie in; a run in more of them says too little."""
MAX_RUNS: Final = 32
"""Runs that are looked for; an expression that has more is looked for in more documents than need be."""
_KEPT_BYTES: Final = 48 << 20


class Vocabulary:
    """The words, unpacked; read once, and then only what was added since."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._last = 0
        self._generation = 0
        self._runs_left = 0

    def candidates(
        self, connection: sqlite3.Connection, generation: int, need: Need, documents_with: Rows
    ) -> Documents | None:
        """Return the documents that may hold what is needed, or None where all may."""
        self._runs_left = MAX_RUNS
        found = self._candidates(self._load(connection, generation), need, documents_with)
        # Words that are too long to be kept may hold anything.
        return None if found is None else found | frozenset(documents_with(LONG))

    def _candidates(self, texts: Collection[str], need: Need, documents_with: Rows) -> Documents | None:
        known = [self._candidates(texts, inner, documents_with) for inner in need.needs]
        if need.is_any:
            return None if None in known else frozenset().union(*(found for found in known if found is not None))
        for literal in need.literals:
            for run in _runs(literal):
                self._runs_left -= 1
                words = _words_with(texts, run) if self._runs_left >= 0 else None
                known.append(None if words is None else _documents(words, documents_with))
        certain = [found for found in known if found is not None]
        return frozenset.intersection(*certain) if certain else None

    def _load(self, connection: sqlite3.Connection, generation: int) -> Collection[str]:
        if generation != self._generation:
            self._texts, self._last, self._generation = [], 0, generation
        rows = connection.execute("SELECT id, words FROM vocabulary WHERE id > ? ORDER BY id", (self._last,)).fetchall()
        fresh = [_unpacked(words) for _, words in rows]
        texts = [*self._texts, *fresh]
        if sum(map(len, texts)) <= _KEPT_BYTES:
            # One text is searched faster than many.
            self._texts = ["\n".join(texts)] if texts else []
            self._last = rows[-1][0] if rows else self._last
            return self._texts
        return texts


def _unpacked(words: bytes) -> str:
    """Return the words of a row; raise `DatabaseError` where it holds none."""
    try:
        return zlib.decompressobj().decompress(words, _KEPT_BYTES).decode("utf-8")
    except (TypeError, ValueError, zlib.error):
        raise sqlite3.DatabaseError("words that are none of ours") from None


def _runs(literal: str) -> list[str]:
    runs = (whole_of(word) for match in WORD.finditer(literal) for word in match[0].split("-"))
    return [run for run in runs if len(run) >= (MIN_RUN if run.isascii() else 2)]


def _words_with(texts: Collection[str], run: str) -> set[str] | None:
    """Return every word that holds a run, or None where they are too many."""
    words: set[str] = set()
    for text in texts:
        at = text.find(run)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            words.add(text[text.rfind("\n", 0, at) + 1 : end])
            if len(words) > MAX_WORDS:
                return None
            at = text.find(run, end)
    return words


def _documents(words: Iterable[str], documents_with: Rows) -> Documents:
    # A name of several parts is kept as a whole, a single word by its stem.
    terms = {term for word in words for term in (word[:MAX_WORD], stem(word))}
    return frozenset(document for term in terms for document in documents_with(term))
