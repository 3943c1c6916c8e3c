"""A provider that hangs holds up its own notifications, and those of no other."""

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import LIST, Subscription, Watcher
from carrel.core.provider import Changes
from tests.support.memory_provider import Counted, Eventful, Shelf
from tests.support.waiting import PATIENCE_S, until

POLL_S = 0.005
LONG_S = 60.0


class Gate:
    """Lets calls through, or holds them until it is opened again."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.calls = 0
        self._is_open = threading.Event()
        self._is_open.set()

    def shut(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    def pass_through(self) -> None:
        self.calls += 1
        if not self._is_open.is_set():
            self.arrived.release()
            self._is_open.wait(LONG_S)


class Polled(Counted):
    """Hangs where it is asked for fingerprints or surveys."""

    def __init__(self, name: str, texts: dict[str, str]) -> None:
        super().__init__(name, texts)
        self.fingerprints, self.listings = Gate(), Gate()

    def fingerprint(self, uri: str) -> str | None:
        self.fingerprints.pass_through()
        return super().fingerprint(uri)

    def list_fingerprint(self) -> str:
        self.listings.pass_through()
        return super().list_fingerprint()


class Watched(Eventful):
    """Hangs where its events begin or end."""

    def __init__(self, name: str, texts: dict[str, str]) -> None:
        super().__init__(name, texts)
        self.beginning, self.ending = Gate(), Gate()

    def watch(self, changes: Changes) -> Callable[[], None]:
        self.beginning.pass_through()
        return super().watch(changes)

    def _leave(self) -> None:
        self.ending.pass_through()
        super()._leave()


class Desk:
    """A watcher of some shelves, and what each listener hears."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []
        self._made: list[Subscription] = []
        self._watcher: Watcher | None = None

    def watch(self, *shelves: Shelf) -> None:
        self._watcher = Watcher(Catalog(shelves), POLL_S)
        for shelf in shelves:
            self.gates += [one for one in vars(shelf).values() if isinstance(one, Gate)]

    def listen(self, *uris: str, list_changes: bool = False) -> "queue.SimpleQueue[str]":
        assert self._watcher is not None
        heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._made.append(self._watcher.subscribe(heard.put, uris, list_changes=list_changes))
        self._made[-1].start()
        return heard

    def leave(self) -> None:
        for one in self._made:
            one.close()

    def close(self) -> None:
        for gate in self.gates:
            gate.open()
        assert self._watcher is not None
        self._watcher.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def hear(heard: "queue.SimpleQueue[str]") -> str:
    return heard.get(timeout=PATIENCE_S)


def threads() -> int:
    return sum(1 for thread in threading.enumerate() if thread.name == "carrel-watch-one")


@pytest.mark.parametrize("kind", [Counted, Eventful])
def test_a_provider_that_hangs_where_its_events_begin_holds_up_no_other(desk: Desk, kind: type[Shelf]) -> None:
    hung, other = Watched("a", {"1": "one"}), kind("b", {"1": "one"})
    hung.beginning.shut()
    desk.watch(hung, other)
    heard = desk.listen("a:///1", "b:///1")
    assert hung.beginning.arrived.acquire(timeout=PATIENCE_S)
    other.put("1", "changed")

    assert hear(heard) == "b:///1"


def test_events_that_begin_late_are_reported_with_what_changed_before(desk: Desk) -> None:
    hung, other = Watched("a", {"1": "one"}), Eventful("b", {"1": "one"})
    hung.beginning.shut()
    desk.watch(hung, other)
    heard = desk.listen("a:///1", "b:///1")
    assert hung.beginning.arrived.acquire(timeout=PATIENCE_S)
    other.watched.acquire(timeout=PATIENCE_S)
    other.put("1", "changed")
    assert hear(heard) == "b:///1"
    hung.put("1", "before its events began")
    hung.beginning.open()

    assert hear(heard) == "a:///1"
    hung.put("1", "after")
    assert hear(heard) == "a:///1"


def test_events_that_begin_after_everybody_left_end_at_once(desk: Desk) -> None:
    hung = Watched("a", {"1": "one"})
    hung.beginning.shut()
    desk.watch(hung)
    desk.listen("a:///1")
    assert hung.beginning.arrived.acquire(timeout=PATIENCE_S)
    desk.leave()
    hung.beginning.open()

    assert hung.left.acquire(timeout=PATIENCE_S)


@pytest.mark.parametrize("gate", ["fingerprints", "listings"])
@pytest.mark.parametrize("kind", [Counted, Eventful])
def test_a_provider_that_hangs_where_it_is_polled_holds_up_no_other(desk: Desk, kind: type[Shelf], gate: str) -> None:
    hung, other = Polled("a", {"1": "one"}), kind("b", {"1": "one"})
    desk.watch(hung, other)
    heard = desk.listen("a:///1", "b:///1", list_changes=True)
    hangs = getattr(hung, gate)
    hangs.shut()
    assert hangs.arrived.acquire(timeout=PATIENCE_S)
    other.put("1", "changed")
    assert hear(heard) == "b:///1"
    other.put("2", "new")
    assert hear(heard) == LIST


def test_a_provider_that_hangs_is_asked_again_when_it_comes_back_and_not_before(desk: Desk) -> None:
    hung, other = Polled("a", {"1": "one"}), Counted("b", {"1": "one"})
    desk.watch(hung, other)
    heard = desk.listen("a:///1", "b:///1")
    hung.fingerprints.shut()
    assert hung.fingerprints.arrived.acquire(timeout=PATIENCE_S)
    asked = hung.fingerprints.calls
    for text in "xyz":
        other.put("1", text)
        assert hear(heard) == "b:///1"

    assert hung.fingerprints.calls == asked
    assert threads() <= 2
    hung.put("1", "changed")
    hung.fingerprints.open()
    assert hear(heard) == "a:///1"


def test_a_provider_that_hangs_where_its_events_end_holds_up_no_other(desk: Desk) -> None:
    hung, other = Watched("a", {"1": "one"}), Eventful("b", {"1": "one"})
    desk.watch(hung, other)
    desk.listen("a:///1", "b:///1")
    assert hung.watched.acquire(timeout=PATIENCE_S)
    assert other.watched.acquire(timeout=PATIENCE_S)
    hung.ending.shut()
    desk.leave()
    assert hung.ending.arrived.acquire(timeout=PATIENCE_S)
    assert other.left.acquire(timeout=PATIENCE_S)
    heard = desk.listen("a:///1", "b:///1")
    until(lambda: other.watched.acquire(blocking=False))
    other.put("1", "changed")

    assert hear(heard) == "b:///1"
    hung.ending.open()
    assert hung.watched.acquire(timeout=PATIENCE_S)
    hung.put("1", "changed")
    assert hear(heard) == "a:///1"


def test_who_begins_to_listen_does_not_wait_for_a_list_that_hangs(desk: Desk) -> None:
    hung, other = Polled("a", {"1": "one"}), Counted("b", {"1": "one"})
    desk.watch(hung, other)
    hung.listings.shut()
    heard = [desk.listen(list_changes=True) for _ in range(3)]
    other.put("2", "new")

    assert [hear(one) for one in heard] == [LIST] * 3
    assert hung.listings.calls <= 2
