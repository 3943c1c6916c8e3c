"""What is shown of an answer: within the budget, with the way to the next page in the last line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.hosts import length_in_json
from carrel.core.tokens import estimate_tokens
from carrel.search.answers import Coverage, HitLine, SearchAnswer, SearchHit
from carrel.search.rendering import MAX_LINE, about, as_json, as_text, clipped, shown_as_text
from carrel.search.requests import SearchArguments

ALL = Coverage(3, 3)


def hit(number: int, lines: int = 2, width: int = 40) -> SearchHit:
    shown = tuple(HitLine(at, "x" * width, ((0, 3),)) for at in range(1, lines + 1))
    uri = f"workspace:///src/{number}.py"
    return SearchHit(f"{uri}?lines=1-9", uri, f"{number}.py", 1.0, definition=f"run_{number}", lines=shown, tokens=70)


def answer(count: int, total: int | None = None, **facts: object) -> SearchAnswer:
    hits = tuple(hit(number) for number in range(count))
    following = str(count) if total is not None and total > count else ""
    return SearchAnswer(hits, total or count, ALL, next=following, **facts)  # type: ignore[arg-type]


def asked(query: str = "parse config", **given: object) -> SearchArguments:
    return SearchArguments(query, **given)  # type: ignore[arg-type]


def test_a_hit_has_its_uri_name_and_cost_on_one_line_and_its_lines_below() -> None:
    text, following = as_text(answer(1), asked())

    assert text.splitlines() == [
        "[hit 1 of 1]",
        "workspace:///src/0.py?lines=1-9  run_0, 70 tokens",
        f"> 1: {'x' * 40}",
        f"> 2: {'x' * 40}",
    ]
    assert following == ""


def test_the_last_line_names_the_next_page() -> None:
    text, following = as_text(answer(3, total=12), asked(scheme="workspace", limit=3))
    first, *_, last = text.splitlines()

    assert following == "carrel://search?q=parse%20config&in=workspace&limit=3&after=3"
    assert (first, last) == ("[hits 1-3 of 12; the last line names the next page]", f"[next: {following}]")


def test_the_next_page_counts_on() -> None:
    page = SearchAnswer((hit(4),), 12, ALL, next="5")
    text, following = as_text(page, asked(limit=1, after="4"))

    assert text.startswith("[hit 5 of 12")
    assert following.endswith("&after=5")


def test_no_hits_say_what_to_try() -> None:
    assert as_text(SearchAnswer((), 0, ALL), asked())[0] == (
        "No hits for parse config. Try fewer words, or a part of a name."
    )
    assert as_text(SearchAnswer((), 9, ALL), asked(scheme="logs", after="9"))[0] == "No more hits in logs://."


def test_notes_and_what_was_not_searched_are_said() -> None:
    partial = SearchAnswer((hit(0),), 1, Coverage(61, 100), notes=("searched as words",))

    assert as_text(partial, asked())[0].splitlines()[1:3] == [
        "[searched as words]",
        "[partial: 61 % of 100 documents searched so far; search again, or run `carrel search --index`]",
    ]
    spelled = as_json(partial, asked())
    assert (spelled["partial"], spelled["notes"]) == ({"searched": 61, "documents": 100}, ["searched as words"])


def test_json_says_that_more_documents_are_not_counted_yet() -> None:
    listing = SearchAnswer((hit(0),), 1, Coverage(61, 100, is_counted=False), is_total_least=True)

    spelled = as_json(listing, asked())

    assert spelled["partial"] == {"searched": 61, "documents": 100, "documentsIsAtLeast": True}
    assert spelled["totalIsAtLeast"] is True


def test_a_hit_that_is_searched_in_part_says_so() -> None:
    whole = SearchHit("logs://run/a", "logs://run/a", "a", 1.0)

    assert about(whole) == "a"
    assert about(SearchHit("logs://run/a", "logs://run/a", "a", 1.0, is_partial=True)) == "a, indexed in part"


@pytest.mark.parametrize("budget", [150, 300, 600, 1_200, 4_000])
def test_the_whole_answer_keeps_the_budget(budget: int) -> None:
    many = SearchAnswer(tuple(hit(number, lines=3, width=150) for number in range(40)), 40, ALL)
    text, following = as_text(many, asked(limit=40, budget=budget))
    spelled = as_json(many, asked(limit=40, budget=budget))

    assert estimate_tokens(text) <= budget
    assert estimate_tokens(json.dumps(spelled, ensure_ascii=False)) <= budget + 40
    assert bool(following) == (text.count("workspace:///") < 40)


def test_pages_cut_by_the_budget_join_without_a_gap() -> None:
    every = [hit(number, lines=3, width=150) for number in range(40)]
    seen: list[str] = []
    after = ""
    while True:
        start = int(after or 0)
        page = SearchAnswer(tuple(every[start : start + 40]), 40, ALL)
        shown = shown_as_text(page, asked(limit=40, budget=700, after=after or None))
        seen += [one.base for one in shown.hits]
        after = shown.after
        if not after:
            break

    assert seen == [one.base for one in every]


def test_an_answer_fits_the_host() -> None:
    many = SearchAnswer(tuple(hit(number, lines=3, width=180) for number in range(60)), 60, ALL)

    for room in (2_000, 7_000, 20_000):
        text, _ = as_text(many, asked(limit=60, budget=100_000), room=room)
        assert length_in_json(text) <= room


def test_a_budget_too_small_for_anything_still_gives_one_uri() -> None:
    assert [one.uri for one in shown_as_text(answer(3), asked(budget=1)).hits] == ["workspace:///src/0.py?lines=1-9"]


@pytest.mark.parametrize("budget", [1, 5, 20, 40, 60, 80, 100])
def test_an_answer_that_cannot_be_small_enough_says_which_budget_is(budget: int) -> None:
    text, following = as_text(answer(3), asked(budget=budget))
    if estimate_tokens(text) > budget:
        assert text == f"[no hit fits budget={budget}; next: {following}]"
        assert following.startswith("carrel://search?q=parse%20config&budget=")
        again = as_text(answer(3), asked(budget=int(following.rpartition("=")[2])))[0]
        assert "workspace:///src/0.py" in again


def test_the_next_page_of_a_very_long_query_is_named_by_its_place() -> None:
    _, following = as_text(answer(1, total=5), asked("word " * 2_000, limit=1))

    assert following == "the same search with after=1"


def test_a_long_line_is_shown_around_its_first_match() -> None:
    line = clipped(HitLine(1, f"{'a' * 500}needle{'b' * 500}", ((500, 506),)))

    [(start, end)] = line.marks
    assert line.text[start:end] == "needle"
    assert (line.text[0], line.text[-1], len(line.text)) == ("…", "…", MAX_LINE + 2)


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    assert clipped(HitLine(1, "a line of Windows\r")).text == "a line of Windows"
    assert "\x1b" not in clipped(HitLine(1, "red \x1b[31m text", ((0, 3),))).text


@given(st.text(max_size=600), st.integers(0, 600), st.integers(0, 50))
def test_a_clipped_line_keeps_its_marks_inside(text: str, start: int, length: int) -> None:
    mark = (min(start, len(text)), min(start + length, len(text)))
    line = clipped(HitLine(1, text, (mark,) if mark[0] < mark[1] else ()))

    assert all(0 <= a <= b <= len(line.text) for a, b in line.marks)


def test_json_has_what_a_program_needs() -> None:
    spelled = as_json(answer(1, total=2), asked(limit=1), explains=True)

    assert spelled == {
        "hits": [
            {
                "uri": "workspace:///src/0.py?lines=1-9",
                "title": "0.py",
                "definition": "run_0",
                "lines": [
                    {"line": 1, "text": "x" * 40, "marks": [[0, 3]]},
                    {"line": 2, "text": "x" * 40, "marks": [[0, 3]]},
                ],
                "tokens": 70,
                "score": 1.0,
            }
        ],
        "total": 2,
        "next": "carrel://search?q=parse%20config&limit=1&after=1",
    }
