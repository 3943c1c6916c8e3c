"""Resources that tell a model what this server has, and how to read it.

carrel://guide     Markdown: the providers, their URIs, how to read parts and pages
carrel://catalog   JSON: providers, templates, counts
carrel://health    JSON: the state of each provider, and problems
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from carrel.catalog.access import AUDIT
from carrel.catalog.catalog import Catalog
from carrel.core.errors import CarrelError, NotFound, RequestError
from carrel.core.model import Annotations, Resource, Text
from carrel.core.provider import Document, Provider, Route
from carrel.core.record import replace

if TYPE_CHECKING:
    from carrel.providers.guide.reports import Reports

INSTRUCTIONS: Final = (
    "This server has the project's own knowledge as read-only resources. "
    "Read carrel://guide first: it lists what is here, explains the URIs and how to read parts."
)

_NO_AUDIT: Final = (
    "There is no audit record here: it belongs to a team's store, and this desk has none ([store] url in its settings)"
)


class Guide(Provider):
    """The provider of `carrel://`: guide, catalogue and health."""

    name = "guide"
    schemes = ("carrel",)
    summary = "What this server has, and how to read it."
    speed = "as_others"

    def __init__(
        self,
        catalog: Catalog,
        title: str = "this project",
        notes: Sequence[str] = (),
        elsewhere: Callable[[], Sequence[str]] = tuple,
        root: str = "",
    ) -> None:
        """Create the guide. It shows `notes`, and the notes that `elsewhere` returns when the guide is read.

        Clients see no path of the server, except paths relative to `root`.
        """
        self._instance = catalog.instance
        self._about = (catalog, title, tuple(notes), elsewhere, root)

    def routes(self) -> Sequence[Route]:
        return (
            Route("carrel://guide", self.read_guide, name="guide", mime_type="text/markdown"),
            Route("carrel://catalog", self.read_catalog, name="catalog", mime_type="application/json"),
            Route("carrel://health", self.read_health, name="health", mime_type="application/json"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        """Yield the guide, its catalogue and its health, all pinned; some hosts show only what comes first."""
        # The instance id tells a Carrel that it has mounted itself.
        health = _entry("health", "Health", "JSON: the state of each provider, and problems", "application/json", 0.3)
        guide = _entry("guide", "Guide", "Start here: what this server has, and how to read it", "text/markdown", 1.0)
        every = (
            replace(guide, sort_key="carrel://"),
            _entry("catalog", "Catalogue", "JSON: providers, templates, counts", "application/json", 0.8),
            replace(health, meta={"dev.carrel/instance": self._instance}),
        )
        return (entry for entry in every if (entry.sort_key or entry.uri) > after)

    def refusal(self, uri: str, error: RequestError) -> CarrelError:
        """Say why there is no audit record, where a desk has none."""
        return NotFound(uri, _NO_AUDIT) if isinstance(error, NotFound) and uri.partition("?")[0] == AUDIT else error

    def documents(self) -> Iterator[Document]:
        """Yield nothing: the guide describes what search finds."""
        return iter(())

    def instructions(self) -> str:
        """Return the text that points models to the guide."""
        return INSTRUCTIONS

    def read_guide(self) -> Text:
        return self._reports.guide()

    def read_catalog(self) -> Text:
        return self._reports.catalogue()

    def read_health(self) -> Text:
        return self._reports.health()

    @cached_property
    def _reports(self) -> "Reports":
        from carrel.providers.guide.reports import Reports  # not needed to start

        return Reports(*self._about)


def _entry(name: str, title: str, description: str, mime_type: str, priority: float) -> Resource:
    uri = f"carrel://{name}"
    annotations = Annotations(priority=priority)
    return Resource(uri, name, description, mime_type, title=title, annotations=annotations, pinned=True)
