"""Make the hit of a found document, with its lines as they are now."""

from typing import Final

from carrel.core.provider import Document
from carrel.core.record import replace
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import with_query
from carrel.search.answers import HitLine, SearchHit
from carrel.search.index import Candidate
from carrel.search.passages import Passage, passage
from carrel.search.query import Query
from carrel.search.scanning import terms
from carrel.search.texts import FreshText
from carrel.search.words import bare, needles_of

_FILES: Final = "workspace"


def hit_of(candidate: Candidate, document: Document, fresh: FreshText | None, query: Query) -> SearchHit | None:
    """Return the hit; None if neither the text nor the name contains anything of the query any more."""
    shown = None if fresh is None else _passage(candidate, fresh, query)
    if shown is None and query.must_verify:
        return None
    name = candidate.path.rpartition("/")[2]
    hit = SearchHit(
        candidate.uri,
        candidate.uri,
        document.title or candidate.title or name,
        candidate.score,
        mime_type=document.mime_type if fresh is None else fresh.mime_type,
        modified_ms=candidate.modified_ms,
        reasons=candidate.reasons,
        is_partial=candidate.is_partial,
    )
    is_found = shown is not None and bool(shown.lines)
    if not is_found and not _is_named(candidate, document, query):
        return None
    if fresh is None or shown is None:
        return hit
    definition = shown.definition or ("" if candidate.scheme == _FILES else name)
    return _with_lines(replace(hit, definition=definition), fresh, shown)


def _passage(candidate: Candidate, fresh: FreshText, query: Query) -> Passage | None:
    near, places = candidate.first_line, candidate.places
    return passage(fresh.text, query, language=candidate.language, near=near, places=places)


def _with_lines(hit: SearchHit, fresh: FreshText, shown: Passage) -> SearchHit:
    lines = [HitLine(_number(fresh, one.number), one.text, one.spans) for one in shown.lines]
    first, last = _number(fresh, shown.first_line), _number(fresh, shown.last_line)
    has_lines = fresh.has_lines and 0 < first <= last and not _is_across(fresh, shown)
    return replace(
        hit,
        uri=with_query(hit.base, lines=f"{first}-{last}") if has_lines else hit.base,
        lines=tuple(one for one in lines if one.number > 0),
        first_line=first,
        last_line=last,
        tokens=estimate_tokens(shown.text if has_lines else fresh.text),
        modified_ms=fresh.modified_ms if fresh.modified_ms is not None else hit.modified_ms,
        is_partial=fresh.is_partial,
    )


def _number(fresh: FreshText, line: int) -> int:
    """Return the number that a line of the text has in the resource; 0 if that is not known."""
    if not fresh.is_partial or line < fresh.tail_line:
        return line
    return 0 if fresh.left_out is None else line + fresh.left_out


def _is_across(fresh: FreshText, shown: Passage) -> bool:
    """Return whether lines lie in both parts of a large text, so that they are not next to each other."""
    return fresh.is_partial and shown.first_line < fresh.tail_line <= shown.last_line


def _is_named(candidate: Candidate, document: Document, query: Query) -> bool:
    """Return whether the name of a document contains a word of the query, or the query has no words.

    Beside hits for several words, one by its name alone says little: there the stem must be in the name.
    """
    words = terms(query)
    words = needles_of(words) if len(words) == 1 else words
    name = bare(f"{candidate.path} {candidate.title} {document.title}")
    return not words or any(word in name for word in words)
