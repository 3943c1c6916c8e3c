"""The documents of every provider, as they are at the moment of a search.

A provider is asked for its documents during each search, which must be cheap. Providers that may be slow, such as other
servers and foreign objects, are asked in the background: their documents are those that they last reported.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic, time
from typing import Final

from carrel.catalog.access import EVERYTHING, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import Mounted
from carrel.core.errors import CarrelError, ProviderError, RequestError
from carrel.core.faults import attempt
from carrel.core.hashing import blake2b
from carrel.core.provider import Document, DocumentChanges
from carrel.core.record import replace, to_json
from carrel.core.uri import decode_loosely, scheme_of
from carrel.search.looks import Look
from carrel.search.reach import Reach

log = logging.getLogger(__name__)

ASKING_S: Final = 0.1
"""Maximum time of an answer for fingerprints that a provider does not return with its documents."""
QUICK_S: Final = 0.01
"""A look that takes less is not worth a thread."""
LATER_S: Final = 10.0
"""How long an answer waits for the list of all documents, if only that shows what changed."""
_FIRST_LOOKS: Final = 2
"""The first look lists the documents, the second one watches them; an answer does not wait for their ends."""
MAX_ENTRIES: Final = 10_000
"""Maximum number of documents of a provider that is asked in the background."""
_DAY_S: Final = 86_400
_INTERNAL: Final = "Internal error"
"""The message of an error whose cause is only in the log."""
_LONG: Final = 64
"""A longer fingerprint is kept as a digest."""

Changed = set[str] | None
"""The URIs that changed; None if that may be any."""


class DocumentTable:
    """The documents of one provider."""

    is_background = False

    def __init__(self, catalog: Catalog, mounted: Mounted) -> None:
        self.catalog = catalog
        self.mounted = mounted
        self.documents: dict[str, Document] = {}
        self.problem = ""
        self.is_known = False
        """Whether the documents are all that the provider has."""
        self.ended_looks = 0
        """How many looks at all documents came to their end."""
        self._token: object = None
        self._look: Look | None = None
        self._is_new_look = False
        self._is_quick = False
        """Whether the last look took so little time that the next one needs no thread."""
        self._was_taken = False
        """Whether all documents were compared with the index."""

    @property
    def is_listed(self) -> bool:
        """Whether the provider is not being asked for its documents."""
        return self._look is None

    def refresh(self, until: float) -> Changed:
        """Bring the documents up to date; if the provider fails, they stay as they are.

        An answer does not wait for the end of the first listings: it uses the documents found so far.
        """
        try:
            changed: Changed = set()
            if self._look is not None and not self._is_new_look:
                changed = self._take_from(self._look, until)
            if self._look is None or self._is_new_look:  # an older one may not have seen the last change
                changed = joined(changed, self._ask_now(until))
        except CarrelError as error:
            # Some systems give no reason.
            reason = "its data cannot be read" if str(error) == _INTERNAL else str(error)
            self.problem, self.is_known = f"{self.mounted.provider.name} could not be searched: {reason}", False
            return set()
        self.problem = ""
        return changed

    def _ask_now(self, until: float) -> Changed:
        provider, what = self.mounted.provider, f"documents of {self.mounted.provider.name}"
        if self._token is not None:
            changes = attempt(what, provider.document_changes, self._token)
            documents = attempt(what, list, changes.documents)
            self._token, self.is_known = changes.token, True
            return self._take(documents, changes)
        look = self._look or self._begin_look()
        self._is_new_look = False
        is_later = self.ended_looks >= _FIRST_LOOKS
        changed = self._take_from(look, monotonic() + LATER_S if is_later else until)
        self.is_known = self._look is None
        return changed

    def begin(self) -> None:
        """Begin to look at all documents if that is needed, while others are looked at."""
        if self._look is None and self._token is None:
            self._begin_look()

    def _begin_look(self) -> Look:
        streams = self.ended_looks == 0 and "documents" in self.mounted.overrides
        is_quick = self._is_quick and self.ended_looks >= _FIRST_LOOKS
        self._look = look = Look(self.mounted.provider, streams=streams, is_quick=is_quick)
        self._is_new_look = True
        return look

    def _take_from(self, look: Look, until: float) -> Changed:
        """Use the documents of a listing; if it has not ended in time, only the new ones."""
        if look.has_ended(until):
            self._look = None
            self._is_quick = look.took_s < QUICK_S and self.mounted.speed != "blocking"
            if look.changes is None:
                raise look.error or ProviderError(_INTERNAL)
            self.ended_looks += 1
            self._token = look.changes.token
            return self._take(list(look.changes.documents), look.changes)
        self.is_known = False
        found = look.found[look.taken :]
        look.taken += len(found)
        fresh = {one.uri: one for one in self._with_fingerprints(found)}
        self.documents.update(fresh)
        return set(fresh)

    def close(self) -> None:
        """Stop listing."""
        if self._look is not None:
            self._look.stop()

    def _take(self, documents: list[Document], changes: DocumentChanges) -> Changed:
        fresh = {one.uri: one for one in self._with_fingerprints(documents)}
        if changes.is_whole:
            before, self.documents = self.documents, fresh
            was_taken, self._was_taken = self._was_taken, True
            if not was_taken:
                return None
            changed = {uri for uri, one in fresh.items() if before.get(uri) != one}
            return changed.union(before.keys() - fresh.keys())
        self.documents.update(fresh)
        for uri in changes.gone:
            self.documents.pop(uri, None)
        return {*fresh, *changes.gone}

    def _with_fingerprints(self, documents: list[Document]) -> Iterator[Document]:
        """Yield documents with fingerprints; a document whose fingerprint did not come in time is not settled."""
        until = monotonic() + ASKING_S
        with ActingAs(EVERYTHING):
            for document in documents:
                if document.fingerprint:
                    yield document if len(document.fingerprint) <= _LONG else _shortened(document, document.fingerprint)
                elif monotonic() > until:
                    yield replace(document, settled=False)
                else:
                    yield self._asked(document)

    def _asked(self, document: Document) -> Document:
        try:
            token = attempt("a fingerprint", self.catalog.fingerprint, document.uri)
        except (RequestError, ProviderError):
            token = None
        return replace(document, settled=False) if token is None else _shortened(document, token)


class BackgroundTable(DocumentTable):
    """The documents of a provider that may take long, as it last reported them.

    The content of each is read once, and again when the provider reports a change.
    """

    is_background = True

    def __init__(self, catalog: Catalog, mounted: Mounted) -> None:
        super().__init__(catalog, mounted)
        self._lock = threading.Lock()
        self._was_listed = False
        self._is_watched = False
        self._stop: Callable[[], None] = lambda: None
        self._reported: set[str] = set()
        self._is_taken = False

    def refresh(self, until: float) -> Changed:
        """Return the changes reported since the last call; the provider itself is not asked."""
        del until
        if self.mounted.gateway is not None and self._token != self._list_token():
            self._was_listed = False
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return None
            changed, self._reported = self._reported, set()
            return changed

    @property
    def is_listed(self) -> bool:
        """Whether the list was asked for since it last changed."""
        return self._was_listed

    def _list_token(self) -> str:
        try:
            return attempt(f"list of {self.mounted.provider.name}", self.mounted.provider.list_fingerprint)
        except CarrelError:
            return ""

    def survey(self) -> None:
        """Ask for the list, if it changed; this may take long."""
        if self._was_listed:
            return
        self._token = self._list_token()
        name, provider = self.mounted.provider.name, self.mounted.provider
        if not self._is_watched and "watch" in self.mounted.overrides:
            self._is_watched = True
            self._stop = provider.watch(self)
        self._was_listed = True
        try:
            listed = attempt(f"documents of {name}", partial(_first, provider.documents, MAX_ENTRIES))
        except CarrelError as error:
            self.problem = f"{name} could not be searched: {error}"
            return
        self.problem = ""
        with self._lock:
            self.is_known = True
            before = self.documents
            self.documents = {one.uri: _as_listed(one) for one in listed}
            self._reported.update(before.keys() - self.documents.keys())
            self._reported.update(uri for uri, one in self.documents.items() if before.get(uri) != one)

    def was_read(self, document: Document) -> None:
        """Note that the content of a document was read, unless it changed since."""
        with self._lock:
            if self.documents.get(document.uri) is document:
                self.documents[document.uri] = replace(document, settled=True)
                self._reported.add(document.uri)

    def begin(self) -> None:
        """Do nothing: the list is asked for in the background."""

    def close(self) -> None:
        """Stop the reports of changes."""
        super().close()
        self._stop()

    # As `Changes`

    def updated(self, uri: str, fingerprint: str = "") -> None:
        """Note that the content of a document changed: it is to be read once more."""
        del fingerprint
        with self._lock:
            known = self.documents.get(uri)
            if known is not None:
                self.documents[uri] = replace(known, settled=False)
                self._reported.add(uri)

    def updated_below(self, uri: str) -> None:
        """Note that documents may have changed."""
        for one in [one for one in list(self.documents) if one.startswith(uri)]:
            self.updated(one)

    def reconsidered(self, uri: str) -> None:
        """Note that documents may have changed."""
        self.updated_below(uri)

    def list_changed(self) -> None:
        """Note that the list must be requested again."""
        self._was_listed = False

    def ask_aliases(self, aliases: Callable[[str], Sequence[str]]) -> None:
        """Ask for no aliases: documents have one URI."""


class DocumentSources:
    """The documents of all providers."""

    def __init__(self, catalog: Catalog, is_left_out: Callable[[Mounted], bool]) -> None:
        """Take a function that returns whether a provider's documents are not indexed."""
        self._catalog = catalog
        self._is_left_out = is_left_out
        self._tables: dict[int, DocumentTable] = {}
        self._mounted: tuple[Mounted, ...] = ()

    def tables(self) -> list[DocumentTable]:
        """Return a table for each provider that has documents and does not answer searches itself."""
        mounted = tuple(one for one in self._catalog.mounted if not self._is_left_out(one))
        if mounted != self._mounted:
            self._mounted = mounted
            kept = {id(one.provider): one for one in mounted}
            for gone in self._tables.keys() - kept.keys():
                self._tables.pop(gone).close()
            for number, one in kept.items():
                table = self._tables.get(number)
                if table is None:
                    self._tables[number] = _table_of(self._catalog, one)
                else:
                    table.mounted = one
        return list(self._tables.values())

    def refresh(self, schemes: frozenset[str], until: float) -> Changed:
        """Bring the tables of these schemes up to date, as far as there is time; return what changed."""
        generation = self._catalog.generation
        changed: set[str] = set()
        is_any = False
        tables = list(self.of(schemes))
        for table in tables:
            table.begin()
        for table in tables:
            some = table.refresh(until)
            is_any = is_any or some is None
            changed.update(some or ())
        if self._catalog.generation != generation:  # the data of a provider appeared, so it was replaced
            for table in self.of(schemes):
                if not table.is_known:
                    table.refresh(until)
            is_any = True
        return None if is_any else changed

    def of(self, schemes: frozenset[str]) -> Iterator[DocumentTable]:
        """Yield the tables that may have documents of these schemes."""
        for table in self.tables():
            if not schemes.isdisjoint(table.mounted.provider.schemes):
                yield table

    def find(self, uri: str) -> Document | None:
        """Return a document as it was last looked at."""
        for table in list(self._tables.values()):  # other threads may add tables
            if uri in table.documents:
                return table.documents[uri]
        return None

    def complete_schemes(self) -> frozenset[str]:
        """Return the schemes of which all documents are known: any other document no longer exists."""
        tables = self.tables()
        named = {scheme for table in tables for scheme in table.mounted.provider.schemes}
        unknown = {scheme for table in tables if not table.is_known for scheme in table.mounted.provider.schemes}
        return frozenset(named - unknown)

    def is_in_background(self, uri: str) -> bool:
        """Return whether a document is one of a provider that is asked in the background."""
        return any(table.is_background and uri in table.documents for table in list(self._tables.values()))

    def was_read(self, document: Document) -> None:
        """Note that the content of a document was read."""
        for table in list(self._tables.values()):
            if isinstance(table, BackgroundTable):
                table.was_read(document)

    def survey(self) -> None:
        """Ask the providers that may take long for their lists, if these changed."""
        for table in self.tables():
            if isinstance(table, BackgroundTable):
                table.survey()

    def unlisted(self, schemes: frozenset[str]) -> list[str]:
        """Return the names of providers that are asked for their documents in the background."""
        return [table.mounted.provider.name for table in self.of(schemes) if not table.is_listed]

    def problems(self, reach: Reach) -> list[str]:
        """Return a sentence about each provider within reach that could not be asked.

        A caller who may read only a part of it does not see why: the cause may be something in the rest.
        """
        failed = [table for table in self.of(reach.schemes) if table.problem]
        return [
            f"{table.mounted.provider.name} could not be searched."
            if not reach.places.keys().isdisjoint(table.mounted.provider.schemes)
            else table.problem
            for table in failed
        ]

    def hidden(self, reach: Reach) -> frozenset[str]:
        """Return the links within reach that lead to where the caller may not read."""
        if not reach.places:
            return frozenset()
        linked = (one for table in self.of(frozenset(reach.places)) for one in table.documents.values() if one.target)
        return frozenset(one.uri for one in linked if not reach.holds(one.target))

    def close(self) -> None:
        """Stop the reports of changes."""
        for table in self._tables.values():
            table.close()
        self._tables, self._mounted = {}, ()

    def is_looked_through(self, scheme: str) -> bool:
        """Return whether all documents of a scheme are known, so that any other one does not exist.

        If several providers have the scheme, as a bucket beside the local files, those in the background count too.
        """
        tables = [table for table in list(self._tables.values()) if scheme in table.mounted.provider.schemes]
        return all(table.is_known for table in tables if not table.is_background or len(tables) > 1)

    def is_empty(self) -> bool:
        """Return whether nothing was found yet, by providers that are still being asked."""
        return self.is_unlisted() and not any(table.documents for table in list(self._tables.values()))

    def is_unlisted(self) -> bool:
        """Return whether some provider is being asked for all its documents for the first time."""
        return any(not table.is_listed and not table.ended_looks for table in self.tables() if not table.is_background)


