"""The index on disk, and an index in memory for documents that cannot be written to it.

Several processes share one file, which may be deleted at any time: then it is created again. If the file cannot be
written, an index in memory is used beside it or instead of it.
"""

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from carrel.core.record import Value, replace
from carrel.search.index import MEMORY, Candidates, Index, IndexUnavailable, SourceText
from carrel.search.leases import Lease, delete_unused
from carrel.search.query import Query
from carrel.search.reach import Reach

log = logging.getLogger(__name__)

FILE: Final = "index.db"
LOCK_FILE: Final = "builder.lock"
MEMORY_BYTES: Final = 48 << 20
"""Maximum size of texts in the index in memory: the index takes up to two thirds of it."""

_BESIDE: Final = ("", "-wal", "-shm")


class IndexStore:
    """An index for one process. It is used by one thread at a time; views of it, by several."""

    def __init__(self, folder: str | None) -> None:
        self.path = MEMORY if folder is None else os.path.join(folder, FILE)
        self.problem = ""
        """Why documents are kept in memory; empty if they are not."""
        self._index: Index | None = None
        self._identity: tuple[int, int] | None = None
        self._lease: Lease | None = None
        self._overlay: Index | None = None
        self._overlaid: dict[str, str] = {}
        self._memory_bytes = 0
        self._has_ended = False

    def open(self) -> bool:
        """Open the index; return whether it is another one than before, as after the file was deleted."""
        if self._has_ended or (self._index is not None and self._identity == _identity(self.path)):
            return False
        self.close()
        if self.path != MEMORY:
            try:
                if self._lease is None:
                    self._lease = Lease(os.path.dirname(self.path))
                    delete_unused(os.path.dirname(self.path))
                self._index = Index(self.path)
                self._identity = _identity(self.path)
                self.problem = ""
                return True
            except (IndexUnavailable, OSError) as error:
                self._note(error)
        self._index = Index(MEMORY)
        self._identity = _identity(self.path)
        return True

    @property
    def opened(self) -> tuple[Index | None, int]:
        """What is another value when another index, or an empty one, has taken the place of this one."""
        return self._index, 0 if self._index is None else self._index.file.generation

    @property
    def is_on_disk(self) -> bool:
        """Whether the index that is open is the file."""
        return self._index is not None and self._index.path != MEMORY

    def known(self, changed: set[str] | None = None) -> Mapping[str, str]:
        """Return the fingerprints of the documents in the index; those in memory are in `overlaid`.

        Add to `changed` the documents that any process indexed or removed since the last call.
        """
        return {} if self._index is None else self._index.known(changed)

    @property
    def overlaid(self) -> Mapping[str, str]:
        """The fingerprints of the documents that are kept in memory beside the file."""
        return self._overlaid

    def put(self, batch: Sequence[SourceText]) -> bool:
        """Index documents; return whether there was room for them."""
        if self._index is None:
            return False
        if self.is_on_disk:
            try:
                self._index.put(batch)
            except IndexUnavailable as error:
                self._note(error)
            else:
                self._drop(source.uri for source in batch)
                return True
        size = sum(len(source.text) for source in batch)
        if self._memory_bytes + size > MEMORY_BYTES:
            return False
        self._memory_bytes += size
        if not self.is_on_disk:
            self._index.put(batch)
            return True
        self._overlay = self._overlay or Index(MEMORY)
        self._overlay.put(batch)
        self._overlaid.update((source.uri, source.fingerprint) for source in batch)
        return True

    def reset(self) -> None:
        """Delete everything in the file."""
        if self._index is not None:
            self._index.reset()
            self._identity = _identity(self.path)

    def remove(self, uris: Collection[str]) -> bool:
        """Remove documents; return whether that was possible."""
        self._drop(uris)
        try:
            if self._index is not None:
                self._index.remove(uris)
        except IndexUnavailable as error:
            self._note(error)
            return False
        return True

    def view(self, left_out: Collection[str]) -> "IndexView":
        """Return the present index without these documents; another thread may search it."""
        return IndexView(self._index, self._overlay, frozenset(self._overlaid), frozenset(left_out))

    def size(self) -> int:
        """Return the size of the files, in bytes."""
        return size_of(self.path)

    def written_ms(self) -> int | None:
        """Return when the files were last written, in milliseconds since 1970; None if there are none."""
        times = [state.st_mtime_ns for end in _BESIDE[:2] if (state := _state(self.path + end)) is not None]
        return max(times) // 1_000_000 if times else None

    def end(self) -> None:
        """Close the index, and open it no more: a search that is still running would leave it open."""
        self._has_ended = True
        self.close()
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    def close(self) -> None:
        """Close the index, and drop the documents in memory."""
        for index in (self._index, self._overlay):
            if index is not None:
                index.close()
        self._index = self._overlay = self._identity = None
        self._overlaid, self._memory_bytes = {}, 0

    def recover(self, error: IndexUnavailable, view: "IndexView | None" = None) -> None:
        """Continue after an error: with a replaced file, or in memory if the file cannot be used now.

        Do nothing if the error comes from a view of an index that is no longer open.
        """
        if view is not None and view.index is not self._index:
            return
        if error.reason == "closed":
            self.close()
            self.open()
            return
        self._note(error)
        self.close()
        if error.reason != "broken":
            self._index, self._identity = Index(MEMORY), _identity(self.path)

    def _drop(self, uris: Iterable[str]) -> None:
        """Forget documents that were kept in memory beside the file."""
        if self._overlay is not None and self._overlaid:
            dropped = [uri for uri in uris if self._overlaid.pop(uri, None) is not None]
            if dropped:
                self._overlay.remove(dropped)

    def _note(self, error: Exception) -> None:
        told = str(error) if isinstance(error, IndexUnavailable) else "its folder cannot be used"
        if told != self.problem:
            self.problem = told
            log.warning("the index of search is not written: %s", error)


class IndexView(Value, frozen=True):
    """The index at one moment, searched without a lock: the file, and the documents in memory beside it."""

    index: Index | None
    overlay: Index | None
    overlaid: frozenset[str]
    left_out: frozenset[str]

    def find(self, query: Query, reach: Reach, limit: int, deadline: float) -> Candidates:
        """Return the best documents within reach, without those that are left out."""
        if self.index is None:
            return Candidates((), 0, is_complete=False, must_verify=query.must_verify)
        unwanted = self.left_out | self.overlaid
        found = self.index.find(query, reach=reach, limit=limit + len(unwanted), deadline=deadline)
        kept = [one for one in found.found if one.uri not in unwanted]
        total = found.total - (len(found.found) - len(kept))
        is_complete = found.is_complete
        if self.overlay is not None and self.overlaid:
            more = self.overlay.find(query, reach=reach, limit=limit + len(self.left_out), deadline=deadline)
            kept += [one for one in more.found if one.uri in self.overlaid and one.uri not in self.left_out]
            kept.sort(key=lambda one: -one.score)
            total, is_complete = total + more.total, is_complete and more.is_complete
        return replace(found, found=tuple(kept[:limit]), total=total, is_complete=is_complete)

    def complete(self, word: str, reach: Reach) -> tuple[str, ...]:
        """Return the words that an unfinished one may become."""
        return () if self.index is None else self.index.complete(word, reach)


def size_of(path: str) -> int:
    """Return the size of an index, in bytes, with the files beside it."""
    return sum(state.st_size for end in _BESIDE[:2] if (state := _state(path + end)) is not None)


def _state(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _identity(path: str) -> tuple[int, int] | None:
    state = _state(path)
    return None if state is None else (state.st_dev, state.st_ino)
