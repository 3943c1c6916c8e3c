"""Searches at the same time: none waits for what another one reads or finds, and each finds every edit before it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import Resource, Text
from carrel.core.provider import Document, DocumentChanges, FractionalCeiling, Project, Provider, Route
from carrel.providers.workspace import Workspace
from carrel.search.answers import SearchRequest
from carrel.search.index import Index, IndexUnavailable, SourceText
from carrel.search.query import parse
from carrel.search.reach import reach_of
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from carrel.search.store import IndexStore

PATIENT = SearchSettings(answer_s=FractionalCeiling(60.0))
LONG_S = 30.0
"""Longer than anything here takes, unless it waits for what it should not wait for."""


class Cellar(Provider):
    """One document that nobody can read before the door is open."""

    name = "cellar"
    schemes = ("cellar",)

    def __init__(self) -> None:
        self.is_entered = threading.Event()
        self.door = threading.Event()

    def routes(self) -> Sequence[Route]:
        return (Route("cellar:///wine", self.read_wine, mime_type="text/plain"),)

    def read_wine(self) -> Text:
        self.is_entered.set()
        assert self.door.wait(LONG_S)
        return Text("a bottle of riesling")

    def entries(self, after: str = "") -> Iterator[Resource]:
        del after
        yield Resource("cellar:///wine", "wine", "", "text/plain")

    def document_changes(self, since: object) -> DocumentChanges:
        del since
        return DocumentChanges((Document("cellar:///wine", title="wine", fingerprint="1"),), token=1)


@pytest.fixture(name="desk")
def desk_with_a_cellar(tmp_path: Path) -> tuple[Search, Cellar]:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "plan.txt").write_text("tomatoes in the morning\n")
    cellar = Cellar()
    catalog = Catalog((Workspace(Project(str(tmp_path / "tree"), {"HOME": str(tmp_path)})), cellar))
    search = Search(catalog, str(tmp_path / "index"), PATIENT)
    assert [hit.base for hit in search.search(SearchRequest("tomatoes", "workspace")).hits] == ["workspace:///plan.txt"]
    return search, cellar


def test_a_search_does_not_wait_while_another_one_reads_what_is_new(desk: tuple[Search, Cellar]) -> None:
    search, cellar = desk
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(search.search, SearchRequest("riesling"))
        try:
            assert cellar.is_entered.wait(LONG_S)
            quick = threads.submit(search.search, SearchRequest("tomatoes", "workspace"))
            hits = quick.result(LONG_S).hits
            assert not slow.done()
        finally:
            cellar.door.set()
        assert [hit.base for hit in slow.result(LONG_S).hits] == ["cellar:///wine"]
    assert [hit.base for hit in hits] == ["workspace:///plan.txt"]


def source(number: int, text: str, ticket: int = 0) -> SourceText:
    """Return a document."""
    return SourceText(f"workspace:///{number}.txt", str(number), "workspace", f"{number}.txt", text, ticket=ticket)


def in_time(work: Callable[[], object]) -> object:
    """Return what a function returns on another thread, which must not take long."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(LONG_S)


