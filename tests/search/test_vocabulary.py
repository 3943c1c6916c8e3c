"""An expression finds exactly the documents that Python's own finds, whatever the index left out for it."""

import re
import sqlite3
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.search import vocabulary
from carrel.search.expressions import Need
from carrel.search.index import MEMORY, Index, SourceText
from carrel.search.passages import passage
from carrel.search.query import parse

TEXTS = {
    "server.py": "class HTTPServer:\n    def parse_config(self, path):\n        return open(path)\n",
    "client.py": "from server import HTTPServer\n\ndef connect_now(): raise ConnectionRefusedError(111)\n",
    "notes.md": "# Retry\nThe client waits 10 s, then it tries again. See parse-config and __init__.\n",
    "kanji.txt": "設定ファイルを読み込みます。エラーが発生しました\n",
    "russian.txt": "Привет, мир! Ошибка соединения\n",
    "accents.txt": "Café crème, naïve façade, Straße\n",
    "data.txt": "x" * 300 + "needle" + "y" * 300 + "\n",
    "open.txt": "Retry_ parse__; _config_ and non-ser_-9\n",
    "long.txt": "z" * 150 + "HTTP_" + "z" * 150 + "\n",
    "empty.txt": "",
    "signs.txt": "->{}();; == != && || \n\n\t\n",
    "marks.txt": "a ⓐ b\n",
    "numbers.txt": "192.168.0.1 0xDEADBEEF 1234567 3.14159\n",
}


@pytest.fixture(scope="module", name="index")
def full_index() -> Index:
    index = Index(MEMORY)
    index.put(SourceText(f"workspace:///{path}", "1", "workspace", path, text) for path, text in TEXTS.items())
    return index


def found_by(index: Index, source: str) -> set[str]:
    """Return the paths of the documents that an expression finds, each looked at as a caller does."""
    query = parse(f"/{source}/")
    assert query.expression == source, query.notes
    answer = index.find(query, limit=100)
    assert answer.must_verify
    return {found.path for found in answer.found if passage(TEXTS[found.path], query) is not None}


def found_by_python(source: str) -> set[str]:
    """Return the same by Python's own expressions."""
    flags = re.MULTILINE if "(?i)" in source else re.MULTILINE | re.ASCII  # RE2 folds the case of every letter
    pattern = re.compile(source, flags)
    return {path for path, text in TEXTS.items() if pattern.search(text)}


@pytest.mark.parametrize(
    "source",
    [
        "HTTPServer",
        r"parse.config",
        r"parse_conf\w+\(",
        "se_con",
        r"def \w+_now",
        "(?i)httpserver",
        "HTTP|Retry",
        "^class",
        "needle",
        "xneedley",
        "ファイル",
        "設定",
        "[Пп]ривет",
        "crème",
        "Stra(ß|ss)e",
        r"\d+\.\d+",
        "__init__",
        r"-conf.g and",
        "zzzzzz",
        r"Retry\w",
        r"parse[a-z_]+",
        r"ser\w$",
        r"ser\w",
        r"zHTTP\w+",
        "==",
        r"->\{",
        "->{",
        "->{2,}[};]",
        r"(?i)->\{\}",
        r"-+>\{",
        r"-?>\{",
        r"\};\s*=",
        r"\)(;|:)",
        r"\);|::",
        r"\b->",
        r"; ==",
        "。",
        "。エ",
        "(?i)Ⓐ",
        "ⓐ",
        r"\?",
        r"(Connection)?Refused",
        r"0xDEAD[A-F]+",
        "$",
    ],
)
def test_an_expression_finds_what_pythons_own_finds(index: Index, source: str) -> None:
    assert found_by(index, source) == found_by_python(source)


PIECES = st.sampled_from(
    [
        "parse",
        "config",
        "HTTP",
        "_",
        "-",
        ".",
        r"\w+",
        r"\d",
        "ser",
        "Conn",
        "e",
        "Retry",
        " ",
        "設",
        "定",
        "é",
        "Ошиб",
        r"\(",
        r"\)",
        ">",
        "=",
        ";",
        r"\{",
        "x+",
    ]
)
EXPRESSIONS = st.recursive(
    st.lists(PIECES, min_size=1, max_size=3).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        inner.map(lambda one: f"({one})?"),
        inner.map(lambda one: f"(?:{one})+"),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=4,
)


