"""Search everything that is served, with the caller's access.

Pending documents are indexed first, as many as there is time for; then the index is searched. Each hit is read through
the catalogue as the caller would read it, and its lines come from this read: a hit never shows text that a resource no
longer contains, or that the caller may not read.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from carrel.catalog.access import is_unlimited
from carrel.catalog.catalog import Catalog
from carrel.core.bounded_calls import BoundedCalls
from carrel.core.errors import BadArgument, CarrelError, echo
from carrel.core.faults import attempt
from carrel.core.model import Meta
from carrel.core.provider import Document
from carrel.core.record import replace
from carrel.search.answers import MAX_LIMIT, Coverage, Progress, SearchAnswer, SearchHit, SearchRequest, start_of
from carrel.search.builder import Builder
from carrel.search.expressions import TextTooLong
from carrel.search.hits import hit_of
from carrel.search.index import Candidate, Candidates
from carrel.search.keeper import Keeper
from carrel.search.own_answers import OwnAnswers, joined
from carrel.search.query import Query, parse
from carrel.search.reach import Reach, reach_of_caller
from carrel.search.scanning import catch_up
from carrel.search.settings import SearchSettings
from carrel.search.sources import scheme
from carrel.search.texts import FreshText, read_text

CHECK_S: Final = 0.3
"""How long a source that may be slow, such as another server, has to answer."""
OWN_LIMIT: Final = 50
"""Maximum number of matches from a provider that answers searches itself."""
LOOK_S: Final = 10.0
"""How long `facts` waits for the documents."""
_LOOK_SHARE: Final = 0.7
"""Share of an answer's time for listing documents that were never listed."""
_LEAST_LOOK_S: Final = 0.1
_GRACE_S: Final = 1.0
"""How much longer an answer waits if nothing was found: it should contain something."""
_PATIENCE_S: Final = 2.0
"""How long a person waits for objects and mounts; an assistant searches again."""
_SPARE: Final = 10
"""Number of candidates beyond a page, because some may not be hits any more."""
_MANY: Final = 60
"""Minimum number of candidates if each must be verified."""
_LEAST_VERIFIED: Final = 5
"""Candidates that are read even if no time is left, unless they take long: the first of them may be gone."""
_CUT: Final = (
    "The time was up before all possible texts were read. Narrow the search with path: or lang:, or use a longer "
    "phrase or expression."
)
_RESERVED_S: Final = 0.15
"""Part of the time of an answer that is kept for asking the index and reading the hits."""


