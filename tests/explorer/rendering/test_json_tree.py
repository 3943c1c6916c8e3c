"""JSON: a tree that folds, with exact values, whatever the size and the depth."""

import json
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.amounts import count
from carrel.explorer.rendering.json_tree import (
    MAX_DEPTH,
    MAX_OPEN,
    MAX_TEXT,
    MAX_VALUES,
    NotReadable,
    member,
    parse,
    render_json,
    render_json_lines,
    text_in,
)
from carrel.explorer.rendering.markup import Content, visible
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, text_of


def show(text: str) -> Parsed:
    """Return a JSON text as a browser reads it."""
    return read(render_json(content(text, "mem://x", "application/json"), LINKS))


def leaves(parsed: Parsed) -> list[str]:
    """Return the values that are shown, in order."""
    return [text_of(one) for one in parsed.elements if one.get("class") in ("m", "s", "k")]


def test_numbers_are_shown_as_they_are_written() -> None:
    numbers = ["0", "-0", "1.50", "1e400", "123456789012345678901234567890", "0.1000000000000000055511151231257827"]

    assert leaves(show(f"[{', '.join(numbers)}]")) == numbers


def test_a_number_of_a_hundred_thousand_digits_is_shown() -> None:
    assert leaves(show("9" * 100_000)) == ["9" * 100_000]


def test_names_that_stand_twice_are_both_shown() -> None:
    parsed = show('{"a": 1, "a": 2}')

    assert [text_of(one) for one in parsed.all("span", "f")] == ['"a"', '"a"']
    assert leaves(parsed) == ["1", "2"]


def test_words_and_empty_containers_are_shown() -> None:
    parsed = show('[true, false, null, {}, [], "", "é\\u0000\\"\\ud83d\\ude00"]')

    assert leaves(parsed) == ["true", "false", "null", '""', '"é\\u0000\\"😀"']
    assert "{}[]" in parsed.text


def test_a_resource_that_is_named_is_a_link() -> None:
    assert show('{"next": "workspace:///a?lines=1-2", "web": "https://example.org"}').addresses() == [
        "/workspace/a%3Flines=1-2"
    ]


def test_small_outer_levels_are_open_and_others_folded() -> None:
    parsed = show(json.dumps({"small": {"x": {"y": 1}}, "large": list(range(MAX_OPEN + 1))}))

    assert [one.get("open") for one in parsed.all("details")] == ["", "", None, None]
    assert f"{MAX_OPEN + 1} items" in parsed.text


@pytest.mark.slow
def test_too_many_values_are_counted() -> None:
    parsed = show(json.dumps(list(range(MAX_VALUES * 2))))

    assert len(parsed.all("span", "m")) == MAX_VALUES - 1
    assert f"… {count(MAX_VALUES + 1)} more" in parsed.text
    assert "Only the first 5\u202f000 values are shown." in parsed.text


def test_what_lies_too_deep_is_cut() -> None:
    depth = MAX_DEPTH + 20
    parsed = show("[" * depth + "1" + "]" * depth)

    assert len(parsed.all("details")) == MAX_DEPTH
    assert "[…]" in parsed.text


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{'a': 1}", "[" * 100_000, "// x\n{}", "x" * (MAX_TEXT + 1)])
def test_a_text_that_is_not_json_is_shown_with_the_reason(text: str) -> None:
    parsed = show(text)

    assert "This is shown as text: it is" in parsed.text
    assert parsed.text.endswith(text)


def test_a_part_is_shown_as_text_although_it_may_be_json_by_itself() -> None:
    part = Content("mem://x", "application/json", "[1]\n", first_line=9, is_whole=False)
    parsed = read(render_json(part, LINKS))

    assert "only a part" in parsed.text
    assert [one.get("id") for one in parsed.all("span", "l")] == ["L9"]


def test_a_broken_text_says_where() -> None:
    with pytest.raises(NotReadable, match="line 2, column 6"):
        parse('{"a": 1,\n "b" 2}')


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


def _spelled(value: object) -> list[str]:
    if isinstance(value, dict):
        return [one for inner in value.values() for one in _spelled(inner)]
    if isinstance(value, list):
        return [one for inner in value for one in _spelled(inner)]
    return [visible(json.dumps(value, ensure_ascii=False))]


@given(value=VALUES)
def test_every_value_is_shown_exactly_and_in_order(value: object) -> None:
    assert leaves(show(json.dumps(value))) == _spelled(value)


@given(text=st.text(st.sampled_from('{}[]",:\\ntrue019.e-u \n<>&')))
def test_no_text_breaks_the_law(text: str) -> None:
    show(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_values_are_only_text(text: str) -> None:
    parsed = show(json.dumps({text: [text, {text: text}]}))

    assert parsed.addresses() == []
    assert parsed.text.count(visible(json.dumps(text, ensure_ascii=False))) == 4


def test_lines_are_shown_one_by_one_and_a_broken_one_as_text() -> None:
    given_text = Content("mem://x", "application/x-ndjson", '{"a": 1}\n<b>\n[2]\n', first_line=7)
    parsed = read(render_json_lines(given_text, LINKS))

    assert [one.get("id") for one in parsed.all("li") if one.get("id")] == ["L7", "L8", "L9"]
    assert "<b>" in parsed.text
    assert leaves(parsed) == ["1", "2"]


@pytest.mark.slow
def test_more_lines_than_fit_are_counted() -> None:
    parsed = read(render_json_lines(content("1\n" * 1_234), LINKS))

    assert "234 more lines are not shown." in parsed.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["[" * 900 + "]" * 900, "[" + "1," * 300_000 + "1]", '"' + "a" * 900_000 + '"', "[1," * 200_000]
)
def test_large_texts_take_a_bounded_time(text: str) -> None:
    began = thread_time()
    render_json(content(text), LINKS)

    assert thread_time() - began < 2


def test_members_are_found_by_name() -> None:
    value = parse('{"a": {"b": "c", "n": 1.50, "t": true, "l": []}}')

    assert [text_in(value, "a", name) for name in ("b", "n", "t", "l", "x")] == ["c", "1.50", "yes", "", ""]
    assert member(value, "a", "l") == []
    assert member([1], "a") is None
