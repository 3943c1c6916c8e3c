"""Searching a desk: what is found, for whom, and how it is told."""

import gc
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from carrel.catalog import access
from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument
from carrel.core.provider import Project
from carrel.providers.logs import Logs
from carrel.providers.workspace import Workspace
from carrel.search import expressions, search
from carrel.search.answers import SearchRequest
from carrel.search.rendering import as_text
from carrel.search.requests import SearchArguments
from carrel.search.search import Search
from carrel.search.texts import FreshText, read_text


@pytest.fixture(name="desk")
def small_desk(tmp_path: Path) -> Catalog:
    (tmp_path / "notes.md").write_text("# Garden\n\nThe tomatoes need water.\n")
    (tmp_path / "main.py").write_text("def water_tomatoes():\n    return 'done'\n")
    project = Project(str(tmp_path), {"HOME": str(tmp_path)})
    return Catalog((Workspace(project), Logs(project)))


def found(search: Search, query: str, **asked: object) -> list[str]:
    """Return the URIs of the resources that a query finds."""
    return [hit.base for hit in search.search(SearchRequest(query, **asked)).hits]  # type: ignore[arg-type]


def test_a_word_is_found_in_files(desk: Catalog) -> None:
    search = Search(desk, None)

    assert set(found(search, "tomatoes")) == {"workspace:///notes.md", "workspace:///main.py"}


def test_a_hit_is_a_uri_that_can_be_read(desk: Catalog) -> None:
    [hit, *_] = Search(desk, None).search(SearchRequest("garden")).hits

    assert "Garden" in str(desk.read(hit.uri).items[0])
    assert hit.base == "workspace:///notes.md"


@pytest.mark.parametrize("query", ["pumpkin", '"pumpkin patch"', "/pumpkin/", "/patch$/"])
@pytest.mark.parametrize("above", ["", "a line of the garden\n" * 90, "a line of the garden\r\n" * 60_000])
def test_a_last_line_without_a_line_break_is_found(tmp_path: Path, query: str, above: str) -> None:
    (tmp_path / "plan.txt").write_bytes(f"{above}the pumpkin patch".encode())
    desk = Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),))

    [hit] = Search(desk, None).search(SearchRequest(query), within_s=60.0).hits

    assert [(line.number, line.text) for line in hit.lines] == [(above.count("\n") + 1, "the pumpkin patch")]
    assert hit.last_line == above.count("\n") + 1
    read = read_text(desk, hit.uri)
    assert read is not None
    assert read.text.endswith("the pumpkin patch")


def test_an_empty_query_is_refused(desk: Catalog) -> None:
    with pytest.raises(BadArgument):
        Search(desk, None).search(SearchRequest("  "))


def test_an_unknown_scheme_is_refused_with_the_nearest_one(desk: Catalog) -> None:
    with pytest.raises(BadArgument, match="did you mean workspace"):
        Search(desk, None).search(SearchRequest("garden", scheme="workspac"))
    with pytest.raises(BadArgument, match="did you mean workspace"):
        Search(desk, None).search(SearchRequest("garden", scheme="WORKSPACE"))


@pytest.mark.parametrize("place", [".", "./", "workspace:///"])
def test_the_whole_project_in_place_of_a_scheme_is_refused_with_schemes(desk: Catalog, place: str) -> None:
    with pytest.raises(BadArgument, match=r"(known: .*workspace|did you mean workspace)"):
        Search(desk, None).search(SearchRequest("garden", scheme=place))


@pytest.mark.parametrize("place", ["./my notes/", "my notes", "workspace:///my notes/"])
def test_a_folder_in_place_of_a_scheme_is_refused_with_the_filter_that_works(
    desk: Catalog, tmp_path: Path, place: str
) -> None:
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes/old.md").write_text("garden\n", encoding="utf-8")
    search = Search(desk, None)
    with pytest.raises(BadArgument) as caught:
        search.search(SearchRequest("garden", scheme=place))

    word = 'path:"my notes"'
    assert f"(to search in a folder or file, write {word} in the query)" in str(caught.value)
    assert found(search, f"garden {word}") == ["workspace:///my%20notes/old.md"]


def test_a_caller_finds_only_what_may_be_read(desk: Catalog) -> None:
    search = Search(desk, None)

    with ActingAs(Access("guest", frozenset({"logs:read"}))):
        answer = search.search(SearchRequest("garden"))

    assert access.is_unlimited()
    assert (answer.hits, answer.total, answer.coverage.total) == ((), 0, 0)


def test_an_edit_is_found_by_the_next_search(desk: Catalog, tmp_path: Path) -> None:
    search = Search(desk, None)
    assert found(search, "cucumber") == []

    (tmp_path / "notes.md").write_text("# Garden\n\nThe cucumber needs water.\n")

    assert found(search, "cucumber") == ["workspace:///notes.md"]
    assert found(search, "tomatoes") == ["workspace:///main.py"]


def test_a_last_word_that_no_text_has_is_taken_for_the_begin_of_one(desk: Catalog) -> None:
    search = Search(desk, None)

    for query in ("water tomat", "water_tom", "waterTom", "garden tomatoe"):
        answer = search.search(SearchRequest(query))
        assert {hit.base for hit in answer.hits} >= {"workspace:///main.py"}, query
    [hit] = search.search(SearchRequest("water_tom")).hits
    assert [(line.text, line.marks) for line in hit.lines] == [("def water_tomatoes():", ((4, 18),))]
    assert search.search(SearchRequest("water_tom")).notes == (
        "No text contains water_tom; words that begin with it were searched.",
    )
    assert search.search(SearchRequest("tomatoes")).notes == ()
    assert found(search, "tomat garden") == ["workspace:///notes.md"], "only the last word may be unfinished"


