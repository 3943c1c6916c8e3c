"""Complete the index in the background, with the lowest priority.

The process that holds the lock builds; the others use what it wrote. It can be stopped or killed at any time: the
written part stays, and the next process continues from there.
"""

import contextlib
import fcntl
import logging
import os
import sys
import threading
from collections.abc import Iterator
from time import monotonic
from typing import Final

from carrel.core.provider import Document
from carrel.files.atomic import FILE_MODE
from carrel.search.answers import Coverage, Progress
from carrel.search.index import Index, IndexUnavailable, SourceText
from carrel.search.keeper import BATCH_BYTES, BATCH_COUNT, Keeper
from carrel.search.reach import reach_of
from carrel.search.settings import SearchSettings
from carrel.search.store import LOCK_FILE

log = logging.getLogger(__name__)

NICENESS: Final = 5
"""The niceness of the thread. With a greater one, it would get no time on a busy machine while it holds Python's lock,
and answers would wait for it."""
SWITCH_S: Final = 0.000_5
"""How long a thread that answers waits for the one that builds; Python's own value is ten times that."""
PAUSE_S: Final = 0.02
"""Pause while a search is running."""
LOOK_S: Final = 0.2
"""How long searches wait while documents are looked for."""
OTHERS_S: Final = 2.0
"""How often to check whether the process that builds has ended."""
FEW: Final = 16
"""Up to this many documents, a search reads them itself."""
MAX_SLOW_BYTES: Final = 64 << 20
"""Text that is read of sources that may take long, such as other servers, in all."""

_END_S: Final = 1.0
"""How long closing waits for the thread: a server has two seconds to end."""