class Search:
    """Searches a catalogue. Safe to use from several threads."""

    def __init__(self, catalog: Catalog, folder: str | None, settings: SearchSettings | None = None) -> None:
        """Take the folder of the index; without one it is kept in memory. Nothing is opened before a search."""
        self._catalog = catalog
        self._settings = settings or SearchSettings()
        self._own = OwnAnswers(catalog, CHECK_S)
        self._keeper = Keeper(catalog, folder, self._settings, self._own.answers)
        self._builder = Builder(self._keeper, folder, self._settings)
        self._slow = BoundedCalls("hits", CHECK_S)

    def search(
        self, asked: SearchRequest, progress: Progress | None = None, within_s: float | None = None
    ) -> SearchAnswer:
        """Return a page of hits that the caller may read, best first, in about `within_s`.

        Raise BadArgument for an empty query, and for a scheme that is not served. `progress` is called at least once
        while the index is not complete.
        """
        until = monotonic() + (self._settings.answer_s if within_s is None else within_s)
        reach = self._reach(asked.scheme)
        query = parse(asked.query, self._visible())
        with self._builder.giving_way(), _uncollected():
            own, failures = self._own.ask(query.text, reach, OWN_LIMIT)
            page, coverage, is_same = self._page(asked, query, reach, own, until, progress)
            if not is_same:
                page, coverage, _ = self._page(asked, query, reach, own, until, progress)
        query, reach = page.query, page.reach
        with self._keeper.lock:
            unlisted = self._keeper.sources.unlisted(reach.schemes)
        notes = [*failures, *self._notes(query, reach, coverage)]
        notes += [_CUT] if page.is_cut else []
        notes += [f"{name} is still being read: search again for the rest of its hits." for name in unlisted]
        if unlisted or coverage.is_behind:  # what was only read for this search would be read again for the next
            self._builder.begin()
        is_least = coverage.is_partial or bool(unlisted or failures) or len(own) >= OWN_LIMIT
        return page.answer(coverage, tuple(notes), is_least=is_least)

    def search_patiently(self, asked: SearchRequest) -> SearchAnswer:
        """Return a page as `search` does, but first wait a moment until objects and mounts were asked and read."""
        if any(table.is_background and not table.is_listed for table in self._keeper.sources.tables()):
            self._builder.begin()
            self._builder.wait(_PATIENCE_S)
        return self.search(asked)

    def build(self, progress: Progress | None = None) -> Coverage:
        """Complete the index, however long that takes; return what it covers."""
        return self._builder.build(progress)

    def is_built_elsewhere(self) -> bool:
        """Return whether another process completes the index now."""
        return self._builder.is_elsewhere()

    def facts(self, *, looks: bool = False) -> Meta:
        """Return JSON-ready facts for people: the size, age and coverage of the index.

        A caller with limited rights sees the coverage of what they may read, and nothing of the whole. With `looks`,
        the documents are listed first; else their number is that of the last search.
        """
        keeper = self._keeper
        reach = self._reach("")
        with keeper.lock:
            if looks:
                keeper.refresh(reach.schemes, monotonic() + LOOK_S)
            reach = replace(reach, hidden=keeper.sources.hidden(reach))
            coverage = keeper.coverage(reach)
            problems = keeper.sources.problems(reach)
        facts = {
            "state": self._state(coverage),
            "documents": coverage.total,
            "indexed": coverage.searched,
            "problems": problems,
        }
        if not is_unlimited():
            return facts
        own = [keeper.store.problem] if keeper.store.problem else []
        size, written_ms = keeper.store.size(), keeper.store.written_ms()
        return {**facts, "bytes": size, "written": written_ms, "problems": [*own, *problems]}

    def close(self) -> None:
        """Stop building, and close the index; a second call does nothing."""
        self._builder.close()
        self._keeper.close()

    def _state(self, coverage: Coverage) -> str:
        """Return how far the index is; nothing is missing from one that no search has asked for."""
        store = self._keeper.store
        if self._builder.is_running or not coverage.is_partial:
            return "building" if self._builder.is_running else "complete"
        if coverage.searched or store.known():
            return "partial"
        is_kept = store.opened[0] is None and store.written_ms() is not None
        return "not looked at yet: the first search does" if is_kept else "not built yet: begins with the first search"

    # Parts of an answer

    def _page(
        self,
        asked: SearchRequest,
        query: Query,
        reach: Reach,
        own: list[Candidate],
        until: float,
        progress: Progress | None,
    ) -> tuple["_Page", Coverage, bool]:
        """Return a page, what it covers, and whether the index is still the same: a broken one becomes an empty one."""
        start, limit = start_of(asked.after), max(1, min(asked.limit, MAX_LIMIT))
        reach, coverage = self._look(reach, until)
        opened = self._keeper.store.opened
        _report(coverage, progress)
        coverage = self._scan(query, reach, until)
        _report(coverage, progress)
        query = self._keeper.completed(query, reach)
        until = max(until, monotonic() + _RESERVED_S)  # however long catching up took
        page = _Page(self, query, reach, start, limit, until)
        page.fill(own)
        return page, coverage, opened == self._keeper.store.opened

    def _visible(self) -> list[str]:
        named = {name for mounted in self._catalog.visible() for name in mounted.provider.schemes}
        return sorted(reach_of_caller(named).schemes)

    def _reach(self, asked: str) -> Reach:
        """Return what is searched; raise BadArgument for a scheme of which the caller may not read anything."""
        known = self._visible()
        if asked and asked not in known:
            from difflib import get_close_matches  # only for messages

            near = next(iter(get_close_matches(asked.lower(), known, n=1)), "")
            advice = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
            folder = asked.rpartition("://")[2].strip("/").removeprefix("./")
            if folder not in ("", ".") and ("/" in asked.strip(":/") or " " in asked or "." in asked):
                advice = f'to search in a folder or file, write path:"{echo(folder)}" in the query'
            raise BadArgument(f"Unknown scheme: {echo(asked)} ({advice})", data={"parameter": "in"})
        return reach_of_caller({asked} if asked else known)

    def _look(self, reach: Reach, until: float) -> tuple[Reach, Coverage]:
        """Look for new and changed documents; return what the caller may find, and how many of them the index has."""
        keeper = self._keeper
        with keeper.lock:
            look_until = monotonic() + max(_LEAST_LOOK_S, (until - monotonic()) * _LOOK_SHARE)
            keeper.refresh(reach.schemes, look_until)
            if keeper.sources.is_empty():
                keeper.refresh(reach.schemes, look_until + _GRACE_S)
            reach = replace(reach, hidden=keeper.sources.hidden(reach))
            return reach, keeper.coverage(reach)

    def _scan(self, query: Query, reach: Reach, until: float) -> Coverage:
        """Search the documents that the index lacks, as far as there is time; return how many were searched."""
        keeper = self._keeper
        scanned = catch_up(keeper, query, reach, until - _RESERVED_S)
        with keeper.lock:
            return keeper.coverage(reach, scanned)

    def find(self, query: Query, reach: Reach, limit: int, until: float) -> Candidates:
        """Return the candidates of the index for a query."""
        return self._keeper.find(query, reach, limit, until)

    def verify(self, candidate: Candidate, query: Query) -> SearchHit | None:
        """Return a candidate as a hit, as the caller can read it now; None if it is no hit any more."""
        uri = candidate.uri
        document = self._keeper.sources.find(uri)
        is_known = not candidate.fingerprint or not self._keeper.sources.is_looked_through(candidate.scheme)
        if document is None and not is_known:
            return None
        is_slow = document is None or self._keeper.sources.is_in_background(uri)
        document = document or Document(uri, title=candidate.title)
        try:
            if is_slow or not candidate.fingerprint:
                answers = self._slow.ask({scheme(uri): lambda: self._read(uri, candidate)})
                if not answers:
                    return None
                fresh = answers[scheme(uri)]
            else:
                fresh = attempt("a hit", self._read, uri, candidate)
        except CarrelError:
            return None
        return hit_of(candidate, document, fresh, query)

    def _read(self, uri: str, candidate: Candidate) -> FreshText | None:
        return read_text(self._catalog, uri, counts_lines=candidate.is_partial)

    def _notes(self, query: Query, reach: Reach, coverage: Coverage) -> list[str]:
        keeper = self._keeper
        notes = [*query.notes, *keeper.sources.problems(reach)]
        if coverage.is_partial and keeper.is_full:
            notes.append("The index is as large as [search] max_index_mb and max_documents allow.")
        return notes


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: a search makes none, and to look at every known document takes longer than it."""
    if not gc.isenabled():  # another search will turn it on again
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _report(coverage: Coverage, progress: Progress | None) -> None:
    """Report progress to a caller that asked for it, unless everything was searched."""
    if coverage.is_partial and progress is not None:
        progress(coverage.searched, coverage.total, str(coverage))


class _Page:
    """One page of an answer while it is made."""

    def __init__(self, search: Search, query: Query, reach: Reach, start: int, limit: int, until: float) -> None:
        self._search = search
        self.query = query
        self.reach = reach
        self._start = start
        self._limit = limit
        self._until = until
        self._hits: list[SearchHit] = []
        self._passed = 0
        """Hits of the pages before."""
        self._at = 0
        self._dropped = 0
        self.is_cut = False
        """Whether the time ended before every candidate that must be verified was read."""
        self._found = Candidates((), 0, is_complete=True, must_verify=query.must_verify)

    def fill(self, own: list[Candidate]) -> None:
        """Verify candidates until the page is full, or there are no more, or no time is left.

        Where only some candidates are hits, one more is looked for: whether there is a next page must not depend on how
        many candidates there are, which words that others may read decide too.
        """
        limit = self._limit + self.query.must_verify
        wanted = self._start + self._limit + _SPARE
        if self.query.must_verify:
            wanted = max(wanted, _MANY)
        while True:
            self._found = joined(self._search.find(self.query, self.reach, wanted, self._until), own)
            if not self.query.must_verify:
                self._at = self._passed = max(self._at, min(self._start, len(self._found.found)))
            for candidate in self._found.found[self._at :]:
                if len(self._hits) >= limit:
                    return
                late_s = monotonic() - self._until
                if late_s > (0.0 if self._at >= _LEAST_VERIFIED else _GRACE_S):
                    self.is_cut = self.query.must_verify
                    return
                self._take(candidate)
            if len(self._found.found) >= self._found.total:
                return
            if monotonic() > self._until:
                self.is_cut = self.query.must_verify
                return
            wanted *= 8

    def _take(self, candidate: Candidate) -> None:
        self._at += 1
        try:
            hit = self._search.verify(candidate, self.query)
        except TextTooLong:
            hit, self.is_cut = None, True
        if hit is None:
            self._dropped += 1
        elif self._passed < self._start:
            self._passed += 1
        else:
            self._hits.append(hit)

    def answer(self, coverage: Coverage, notes: tuple[str, ...], *, is_least: bool) -> SearchAnswer:
        """Return the page; with `is_least` there may be hits that were not searched for."""
        found, hits = self._found, self._hits[: self._limit]
        shown = self._passed + len(hits)
        has_more = self._at < found.total or len(self._hits) > self._limit
        total = shown if found.must_verify else found.total - self._dropped
        is_least = is_least or self.is_cut or not found.is_complete or (has_more and found.must_verify)
        following = str(shown) if has_more and hits else ""
        return SearchAnswer(tuple(hits), total, coverage, notes, following, is_least)
