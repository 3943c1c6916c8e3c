"""What a caller may have meant: near misses, at a bounded price."""

from collections.abc import Iterator

import pytest

from carrel import Shelf
from carrel.catalog import suggestions
from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.routes import VIEW_NAMES
from carrel.catalog.suggestions import near, nearest
from carrel.core.model import Resource
from carrel.core.provider import Provider, Route
from carrel.providers.objects import serve_object
from carrel.providers.workspace.file_query import FileQuery


def test_the_nearest_names_are_reported_and_folders_too() -> None:
    known = ["workspace:///docs/guide.md", "workspace:///docs/guild.md", "workspace:///src/main.py"]
    assert near("workspace:///guide.md", known) == ["workspace:///docs/guide.md"]
    assert near("workspace:///docz/", known) == ["workspace:///docs/"]
    assert near("workspace:///docs/guide.md", known) == ["workspace:///docs/guild.md"], "never what was asked for"
    assert near("sage:///guide.md", known) == ["workspace:///docs/guide.md"], "the name decides, whatever the scheme"


def test_long_names_are_compared_by_their_beginning() -> None:
    long = "a" * suggestions.MOST_CHARACTERS
    known = [f"workspace:///{long}{'b' * 100}", "workspace:///other"]
    assert near(f"workspace:///{long}{'c' * 5_000}", known) == known[:1]


def test_a_path_may_have_every_query_that_files_and_folders_have() -> None:
    for name in (*FileQuery.__annotations__, *VIEW_NAMES):
        assert suggestions.as_uri(f"src/a b.py?{name}=x") == f"workspace:///src/a%20b.py?{name}=x"
    assert suggestions.as_uri("src/a.py?blame") == "workspace:///src/a.py?blame"
    assert suggestions.as_uri("why?.md") == "workspace:///why%3F.md"


def test_a_misspelt_parameter_of_a_path_is_no_part_of_a_file_name() -> None:
    assert suggestions.as_uri("src/a.py?linse=1-20") == "workspace:///src/a.py?linse=1-20"
    assert suggestions.as_uri("a.py?lines=1&x y=2") == "workspace:///a.py%3Flines=1&x%20y=2"


def test_in_place_of_a_folder_that_cannot_be_read_what_it_holds_is_reported() -> None:
    known = ["garden://beds/north", "garden://beds/south", "garden://tools"]
    assert near("garden://bed", known, lambda _: False) == ["garden://beds/north", "garden://beds/south"]
    assert near("garden://bed", known) == ["garden://beds/"]


def test_a_folder_of_a_shelf_is_not_offered_since_it_cannot_be_read() -> None:
    shelf = Shelf("garden")
    shelf.resource("garden://beds/{bed}", entries=lambda: ["north", "south"])(lambda bed: bed)
    catalog = Catalog([serve_object(shelf)])

    assert nearest(catalog, "garden://beds") == ["garden://beds/north", "garden://beds/south"]


def test_a_large_provider_is_not_looked_through_for_the_names_of_others() -> None:
    taken = []

    class Large(Provider):
        name = "large"
        schemes = ("large",)

        def routes(self) -> tuple[Route, ...]:
            return ()

        def entries(self, after: str = "") -> Iterator[Resource]:
            for number in range(3 * suggestions.MOST_COMPARED):
                taken.append(number)
                yield Resource(f"large://{number:08}", "x")

    garden = Shelf("garden")
    garden.resource("garden://parsley")(lambda: "green")
    catalog = Catalog([Large(), serve_object(garden, "garden")])

    assert nearest(catalog, "large://parsly") == ["garden://parsley"]
    assert len(taken) <= suggestions.MOST_COMPARED


def test_guesses_in_a_row_list_the_entries_once_and_a_limited_caller_gets_only_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists = []

    class Garden(Provider):
        name = "garden"
        schemes = ("garden",)

        def routes(self) -> tuple[Route, ...]:
            return ()

        def entries(self, after: str = "") -> Iterator[Resource]:
            lists.append(after)
            yield Resource("garden://beds/north", "north")

    shed = Shelf("shed")
    shed.resource("shed://northern")(lambda: "dusty")
    catalog = Catalog([Garden(), serve_object(shed, "shed")])
    now = 100.0
    monkeypatch.setattr(suggestions, "monotonic", lambda: now)

    for guess in ("nord", "nort", "norh"):
        assert nearest(catalog, f"garden://beds/{guess}")[0] == "garden://beds/north"
    assert len(lists) == 1
    with ActingAs(Access("ann", frozenset({"shed:read"}))):
        assert nearest(catalog, "garden://beds/north") == ["shed://northern"]
    now += suggestions.LISTED_S + 0.1

    assert nearest(catalog, "garden://beds/nord")[0] == "garden://beds/north"
    assert len(lists) == 2