class Builder:
    """Builds the index of a keeper, on a thread or at once."""

    def __init__(self, keeper: Keeper, folder: str | None, settings: SearchSettings) -> None:
        self._keeper = keeper
        self._folder = folder
        self._settings = settings
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._answers = 0
        self._spent_s = 0.0
        self._slow_bytes = 0

    # The thread

    def begin(self) -> None:
        """Build on a thread, unless that is done already or the time for it is spent."""
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if not is_running and not self._stop.is_set() and self._spent_s < self._settings.build_s:
                self._thread = threading.Thread(target=self._run, name="carrel-search-index", daemon=True)
                self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the index is being completed."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, within_s: float) -> None:
        """Wait until the thread ends, at most this long."""
        if self._thread is not None:
            self._thread.join(within_s)

    @contextlib.contextmanager
    def giving_way(self) -> Iterator[None]:
        """Have the thread pause for as long as a search runs."""
        with self._lock:
            self._answers += 1
        try:
            yield
        finally:
            with self._lock:
                self._answers -= 1

    def close(self) -> None:
        """Stop building."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_S)

    def _run(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, SWITCH_S))
        try:
            self.build(None)
        except IndexUnavailable as error:
            log.warning("the index of search cannot be completed: %s", error)
        finally:
            sys.setswitchinterval(before)

    # Building

    def build(self, progress: Progress | None) -> Coverage:
        """Complete the index; return what it covers then."""
        keeper, rounds, waiting = self._keeper, 0, list[Document]()
        self._renew()
        keeper.sources.survey()
        while not self._stop.is_set():
            waiting.clear()  # documents that were replaced are not kept while all are listed again
            with keeper.lock:
                keeper.refresh(self.schemes(), monotonic() + (PAUSE_S if keeper.sources.is_unlisted() else LOOK_S))
                is_unlisted, waiting = keeper.sources.is_unlisted(), keeper.waiting()
            if is_unlisted:  # searches need the lock meanwhile
                self._stop.wait(PAUSE_S)
                continue
            # What changes all the time is left to searches.
            if len(waiting) <= (FEW if rounds else 0) or keeper.is_full or self._spent_s > self._settings.build_s:
                break
            with self._sole_builder(is_on_disk=keeper.store.is_on_disk) as is_sole:
                if not is_sole:
                    self._stop.wait(OTHERS_S)
                elif not self._work(waiting, progress):
                    break
                rounds += is_sole
        with keeper.lock:
            return keeper.coverage(reach_of(self.schemes()))

    def schemes(self) -> frozenset[str]:
        return frozenset(name for table in self._keeper.sources.tables() for name in table.mounted.provider.schemes)

    def is_elsewhere(self) -> bool:
        """Return whether another process builds now."""
        with self._sole_builder(is_on_disk=True) as is_sole:
            return not is_sole

    @contextlib.contextmanager
    def _sole_builder(self, *, is_on_disk: bool) -> Iterator[bool]:
        """Hold the lock of the one process that builds; yield whether this is it."""
        if self._folder is None or not is_on_disk:
            yield True
            return
        try:
            place = os.path.join(self._folder, LOCK_FILE)
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError:  # the folder was deleted, or is not ours to write
            yield True
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
        finally:
            os.close(handle)

    def _work(self, waiting: list[Document], progress: Progress | None) -> bool:
        """Read and index documents; return whether any of them could be."""
        started, done = monotonic(), 0
        total = len(waiting)
        index = self._connection()
        try:
            batches = self._batches(waiting)
            is_going_on = True
            while is_going_on:
                with self._keeper.reading():  # what was written is remembered for no longer than a batch
                    batch = next(batches, [])
                    done += self._write(index, batch) if batch else 0
                is_going_on = bool(batch) and not self._stop.is_set() and not self._keeper.is_full
                if batch and progress is not None:
                    progress(done, total, f"{done:,} of {total:,} documents indexed")
            if index is not None and done and not self._stop.is_set():
                index.tidy()
        finally:
            self._spent_s += monotonic() - started
            if index is not None:
                index.close()
        return done > 0

    def _renew(self) -> None:
        """Begin with an empty index where too much of it is of documents that are gone."""
        with self._keeper.lock:
            self._keeper.store.open()
        with self._keeper.lock, self._sole_builder(is_on_disk=self._keeper.store.is_on_disk) as is_sole:
            index = self._connection() if is_sole else None
            if index is not None:
                try:
                    if index.facts().should_rebuild:
                        index.reset()
                finally:
                    index.close()

    def _connection(self) -> Index | None:
        """Return a connection of the thread's own, so that searches do not wait for what it writes."""
        store = self._keeper.store
        return Index(store.path) if store.is_on_disk else None

    def _batches(self, waiting: list[Document]) -> Iterator[list[tuple[Document, SourceText]]]:
        """Yield texts, some at a time."""
        batch: list[tuple[Document, SourceText]] = []
        size = 0
        for document in waiting:
            while self._answers and not self._stop.is_set():
                self._stop.wait(PAUSE_S)
            if self._stop.is_set():
                break
            text = self._read(document)
            if text is not None:
                batch.append((document, text))
                size += len(text.text)
            if size >= BATCH_BYTES or len(batch) >= BATCH_COUNT:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _read(self, document: Document) -> SourceText | None:
        is_slow = self._keeper.sources.is_in_background(document.uri)
        if is_slow and self._slow_bytes > MAX_SLOW_BYTES:
            return None
        text = self._keeper.read(document)
        if is_slow and text is not None:
            self._slow_bytes += len(text.text)
        return text

    def _write(self, index: Index | None, batch: list[tuple[Document, SourceText]]) -> int:
        """Index texts; return how many."""
        keeper = self._keeper
        texts = [text for _, text in batch]
        if index is None:
            return len(batch) if keeper.put(texts) else 0
        with keeper.write_lock:
            with keeper.lock:  # what changed since it was listed is left to the next round, or to searches
                claimed = keeper.claimed(text for document, text in batch if keeper.pending.get(text.uri) is document)
                uris = {text.uri for text in claimed if keeper.has_room(text.uri)}
            index.put([text for text in claimed if text.uri in uris])
            with keeper.lock:
                keeper.was_read(document for document, _ in batch if document.uri in uris)
        return len(batch) - len(claimed) + len(uris)
