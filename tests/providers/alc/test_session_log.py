"""Session logs: as many whole rounds as fit, checked against trying every number of rounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.providers.alc.session_log import DoesNotFit, newest_rounds
from tests.providers.alc.homes import compact

ROUND = {"prompt": "p", "query_id": "q3", "response": "r", "system": None}


def by_trying(log: dict[str, object], limit: int, max_chars: int) -> str | int:
    """Do what the page says, one number of rounds after another."""
    rounds = log["transcript"]
    assert isinstance(rounds, list)
    sizes = []
    for kept in range(min(limit, len(rounds)), -1, -1):
        cut: dict[str, object] = {**log, "transcript": rounds[len(rounds) - kept :]}
        if kept < len(rounds):
            cut |= {"truncated": True, "original_rounds": len(rounds), "returned_rounds": kept}
        text = compact(cut)
        if len(text) <= max_chars:
            return text
        sizes.append(len(text))
    return min(sizes)


def given_by(log: object, limit: int, max_chars: int) -> str | int:
    try:
        return newest_rounds(log, limit, max_chars)
    except DoesNotFit as error:
        return error.needed


def test_the_example_of_the_page_is_cut_as_it_says() -> None:
    log = {"session_id": "s-1", "transcript": [ROUND, ROUND, ROUND]}

    assert newest_rounds(log, 1, 20_000) == (
        '{"original_rounds":3,"returned_rounds":1,"session_id":"s-1",'
        '"transcript":[{"prompt":"p","query_id":"q3","response":"r","system":null}],"truncated":true}'
    )


@given(
    st.lists(st.one_of(st.integers(0, 9), st.text(max_size=40)), max_size=30),
    st.integers(0, 32),
    st.integers(0, 400),
    st.dictionaries(st.sampled_from(["a", "z", "truncated", "stats"]), st.text(max_size=9)),
)
def test_as_many_rounds_are_kept_as_fit(rounds: list[object], limit: int, max_chars: int, rest: dict[str, str]) -> None:
    log: dict[str, object] = {**rest, "transcript": rounds}

    assert given_by(log, limit, max_chars) == by_trying(log, limit, max_chars)


@given(
    st.lists(st.text(alphabet='a"\\é記\n', max_size=20), min_size=1, max_size=20),
    st.integers(0, 22),
    st.integers(0, 900),
)
def test_as_many_rounds_are_kept_as_a_message_holds(rounds: list[str], limit: int, max_wire: int) -> None:
    log: dict[str, object] = {"transcript": rounds}

    text = newest_rounds(log, limit, 20_000, max_wire)

    fitting = []
    for kept in range(min(limit, len(rounds)), -1, -1):
        cut: dict[str, object] = {"transcript": rounds[len(rounds) - kept :]}
        if kept < len(rounds):
            cut |= {"truncated": True, "original_rounds": len(rounds), "returned_rounds": kept}
        if len(json.dumps(compact(cut), ensure_ascii=False).encode()) - 2 <= max_wire:
            fitting.append(compact(cut))
    assert text == (fitting[0] if fitting else newest_rounds(log, limit, 20_000))


@pytest.mark.parametrize("log", [{"transcript": "none", "b": 1}, {"b": 1}, [1, 2], "text", None])
def test_a_log_without_rounds_is_served_whole_if_it_fits(log: object) -> None:
    text = compact(log)

    assert given_by(log, 0, len(text)) == text
    assert given_by(log, 0, len(text) - 1) == len(text)


def test_a_complete_log_of_tiny_rounds_may_be_the_smallest() -> None:
    assert given_by({"transcript": [1, 2]}, 50, 10) == len('{"transcript":[1,2]}')


def test_what_json_cannot_say_is_made_sayable() -> None:
    assert newest_rounds({"transcript": [float("inf"), "\ud800"]}, 50, 99) == '{"transcript":[null,"\ufffd"]}'
