"""Write the answer of a search, as text for models and people or as JSON for programs, within a budget of tokens.

A hit whose lines do not fit is shown with its best line, or with its URI alone. The first URI of a text is that of the
best hit; the last line names the next page.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Final

from carrel.core.hosts import length_in_json
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.printable import printable_line
from carrel.core.record import Value, replace
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import with_query
from carrel.search.answers import MAX_LIMIT, Coverage, HitLine, SearchAnswer, SearchHit, start_of
from carrel.search.requests import DEFAULTS, SearchArguments

RESOURCE: Final = "carrel://search"
MAX_LINE: Final = 200
"""Characters of a line that are shown."""
_BEFORE_MATCH: Final = 60
"""Characters of a long line that are shown before its first match."""
_FRAME_TOKENS: Final = 24
_FRAME_BYTES: Final = 100
"""Tokens of the text around hits, without the URI of the next page: brackets, counts, keys."""


class Shown(Value, frozen=True):
    """The part of an answer that fits: its hits, perhaps with fewer lines, and the notes about them.

    `after` and `next_page` lead to the next page, as an argument and as a URI; both are empty on the last one.
    """

    hits: tuple[SearchHit, ...]
    head: str
    remarks: tuple[str, ...]
    after: str
    next_page: str


def shown_as_text(
    answer: SearchAnswer, asked: SearchArguments, *, room: int | None = None, explains: bool = False
) -> Shown:
    """Return the part of an answer that fits as text into the budget of tokens and into `room` bytes."""
    remarks = (*answer.notes, *_coverage(answer))
    spell = partial(_hit_text, explains=explains)
    hits, after = _fitting(answer, asked, spell, "\n".join(remarks), room)
    head = _counted(answer, asked, len(hits)) if hits else _nothing(answer, asked)
    return Shown(hits, head, remarks, after, _next_page(asked, after))


def as_text(
    answer: SearchAnswer, asked: SearchArguments, *, room: int | None = None, explains: bool = False
) -> tuple[str, str]:
    """Return an answer as text, and the URI of the next page, which is empty if this is the last one.

    A hit has its URI, name and cost on one line, and its matching lines below.
    """
    shown = shown_as_text(answer, asked, room=room, explains=explains)
    remarks = [f"[{remark}]" for remark in shown.remarks]
    if not shown.hits:
        return "\n".join([shown.head, *remarks]), ""
    foot = [f"[next: {shown.next_page}]"] if shown.next_page else []
    head = f"[{shown.head}; the last line names the next page]" if shown.next_page else f"[{shown.head}]"
    hits = (_hit_text(hit, explains=explains) for hit in shown.hits)
    text = "\n".join([head, *remarks, *hits, *foot])
    tokens = estimate_tokens(text)
    return (text, shown.next_page) if tokens <= asked.budget else _too_small(asked, tokens)


def _too_small(asked: SearchArguments, tokens: int) -> tuple[str, str]:
    """Return one line for an answer without a fitting hit, and the URI of the search with a sufficient budget."""
    larger = replace(asked, budget=tokens + _FRAME_TOKENS)
    uri = _page(larger, asked.after or "")
    return f"[no hit fits budget={asked.budget}; next: {uri}]", uri


def as_json(answer: SearchAnswer, asked: SearchArguments, *, explains: bool = False) -> dict[str, object]:
    """Return an answer as JSON-ready values."""

    def spell(hit: SearchHit) -> str:
        return json.dumps(_hit_json(hit, explains=explains), ensure_ascii=False)

    hits, after = _fitting(answer, asked, spell, json.dumps(answer.notes), None)
    spelled: dict[str, object] = {
        "hits": [_hit_json(hit, explains=explains) for hit in hits],
        "total": answer.total,
        "next": _next_page(asked, after) or None,
    }
    if answer.is_total_least:
        spelled["totalIsAtLeast"] = True
    if answer.coverage.is_partial:
        spelled["partial"] = _coverage_json(answer.coverage)
    if answer.notes:
        spelled["notes"] = list(answer.notes)
    return spelled


def _fitting(
    answer: SearchAnswer, asked: SearchArguments, spell: Callable[[SearchHit], str], remarks: str, room: int | None
) -> tuple[tuple[SearchHit, ...], str]:
    """Return the hits that fit, and where the next page begins; at least one hit, so that every page goes on."""
    frame = f"{remarks}\n{_next_page(asked, answer.next or str(MAX_LIMIT))}"
    tokens_left = asked.budget - _FRAME_TOKENS - estimate_tokens(frame)
    bytes_left = inf if room is None else room - _FRAME_BYTES - length_in_json(frame)
    shown: list[SearchHit] = []
    for hit in answer.hits:
        *longer, shortest = _forms(hit)
        for form in (*longer, shortest):
            text = spell(form)
            tokens, size = estimate_tokens(text) + 1, length_in_json(text)
            if (tokens <= tokens_left and size <= bytes_left) or (form is shortest and not shown):
                break
        else:
            return tuple(shown), str(start_of(asked.after) + len(shown))
        shown.append(form)
        tokens_left -= tokens
        bytes_left -= size
    return tuple(shown), answer.next


def _forms(hit: SearchHit) -> Iterator[SearchHit]:
    """Yield a hit, then the same with less and less text."""
    yield hit
    if len(hit.lines) > 1:
        best = max(hit.lines, key=lambda line: len(line.marks))
        yield replace(hit, lines=(best,), reasons=())
    if hit.lines or hit.reasons:
        yield replace(hit, lines=(), reasons=())


# Text


def _nothing(answer: SearchAnswer, asked: SearchArguments) -> str:
    where = f" in {asked.scheme}://" if asked.scheme else ""
    if answer.is_total_least:
        where += " so far"
    if asked.after:
        return f"No more hits{where}."
    fewer = "fewer " if any(map(str.isalnum, asked.query)) else ""
    return f"No hits{where} for {printable_line(asked.query[:MAX_LINE])}. Try {fewer}words, or a part of a name."


def _counted(answer: SearchAnswer, asked: SearchArguments, count: int) -> str:
    first = start_of(asked.after) + 1
    numbers = f"hits {first}-{first + count - 1}" if count > 1 else f"hit {first}"
    return f"{numbers} of {answer.total:,}{' or more' if answer.is_total_least else ''}"


def _coverage(answer: SearchAnswer) -> tuple[str, ...]:
    advice = "searched so far; search again, or run `carrel search --index`"
    return (f"{answer.coverage} {advice}",) if answer.coverage.is_partial else ()


def about(hit: SearchHit) -> str:
    """Return the name of a hit, its cost, and whether it was searched in part."""
    facts = (
        hit.definition or hit.title,
        f"{hit.tokens:,} {'token' if hit.tokens == 1 else 'tokens'}" if hit.tokens else "",
        "indexed in part" if hit.is_partial else "",
    )
    return ", ".join(printable_line(fact) for fact in facts if fact)


def _hit_text(hit: SearchHit, *, explains: bool) -> str:
    lines = [f"{hit.uri}  {about(hit)}".rstrip()]
    lines += [f"{'>' if line.marks else ' '} {line.number}: {clipped(line).text}" for line in hit.lines]
    if explains and hit.reasons:
        lines.append(f"  why: {'; '.join(hit.reasons)}")
    return "\n".join(lines)


def clipped(line: HitLine) -> HitLine:
    """Return a line as it is shown: printable, and of a long one the part around its first match."""
    if line.text.endswith("\r"):
        line = replace(line, text=line.text[:-1])
    start = 0
    if len(line.text) > MAX_LINE and line.marks and line.marks[0][0] > MAX_LINE - _BEFORE_MATCH:
        start = line.marks[0][0] - _BEFORE_MATCH
    end = start + MAX_LINE
    text = printable_line(line.text[start:end])
    before, after = "…" if start else "", "…" if end < len(line.text) else ""
    if len(text) != len(line.text[start:end]):  # escaped characters moved the matches
        return HitLine(line.number, f"{before}{text}{after}")
    moved = len(before) - start
    marks = tuple((a + moved, min(b, end) + moved) for a, b in line.marks if start <= a < end)
    return HitLine(line.number, f"{before}{text}{after}", marks)


def _next_page(asked: SearchArguments, after: str) -> str:
    """Return the URI of the next page; empty if there is none."""
    return _page(asked, after) if after else ""


def _page(asked: SearchArguments, after: str) -> str:
    """Return the URI of a page; the argument to add where that would be too long."""
    given = {"q": asked.query, "in": asked.scheme, "limit": asked.limit, "budget": asked.budget, "after": after}
    values = {name: value for name, value in given.items() if value and value != DEFAULTS.get(name)}
    uri = with_query(RESOURCE, **values)
    return uri if len(uri) <= MAX_URI_LENGTH else f"the same search with after={after or 0}"


# JSON


def _coverage_json(coverage: Coverage) -> dict[str, object]:
    counts: dict[str, object] = {"searched": coverage.searched, "documents": coverage.total}
    return counts if coverage.is_counted else {**counts, "documentsIsAtLeast": True}


def _hit_json(hit: SearchHit, *, explains: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "uri": hit.uri,
        "title": hit.title,
        "definition": hit.definition,
        "startLine": hit.first_line or None,
        "endLine": hit.last_line or None,
        "lines": _lines_json(hit.lines),
        "tokens": hit.tokens,
        "mimeType": hit.mime_type,
        "indexedInPart": hit.is_partial or None,
    }
    if explains:
        fields |= {"score": round(hit.score, 4), "reasons": list(hit.reasons)}
    return {key: value for key, value in fields.items() if value not in (None, "", [])}


def _lines_json(lines: Sequence[HitLine]) -> list[dict[str, object]]:
    shown = map(clipped, lines)
    return [{"line": one.number, "text": one.text, "marks": [list(mark) for mark in one.marks]} for one in shown]
