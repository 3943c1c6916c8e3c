"""Plots: right heights, words for those who do not see them, and nothing inline that a strict policy forbids."""

import re
from datetime import UTC, datetime, timedelta
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.amounts import size
from carrel.explorer.rendering.markup import visible
from carrel.explorer.rendering.plots import (
    MAX_BARS,
    MAX_COLUMNS,
    Bar,
    bars,
    changes_over_time,
    columns,
    count_by_time,
    errors_over_time,
)
from tests.support.html_law import HOSTILE, read, text_of

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def at(*minutes: float) -> list[datetime]:
    """Return times after noon."""
    return [NOON + timedelta(minutes=minute) for minute in minutes]


def test_bars_are_as_long_as_their_share_of_the_largest() -> None:
    parsed = read(bars("Size by child", [Bar("b", 50, "50 B", "/workspace/b"), Bar("a", 200), Bar("c", 0)]))

    assert [one.get("width") for one in parsed.all("rect")] == ["100%", "25%", "0%"]
    assert [text_of(one) for one in parsed.all("th")[3:]] == ["a", "b", "c"]
    assert [text_of(one) for one in parsed.all("td", "right")] == ["200", "50 B", "0"]
    assert parsed.addresses() == ["/workspace/b"]
    assert text_of(parsed.all("caption")[0]) == "Size by child"


def test_bars_are_hidden_from_readers_who_have_the_numbers() -> None:
    assert {one.get("aria-hidden") for one in read(bars("x", [Bar("a", 1)])).all("svg")} == {"true"}


def test_many_bars_end_in_a_sum() -> None:
    parsed = read(bars("x", [Bar(f"n{number}", 10) for number in range(MAX_BARS + 3)]))

    assert len(parsed.all("rect")) == MAX_BARS + 1
    assert text_of(parsed.all("tr")[-1]) == "3 more30"


def test_a_sum_has_the_unit_of_the_bars() -> None:
    parsed = read(bars("x", [Bar(f"n{number}", 1_000) for number in range(MAX_BARS + 3)], spelled=size))

    assert text_of(parsed.all("tr")[-1]) == "3 more3.0 kB"


def test_nothing_has_no_bars() -> None:
    assert bars("x", []) == ""


def test_times_are_counted_in_equal_steps() -> None:
    made = count_by_time({"errors": at(0, 0.1, 3), "warnings": at(1)})

    assert made is not None
    assert (made.start, made.step_s) == (NOON, 5)
    assert made.counts["errors"][:2] == (1, 1)
    assert sum(made.counts["errors"]) == 3
    assert made.counts["warnings"][12] == 1


def test_a_log_without_errors_at_its_ends_is_shown_from_end_to_end() -> None:
    made = count_by_time({"errors": at(30)}, at(0, 59))

    assert made is not None
    assert made.start == NOON
    assert made.begin(len(made.counts["errors"])) == "2026-11-18 13:00:00Z"


def test_one_time_is_no_plot() -> None:
    assert count_by_time({"errors": at(1, 1)}) is None
    assert count_by_time({}) is None
    assert changes_over_time(at(3)) == ""


def test_columns_have_a_title_a_description_and_a_table() -> None:
    made = count_by_time({"errors": at(0, 0, 2), "warnings": at(2)})
    assert made is not None
    parsed = read(columns("Errors over time", made, "errors"))

    [picture] = parsed.all("svg")
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == "errors-title errors-desc"
    assert text_of(parsed.all("title")[0]) == "Errors over time"
    assert text_of(parsed.all("desc")[0]) == (
        "3 errors, 1 warning, from 2026-11-18 12:00:00Z to 2026-11-18 12:02:05Z. "
        "A column is 5 seconds, the highest has 2."
    )
    assert [text_of(one) for one in parsed.all("td")] == ["2", "0", "1", "1"]
    assert [one.get("height") for one in parsed.all("rect")] == ["100.00", "50.00", "50.00"]
    assert [one.get("y") for one in parsed.all("rect")] == ["0.00", "50.00", "0.00"]


def test_no_plot_has_a_style_or_a_script() -> None:
    made = columns("x", count_by_time({"a": at(0, 9)}) or pytest.fail("no plot"), "x") + bars("y", [Bar("z", 1)])

    assert not re.search(r"style=|<script|<style| on\w+=", made)


SECONDS = st.integers(86_400, 7_000_000_000)


@given(times=st.lists(SECONDS.map(lambda second: datetime.fromtimestamp(second, UTC)), max_size=50))
def test_every_time_is_counted_once_and_columns_are_few(times: list[datetime]) -> None:
    made = count_by_time({"commits": times})

    if made is not None:
        assert sum(made.counts["commits"]) == len(times)
        assert len(made.counts["commits"]) <= MAX_COLUMNS + 2
        read(columns("x", made, "x"))


def test_errors_of_a_log_are_shown_over_time() -> None:
    log = "".join(
        f"2026-11-18T12:{minute:02}:00Z {'INFO' if minute % 5 else 'WARN' if minute % 10 else 'ERROR'} x\n  more\n"
        for minute in range(60)
    )
    parsed = read(errors_over_time(log))

    assert text_of(parsed.all("desc")[0]).startswith("6 errors, 6 warnings, from 2026-11-18 12:00:00Z to")


@pytest.mark.parametrize("log", ["", "ERROR x\n", "2026-11-18T12:00:00Z INFO x\n2026-11-18T13:00:00Z INFO y\n"])
def test_a_log_without_times_or_errors_has_no_plot(log: str) -> None:
    assert errors_over_time(log) == ""


def test_times_from_the_beginning_to_the_end_of_the_calendar_are_no_harm() -> None:
    log = "0001-01-01T00:00:00Z ERROR x\n9999-12-31T23:59:59Z ERROR y\n"

    assert errors_over_time(log) == ""
    assert "1 error," in errors_over_time(f"{log}2026-11-18T12:00:00Z ERROR x\n2026-11-18T13:00:00Z x\n")


def test_commits_are_shown_over_time() -> None:
    assert "3 commits" in read(changes_over_time(at(0, 1, 2_000))).text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_labels_are_only_text(text: str) -> None:
    parsed = read(bars(text, [Bar(text, 3, text)], text))

    assert parsed.text.count(visible(text)) == 4


def test_a_long_log_takes_a_bounded_time() -> None:
    log = "2026-11-18T12:00:00Z ERROR x\n" * 5_000 + "2026-11-18T13:00:00Z ERROR x\n"
    began = thread_time()
    errors_over_time(log)

    assert thread_time() - began < 1.5