def joined(one: Changed, other: Changed) -> Changed:
    """Return the changes of two reports together."""
    return None if one is None or other is None else one | other


def is_slow(mounted: Mounted) -> bool:
    """Return whether a provider may take too long to be asked while a client waits."""
    own = {"documents", "document_changes"} & mounted.overrides
    return mounted.gateway is not None or (mounted.speed == "blocking" and not own)


def scheme(uri: str) -> str:
    """Return the scheme of a document's URI; empty if it has none."""
    try:
        return scheme_of(uri)
    except RequestError:
        return ""


def path_of(uri: str) -> str:
    """Return the part of a URI that people read: what follows the scheme, decoded."""
    return decode_loosely(uri.partition(":")[2].lstrip("/"))


def _table_of(catalog: Catalog, mounted: Mounted) -> DocumentTable:
    return BackgroundTable(catalog, mounted) if is_slow(mounted) else DocumentTable(catalog, mounted)


def _first(documents: Callable[[], Iterator[Document]], most: int) -> list[Document]:
    return [document for document, _ in zip(documents(), range(most), strict=False)]


def _as_listed(document: Document) -> Document:
    """Return a document with a fingerprint of its list entry; an entry without a time is read again each day."""
    today = 0 if document.modified_ms is not None else int(time() // _DAY_S)
    return _shortened(document, f"{to_json(document)!r} of day {today}")


def _shortened(document: Document, fingerprint: str) -> Document:
    short = fingerprint
    if len(short) > _LONG:
        short = blake2b(short.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return replace(document, fingerprint=short)
