"""Search documents that are not indexed yet: those that may match are read and indexed first.

Documents whose names match come first, then small ones. A document without a word of the query is only read; of the
others, those with the most words are indexed, as many as there is time for.
"""

from collections.abc import Collection, Iterable
from time import monotonic
from typing import Final

from carrel.core.provider import Document
from carrel.search.expressions import TextTooLong
from carrel.search.index import SourceText
from carrel.search.keeper import Keeper
from carrel.search.passages import passage
from carrel.search.query import Query
from carrel.search.ranking import without_grammar
from carrel.search.reach import Reach
from carrel.search.sources import path_of
from carrel.search.words import bare, needles_of, terms_of

FEW: Final = 64
FEW_BYTES: Final = 1 << 20
"""Up to this many documents and bytes, all are indexed at once, whether or not they match."""
_READING_SHARE: Final = 0.6
"""The part of the time that is left in which documents are read; in the rest those that match are indexed."""
_LEAST_S: Final = 0.15
"""Time that is taken for this even if the list of documents took all there was: an answer should hold something."""
_HELD_BYTES: Final = 8 << 20
"""Texts that are kept in memory until they are indexed."""


def catch_up(keeper: Keeper, query: Query, reach: Reach, until: float) -> Collection[str]:
    """Index the pending documents, or those that may match a query; return the URIs of all that were read.

    The keeper's lock is taken only briefly: several searches read at the same time.
    """
    with keeper.lock:
        waiting = [
            document
            for uri, document in keeper.pending.items()
            if reach.holds(uri) and not keeper.sources.is_in_background(uri)
        ]
    if not waiting:
        return ()
    until = max(until, monotonic() + _LEAST_S)
    with keeper.reading():
        if len(waiting) <= FEW and sum(document.size or 0 for document in waiting) <= FEW_BYTES:
            keeper.take_in(waiting, until)
            return ()
        return _scan(keeper, query, waiting, until)


def _scan(keeper: Keeper, query: Query, waiting: list[Document], until: float) -> Collection[str]:
    words = needles_of(terms(query))
    now = monotonic()
    read_until = now + (until - now) * _READING_SHARE
    scanned: set[str] = set()
    matching: list[tuple[int, SourceText]] = []
    held = 0
    for document in _likely_first(waiting, words):
        if monotonic() > read_until or held > _HELD_BYTES:
            break
        text = keeper.read(document)
        scanned.add(document.uri)
        if text is not None and (count := _count(text, query, words)):
            matching.append((count, text))
            held += len(text.text)
    matching.sort(key=lambda one: -one[0])
    for at, (_, text) in enumerate(matching):
        if monotonic() > until:
            scanned.difference_update(left.uri for _, left in matching[at:])
            break
        if not keeper.put([text]):
            scanned.discard(text.uri)
    return scanned


def terms(query: Query) -> tuple[str, ...]:
    """Return the terms of which a text must have one; none if there is no such condition."""
    words = without_grammar((*query.words, *" ".join(query.phrases).split()))
    return tuple(dict.fromkeys(term for word in words for term in terms_of(word)))


def _likely_first(waiting: Iterable[Document], words: Collection[str]) -> list[Document]:
    def place(document: Document) -> tuple[int, int]:
        path = bare(f"{path_of(document.uri)} {document.title}")
        return -sum(word in path for word in words), document.size or 0

    return sorted(waiting, key=place)


def _count(text: SourceText, query: Query, words: Collection[str]) -> int:
    """Return how many words of the query a text or its name holds; for phrases and expressions, whether it matches."""
    if query.must_verify:
        try:
            return int(passage(text.text, query) is not None)
        except TextTooLong:
            return 1  # the answer says that it was not searched
    if not words:
        return 1
    content = bare(f"{text.path} {text.title}\n{text.text}")
    return sum(word in content for word in words)
