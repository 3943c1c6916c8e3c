"""Keep the index up to date with the documents: find the documents that it lacks, read them, and index them."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Final

from carrel.catalog.access import EVERYTHING, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.core.errors import CarrelError, Denied
from carrel.core.faults import attempt
from carrel.core.provider import Document
from carrel.search.answers import Coverage
from carrel.search.index import Candidates, IndexUnavailable, SourceText
from carrel.search.query import Query
from carrel.search.reach import Reach
from carrel.search.settings import SearchSettings
from carrel.search.sources import DocumentSources, path_of, scheme
from carrel.search.store import IndexStore
from carrel.search.texts import FreshText, read_text

BATCH_BYTES: Final = 256 << 10
BATCH_COUNT: Final = 64
"""Maximum size of one write. Readers of an index in memory wait for it."""
_TRIES: Final = 3
"""Number of attempts to search an index that is closed or deleted at the same moment."""
_MEGABYTE: Final = 1 << 20
_UNSETTLED: Final = "~"
"""Prefix of the fingerprint of a document that may change with the same fingerprint, so that it is read again."""
_LANGUAGES: Final = {"text/markdown": "markdown", "application/json": "json"}
"""Languages of documents whose names tell none, by type."""


class Keeper:
    """The index of one catalogue, and the documents that it lacks.

    Callers hold `lock`, except for `read`, `take_in`, `put`, `completed` and `find`. These take the lock only briefly,
    so that no search waits while another one reads and finds.
    """

    def __init__(
        self, catalog: Catalog, folder: str | None, settings: SearchSettings, is_left_out: Callable[[Mounted], bool]
    ) -> None:
        self.lock = threading.RLock()
        self.write_lock = threading.Lock()
        """Held from the choice of texts until they are written. Where both locks are needed, it is taken first."""
        self.sources = DocumentSources(catalog, is_left_out)
        self.store = IndexStore(folder)
        self.pending: dict[str, Document] = {}
        """The documents whose present state is not in the index."""
        self.is_full = False
        """Whether documents were left out because the index would get too large."""
        self._catalog = catalog
        self._settings = settings
        self._known: Mapping[str, str] | None = None
        self._added: set[str] = set()
        """Documents that were indexed since `_known` was looked at."""
        self._gone: set[str] = set()
        self._unread: dict[str, str] = {}
        """The fingerprints of documents that could not be read."""
        self._tickets = count(1)
        self._readers = 0
        self._written: dict[str, int] = {}
        """The tickets of written texts, while others are read: a text never replaces one with a later ticket."""
        self._momentary: dict[str, str] = {}
        """The fingerprints of documents that were indexed, and may have changed since."""

    # What is pending

    def refresh(self, schemes: frozenset[str], until: float) -> None:
        """Look at the documents of these schemes, as far as there is time, and note which of them the index lacks."""
        try:
            self._refresh(schemes, until)
        except IndexUnavailable as error:
            self.store.recover(error)
            self._known = None
            self._refresh(schemes, until)

    def _refresh(self, schemes: frozenset[str], until: float) -> None:
        if self.store.open():
            self._known = None
        changed = self.sources.refresh(schemes, until)
        written = set[str]()
        known = self.store.known(written)
        self._added.clear()  # they are in it now
        if known is not self._known or changed is None:
            self._known = known
            self._compare_all(known, schemes)
        else:
            for uri in changed:
                self._compare(uri, self.sources.find(uri))
            for uri in written:  # perhaps by another process, which may know documents that were not listed here yet
                if (document := self.sources.find(uri)) is not None:
                    self._compare(uri, document)
        if self.store.is_on_disk and any(map(self._is_refused, self._gone)):
            # The file still contains the words of a removed document, and no trace of this one may stay.
            self.store.reset()
            self._known = self.store.known()
            self._compare_all(self._known, schemes)
        if self._gone and self.store.remove(self._gone):
            self._gone = set()

    def _is_refused(self, uri: str) -> bool:
        """Return whether every caller is refused a document now, existing or not."""
        try:
            with ActingAs(EVERYTHING):
                attempt("a document that is gone", self._catalog.fingerprint, uri)
        except Denied:
            return True
        except CarrelError:
            pass
        return False

    def _compare_all(self, known: Mapping[str, str], schemes: frozenset[str]) -> None:
        self.pending, self.is_full = {}, False
        for table in self.sources.tables():
            for uri, document in table.documents.items():
                if not document.settled or known.get(uri) != document.fingerprint:
                    self._compare(uri, document)
        looked_at = self.sources.complete_schemes() & schemes
        held = known.keys() | self.store.overlaid.keys()
        held.difference_update(*(table.documents for table in self.sources.tables()))
        self._gone = {uri for uri in held if scheme(uri) in looked_at}

    def _compare(self, uri: str, document: Document | None) -> None:
        """Note whether the index lacks a document, or contains one that no longer exists."""
        known = {} if self._known is None else self._known
        indexed = self.store.overlaid.get(uri, known.get(uri))
        self.pending.pop(uri, None)
        if document is None:
            self._momentary.pop(uri, None)
            if indexed is not None:
                self._gone.add(uri)
            return
        self._gone.discard(uri)
        if document.settled:
            self._momentary.pop(uri, None)
        is_unread = self._unread.get(uri) == document.fingerprint and document.settled
        if not is_unread and (not document.settled or indexed != document.fingerprint):
            self.pending[uri] = document

    # Reading and writing

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Mark the time during which texts are read for the index."""
        with self.lock:
            self._readers += 1
        try:
            yield
        finally:
            with self.lock:
                self._readers -= 1
                if not self._readers:
                    self._written.clear()

    def take_in(self, documents: Iterable[Document], until: float) -> None:
        """Read documents and index them, as far as there is time."""
        batch: list[SourceText] = []
        size = 0
        for document in documents:
            if monotonic() > until:
                break
            text = self.read(document)
            if text is None:
                continue
            batch.append(text)
            size += len(text.text)
            if size >= BATCH_BYTES or len(batch) >= BATCH_COUNT:
                self.put(batch)
                batch, size = [], 0
        self.put(batch)

    def put(self, batch: Sequence[SourceText]) -> bool:
        """Index texts; return whether there was room for all of them. The others stay pending."""
        if not batch:
            return True
        with self.write_lock, self.lock:
            claimed = self.claimed(batch)
            wanted = [text for text in claimed if self.has_room(text.uri)]
            if wanted and not self.store.put(wanted):
                self.is_full = True
                return False
            for text in wanted:
                pending = self.pending.get(text.uri)
                if text.fingerprint.startswith(_UNSETTLED):
                    self._momentary[text.uri] = text.fingerprint[len(_UNSETTLED) :]
                elif pending is not None and pending.fingerprint == text.fingerprint:
                    del self.pending[text.uri]
            return len(wanted) == len(claimed)

    def claimed(self, batch: Iterable[SourceText]) -> list[SourceText]:
        """Return the texts that must still be written: those for which no later text was written meanwhile."""
        claimed = [text for text in batch if text.uri in self.pending and self._written.get(text.uri, 0) < text.ticket]
        self._written.update((text.uri, text.ticket) for text in claimed)
        return claimed

    def has_room(self, uri: str) -> bool:
        """Return whether a document may be added to the index, or is in it already."""
        known = {} if self._known is None else self._known
        if uri in known:
            return True
        most = self._settings.max_index_mb * _MEGABYTE
        self._added.add(uri)
        if len(known) + len(self._added) > self._settings.max_documents or self.store.size() > most:
            self.is_full = True
        return not self.is_full

    def waiting(self) -> list[Document]:
        """Return the documents to index now; of documents that may still change, only those that the index lacks."""
        known = {} if self._known is None else self._known
        return [
            document
            for uri, document in self.pending.items()
            if document.settled or uri not in known or self.sources.is_in_background(uri)
        ]

    def read(self, document: Document) -> SourceText | None:
        """Return a document with its text; None if it cannot be read. A document without text is found by its name."""
        fresh: FreshText | None = None
        ticket = next(self._tickets)
        if document.text is None:
            try:
                with ActingAs(EVERYTHING):
                    fresh = attempt("the text of a document", read_text, self._catalog, document.uri)
            except CarrelError:
                with self.lock:
                    self._unread[document.uri] = document.fingerprint
                    self.pending.pop(document.uri, None)
                return None
        is_kept = document.settled or self.sources.is_in_background(document.uri)
        return source_text(document, fresh, is_kept=is_kept, ticket=ticket)

    def was_read(self, documents: Iterable[Document]) -> None:
        """Note that another connection indexed documents."""
        for document in documents:
            if self.pending.get(document.uri) is document:
                if document.settled:
                    del self.pending[document.uri]
                else:
                    self._momentary[document.uri] = document.fingerprint
                self.sources.was_read(document)

    # Answers

    def find(self, query: Query, reach: Reach, limit: int, deadline: float) -> Candidates:
        """Return the best documents within reach."""
        for _ in range(_TRIES):
            with self.lock:
                view = self.store.view(self._gone)
            try:
                return view.find(query, reach, limit, deadline)
            except IndexUnavailable as error:
                with self.lock:
                    self.store.recover(error, view)
                    self._known = None
                if error.reason != "closed":
                    break
        return Candidates((), 0, is_complete=False, must_verify=query.must_verify)

    def completed(self, query: Query, reach: Reach) -> Query:
        """Return the query; a last word that no text contains is replaced by words that begin with it."""
        if not query.unfinished:
            return query
        with self.lock:
            view = self.store.view(())
        try:
            words = view.complete(query.unfinished, reach)
        except IndexUnavailable:  # the search itself reports the problem
            return query
        return query.completed(words) if words else query

    def coverage(self, reach: Reach, scanned: Collection[str] = ()) -> Coverage:
        """Return how many documents within reach are indexed, or were searched without the index."""
        total = lacking = unsearched = 0
        whole = frozenset() if reach.hidden else reach.schemes - reach.places.keys()
        for table in self.sources.of(reach.schemes):
            is_whole = whole.issuperset(table.mounted.provider.schemes)
            total += len(table.documents) if is_whole else sum(map(reach.holds, table.documents))
        known = {} if self._known is None else self._known
        for uri, document in self.pending.items():
            is_indexed = self._momentary.get(uri) == document.fingerprint
            is_indexed = is_indexed or known.get(uri) == f"{_UNSETTLED}{document.fingerprint}"
            is_lacking = not is_indexed and reach.holds(uri)
            lacking += is_lacking
            unsearched += is_lacking and uri not in scanned
        unread = sum(reach.holds(uri) and self.sources.find(uri) is not None for uri in self._unread)
        tables = list(self.sources.of(reach.schemes))
        is_counted = all(table.is_known or table.is_background or table.problem for table in tables)
        is_behind = (lacking > 0 or not is_counted) and not self.is_full
        return Coverage(total - unread - unsearched, total - unread, is_counted, is_behind)

    def close(self) -> None:
        """Close the index, and stop listening to providers."""
        with self.lock:
            self.sources.close()
            self.store.end()
            self._known, self.pending = None, {}


def source_text(document: Document, fresh: FreshText | None, *, is_kept: bool, ticket: int = 0) -> SourceText:
    """Return the text to index for a document; one that is not kept is read again for the next search."""
    path = path_of(document.uri)
    title = "" if document.title == path.rpartition("/")[2] else document.title
    text = (document.text or "") if fresh is None else fresh.text
    return SourceText(
        document.uri,
        document.fingerprint if is_kept else f"{_UNSETTLED}{document.fingerprint}",
        scheme(document.uri),
        path,
        text,
        title,
        _LANGUAGES.get(document.mime_type, "") if "." not in path.rpartition("/")[2] else "",
        document.modified_ms if fresh is None or fresh.modified_ms is None else fresh.modified_ms,
        is_partial=fresh is not None and fresh.is_partial,
        ticket=ticket,
    )
