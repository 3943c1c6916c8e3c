"""Which URIs changed, and who is notified: by events, by fingerprints, merged, and never after the end."""

import queue
import threading
from collections.abc import Callable, Iterator
from time import monotonic, thread_time

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import LIST, UNCHANGED_LIST, Subscription, Watcher
from carrel.core.errors import BadArgument, NotFound, ProviderError
from carrel.core.provider import Changes
from tests.support.memory_provider import Counted, Eventful, Shelf
from tests.support.waiting import PATIENCE_S, has_thread, until

POLL_S = 0.005


class Ear:
    """Hears what one subscription is told, and when."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()

    def __call__(self, what: str) -> None:
        self._heard.put((what, monotonic()))

    def next(self) -> str:
        return self.next_at()[0]

    def next_at(self) -> tuple[str, float]:
        return self._heard.get(timeout=PATIENCE_S)

    def is_silent(self) -> bool:
        return self._heard.empty()


@pytest.fixture
def made() -> Iterator[list[Subscription]]:
    """Collect subscriptions, so that they end with the test."""
    subscriptions: list[Subscription] = []
    yield subscriptions
    for subscription in subscriptions:
        subscription.close()


Listen = Callable[..., Ear]


@pytest.fixture
def listen(made: list[Subscription]) -> Listen:
    def begin(watcher: Watcher, *uris: str, list_changes: bool = False) -> Ear:
        ear = Ear()
        subscription = watcher.subscribe(ear, uris, list_changes=list_changes)
        made.append(subscription)
        subscription.start()
        return ear

    return begin


def watcher_of(*shelves: Shelf) -> Watcher:
    return Watcher(Catalog(shelves), POLL_S)


@pytest.mark.parametrize("kind", [Shelf, Counted, Eventful])
def test_a_change_is_reported_however_it_is_noticed(kind: type[Shelf], listen: Listen) -> None:
    shelf = kind("a", {"1": "one", "2": "two"})
    ear = listen(watcher_of(shelf), "a:///1")
    shelf.put("2", "nobody asked")
    shelf.put("1", "changed")

    assert ear.next() == "a:///1"


def test_a_change_is_reported_in_the_spelling_that_was_subscribed(listen: Listen) -> None:
    shelf = Shelf("a", {"1": "one"})
    watcher = watcher_of(shelf)
    spellings = ["a:///1", "A:///1", "a:///%31", "a:///1?start=0&length=1", "a:///1?"]
    ears = [listen(watcher, uri) for uri in spellings]
    shelf.put("1", "changed")

    assert [ear.next() for ear in ears] == spellings


def test_a_change_of_a_variant_is_reported_to_each_variant(listen: Listen) -> None:
    watcher = watcher_of(Shelf("a", {"1": "one"}))
    ears = [listen(watcher, uri) for uri in ("a:///1", "a:///1?length=1", "a:///1?start=2")]
    watcher.updated("a:///1?length=9")

    assert [ear.next() for ear in ears] == ["a:///1", "a:///1?length=1", "a:///1?start=2"]


def test_a_subscriber_hears_only_of_what_it_subscribed_to(listen: Listen) -> None:
    shelf = Eventful("a", {"1": "one", "2": "two"})
    watcher = watcher_of(shelf)
    first, second = listen(watcher, "a:///1"), listen(watcher, "a:///2")
    for path in ("1", "1/x", "2", "3"):
        shelf.put(path, "changed")

    assert (first.next(), second.next()) == ("a:///1", "a:///2")
    assert (first.is_silent(), second.is_silent()) == (True, True)


class Fingerprinted(Eventful, Counted):
    """A shelf that reports its changes, and can be asked too."""


@pytest.mark.parametrize("below", ["a:///later", "a:///later/"])
def test_only_what_was_or_is_below_is_reported_when_all_below_comes_or_goes(listen: Listen, below: str) -> None:
    shelf = Fingerprinted("a", {"later/goes": "1", "later/stays": "2", "later-not": "3", "z": "4"})
    watcher = watcher_of(shelf)
    ear = listen(watcher, "a:///later/never", "a:///later/goes", "a:///later/stays", "a:///later-not", "a:///z")
    shelf.put("z", "bell")
    assert ear.next() == "a:///z"  # so the first look at everything is over
    Shelf.remove(shelf, "later/goes")
    watcher.updated_below(below)
    gone = {ear.next(), ear.next()}
    watcher.updated_below(below)
    again = ear.next()
    watcher.reconsidered(below)
    Shelf.put(shelf, "later/stays", "changed")
    watcher.reconsidered(below)
    changed = ear.next()
    shelf.put("z", "bell")

    assert gone == {"a:///later/goes", "a:///later/stays"}
    assert (again, changed, ear.next()) == ("a:///later/stays", "a:///later/stays", "a:///z")


def test_a_list_that_changes_is_reported_to_those_who_asked(listen: Listen) -> None:
    shelf = Counted("a", {"1": "one"})
    watcher = watcher_of(shelf)
    with_list, without = listen(watcher, list_changes=True), listen(watcher, "a:///1")
    shelf.put("2")

    assert with_list.next() == LIST
    shelf.put("1", "changed")
    assert without.next() == "a:///1"


def test_a_list_change_is_not_lost_to_one_who_begins_to_listen(listen: Listen) -> None:
    shelf = Counted("a", {"1": "one"})
    watcher = Watcher(Catalog([shelf]), poll_s=60.0)
    early = listen(watcher, list_changes=True)
    until(lambda: shelf.surveys == 2 and not has_thread("carrel-watch-one"))  # so the first look at everything is over
    shelf.put("2")
    late = listen(watcher, list_changes=True)

    assert early.next() == LIST
    assert late.is_silent()


def test_a_list_is_surveyed_only_while_somebody_wants_to_know(listen: Listen) -> None:
    shelf = Counted("a", {"1": "one"})
    ear = listen(watcher_of(shelf), "a:///1")
    for text in "xyz":
        shelf.put("1", text)
        assert ear.next() == "a:///1"

    assert shelf.surveys == 0


def test_what_goes_away_is_reported_once_and_stays_subscribed(listen: Listen) -> None:
    shelf = Counted("a", {"1": "one", "2": "two"})
    ear = listen(watcher_of(shelf), "a:///1", "a:///2", list_changes=True)
    shelf.remove("1")

    assert {ear.next(), ear.next()} == {"a:///1", LIST}
    shelf.put("2", "changed")
    assert ear.next() == "a:///2"
    shelf.put("1", "back")
    assert {ear.next(), ear.next()} == {"a:///1", LIST}


def test_what_does_not_exist_yet_may_be_watched_where_its_provider_says_so(listen: Listen) -> None:
    shelf = Counted("a")
    ear = listen(watcher_of(shelf), "a:///later/1")
    shelf.put("later/1", "now")

    assert ear.next() == "a:///later/1"


@pytest.mark.parametrize("uri", ["a:///none", "other:///x", "nothing", "a:///1?bogus=1", "a:///%zz"])
def test_what_cannot_be_read_is_left_out(uri: str, made: list[Subscription]) -> None:
    made.append(watcher_of(Shelf("a", {"1": "one"})).subscribe(Ear(), [uri, "a:///1"]))

    assert made[0].uris == {"a:///1"}


def test_adding_what_cannot_be_read_raises_what_a_read_would(made: list[Subscription]) -> None:
    made.append(watcher_of(Shelf("a")).subscribe(Ear()))

    with pytest.raises(NotFound):
        made[0].add("a:///none")
    with pytest.raises(BadArgument):
        made[0].add("other:///x")
    assert made[0].uris == set()


# Folding


def test_what_happens_before_the_start_is_reported_once_after_it(made: list[Subscription], listen: Listen) -> None:
    ear = Ear()
    shelf = Eventful("a", {"1": "one", "2": "two"})
    watcher = watcher_of(shelf)
    made.append(watcher.subscribe(ear, ["a:///1", "a:///2"], list_changes=True))
    other = listen(watcher, "a:///1", list_changes=True)
    shelf.put("3", "three")
    for _ in range(100):
        watcher.updated("a:///1")
        watcher.list_changed(shelf)
    assert {other.next(), other.next()} == {"a:///1", LIST}
    assert ear.is_silent()
    made[0].start()

    assert {ear.next(), ear.next()} == {"a:///1", LIST}
    watcher.updated("a:///2")
    assert ear.next() == "a:///2"


def test_a_list_that_is_as_it_was_is_not_reported_as_changed(listen: Listen) -> None:
    shelf = Eventful("a", {"1": "one"})
    watcher = watcher_of(shelf)
    ear = listen(watcher, list_changes=True)
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    watcher.list_changed(shelf)

    assert ear.next() == UNCHANGED_LIST
    shelf.put("2", "two")
    assert ear.next() == LIST


def test_a_change_beyond_the_bound_is_not_reported_as_one_of_the_list(listen: Listen) -> None:
    shelf = Eventful("a", {"1": "one", "2": "two"})
    watcher = Watcher(Catalog([shelf], max_listed=2), POLL_S)
    ear = listen(watcher, list_changes=True)
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    shelf.put("3", "three")

    assert ear.next() == UNCHANGED_LIST
    shelf.put("0", "zero")
    assert ear.next() == LIST


def test_a_provider_says_how_often_its_list_is_reported(listen: Listen) -> None:
    slow, quick = Eventful("slow", {"1": "one"}), Eventful("quick", {"1": "one"})
    slow.list_pause_s = 3_600.0
    watcher = watcher_of(slow, quick)
    ear = listen(watcher, list_changes=True)
    for shelf in (slow, quick):
        assert shelf.watched.acquire(timeout=PATIENCE_S)
    slow.put("2", "two")
    assert ear.next() == LIST
    slow.put("3", "three")
    slow.put("4", "four")
    quick.put("2", "two")

    # What the quick one has changed is told, with what the slow one had; the slow one alone would wait an hour.
    assert ear.next() == LIST
    assert ear.is_silent()


def test_a_burst_is_folded_and_its_last_change_is_reported(listen: Listen) -> None:
    watcher = watcher_of(Eventful("a", {"1": "one"}))
    ear = listen(watcher, "a:///1")
    watcher.updated("a:///1")
    first, first_at = ear.next_at()
    for _ in range(1_000):
        watcher.updated("a:///1")
    second, second_at = ear.next_at()
    watcher.updated("a:///1")
    third, third_at = ear.next_at()

    assert (first, second, third) == ("a:///1",) * 3
    assert second_at - first_at >= 0.2
    assert third_at - second_at >= 0.2


def test_a_burst_of_one_uri_does_not_hold_up_another(listen: Listen) -> None:
    watcher = watcher_of(Eventful("a", {"1": "one", "2": "two"}))
    ear = listen(watcher, "a:///1", "a:///2")
    watcher.updated("a:///1")
    assert ear.next() == "a:///1"
    watcher.updated("a:///1")
    watcher.updated("a:///2")

    assert [ear.next(), ear.next()] == ["a:///2", "a:///1"]


def test_what_a_slow_listener_has_pending_is_bounded(made: list[Subscription]) -> None:
    heard = threading.Semaphore(0)
    go_on = threading.Event()

    def tell(_: str) -> None:
        heard.release()
        go_on.wait(PATIENCE_S)

    shelf = Eventful("a", {"1": "one", "2": "two"})
    watcher = watcher_of(shelf)
    made.append(watcher.subscribe(tell, ["a:///1", "a:///2"], list_changes=True))
    made[0].start()
    watcher.updated("a:///1")
    assert heard.acquire(timeout=PATIENCE_S)
    for _ in range(1_000):
        watcher.updated("a:///1")
        watcher.updated("a:///2")
        watcher.list_changed(shelf)

    assert len(watcher._due) <= 3
    go_on.set()


# Beginning and ending


def test_a_provider_is_watched_only_while_somebody_listens(made: list[Subscription]) -> None:
    shelf = Eventful("a", {"1": "one"})
    watcher = watcher_of(shelf)
    assert not shelf.watched.acquire(blocking=False)
    for _ in range(3):
        made.append(watcher.subscribe(Ear(), ["a:///1"]))
        made[-1].start()
        assert shelf.watched.acquire(timeout=PATIENCE_S)
        assert not shelf.left.acquire(blocking=False)
        made[-1].close()
        assert shelf.left.acquire(timeout=PATIENCE_S)


def test_ending_and_beginning_at_once_keeps_the_provider_watched(made: list[Subscription]) -> None:
    shelf = Eventful("a", {"1": "one"})
    watcher = watcher_of(shelf)
    for turn in range(50):
        ear = Ear()
        made.append(watcher.subscribe(ear, ["a:///1"]))
        made[-1].start()
        shelf.put("1", f"turn {turn}")
        assert ear.next() == "a:///1"
        made[-1].close()


def test_a_change_before_the_events_begin_is_not_lost(listen: Listen) -> None:
    class Late(Eventful):
        begin = threading.Event()

        def watch(self, changes: Changes) -> Callable[[], None]:
            self.begin.wait(PATIENCE_S)
            return super().watch(changes)

    shelf = Late("a", {"1": "one"})
    ear = listen(watcher_of(shelf), "a:///1")
    shelf.put("1", "changed")
    shelf.begin.set()

    assert ear.next() == "a:///1"


class Beginning(Eventful):
    """A Shelf whose events begin when they are let, and that can tell cheaply whether its list changed."""

    def __init__(self, name: str, texts: dict[str, str]) -> None:
        self.begin = threading.Event()
        super().__init__(name, texts)

    def watch(self, changes: Changes) -> Callable[[], None]:
        self.begin.wait(PATIENCE_S)
        return super().watch(changes)

    def list_fingerprint(self) -> str:
        return " ".join(self._sorted)


def test_a_list_change_before_the_events_begin_is_sent_only_to_subscribers_it_concerns(
    made: list[Subscription],
) -> None:
    mine, other = Beginning("mine", {"1": "one"}), Eventful("other")
    watcher = watcher_of(mine, other)
    ears = {scope: Ear() for scope in ("mine:read", "other:read")}
    for scope, ear in ears.items():
        with ActingAs(Access("one", frozenset([scope]))):
            made.append(watcher.subscribe(ear, list_changes=True))
        made[-1].start()
    mine.put("2", "new")
    mine.begin.set()

    assert ears["mine:read"].next() == LIST
    assert ears["other:read"].is_silent()


def test_a_list_change_before_the_events_begin_is_not_lost(listen: Listen) -> None:
    shelf = Beginning("a", {"1": "one"})
    ear = listen(watcher_of(shelf), list_changes=True)
    shelf.put("2", "new")
    shelf.begin.set()

    assert ear.next() == LIST


def test_a_list_that_was_the_same_when_the_events_began_is_not_reported(listen: Listen) -> None:
    shelf = Beginning("a", {"1": "one"})
    watcher = watcher_of(shelf)
    shelf.put("2", "before anybody listened")
    first = listen(watcher, "a:///1", list_changes=True)
    shelf.begin.set()
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    shelf.put("3", "new")
    assert first.next() == LIST
    second = listen(watcher, "a:///1", list_changes=True)
    shelf.put("1", "changed")

    assert (first.next(), second.next()) == ("a:///1", "a:///1")
    assert (first.is_silent(), second.is_silent()) == (True, True)


def test_an_event_is_not_reported_again_by_a_poll(listen: Listen) -> None:
    shelf = Eventful("a", {"1": "one"})
    other = Counted("b", {"2": "two"})
    ear = listen(watcher_of(shelf, other), "a:///1", "b:///2")
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    shelf.put("1", "changed")
    assert ear.next() == "a:///1"
    for text in "xyz":
        other.put("2", text)
        assert ear.next() == "b:///2"

    assert ear.is_silent()


@pytest.mark.parametrize("kind", [Eventful, Counted])
def test_a_list_change_is_sent_only_to_subscribers_it_concerns(
    made: list[Subscription], kind: type[Eventful] | type[Counted]
) -> None:
    mine, other = kind("mine", {"1": "one"}), kind("other", {"1": "one"})
    watcher = watcher_of(mine, other)
    ears = {scope: Ear() for scope in ("mine:read", "mine:tools", "*:read", "other:read")}
    for scope, ear in ears.items():
        with ActingAs(Access("one", frozenset([scope]))):
            made.append(watcher.subscribe(ear, list_changes=True))
        made[-1].start()
    for shelf in (mine, other):
        assert not isinstance(shelf, Eventful) or shelf.watched.acquire(timeout=PATIENCE_S)
    mine.put("2", "new")
    for scope in ("mine:read", "*:read"):
        assert ears[scope].next() == LIST

    assert ears["mine:tools"].next() == UNCHANGED_LIST
    assert ears["other:read"].is_silent()
    other.put("2", "new")
    assert ears["other:read"].next() == LIST


def test_nothing_is_reported_after_the_end(listen: Listen, made: list[Subscription]) -> None:
    shelf = Eventful("a", {"1": "one"})
    watcher = watcher_of(shelf)
    closed, discarded, kept = (listen(watcher, "a:///1") for _ in range(3))
    made[0].close()
    made[1].discard("a:///1")
    made[1].discard("a:///never")
    watcher.updated("a:///1")
    watcher.list_changed(shelf)

    assert kept.next() == "a:///1"
    assert (closed.is_silent(), discarded.is_silent()) == (True, True)


def test_a_watcher_nobody_uses_remembers_nothing(made: list[Subscription]) -> None:
    watcher = watcher_of(Shelf("a", {str(number): "" for number in range(20)}))
    made.append(watcher.subscribe(Ear(), [f"a:///{number}" for number in range(20)], list_changes=True))
    made[0].start()
    for number in range(20):
        watcher.updated(f"a:///{number}")
    made[0].close()

    assert (len(watcher._uris), watcher._due, watcher._subscriptions) == (0, {}, set())


# Providers that break


class Breaking(Counted):
    """Breaks, in a way nobody planned, for URIs that hold `broken`."""

    is_broken = False

    def fingerprint(self, uri: str) -> str | None:
        if self.is_broken and "broken" in uri:
            raise RuntimeError("broken")
        return super().fingerprint(uri)


def test_a_provider_that_breaks_while_polled_delays_no_other(listen: Listen) -> None:
    shelf = Breaking("a", {"broken/1": "", "broken/2": "", "fine": "x"})
    ear = listen(watcher_of(shelf), "a:///broken/1", "a:///broken/2", "a:///fine")
    shelf.is_broken = True
    for text in "xyz":
        shelf.put("fine", f"changed {text}")
        assert ear.next() == "a:///fine"
    shelf.is_broken = False
    shelf.put("broken/1", "mended")

    assert ear.next() == "a:///broken/1"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_provider_that_cannot_be_watched_leaves_the_others_watched(listen: Listen) -> None:
    class Unwatchable(Eventful):
        def watch(self, changes: Changes) -> Callable[[], None]:
            raise RuntimeError("no inotify left")

    shelf = Eventful("b", {"1": "one"})
    ear = listen(watcher_of(Unwatchable("a", {"1": "one"}), shelf), "a:///1", "b:///1")
    assert shelf.watched.acquire(timeout=PATIENCE_S)
    shelf.put("1", "changed")

    assert ear.next() == "b:///1"


def test_a_poll_that_hangs_does_not_hold_up_events(listen: Listen) -> None:
    hangs, go_on = threading.Event(), threading.Event()

    class Hanging(Counted):
        calls = 0

        def fingerprint(self, uri: str) -> str | None:
            self.calls += 1
            if self.calls > 2:
                hangs.set()
                go_on.wait(PATIENCE_S)
            return super().fingerprint(uri)

    shelf = Eventful("b", {"1": "one"})
    ear = listen(watcher_of(Hanging("a", {"1": "one"}), shelf), "a:///1", "b:///1")
    assert hangs.wait(PATIENCE_S)
    shelf.put("1", "changed")

    assert ear.next() == "b:///1"
    go_on.set()


def test_what_another_server_changed_is_compared_first_and_reported_at_once(listen: Listen) -> None:
    class Hanging(Counted):
        is_slow = False
        gate = threading.Event()

        def fingerprint(self, uri: str) -> str | None:
            if self.is_slow and uri.endswith("1"):
                assert self.gate.wait(PATIENCE_S)
            return super().fingerprint(uri)

    shelf = Hanging("a", {"1": "one", "2": "two"})
    watcher = Watcher(Catalog([shelf]), poll_s=3_600)
    ear = listen(watcher, "a:///1", "a:///2")
    shelf.put("1", "changed")
    watcher.look_again("a")
    assert ear.next() == "a:///1"  # the watcher has begun
    shelf.is_slow = True
    shelf.put("2", "changed")

    watcher.look_again("a", frozenset({"a:///2"}))

    try:
        assert ear.next() == "a:///2"
    finally:
        shelf.gate.set()


@pytest.mark.parametrize("compared", [(), ("a:///3",)], ids=["not compared yet", "compared already"])
def test_what_another_server_changed_does_not_wait_for_a_comparison_of_everything(
    listen: Listen, compared: tuple[str, ...]
) -> None:
    class Slow(Counted):
        is_slow = False
        begun, permits = threading.Event(), threading.Semaphore(0)

        def fingerprint(self, uri: str) -> str | None:
            if self.is_slow and not uri.endswith("3"):
                self.begun.set()
                assert self.permits.acquire(timeout=PATIENCE_S)
            return super().fingerprint(uri)

    shelf = Slow("a", {"1": "one", "2": "two", "3": "three"})
    watcher = Watcher(Catalog([shelf]), poll_s=3_600)
    ear = listen(watcher, "a:///1", "a:///2", "a:///3")
    shelf.put("1", "changed")
    watcher.look_again("a")
    assert ear.next() == "a:///1"  # the watcher has begun
    shelf.is_slow = True
    try:
        watcher.look_again("a", frozenset(compared))
        assert shelf.begun.wait(PATIENCE_S)
        shelf.put("3", "changed")
        watcher.look_again("a", frozenset({"a:///3"}))
        shelf.permits.release()  # of three comparisons, the one that runs ends

        assert ear.next() == "a:///3"
    finally:
        shelf.permits.release(100)


def test_the_rest_and_the_list_are_compared_while_changes_of_other_servers_keep_arriving(listen: Listen) -> None:
    class Busy(Counted):
        is_busy = False

        def fingerprint(self, uri: str) -> str | None:
            if self.is_busy and uri.endswith("1"):
                watcher.look_again("a", frozenset({uri}))
            return super().fingerprint(uri)

    shelf = Busy("a", {"1": "one", "2": "two"})
    watcher = Watcher(Catalog([shelf]), poll_s=3_600)
    ear = listen(watcher, "a:///1", "a:///2", list_changes=True)
    shelf.put("1", "changed")
    watcher.look_again("a")
    assert ear.next() == "a:///1"  # the watcher has begun
    shelf.is_busy = True
    try:
        shelf.put("2", "changed")
        shelf.put("3", "new")
        watcher.look_again("a", frozenset({"a:///1"}))

        assert {ear.next(), ear.next()} == {"a:///2", LIST}
    finally:
        shelf.is_busy = False


@pytest.mark.slow
def test_the_cost_of_a_comparison_does_not_grow_with_the_number_of_uris() -> None:
    class Quick(Watcher):
        def _look(self, uri: str, before: str | None) -> str | None:
            return before

    def cost_of_one(number: int) -> float:
        catalog = Catalog([Counted("a")])
        watcher = Quick(catalog)
        nobody = Subscription(watcher, Ear())
        for count in range(number):
            watcher._uris.add(nobody, f"a:///{count}", catalog.mounted[0], "one", set())
        one = watcher._watched(catalog.mounted[0].provider)
        began = thread_time()
        watcher._look_at_all(one, 0.0, with_evented=False)
        return (thread_time() - began) / number

    assert min(cost_of_one(80_000) for _ in range(3)) < 3 * min(cost_of_one(5_000) for _ in range(3))


def remembered(watcher: Watcher) -> set[str]:
    """Return the reported URIs that the watcher keeps for the next poll."""
    return {uri for one in watcher._watched_providers.values() for uri in one.first}


def test_nothing_that_another_server_changes_is_remembered_while_nobody_is_subscribed() -> None:
    watcher = watcher_of(Counted("a", {"1": "one"}))
    for number in range(100):
        watcher.look_again("a", frozenset({f"a:///{number}"}))

    assert remembered(watcher) == set()


def test_of_what_another_server_changes_only_subscribed_uris_are_remembered(listen: Listen) -> None:
    class Hanging(Counted):
        is_slow = False
        begun, gate = threading.Event(), threading.Event()

        def fingerprint(self, uri: str) -> str | None:
            if self.is_slow:
                self.begun.set()
                assert self.gate.wait(PATIENCE_S)
            return super().fingerprint(uri)

    shelf, other = Hanging("a", {"1": "one", "2": "two"}), Counted("b", {"1": "one"})
    watcher = Watcher(Catalog([shelf, other]), poll_s=3_600)
    ear = listen(watcher, "a:///1", "a:///2", "b:///1")
    shelf.put("1", "changed")
    watcher.look_again("a")
    assert ear.next() == "a:///1"  # the watcher has begun
    shelf.is_slow = True
    try:
        watcher.look_again("a")
        assert shelf.begun.wait(PATIENCE_S)
        watcher.look_again("a", frozenset({"a:///1", "a:///2", "a:///3", "b:///1"}))

        assert remembered(watcher) == {"a:///1", "a:///2"}
    finally:
        shelf.gate.set()


def test_what_was_remembered_is_forgotten_with_the_last_subscription() -> None:
    class Hanging(Counted):
        is_slow = False
        begun, gate = threading.Event(), threading.Event()

        def list_fingerprint(self) -> str:
            if self.is_slow:
                self.begun.set()
                assert self.gate.wait(PATIENCE_S)
            return super().list_fingerprint()

    shelf = Hanging("a", {"1": "one"})
    watcher = Watcher(Catalog([shelf]), poll_s=3_600)
    ear = Ear()
    subscription = watcher.subscribe(ear, ["a:///1"], list_changes=True)
    subscription.start()
    shelf.put("1", "changed")
    watcher.look_again("a")
    assert ear.next() == "a:///1"  # the watcher has begun
    shelf.is_slow = True
    watcher.look_again("a")
    assert shelf.begun.wait(PATIENCE_S)
    watcher.look_again("a", frozenset({"a:///1"}))
    subscription.close()
    shelf.gate.set()
    watcher.close()

    assert remembered(watcher) == set()


def test_a_subscription_to_a_uri_that_breaks_leaves_nothing_behind() -> None:
    class Broken(Counted):
        def fingerprint(self, uri: str) -> str | None:
            if uri.endswith("2"):
                raise RuntimeError(uri)
            return super().fingerprint(uri)

    watcher = watcher_of(Broken("a", {"1": "", "2": ""}))
    with pytest.raises(RuntimeError):
        watcher.subscribe(Ear(), ["a:///1", "a:///2"])

    assert len(watcher._uris) == 0


def test_a_subscription_whose_list_cannot_be_surveyed_leaves_nothing_behind() -> None:
    class Unknown(Beginning):
        def list_fingerprint(self) -> str:
            raise OSError("nobody knows")

    shelf = Unknown("a", {"1": "one"})
    watcher = watcher_of(shelf)
    with pytest.raises(ProviderError, match="Internal error"):
        watcher.subscribe(Ear(), ["a:///1"], list_changes=True)

    assert not watcher._subscriptions
    shelf.begin.set()
    watcher.close()


@pytest.mark.parametrize("interval", [0, -1, 1e-9, float("nan"), float("inf"), float("-inf")])
def test_a_provider_is_asked_within_reason_whatever_it_says(interval: float) -> None:
    class Hasty(Counted):
        poll_s = interval

    catalog = Catalog([Hasty()])

    assert 0.01 <= Watcher(catalog)._interval(catalog.mounted[0]) <= 86_400
