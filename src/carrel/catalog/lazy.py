"""A provider whose data does not exist yet: its URIs are answered, its list is empty.

It costs a check of a file name, not an import. When the data appears, the next list finds it, and the real provider
replaces this one.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from carrel.catalog.catalog import Catalog
from carrel.core.errors import CarrelError, RequestError
from carrel.core.model import Resource, Skill
from carrel.core.provider import DocumentChanges, Given, Provider, Route


class LazyProvider(Provider):
    """Stands for a provider whose data did not exist when the desk was opened."""

    def __init__(
        self,
        name: str,
        schemes: tuple[str, ...],
        build: Callable[[], Provider],
        is_called_for: Callable[[], bool],
        catalog: Catalog,
    ) -> None:
        self.name = name
        self.schemes = schemes
        self._build = build
        self._looks_called_for = is_called_for
        self._catalog = catalog
        self._lock = Lock()
        self._inner: Catalog | None = None

    def routes(self) -> Sequence[Route]:
        return ()

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield nothing until the data exists; then the real provider takes over."""
        if self._has_data():
            yield from self._replaced().entries(after)

    def document_changes(self, since: object) -> DocumentChanges:
        """Return nothing until the data exists; then the real provider takes over."""
        return self._replaced().document_changes(since) if self._has_data() else DocumentChanges(())

    def list_fingerprint(self) -> str:
        """Return a token that changes when the data appears."""
        return str(self._has_data())

    def read_unmatched(self, uri: str) -> Given:
        """Read a URI with the real provider."""
        return self._awake().find(uri).read()

    def refusal(self, uri: str, error: RequestError) -> CarrelError:
        """Return the error that the real provider has."""
        try:
            self._awake().find(uri)
        except CarrelError as worded:
            return worded
        return error

    def children(self, uri: str, after: str = "") -> Iterator[Resource]:
        """Return the children of a folder of the real provider."""
        return self._real().children(uri, after)

    def skills(self) -> Sequence[Skill]:
        """Return nothing until the data exists; then the skills of the real provider."""
        return self._real().skills() if self._has_data() else ()

    def fingerprint(self, uri: str) -> str | None:
        """Return the fingerprint that the real provider has."""
        return self._awake().fingerprint(uri)

    def close(self) -> None:
        """Close the provider, if it was ever built and has not taken over."""
        if self._inner is not None:
            real = self._real()
            if all(one.provider is not real for one in self._catalog.mounted):
                self._inner.close()

    def _has_data(self) -> bool:
        """Return whether the data exists; False if its folder cannot be read now."""
        try:
            return self._looks_called_for()
        except OSError as error:
            import logging  # only on failure

            logging.getLogger(__name__).debug("cannot check whether %s has data here: %s", self.name, error)
            return False

    def _awake(self) -> Catalog:
        """Return a catalogue of the real provider alone, built on first use."""
        with self._lock:
            if self._inner is None:
                self._inner = Catalog((self._build(),))
            return self._inner

    def _real(self) -> Provider:
        """Return the real provider."""
        return self._awake().mounted[0].provider

    def _replaced(self) -> Provider:
        """Let the real provider take over, and return it."""
        real = self._real()
        self._catalog.swap(self, real)
        return real
