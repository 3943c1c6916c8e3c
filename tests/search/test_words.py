"""Words are taken apart so that every spelling of a name, and every form of a word, is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.search.words import LONG, MAX_NOTED, MAX_WORD, OPEN, WORD, Terms, folded, parts_of, stem, terms_of, whole_of

SPELLINGS = ["parseConfig", "parse_config", "parse-config", "ParseConfig", "PARSE_CONFIG", "Parse_Config"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_name_has_the_same_terms(spelling: str) -> None:
    assert set(terms_of(spelling)) == {"parseconfig", "pars", "config"}
    assert terms_of(spelling)[0] == "parseconfig"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("HTTPServer", ["http", "server"]),
        ("utf8Decoder", ["utf", "8", "decoder"]),
        ("x", ["x"]),
        ("ÄpfelBäume", ["apfel", "baume"]),
        ("snake_case_name", ["snake", "case", "name"]),
    ],
)
def test_a_name_has_parts(name: str, parts: list[str]) -> None:
    assert parts_of(name) == parts


@pytest.mark.parametrize(
    "forms",
    [
        ["cache", "caches", "cached", "caching"],
        ["validate", "validates", "validated", "validation", "validating", "validator"],
        ["parse", "parser", "parsers", "parsing"],
        ["query", "queries", "queried"],
        ["serialize", "serializer", "serialization", "serializing"],
        ["connect", "connection", "connections", "connected"],
        ["configure", "configuration", "configured"],
        ["map", "maps", "mapping", "mapper"],
        ["user", "users"],
        ["class", "classes"],
    ],
)
def test_forms_of_one_word_have_one_stem(forms: list[str]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("word", ["string", "status", "this", "access", "ring", "bus", "analysis"])
def test_an_ending_that_is_none_stays(word: str) -> None:
    assert stem(word) == word


def test_accents_and_case_do_not_matter() -> None:
    assert terms_of("Café") == terms_of("cafe")
    assert terms_of("ПРИВЕТ") == terms_of("привет")
    assert folded("Straße") == folded("STRASSE")


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    assert terms_of("設定ファイル") == ("設定ファイル", "設定", "定フ", "ファ", "ァイ", "イル")
    assert terms_of("設") == ("設",)


def test_signs_with_marks_of_their_own_stay_as_they_are() -> None:
    assert terms_of("が") != terms_of("か")


def test_data_is_no_name() -> None:
    number = "a1b2c3d4e5f6a7b8c9d0"
    blob = "A" * (MAX_WORD + 1)

    assert terms_of(number) == (number,)
    assert terms_of(blob) == (blob[:MAX_WORD].lower(),)
    assert terms_of(blob * MAX_NOTED) == (blob[:MAX_WORD].lower(), LONG)


def test_words_are_found_in_a_text() -> None:
    assert WORD.findall("__init__(self, non-owning: int) -> x-1") == ["init__", "self", "non-owning", "int", "x", "1"]


def test_each_distinct_word_is_taken_apart_once_and_noted() -> None:
    terms = Terms()

    assert terms["parseConfig"] == "parseconfig pars config"
    assert terms["parseConfig"] == "parseconfig pars config"
    assert terms.fresh == ["parseconfig"]


def test_a_word_that_ends_with_an_underscore_is_noted_once_more() -> None:
    terms = Terms()

    assert terms["value_"] == f"valu value{OPEN}"
    assert terms.fresh == ["value", f"value{OPEN}"]


def test_a_word_as_long_as_a_file_is_not_noted() -> None:
    terms = Terms()

    assert LONG in terms["x" * (MAX_NOTED + 1)]
    assert terms.fresh == []


@given(st.text(max_size=200))
def test_every_word_of_every_text_has_terms_that_can_be_indexed(text: str) -> None:
    for word in WORD.findall(text):
        terms = terms_of(word)
        assert all(terms)
        assert not any(" " in term for term in terms)
        assert all(term == folded(term) for term in terms if term != LONG)


@given(st.text(alphabet="abcXYZ_-09éЖ設", min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_a_piece_of_a_word_lies_in_the_word_as_a_whole(word: str, start: int, end: int) -> None:
    # What expressions rely on: what is cut from a word, and written as a whole, is a part of the whole word.
    assert whole_of(word[start:end]) in whole_of(word)
