"""Finding is complete where it can be, and fast where it cannot."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.errors import BadArgument
from carrel.search import finding
from carrel.search.finding import MAX_ROWS, Candidates
from carrel.search.index import MEMORY, Index, SourceText
from carrel.search.query import parse
from carrel.search.reach import reach_of


def source(path: str, text: str, scheme: str = "workspace", modified_ms: int | None = None) -> SourceText:
    """Return a document."""
    return SourceText(f"{scheme}:///{path}", "1", scheme, path, text, modified_ms=modified_ms)


@pytest.fixture(scope="module", name="desk")
def mixed_desk() -> Index:
    index = Index(MEMORY)
    index.put(
        [
            source("src/http/router.py", "class Router:\n    def add_route(self, path): ...\n"),
            source("src/http/server.ts", "import { Router } from './router'\nnew Router().addRoute('/')\n"),
            source("docs/My Notes.md", "# Router\nHow the router works.\n"),
            source("run/1", "12:00 ERROR router failed to start\n", "logs"),
            source("résumé/Ünïcode.txt", "Grüße aus Köln\n"),
            source("日本.txt", "設定ファイルを読み込む\n"),
        ]
    )
    return index


def paths(index: Index, text: str) -> list[str]:
    """Return what is found, best first."""
    return [found.path for found in index.find(parse(text), limit=50).found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("router path:src/", {"src/http/router.py", "src/http/server.ts"}),
        ("router path:SRC/HTTP", {"src/http/router.py", "src/http/server.ts"}),
        ("router path:*.py", {"src/http/router.py"}),
        ("router path:http/*.ts", {"src/http/server.ts"}),
        ("router path:src/**/router.py", {"src/http/router.py"}),
        ("router path:/src", {"src/http/router.py", "src/http/server.ts"}),
        ("router path:/http", set()),
        ('router path:"my notes"', {"docs/My Notes.md"}),
        ("router path:50%", set()),
        ("router path:src_http", set()),
        ("router -path:src -path:docs", {"run/1"}),
        ("router lang:py lang:ts", {"src/http/router.py", "src/http/server.ts"}),
        ("router -lang:markdown -scheme:logs", {"src/http/router.py", "src/http/server.ts"}),
        ("router scheme:logs", {"run/1"}),
        ("lang:python", {"src/http/router.py"}),
        ("-scheme:workspace", {"run/1"}),
        ("grusse köln", {"résumé/Ünïcode.txt"}),
        ("ファイル", {"日本.txt"}),
        ("unicode", {"résumé/Ünïcode.txt"}),
        ("/router/ path:docs", {"docs/My Notes.md"}),
    ],
)
def test_a_query_finds(desk: Index, text: str, expected: set[str]) -> None:
    assert set(paths(desk, text)) == expected


def test_only_the_schemes_that_are_asked_for_are_found(desk: Index) -> None:
    assert [found.path for found in desk.find(parse("router"), reach=reach_of({"logs"})).found] == ["run/1"]
    assert desk.find(parse("router"), reach=reach_of(())).total == 0


def test_filters_alone_list_documents_the_newest_first() -> None:
    index = Index(MEMORY)
    index.put([source(f"{number}.py", "x", modified_ms=number) for number in (3, 1, 2)])

    assert paths(index, "lang:python") == ["3.py", "2.py", "1.py"]
    assert index.find(parse("lang:python"), limit=1).total == 3


def test_a_removed_document_counts_nowhere() -> None:
    index = Index(MEMORY)
    index.put([source(f"{number}.py", "alpha beta") for number in range(10)])
    index.remove([f"workspace:///{number}.py" for number in range(9)])

    for text in ("alpha", "/alph/", '"alpha beta"', "lang:python", "alpha lang:python"):
        answer = index.find(parse(text))
        assert (answer.total, [found.path for found in answer.found]) == (1, ["9.py"]), text


def test_the_best_lines_are_those_of_the_best_piece() -> None:
    index = Index(MEMORY)
    index.put([source("a.txt", "filler words here\n" * 500 + "the needle is here\n" + "filler words here\n" * 500)])

    (found,) = index.find(parse("needle")).found

    assert found.first_line <= 501 <= found.last_line
    assert found.last_line - found.first_line < 100


@pytest.mark.slow
def test_a_deadline_that_is_over_gives_what_there_is() -> None:
    index = Index(MEMORY)
    index.put([source(f"{number}.txt", f"alpha beta gamma w{number} " * 30) for number in range(3_000)])

    answer = index.find(parse("alpha beta gamma"), deadline=time.monotonic() - 1)

    assert not answer.is_complete
    assert index.find(parse("alpha beta gamma")).is_complete


@pytest.mark.parametrize(
    ("query", "total", "is_complete"),
    [
        ("alpha", 20, False),
        ("rare", 3, True),
        ("rare alpha", 3, False),
        ("rare with", 3, True),
        ("beds", 3, False),
        ('"alpha"', 30, True),
        ("lang:text", 30, True),
    ],
)
def test_a_number_of_documents_that_were_not_all_counted_is_a_least_number(
    monkeypatch: pytest.MonkeyPatch, query: str, total: int, is_complete: bool
) -> None:
    index = Index(MEMORY)
    index.put([source(f"{number}.txt", "alpha") for number in range(27)])
    index.put([source(f"beds/{number}.txt", "alpha") for number in range(3)])
    index.put([source(f"{number}.md", "rare") for number in range(3)])
    monkeypatch.setattr(finding, "MAX_ROWS", 20)
    monkeypatch.setattr(finding, "MAX_MARKED", 3)

    answer = index.find(parse(query), limit=5)

    assert (answer.total, answer.is_complete) == (total, is_complete)


@pytest.mark.parametrize("query", ["router path:src/", "path:src/", '"router" path:src/', "/rout/ path:src/"])
def test_a_deadline_that_is_over_before_the_filters_were_applied_finds_nothing(
    monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    index = Index(MEMORY)
    index.put([source("src/router.py", "router"), source("secret.txt", "router", "sage")])
    monkeypatch.setattr(finding, "_STEPS", 1)

    answer = index.find(parse(query), reach=reach_of({"workspace"}), deadline=time.monotonic() - 1)

    assert answer == Candidates((), 0, is_complete=False, must_verify=parse(query).must_verify)


@pytest.mark.slow
def test_common_words_do_not_make_it_slow() -> None:
    index = Index(MEMORY)
    common = " ".join(f"common{number}" for number in range(30))
    index.put(source(f"{number}.txt", f"{common} rare{number}") for number in range(5_000))
    started = time.process_time()

    answer = index.find(parse(f"{common} rare77"))

    assert answer.found[0].path == "77.txt"
    assert time.process_time() - started < 2


@given(st.text(max_size=300))
def test_no_query_is_too_odd(desk: Index, text: str) -> None:
    try:
        query = parse(text)
    except BadArgument:
        return
    answer = desk.find(query)

    assert answer.total >= len(answer.found) or not answer.is_complete


@given(
    st.lists(
        st.sampled_from(
            ['"', "/", "path:", "-", "lang:", "(", "*", "a", "設", " ", "\0", "\\", "'", "NEAR(", "AND", "{", ":"]
        )
    )
)
def test_no_query_of_odd_signs_is_too_odd(desk: Index, signs: list[str]) -> None:
    try:
        query = parse("".join(signs))
    except BadArgument:
        return
    desk.find(query)


def test_a_common_word_is_found_in_a_scheme_that_has_few_of_it() -> None:
    index = Index(MEMORY)
    many = MAX_ROWS + 10
    index.put(SourceText(f"workspace:///{n}.txt", "1", "workspace", f"{n}.txt", "error") for n in range(many))
    index.put([SourceText("logs://run/web", "1", "logs", "run/web", "an error at last")])

    assert [one.uri for one in index.find(parse("error"), reach=reach_of({"logs"})).found] == ["logs://run/web"]
    assert [one.uri for one in index.find(parse("error path:run/")).found] == ["logs://run/web"]


def test_what_a_caller_cannot_read_leaves_no_trace_in_scores_and_order() -> None:
    public = [
        SourceText("logs://a", "1", "logs", "a", "walrus once"),
        SourceText("logs://b", "1", "logs", "b", "penguin once"),
        SourceText("logs://c", "1", "logs", "c", "penguin walrus and more"),
    ]
    secret = [SourceText(f"sage://{n}", "1", "sage", str(n), "walrus " * (n + 1) + "\n" * 300) for n in range(50)]
    alone, beside = Index(MEMORY), Index(MEMORY)
    alone.put(public)
    beside.put(secret)
    beside.put(public)

    for query in ("walrus", "penguin walrus", "walrus OR penguin", '"walrus once"', "/walrus .*/", "path:a walrus"):
        mine, theirs = (one.find(parse(query), reach=reach_of({"logs"})) for one in (alone, beside))
        assert mine == theirs
