"""Budgets: an answer never costs more than it may, and what it names leads to everything."""

from collections.abc import Iterator, Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.catalog.catalog import Catalog
from carrel.core.content import NEXT
from carrel.core.model import FOLDER_TYPE, Encoding, Item, Reading, Resource, Stored, Text
from carrel.core.provider import Provider, Route
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import pairs, split_query
from carrel.providers.mirror import Mirror
from carrel.server.requests import Running
from tests.support.memory_provider import Kept

WORDS = st.text(st.sampled_from("abcdefgh XYZ019_./()é字д👍\t"), max_size=60)
LINES = st.lists(WORDS, max_size=60).map("\n".join)
CODE = st.lists(st.integers(0, 9).map(lambda n: f"def name_{n}(a, b):\n    return {n}\n\n\n"), max_size=40).map("".join)
TEXTS = st.one_of(LINES, CODE, LINES.map(lambda text: text * 20), WORDS.map(lambda text: text * 50))
BUDGETS = st.one_of(st.integers(1, 60), st.integers(60, 400), st.integers(400, 5_000))
ENCODINGS: st.SearchStrategy[Encoding] = st.sampled_from(["utf-8", "utf-16le", "utf-16be"])
MAX_STEPS = 3_000


class Shelf(Provider):
    """One text under several URIs, and a folder."""

    name = "shelf"
    schemes = ("shelf",)

    def __init__(self, text: str = "", encoding: Encoding = "utf-8", names: Sequence[str] = ()) -> None:
        self.data = text.encode(encoding)
        self._text = text
        self._encoding = encoding
        self._names = names

    def routes(self) -> Sequence[Route]:
        return (
            Route("shelf://text.py", lambda: Text(self._text, "text/x-python"), name="text"),
            Route("shelf://stored.py", lambda: Stored(Kept(self.data), self._encoding), name="stored"),
            Route("shelf://folder{?after}", self.read_folder, name="folder"),
        )

    def entries(self, after: str = "") -> Iterator[Resource]:
        uris = sorted(f"shelf://folder/{name}" for name in self._names)
        return (Resource(uri, uri.rpartition("/")[2]) for uri in uris if uri > after)

    def read_folder(self, after: str = "0") -> Reading:
        first = int(after)
        names = self._names[first : first + 100]

        def more(count: int) -> str | None:
            return f"shelf://folder?after={first + count}" if first + count < len(self._names) else None

        items: tuple[Item, ...] = tuple(Text("12 bytes", uri=f"shelf://folder/{name}") for name in names)
        return Reading(items or (Text("", FOLDER_TYPE),), more=more)


def number(item: Item, name: str) -> int:
    value = (item.meta or {})[f"dev.carrel/{name}"]
    assert isinstance(value, int)
    return value


def budget_in(uri: str) -> int:
    return int(dict(pairs(split_query(uri)[1] or ""))["budget"])


def steps(catalog: Catalog, uri: str) -> Iterator[tuple[str, Reading]]:
    """Read a URI, and what each answer names as the next, until one names nothing."""
    for _ in range(MAX_STEPS):
        reading = catalog.read(uri)
        yield uri, reading
        following = (reading.items[-1].meta or {}).get(NEXT)
        if not following:
            return
        assert isinstance(following, str)
        uri = following
    raise AssertionError(f"{uri} leads nowhere")


@given(TEXTS, ENCODINGS, BUDGETS)
@settings(deadline=None)
def test_parts_within_a_budget_cost_no_more_and_are_the_whole_together(
    text: str, encoding: Encoding, budget: int
) -> None:
    shelf = Shelf(text, encoding)
    joined = b""

    for uri, reading in steps(Catalog([shelf]), f"shelf://stored.py?budget={budget}"):
        [item] = reading.items
        assert isinstance(item, Text)
        if number(item, "length") == 0 and text and len(joined) < len(shelf.data):  # it says that it cannot be less
            assert "no part fits budget=" in item.text
            assert item.text.count("\n") == 0
            continue
        assert estimate_tokens(item.text) <= budget_in(uri)
        assert number(item, "start") == len(joined)
        part = shelf.data[len(joined) :][: number(item, "length")]
        assert part.decode(encoding) in item.text
        joined += part
        assert len(joined) == len(shelf.data) or str((item.meta or {})[NEXT]) in item.text.splitlines()[-1]

    assert joined == shelf.data


