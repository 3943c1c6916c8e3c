"""The page of a search: hits with context, filters, addresses to share, and queries that mean harm."""

import pytest

from carrel.core.record import replace
from carrel.explorer.searching import _filtered
from carrel.search.answers import Coverage, SearchAnswer, SearchRequest
from carrel.search.query import Query, QueryFilter, parse
from carrel.search.search import Search
from tests.support.explorer_desk import Browsed


def test_a_search_shows_hits_with_their_lines_and_marks(browsed: Browsed) -> None:
    page = browsed.page("/-/search?q=garden")

    assert 'data-uri="workspace:///README.md' in page
    assert "<mark>Garden</mark>" in page
    assert 'href="/workspace/README.md#L1"' in page
    assert 'value="garden"' in page


def test_a_search_without_words_shows_how_to_search_and_one_without_hits_says_so(browsed: Browsed) -> None:
    assert "a regular expression" in browsed.page("/-/search")
    assert "No hits for" in browsed.page("/-/search?q=zyzzyva")


@pytest.mark.parametrize("query", ["garden", "zyzzyva"])
def test_a_search_says_how_much_of_what_may_be_more_was_searched(
    browsed: Browsed, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    whole = Search.search

    def in_part(self: Search, asked: SearchRequest) -> SearchAnswer:
        return replace(whole(self, asked), coverage=Coverage(1, 2, is_counted=False))

    monkeypatch.setattr(Search, "search", in_part)

    assert "; 1 of more than 2 documents are searched so far" in browsed.page(f"/-/search?q={query}")


def test_filters_narrow_the_hits_and_stay_in_the_form(browsed: Browsed) -> None:
    page = browsed.page("/-/search?q=main&path=lib&scheme=workspace")

    assert "workspace:///lib/main.py" in page
    assert '<option value="workspace" selected>' in page
    assert 'value="lib"' in page
    assert "data-uri" not in browsed.page("/-/search?q=main&scheme=logs")


def test_a_query_that_is_not_understood_says_why(browsed: Browsed) -> None:
    reply = browsed.get("/-/search?q=lang%3Apythn")

    assert reply.status == 400
    assert b'class="warn"' in reply.body
    assert b"lang:python" in reply.body


def test_programs_get_the_json_that_they_always_got(browsed: Browsed) -> None:
    assert browsed.get("/-/search?q=garden", {"accept": "*/*"}).json["hits"]
    assert browsed.get("/-/search.json?q=garden", {"accept": "*/*"}).json["hits"]
    assert b"workspace:///README.md" in browsed.get("/-/search.md?q=garden", {"accept": "*/*"}).body


@pytest.mark.parametrize("query", ['"><script>alert(1)</script>', "'><img src=x>", "{{7*7}}", "</title><script>"])
def test_a_query_is_never_html(browsed: Browsed, query: str) -> None:
    from urllib.parse import quote

    reply = browsed.get(f"/-/search?q={quote(query, safe='')}&path={quote(query, safe='')}")

    assert b"<script>" not in reply.body
    assert b"<img src=x" not in reply.body
    assert b"49" not in reply.body.partition(b"<main")[2].partition(b"</main>")[0]


def test_a_caller_finds_only_what_they_may_read(guarded: Browsed) -> None:
    assert "README.md" in guarded.page("/-/search?q=garden", caller="all")
    assert "README.md" not in guarded.page("/-/search?q=garden", caller="logs")


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("lend book", Query("", words=("lend", "book"))),
        ('"no such host"', Query("", phrases=("no such host",))),
        ("/lend|book/", Query("", expression="lend|book")),
        ("/api/users", Query("", words=("api", "users"))),
        ('"api users', Query("", words=("api", "users"))),
        ("lang:python", Query("", filters=(QueryFilter("lang", "python"),))),
    ],
)
@pytest.mark.parametrize("path", ["src/", "my notes/", '"my notes/"'])
def test_the_field_for_a_path_is_a_filter_beside_every_query(query: str, meant: Query, path: str) -> None:
    parsed = parse(_filtered(query, path))

    assert parsed.filters == (QueryFilter("path", path.strip('"')), *meant.filters)
    assert (parsed.words, parsed.phrases, parsed.expression) == (meant.words, meant.phrases, meant.expression)
    assert parsed.notes == parse(query).notes


@pytest.mark.parametrize("path", ["", " ", '"'])
def test_an_empty_field_for_a_path_is_no_filter(path: str) -> None:
    assert _filtered("garden", path) == "garden"


def test_a_path_with_a_slash_in_the_query_is_narrowed_by_the_field(browsed: Browsed) -> None:
    page = browsed.page("/-/search?q=%2Fdef%2Fmain&path=lib%2F")

    assert "workspace:///lib/main.py" in page