@given(EXPRESSIONS)
def test_every_expression_finds_what_pythons_own_finds(index: Index, source: str) -> None:
    assert found_by(index, source) == found_by_python(source)


@settings(max_examples=30)
@given(st.sampled_from(sorted(TEXTS)), st.integers(0, 600), st.integers(1, 25))
def test_every_piece_of_every_text_is_found(index: Index, path: str, start: int, length: int) -> None:
    piece = TEXTS[path][start : start + length].split("\n")[0].replace("/", "")
    if piece.strip():
        assert path in found_by(index, re.escape(piece))


@pytest.mark.parametrize(
    ("phrase", "paths"),
    [
        ("tries again", {"notes.md"}),
        ("TRIES  AGAIN", {"notes.md"}),
        ("ries agai", {"notes.md"}),
        ("again tries", set()),
        ("エラーが", {"kanji.txt"}),
        ("ошибка соединения", {"russian.txt"}),
    ],
)
def test_a_phrase_is_found_as_it_stands(index: Index, phrase: str, paths: set[str]) -> None:
    query = parse(f'"{phrase}"')

    answer = index.find(query, limit=100)

    assert {found.path for found in answer.found if passage(TEXTS[found.path], query) is not None} == paths


def test_an_expression_with_a_rare_word_has_few_candidates(index: Index) -> None:
    assert index.find(parse(r"/parse_conf\w+\(/")).total <= 3


def test_an_expression_whose_word_goes_on_has_no_candidates_where_the_word_ends() -> None:
    texts = Index(MEMORY)
    words = {"a": "retry", "b": "retryCount", "c": "retry_", "d": "retry now", "e": "x" * 200}
    texts.put(SourceText(path, "1", "workspace", path, text) for path, text in words.items())

    assert {found.path for found in texts.find(parse(r"/retry\w+/")).found} == {"b", "c"}


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("->{", {"b"}),
        (r"/->\{/", {"b"}),
        ("/->{/", {"b"}),
        (r"/f->/", {"b", "c"}),
        (r"/=>|\|\|/", {"d"}),
        ('"- >"', {"a"}),
        ("\N{PARTY POPPER}", {"e"}),
    ],
)
def test_an_expression_of_signs_has_few_candidates(query: str, paths: set[str]) -> None:
    texts = Index(MEMORY)
    words = {"a": "f - > {", "b": "f->{", "c": "f-> {", "d": "f => {", "e": "f \N{PARTY POPPER}", "g": "f"}
    texts.put(SourceText(path, "1", "workspace", path, text) for path, text in words.items())
    parsed = parse(query)

    found = {found.path for found in texts.find(parsed).found}

    assert {path for path in words if passage(words[path], parsed) is not None} == paths
    assert paths <= found <= paths | ({"b", "c", "d", "e", "g"} if query == '"- >"' else set())


def test_words_that_come_later_are_found_by_expressions(index: Index) -> None:
    later = Index(MEMORY)
    later.put([SourceText("workspace:///a", "1", "workspace", "a", "firstword")])
    assert later.find(parse("/irstwor/")).total == 1

    later.put([SourceText("workspace:///b", "1", "workspace", "b", "secondword")])

    assert [found.path for found in later.find(parse("/econdwor/")).found] == ["b"]


def test_a_word_that_stands_in_the_list_without_end_says_nothing_and_costs_little() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE vocabulary (id INTEGER PRIMARY KEY, words BLOB NOT NULL)")
    words = zlib.compress(b"tomato\n" * (vocabulary.MAX_PLACES + 1))
    connection.execute("INSERT INTO vocabulary (words) VALUES (?)", (words,))
    need = Need(literals=("tomato",))

    found = vocabulary.Vocabulary().candidates(connection, 1, need, lambda _: (1,))

    connection.close()
    assert found is None  # any document may hold it
