"""The first look at a tree may take long; an answer does not wait for its end."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import NotFound
from carrel.core.model import Reading, Text
from carrel.core.provider import Document, FractionalCeiling, Provider, Route
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from tests.support.waiting import until

PATIENT = SearchSettings(answer_s=FractionalCeiling(60.0))
HURRY = SearchSettings(answer_s=FractionalCeiling(0.6))


class SlowTree(Provider):
    """Files of which some are found only when a test lets them be."""

    name = "slow"
    schemes = ("slow",)

    def __init__(self, early: Sequence[str], late: Sequence[str]) -> None:
        self.early, self.late = early, late
        self.go_on = threading.Event()
        self.looks = 0

    def routes(self) -> Sequence[Route]:
        """Return the one route."""
        return (Route("slow://{name}", self.read_one),)

    def read_one(self, name: str) -> Reading:
        """Read a file."""
        if name not in (*self.early, *self.late):
            raise NotFound(f"slow://{name}")
        return Reading((Text(f"{name} has walruses\n"),))

    def documents(self) -> Iterator[Document]:
        """Yield the early files at once, and the others later."""
        self.looks += 1
        yield from (Document(f"slow://{name}", "1", name) for name in self.early)
        self.go_on.wait()
        yield from (Document(f"slow://{name}", "1", name) for name in self.late)


class Shelf(Provider):
    """Documents that a test puts there; it notes the threads that ask for them."""

    name = "shelf"
    schemes = ("shelf",)

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.threads: list[threading.Thread] = []

    def routes(self) -> Sequence[Route]:
        """Return the one route."""
        return (Route("shelf://{name}", self.read_one),)

    def read_one(self, name: str) -> Reading:
        """Read a text."""
        if name not in self.texts:
            raise NotFound(f"shelf://{name}")
        return Reading((Text(self.texts[name]),))

    def documents(self) -> Iterator[Document]:
        """Yield the documents."""
        self.threads.append(threading.current_thread())
        yield from [Document(f"shelf://{name}", text, name) for name, text in self.texts.items()]


def test_a_provider_that_answers_quickly_is_asked_without_a_thread_and_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, files = Shelf(), SlowTree(["a"], [])
    files.go_on.set()
    search = Search(Catalog((shelf, files)), str(tmp_path / "index"), PATIENT)
    for _ in range(4):
        assert search.search(SearchRequest("walruses")).total == 1
    compared: list[object] = []
    compare_all = search._keeper._compare_all

    def noted(*given: object) -> None:
        compared.append(given)
        compare_all(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(search._keeper, "_compare_all", noted)
    shelf.threads.clear()

    assert search.search(SearchRequest("walruses")).total == 1
    assert (shelf.threads, compared) == ([threading.current_thread()], [])
    shelf.texts["one"] = "two walruses"
    assert search.search(SearchRequest("walruses")).total == 2
    shelf.texts.clear()
    assert search.search(SearchRequest("walruses")).total == 1
    assert compared == []


def test_what_an_empty_provider_held_when_the_index_was_made_is_gone(tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.texts["one"] = "two walruses"
    first = Search(Catalog((shelf,)), str(tmp_path / "index"), PATIENT)
    assert first.search(SearchRequest("walruses")).total == 1
    first.close()
    shelf.texts.clear()
    again = Search(Catalog((shelf,)), str(tmp_path / "index"), PATIENT)

    assert again.search(SearchRequest("walruses")).total == 0
    assert again._keeper.store.known() == {}


def test_the_first_search_answers_in_time_with_what_was_found_by_then() -> None:
    tree = SlowTree(["a", "b"], ["c"])
    search = Search(Catalog((tree,)), None, HURRY)
    started = monotonic()

    answer = search.search(SearchRequest("walruses"))

    assert monotonic() - started < 10  # not never
    assert {hit.base for hit in answer.hits} == {"slow://a", "slow://b"}
    assert answer.coverage.is_partial
    assert str(answer.coverage) == "partial: 2 of more than 2 documents"
    assert any("slow is still being read" in note for note in answer.notes)

    tree.go_on.set()
    until(lambda: len(search.search(SearchRequest("walruses")).hits) == 3)
    assert not search.search(SearchRequest("walruses")).coverage.is_partial


def test_searches_that_come_meanwhile_share_one_look() -> None:
    tree = SlowTree(["a"], ["b"])
    search = Search(Catalog((tree,)), None, HURRY)
    for _ in range(3):
        assert search.search(SearchRequest("walruses")).coverage.is_partial

    assert tree.looks == 1
    tree.go_on.set()


def test_what_is_in_the_index_is_found_while_the_tree_is_looked_at_again(tmp_path: Path) -> None:
    tree = SlowTree(["a"], ["b", "gone"])
    tree.go_on.set()
    first = Search(Catalog((tree,)), f"{tmp_path}/index", HURRY)
    first.build()
    first.close()
    again = SlowTree([], ["b"])
    search = Search(Catalog((again,)), f"{tmp_path}/index", HURRY)

    answer = search.search(SearchRequest("walruses"))

    assert [hit.base for hit in answer.hits] == ["slow://b"]
    assert answer.coverage.is_partial
    again.go_on.set()


def test_building_waits_for_the_look_and_searches_go_on_meanwhile() -> None:
    tree = SlowTree(["a"], ["b"])
    search = Search(Catalog((tree,)), None, HURRY)
    covered: list[int] = []
    building = threading.Thread(target=lambda: covered.append(search.build().searched))
    building.start()

    assert [hit.base for hit in search.search(SearchRequest("walruses")).hits] == ["slow://a"]

    tree.go_on.set()
    building.join(30)
    assert covered == [2]


class Edited(SlowTree):
    """Files that all have the same new text after an edit."""

    version = 1

    def read_one(self, name: str) -> Reading:
        """Read a file."""
        return Reading((Text(f"{name} has walruses in version{'x' * self.version}\n"),))

    def documents(self) -> Iterator[Document]:
        """Yield what is there when it is asked for."""
        self.looks += 1
        yield Document("slow://a", f"{self.version}", "a")
        if self.looks == 1:
            self.go_on.wait()


def test_an_edit_during_the_first_look_is_found_when_it_has_ended() -> None:
    tree = Edited(["a"], [])
    search = Search(Catalog((tree,)), None, HURRY)
    assert search.search(SearchRequest("walruses")).coverage.is_partial
    tree.version = 2
    tree.go_on.set()

    until(lambda: not search.search(SearchRequest("nothing")).coverage.is_partial)

    assert [hit.base for hit in search.search(SearchRequest("versionxx")).hits] == ["slow://a"]