def test_a_word_is_not_completed_by_texts_that_the_caller_may_not_read_or_that_are_gone(
    desk: Catalog, tmp_path: Path
) -> None:
    search = Search(desk, None)
    assert found(search, "tomat")
    with ActingAs(Access("guest", frozenset({"logs:read"}))):
        guest = search.search(SearchRequest("tomat"))
    (tmp_path / "main.py").unlink()
    (tmp_path / "notes.md").unlink()
    answer = search.search(SearchRequest("tomat"))

    assert (guest.hits, guest.notes) == ((), ())
    assert (answer.hits, answer.notes) == ((), ())


def test_a_page_goes_on_after_the_page_before(desk: Catalog, tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number}.txt").write_text("the same words\n")
    search = Search(desk, None)

    every: list[str] = []
    answer = search.search(SearchRequest("same words"))
    while answer.next:
        every += [hit.base for hit in answer.hits]
        answer = search.search(SearchRequest("same words", after=answer.next))
    every += [hit.base for hit in answer.hits]

    assert len(every) == len(set(every)) == 25


def test_a_place_that_no_answer_named_is_refused(desk: Catalog) -> None:
    with pytest.raises(BadArgument, match="the value that the previous page returned"):
        Search(desk, None).search(SearchRequest("garden", after="nonsense"))


def test_a_first_search_reports_progress_even_if_it_completes_the_index(desk: Catalog) -> None:
    search = Search(desk, None)
    first: list[tuple[float, float | None]] = []
    second: list[tuple[float, float | None]] = []

    search.search(SearchRequest("tomatoes"), lambda done, total, _: first.append((done, total)))
    search.build()
    search.search(SearchRequest("tomatoes"), lambda done, total, _: second.append((done, total)))

    assert first[0] == (0, 2)
    assert second == []


def test_a_next_page_is_named_only_if_it_has_a_hit(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"{number}.md").write_text("Tomatoes\n" if number in (1, 4) else "tomatoes\n")
    search = Search(Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),)), None)

    first = search.search(SearchRequest(r"/Tomat\w+/", limit=1))
    second = search.search(SearchRequest(r"/Tomat\w+/", limit=1, after=first.next))

    assert (len(first.hits), first.next, first.is_total_least) == (1, "1", True)
    assert (len(second.hits), second.next, second.total) == (1, "", 2)


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_collected_after_a_search_as_before(desk: Catalog, is_on: bool) -> None:
    search = Search(desk, None)
    if not is_on:
        gc.disable()
    try:
        search.search(SearchRequest("tomatoes"))
        assert gc.isenabled() is is_on
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("query", "is_cut"),
    [("/me[^l]+on;/", True), ('"{"', False), (r"/>\s\S+\}/", True), ("/melon/", False), ("melon", False)],
)
def test_an_answer_whose_time_ends_before_every_text_is_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, is_cut: bool
) -> None:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text("a melon -> b {\n")
    engine = Search(Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),)), None)
    engine.build()
    began, reads = monotonic(), list[int]()

    def slow_read(*given: Any, **options: Any) -> FreshText | None:
        reads.append(1)
        return read_text(*given, **options)

    monkeypatch.setattr(search, "read_text", slow_read)
    monkeypatch.setattr(search, "monotonic", lambda: began + len(reads) / 4)
    answer = engine.search(SearchRequest(query, limit=1), within_s=1.0)
    asked = SearchArguments(query, limit=1)

    advice = (
        "The time was up before all possible texts were read. Narrow the search with path: or lang:, "
        "or use a longer phrase or expression."
    )
    assert (advice in answer.notes) == is_cut
    assert answer.is_total_least == (query != "melon")
    assert as_text(answer, asked)[0].startswith("No hits so far for" if is_cut else "[hit 1 of ")
    engine.close()


def test_an_expression_that_takes_long_in_each_text_ends_soon_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text("a melon -> b {\n")
    engine = Search(Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),)), None)
    engine.build()
    began, reads = monotonic(), list[int]()

    def slow_read(*given: Any, **options: Any) -> FreshText | None:
        reads.append(1)
        return read_text(*given, **options)

    monkeypatch.setattr(search, "read_text", slow_read)
    monkeypatch.setattr(search, "monotonic", lambda: began + len(reads) * 3)
    answer = engine.search(SearchRequest("/me[^l]+on;/"), within_s=1.0)

    assert (len(reads), answer.hits, answer.is_total_least) == (1, (), True)


def test_an_answer_says_that_an_expression_took_too_long_in_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("ab" * 400_000)
    engine = Search(Catalog((Workspace(Project(str(tmp_path), {"HOME": str(tmp_path)})),)), None)
    monkeypatch.setattr(expressions, "_WINDOWS_S", -1.0)

    answer = engine.search(SearchRequest(r"/(\w{1,60}a){10}c/"))

    assert answer.hits == ()
    assert answer.notes[0].startswith("The time was up before all possible texts were read.")
    assert answer.is_total_least
