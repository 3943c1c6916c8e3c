"""Comma- and tab-separated values as tables."""

import csv
import io
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.amounts import count
from carrel.explorer.rendering.markup import Content, visible
from carrel.explorer.rendering.tables import MAX_COLUMNS, MAX_ROWS, render_table
from tests.support.html_law import HOSTILE, Parsed, content, read, text_of


def show(text: str, mime_type: str = "text/csv") -> Parsed:
    """Return a table as a browser reads it."""
    return read(render_table(content(text, "workspace:///a.csv", mime_type)))


def cells(parsed: Parsed) -> list[str]:
    """Return the cells of a table, in order."""
    return [text_of(one) for one in parsed.elements if str(one.tag) in ("th", "td")]


def test_the_first_row_is_the_head_and_numbers_stand_to_the_right() -> None:
    parsed = show('name,size\n"a, ""b""",12\nc,-1.5\n')

    assert [(text_of(one), one.get("scope")) for one in parsed.all("th")] == [("name", "col"), ("size", "col")]
    assert [(text_of(one), one.get("class")) for one in parsed.all("td")] == [
        ('a, "b"', None),
        ("12", "right"),
        ("c", None),
        ("-1.5", "right"),
    ]


def test_tabs_and_semicolons_separate_too() -> None:
    assert cells(show("a\tb,c\n1\t2\n", "text/tab-separated-values")) == ["a", "b,c", "1", "2"]
    assert cells(show("a;b;c\n1,5;2;3\n")) == ["a", "b", "c", "1,5", "2", "3"]


def test_short_rows_are_filled_and_empty_lines_left_out() -> None:
    assert cells(show("a,b\n\n1\n")) == ["a", "b", "1", ""]


def test_a_later_part_has_no_head() -> None:
    part = Content("workspace:///a.csv", "text/csv", "1,2\n3,4\n", first_line=40, is_whole=False)

    assert read(render_table(part)).all("th") == []


@pytest.mark.parametrize("text", ["", "words", 'a,b\n"open', "," * (MAX_COLUMNS + 1), 'a,"b"c\n', "x" * 200_000 + ",y"])
def test_what_is_no_table_is_shown_as_text(text: str) -> None:
    parsed = show(text)

    assert parsed.all("table") == []
    assert parsed.text == text.removesuffix("\n")


def test_rows_that_are_too_many_are_left_out_and_said() -> None:
    parsed = show("a,b\n" * (MAX_ROWS + 5))

    assert len(parsed.all("tr")) == MAX_ROWS
    assert f"Only the first {count(MAX_ROWS)} rows are shown." in parsed.text


CELLS = st.text(st.one_of(st.just("\n"), st.characters(exclude_categories=["Cs", "Cc"])))
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1)


@given(rows=ROWS)
def test_every_cell_is_shown_exactly(rows: list[list[str]]) -> None:
    width = max(map(len, rows))
    padded = [row + [""] * (width - len(row)) for row in rows]
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(padded)

    assert cells(show(written.getvalue())) == [visible(cell) for row in padded for cell in row] or ";" in str(rows[0])


@given(text=st.text(st.sampled_from("ab,;\t\"\n\r<&'")))
def test_no_text_breaks_the_law(text: str) -> None:
    show(text)
    show(text, "text/tab-separated-values")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_cells_are_only_text(text: str) -> None:
    quoted = text.replace('"', '""')

    assert visible(text) in show(f'"{quoted}","b"\n"{quoted}",1\n').text


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a,", '"', '"a",', "\n", ",\n", '"",'])
def test_hostile_tables_take_a_bounded_time(piece: str) -> None:
    began = thread_time()
    render_table(content((piece * 100_000)[:100_000], mime_type="text/csv"))

    assert thread_time() - began < 1.5
