"""Laws of paging: whatever comes and goes between pages, what stayed is given once, in order, and the pages end."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadCursor
from carrel.core.model import Resource
from tests.support.memory_provider import Newest, Shelf

PATHS = st.integers(0, 30).map(str)


class Fronted(Shelf):
    """A Shelf whose paths below ten stand in front of everybody's."""

    def entries(self, after: str = "") -> Iterator[Resource]:
        listed = [(len(uri.rpartition("/")[2]), uri) for uri in self._sorted]
        for length, uri in sorted(listed):
            if f"{length}{uri}" > after:
                yield Resource(uri, uri, sort_key=f"{length}{uri}", pinned=length == 1)


def make_catalog() -> tuple[Catalog, list[Shelf]]:
    shelves = [Fronted("c"), Shelf("b"), Newest("n"), Fronted("a")]
    return Catalog(shelves), shelves


class Walk(RuleBasedStateMachine):
    """Pages through a list while entries come and go."""

    @initialize(present=st.sets(st.tuples(st.integers(0, 3), PATHS)), step=st.integers(1, 7))
    def begin(self, present: set[tuple[int, str]], step: int) -> None:
        self.catalog, self.shelves = make_catalog()
        for shelf, path in present:
            self.shelves[shelf].put(path)
        self.step = step
        self.cursor: str | None = ""
        self.seen: list[str] = []
        self.stayed = {entry.uri for entry in self.catalog.entries()}
        self.ever = set(self.stayed)

    @rule(shelf=st.integers(0, 3), path=PATHS)
    def put(self, shelf: int, path: str) -> None:
        self.shelves[shelf].put(path)
        self.ever.add(self.shelves[shelf].uri(path))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        present = [(shelf, uri) for shelf in self.shelves for uri in shelf.uris()]
        if present:
            shelf, uri = data.draw(st.sampled_from(present))
            shelf.remove(uri.rpartition("/")[2])
            self.stayed.discard(uri)

    @precondition(lambda self: self.cursor is not None)
    @rule()
    def turn_the_page(self) -> None:
        page = self.catalog.page(self.cursor, self.step)
        self.seen += [entry.uri for entry in page.entries]
        self.cursor = page.next_cursor
        assert len(page.entries) == self.step or self.cursor is None
        if self.cursor is None:
            assert self.stayed <= set(self.seen)

    @invariant()
    def nothing_is_repeated_or_invented(self) -> None:
        if hasattr(self, "seen"):
            assert len(self.seen) == len(set(self.seen))
            assert set(self.seen) <= self.ever

    @invariant()
    def what_stayed_is_given_in_the_order_of_the_list(self) -> None:
        if hasattr(self, "seen"):
            listed = [entry.uri for entry in self.catalog.entries() if entry.uri in self.stayed]
            seen = [uri for uri in self.seen if uri in self.stayed]
            assert seen == listed[: len(seen)]

    def teardown(self) -> None:
        """Follow the pages to their end, which must come."""
        for _ in range(200):
            if getattr(self, "cursor", None) is None:
                return
            self.turn_the_page()
        raise AssertionError("the pages never end")


TestWalk = Walk.TestCase
TestWalk.settings = settings(stateful_step_count=30)


@given(present=st.sets(st.tuples(st.integers(0, 3), PATHS)), step=st.integers(1, 9))
def test_pages_joined_are_the_whole_list(present: set[tuple[int, str]], step: int) -> None:
    catalog, shelves = make_catalog()
    for shelf, path in present:
        shelves[shelf].put(path)
    joined: list[Resource] = []
    cursor: str | None = None
    for _ in range(len(present) + 1):
        page = catalog.page(cursor, step)
        joined += page.entries
        cursor = page.next_cursor
        if cursor is None:
            break

    assert (joined, cursor) == (list(catalog.entries()), None)


@given(text=st.text())
def test_no_cursor_makes_a_page_raise_anything_else(text: str) -> None:
    catalog, _ = make_catalog()
    for ask in (catalog.page, catalog.templates):
        try:
            ask(text)
        except BadCursor:
            continue
        assert text == ""


@given(
    before=st.sets(st.tuples(st.integers(0, 3), PATHS)),
    after=st.sets(st.tuples(st.integers(0, 3), PATHS)),
    step=st.integers(1, 9),
    bound=st.integers(1, 60),
)
def test_a_page_of_the_short_list_goes_on_where_the_last_one_ended_whatever_came_and_went(
    before: set[tuple[int, str]], after: set[tuple[int, str]], step: int, bound: int
) -> None:
    catalog, shelves = make_catalog()
    catalog.max_listed = bound
    for shelf, path in before:
        shelves[shelf].put(path)
    at_first = [entry.uri for entry in catalog.chosen().entries]
    page = catalog.page(None, step)
    first = [entry.uri for entry in page.entries]
    assert first == at_first[:step]
    for shelf, path in before - after:
        shelves[shelf].remove(path)
    for shelf, path in after - before:
        shelves[shelf].put(path)
    if page.next_cursor is None:
        return
    rest = [entry.uri for entry in catalog.page(page.next_cursor, 1_000).entries]
    now = [entry.uri for entry in catalog.chosen().entries]

    assert not set(first) & set(rest)
    assert rest == [uri for uri in now if uri in rest]
    assert len(now) <= bound
    stayed = set(at_first[step:]) & set(now)
    assert stayed <= set(rest)
