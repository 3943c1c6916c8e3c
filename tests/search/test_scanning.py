"""A text that is not indexed yet is found by the same words as an indexed one."""

from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.provider import FractionalCeiling, Project
from carrel.providers.workspace import Workspace
from carrel.search import scanning
from carrel.search.answers import SearchRequest
from carrel.search.search import Search
from carrel.search.settings import SearchSettings
from carrel.search.sources import path_of
from tests.support.waiting import until

CASES = [
    ("library", "The Libraries open at nine."),
    ("libraries", "A library of seeds."),
    ("queries", "one query"),
    ("caching", "it was cached"),
    ("organise", "an organization of gardeners"),
    ("parseConfig", "def parse_config():"),
    ("parse_configs", "ParseConfig()"),
    ("parseconfig", "PARSE-CONFIG"),
    ("Größe", "Die GRÖSSE der Beete"),
    ("größe", "die grosse Wiese"),
    ("grosse", "Die Größe"),
    ("GRÖẞE", "größe"),
    ("cafe", "Cafe\N{COMBINING ACUTE ACCENT} au lait"),
    ("İstanbul", "istanbul"),
    ("設定", "設定ファイルを読み込む"),
    ('"die  größe"', "Die GRÖßE"),
    ("/[Gg]röße/", "Größe"),
]


def found(search: Search, query: str) -> list[str]:
    """Return the names of the files that a query finds."""
    return [path_of(hit.base) for hit in search.search(SearchRequest(query)).hits]


@pytest.fixture(name="search")
def search_of_many_files(tmp_path: Path) -> Search:
    """Return a search with more files than are indexed at once."""
    for number in range(scanning.FEW + 1):
        (tmp_path / f"{number}.txt").write_text("tomatoes and basil\n")
    project = Project(str(tmp_path), {"HOME": str(tmp_path)})
    settings = SearchSettings(answer_s=FractionalCeiling(60.0))
    return Search(Catalog((Workspace(project),)), None, settings)


@pytest.mark.parametrize(("query", "text"), CASES)
def test_a_text_is_found_by_the_same_words_before_and_after_it_is_indexed(
    search: Search, tmp_path: Path, query: str, text: str
) -> None:
    (tmp_path / "sought.txt").write_text(f"{text}\n")

    before = found(search, query)
    search.build()

    assert (before, found(search, query)) == (["sought.txt"], ["sought.txt"])


def test_what_was_only_read_for_a_search_is_indexed_afterwards(search: Search) -> None:
    answer = search.search(SearchRequest("pumpkins"))

    assert (answer.coverage.is_partial, answer.coverage.is_behind) == (False, True)
    until(lambda: search.facts()["indexed"] == scanning.FEW + 1)
    assert search.search(SearchRequest("pumpkins")).coverage.is_behind is False


@pytest.mark.parametrize(("query", "name"), [("library", "Libraries.txt"), ("groß", "die_GROẞ_e.txt")])
def test_a_file_is_found_by_its_name_alone_before_and_after_it_is_indexed(
    search: Search, tmp_path: Path, query: str, name: str
) -> None:
    (tmp_path / name).write_text("pumpkins\n")

    before = found(search, query)
    search.build()

    assert (before, found(search, query)) == ([name], [name])
