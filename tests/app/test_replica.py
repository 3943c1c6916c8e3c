"""What a replica tells its watcher of the changes of others."""

from carrel.app.replica import Replica
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.stores.outbox import OutboxChanges
from tests.support.memory_provider import Shelf


class Recording(Watcher):
    """Records what it is asked to look at."""

    def __init__(self) -> None:
        super().__init__(Catalog([Shelf("scopes"), Shelf("sage")]))
        self.asked: dict[str, frozenset[str]] = {}

    def look_again(self, scheme: str, first: frozenset[str] = frozenset()) -> None:
        self.asked[scheme] = first
        super().look_again(scheme, first)


def test_the_watcher_gets_the_changed_uris_of_each_scheme_and_of_no_other() -> None:
    watcher = Recording()
    replica = Replica(None, "a key that all replicas share", watcher)

    replica._hear(OutboxChanges((("scopes", "scopes:///1"), ("sage", "sage:///1"), ("sage", "sage:///2")), "token"))

    assert watcher.asked == {
        "scopes": frozenset({"scopes:///1"}),
        "sage": frozenset({"sage:///1", "sage:///2"}),
    }