def test_the_index_answers_while_others_read_it_and_one_writes_it(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    index.put([source(1, "tomatoes")])

    with index.file.reading(), index.file.reading() as reader, index.file.writing() as writer:
        assert reader is not writer
        found = in_time(lambda: [one.uri for one in index.find(parse("tomatoes")).found])

    assert found == ["workspace:///1.txt"]
    index.close()


def test_a_reader_sees_one_state_while_the_index_changes(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    index.put([source(1, "tomatoes")])
    with index.file.reading() as connection:
        (before,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        in_time(lambda: index.put([source(2, "tomatoes"), source(1, "cucumbers")]))
        (after,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        later = index.find(parse("tomatoes")).found
    index.put([source(2, "radishes")])

    assert (before, after) == (1, 1)
    assert [one.uri for one in later] == ["workspace:///2.txt"]
    assert index.find(parse("tomatoes")).found == ()
    index.close()


def test_what_a_later_reader_knows_is_gone_is_not_gone_for_an_earlier_one(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    index.put([source(1, "tomatoes"), source(2, "cucumbers")])
    with index.file.reading() as earlier:
        state = index.state()
        earlier.execute("SELECT count(*) FROM documents").fetchone()
        in_time(lambda: index.put([source(1, "tomatoes again")]))
        assert [one.uri for one in index.find(parse("tomatoes")).found] == ["workspace:///1.txt"]
        found = index._finder.find(earlier, state, parse("tomatoes"), reach=None, limit=10).found

    assert [one.uri for one in found] == ["workspace:///1.txt"]
    index.close()


def test_a_connection_that_is_in_use_outlives_the_file(tmp_path: Path) -> None:
    index = Index(str(tmp_path / "index.db"))
    index.put([source(1, "tomatoes")])

    with index.file.reading() as connection:
        index.reset()
        (held,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    assert (held, index.known()) == (1, {})
    with index.file.reading() as connection:
        index.close()
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)
    with pytest.raises(IndexUnavailable) as caught:
        index.find(parse("tomatoes"))
    assert caught.value.reason == "closed"


def test_a_view_of_an_index_that_was_closed_meanwhile_does_not_close_the_new_one(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    store.open()
    store.put([source(1, "tomatoes")])
    old = store.view(())
    store.close()
    store.open()

    with pytest.raises(IndexUnavailable) as caught:
        old.find(parse("tomatoes"), reach_of(("workspace",)), 10, time.monotonic() + LONG_S)
    store.recover(caught.value, old)

    found = store.view(()).find(parse("tomatoes"), reach_of(("workspace",)), 10, time.monotonic() + LONG_S)
    assert [one.uri for one in found.found] == ["workspace:///1.txt"]
    store.end()


def test_a_text_that_was_read_earlier_never_replaces_a_later_one(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    place = tmp_path / "tree" / "plan.txt"
    place.write_text("tomatoes\n")
    catalog = Catalog((Workspace(Project(str(tmp_path / "tree"), {"HOME": str(tmp_path)})),))
    search = Search(catalog, str(tmp_path / "index"), PATIENT)
    keeper, schemes = search._keeper, frozenset({"workspace"})
    with keeper.lock:
        keeper.refresh(schemes, time.monotonic() + LONG_S)
        [document] = keeper.pending.values()
    with keeper.reading():
        early = keeper.read(document)
        place.write_text("cucumber\n")
        late = keeper.read(document)
        assert early is not None
        assert late is not None
        keeper.put([late])
        keeper.put([early])

    assert keeper.find(parse("cucumber"), reach_of(schemes), 10, time.monotonic() + LONG_S).total == 1
    assert keeper.find(parse("tomatoes"), reach_of(schemes), 10, time.monotonic() + LONG_S).total == 0


def edit_and_search(search: Search, root: Path, who: int, steps: int) -> list[str]:
    """Edit files that nobody else edits, search for what was written, and return what was not as it should be."""
    wrong, before = [], ""
    for step in range(steps):
        digits = "".join("bcdfghjklm"[int(digit)] for digit in f"{who}{step:04d}")
        word, place = f"bed{digits}zq", root / f"{who}-{step % 3}.txt"
        place.write_text(f"{word} common\n")
        found = [hit.base for hit in search.search(SearchRequest(word)).hits]
        if found != [f"workspace:///{place.name}"]:
            wrong.append(f"{word}: {found}")
        if step >= 3 and search.search(SearchRequest(before)).hits:
            wrong.append(f"{before} is still found")
        before = f"bed{''.join('bcdfghjklm'[int(digit)] for digit in f'{who}{max(0, step - 2):04d}')}zq"
    return wrong


def edit_on_threads(root: Path, index: Path, threads: int, steps: int) -> list[str]:
    """Have several threads edit and search at the same time, over one search; return what went wrong."""
    root.mkdir()
    for number in range(40):
        (root / f"other{number}.txt").write_text(f"common filler{number}\n" * 30)
    search = Search(Catalog((Workspace(Project(str(root), {"HOME": str(root)})),)), str(index), PATIENT)
    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(edit_and_search, search, root, who, steps) for who in range(threads)]
        return [line for one in done for line in one.result(600)]


@pytest.mark.slow
def test_edits_are_found_at_once_by_several_threads(tmp_path: Path) -> None:
    assert edit_on_threads(tmp_path / "tree", tmp_path / "index", 4, 6) == []


@pytest.mark.slow
def test_two_thousand_edits_are_found_at_once_by_eight_threads(tmp_path: Path) -> None:
    assert edit_on_threads(tmp_path / "tree", tmp_path / "index", 8, 250) == []


@pytest.mark.slow
def test_an_edit_while_the_index_is_built_is_never_overwritten_by_what_the_builder_read(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for number in range(300):
        (root / f"{number}.txt").write_text(f"common early{number}\n" * 20)
    search = Search(Catalog((Workspace(Project(str(root), {"HOME": str(root)})),)), str(tmp_path / "index"), PATIENT)
    building = threading.Thread(target=search.build)
    building.start()
    edited = {}
    for number in range(0, 300, 60):
        word = "late" + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:03d}") + "zq"
        (root / f"{number}.txt").write_text(f"{word}\n")
        edited[word] = f"workspace:///{number}.txt"
        assert [hit.base for hit in search.search(SearchRequest(word)).hits] == [edited[word]]
    building.join(LONG_S)

    assert not building.is_alive()
    assert {word: search.search(SearchRequest(word)).hits[0].base for word in edited} == edited
