"""The parser of JSON with comments: what it accepts, what it says, and where everything stands."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.connect.errors import BrokenFile
from carrel.connect.jsonc import JsonNode, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def parsed(text: str, *, is_strict: bool = False) -> JsonNode:
    node = parse(text, is_strict=is_strict)
    assert node is not None
    return node


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_it_reads_what_json_writes(value: object, indent: int | str | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)

    assert parsed(text, is_strict=True).plain == value


@given(st.text(alphabet='{}[]",:/*\\ \n0123456789.eE+-truefalsn', max_size=40))
def test_in_strict_form_it_accepts_exactly_what_json_accepts(text: str) -> None:
    try:
        expected = [json.loads(text)] if text.strip(" \t\r\n") else []
    except ValueError:
        with pytest.raises(BrokenFile):
            parse(text, is_strict=True)
    else:
        node = parse(text, is_strict=True)
        assert ([] if node is None else [node.plain]) == expected


def test_comments_and_commas_are_read_over() -> None:
    text = '\ufeff// a\n{ /* b */ "x" /* c */ : [1, /* d */ 2, ], // e\n "y": {}, } /* f */ // g'

    assert parsed(text).plain == {"x": [1, 2], "y": {}}


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff", "// only a comment", "/* and */ // another\n"])
def test_a_text_without_a_value_is_nothing(text: str) -> None:
    assert parse(text, is_strict=False) is None


def test_every_place_is_known() -> None:
    text = '{"a": 1, "b": {"c": [true]} ,}'

    first, second = parsed(text).members or ()

    assert [text[one.node.start : one.node.end] for one in (first, second)] == ["1", '{"c": [true]}']
    assert [text[one.start : one.start + 3] for one in (first, second)] == ['"a"', '"b"']
    assert [one.comma for one in (first, second)] == [7, 28]


def test_of_two_members_with_one_key_the_last_counts() -> None:
    found = parsed('{"a": 1, "a": 2}').find("a")

    assert found is not None
    assert found.node.plain == 2


def test_a_number_with_very_many_digits_is_kept() -> None:
    digits = "9" * 5_000

    assert parsed(f"[{digits}]").plain == [digits]


OBJECTS = ("{", "}", "{,}", '{"a" 1}', "{a: 1}", "{'a': 1}", '{"a": }', '{"a":1,,}', "{} x", "{}/*", "\x0b{}")
OTHERS = ("[,]", "[1 2]", "[1,,2]", '"a', '"\t"', '"\\x"', "01", "1.", "+1", "nulls", "tru", "/")


@pytest.mark.parametrize("text", [*OBJECTS, *OTHERS])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(BrokenFile, match=r"^line \d+, column \d+: "):
        parse(text, is_strict=False)


def test_a_text_that_is_hard_to_read_does_not_take_long() -> None:
    for text in ('"' + "\\" * 100_001, "/*" * 50_000, "[" * 100_000, '{"a":' * 50_000, "-" * 100_000, " " * 500_000):
        try:
            parse(text, is_strict=False)
        except BrokenFile:
            continue
        assert text.isspace()