@given(TEXTS, st.integers(1, 40), st.integers(0, 60), BUDGETS)
@settings(deadline=None)
def test_lines_within_a_budget_are_those_lines(text: str, first: int, more: int, budget: int) -> None:
    shelf = Shelf(text)
    joined, ends = "", []

    for _, reading in steps(Catalog([shelf]), f"shelf://text.py?lines={first}-{first + more}&budget={budget}"):
        [item] = reading.items
        assert isinstance(item, Text)
        start = number(item, "start")
        joined += shelf.data[start : start + number(item, "length")].decode()
        ends.append(len(joined))

    # The last part of the lines leads on to what follows them, as the same lines without a budget do.
    lines = text.split("\n")
    wanted = "\n".join([*lines[first - 1 : first + more], *([""] if first + more < len(lines) else [])])
    assert joined.startswith(wanted)
    assert len(wanted) in [0, *ends]


@given(CODE, BUDGETS)
@settings(deadline=None)
def test_an_outline_within_a_budget_costs_no_more_and_leads_to_all_of_it(text: str, budget: int) -> None:
    catalog = Catalog([Shelf(text)])
    [everything] = catalog.read("shelf://text.py?outline=all").items
    assert isinstance(everything, Text)
    parts = []

    for uri, reading in steps(catalog, f"shelf://text.py?outline&budget={budget}"):
        [item] = reading.items
        assert isinstance(item, Text)
        assert estimate_tokens(item.text) <= budget_in(uri) or "no part fits" in item.text
        parts.append(item)

    assert parts[-1].text.removesuffix("\n").endswith(everything.text[-20:].removesuffix("\n"))


@given(st.integers(0, 250), BUDGETS, st.integers(1, 40))
@settings(deadline=None)
def test_a_folder_within_a_budget_shows_every_child_in_the_end(count: int, budget: int, length: int) -> None:
    names = [f"{'n' * length}{number}" for number in range(count)]
    catalog = Catalog([Shelf(names=names)])
    read = partial(Mirror(catalog).call, "read_resource", call=Running(lambda: None))
    shown: list[str] = []

    for uri, reading in steps(catalog, f"shelf://folder?budget={budget}"):
        [told] = read({"uri": uri}).blocks
        assert isinstance(told, str)
        assert estimate_tokens(told) <= budget_in(uri) or "children fit budget=" in told
        shown += [item.uri.rpartition("/")[2] for item in reading.items if item.uri is not None]

    assert shown == names


@given(st.integers(1, 150), BUDGETS)
@settings(deadline=None)
def test_a_list_within_a_budget_shows_every_entry_in_the_end(count: int, budget: int) -> None:
    catalog = Catalog([Shelf(names=[f"{number:03}" for number in range(count)])])
    call = partial(Mirror(catalog).call, "list_resources", call=Running(lambda: None))
    shown: list[str] = []
    cursor: object = None

    for _ in range(MAX_STEPS):
        result = call({"budget": budget, **({"cursor": cursor} if cursor else {})})
        [text] = result.blocks
        assert isinstance(text, str)
        if text.startswith("[no entry fits budget="):
            budget = int(text.rpartition("budget=")[2].rstrip("]"))
            continue
        assert estimate_tokens(text) <= budget
        shown += [line.partition("  ")[0] for line in text.splitlines() if not line.startswith("[")]
        cursor = (result.meta or {}).get(NEXT)
        assert not cursor or str(cursor) in text.splitlines()[-1]
        if not cursor:
            break

    assert shown == [f"shelf://folder/{number:03}" for number in range(count)]
