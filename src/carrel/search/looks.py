"""List all documents of a provider on a thread, so that an answer can use those that were found in time."""

import threading
from collections.abc import Callable
from time import monotonic

from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.provider import Document, DocumentChanges, Provider


class Look:
    """One listing. `found` grows until it ends; then `changes` is the provider's answer, or `error` its failure.

    With `streams`, documents are added one by one as they are found. With `is_quick`, it runs at once on the caller's
    thread: to start a thread would take longer than the provider's answer.
    """

    def __init__(self, provider: Provider, *, streams: bool, is_quick: bool = False) -> None:
        self.found: list[Document] = []
        self.taken = 0
        """How many of the found documents were used."""
        self.changes: DocumentChanges | None = None
        self.error: CarrelError | None = None
        self._provider = provider
        self._ask: Callable[[], DocumentChanges] = self._stream if streams else self._ask_whole
        self._is_unwanted = False
        self._ended = threading.Event()
        self.took_s = 0.0
        if is_quick:
            self._run()
            return
        threading.Thread(target=self._run, name=f"carrel-look-{provider.name}", daemon=True).start()

    def has_ended(self, until: float) -> bool:
        """Wait for the end; return False after a timeout."""
        return self._ended.wait(max(0.0, until - monotonic()))

    def stop(self) -> None:
        """End soon, because the documents are not needed."""
        self._is_unwanted = True

    def _run(self) -> None:
        began = monotonic()
        try:
            self.changes = attempt(f"documents of {self._provider.name}", self._ask)
        except CarrelError as error:
            self.error = error
        finally:
            self.took_s = monotonic() - began
            self._ended.set()

    def _ask_whole(self) -> DocumentChanges:
        changes = self._provider.document_changes(None)
        return DocumentChanges(tuple(changes.documents), changes.gone, changes.token, changes.is_whole)

    def _stream(self) -> DocumentChanges:
        for document in self._provider.documents():
            if self._is_unwanted:
                break
            self.found.append(document)
        return DocumentChanges(tuple(self.found))
