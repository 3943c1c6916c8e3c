"""A passage shows the best lines of a text, as it is now, and what they stand in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.core.errors import BadArgument
from carrel.search.languages import definition_in, definitions_in
from carrel.search.passages import Passage, passage
from carrel.search.query import parse

PYTHON = '''\
import os


class Loans:
    """Who has which book."""

    limit = 3

    @property
    def open(self):
        return [loan for loan in self._loans if loan.is_open]

    def lend_book(self, reader, book):
        """Lend a book to a reader."""
        if len(self.open) >= self.limit:
            raise TooMany(reader)
        return Loan(reader, book)


def report(loans):
    for loan in loans.open:
        loans.lend_book(loan.reader, loan.book)
'''


def shown(text: str, query: str, language: str = "python", near: int = 1) -> Passage:
    found = passage(text, parse(query), language=language, near=near)
    assert found is not None
    return found


def test_a_passage_marks_the_words_of_the_query() -> None:
    found = shown("import os\n\ndef connect_now(): ...\n", "connect")

    assert [(line.number, line.text, line.spans) for line in found.lines] == [(3, "def connect_now(): ...", ((4, 15),))]


@pytest.mark.parametrize("name", ["lend_book", "lendBook", "LEND_BOOK", "lend-book"])
def test_the_definition_of_a_name_is_shown_as_a_whole_before_its_uses(name: str) -> None:
    found = shown(PYTHON, name)

    assert (found.first_line, found.last_line, found.definition) == (13, 17, "Loans.lend_book")
    assert [line.number for line in found.lines if line.number in (13, 22)] == [13, 22]


def test_a_passage_says_what_it_stands_in() -> None:
    assert shown(PYTHON, "is_open").definition == "Loans.open"
    assert shown(PYTHON, "limit = 3").definition == "Loans"
    assert shown(PYTHON, "import os").definition == ""
    assert shown("# Garden\n\n## Water\n\nEvery morning.\n", "morning", "markdown").definition == "Water"


def test_the_place_with_most_of_the_words_wins_over_the_first() -> None:
    filler = "the reader reads\n" * 60
    found = shown(f"{filler}a reader who is late pays a fine\n{filler}", "late reader fine", "text")

    assert found.first_line <= 61 <= found.last_line
    assert 61 in [line.number for line in found.lines]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    log = "".join(f"[{number:05}] compiled lib/part_{number}.dart\n" for number in range(900))

    assert [line.number for line in shown(log, "part_777", "log").lines] == [778]
    assert shown(log, "part_777", "log").first_line == 776


def test_a_word_of_a_sentence_is_not_taken_for_a_name() -> None:
    text = "def read():\n    pass\n" + "\n" * 60 + "def parse():\n    # read the header of a response\n    pass\n"

    assert shown(text, "read header response").definition == "parse"
    assert shown(text, "read").definition == "read"


def test_a_text_without_the_phrase_is_no_hit() -> None:
    assert passage("refused connection", parse('"connection refused"')) is None
    assert passage("Connection\n  refused", parse('"connection refused"')) is not None


def test_an_expression_minds_case() -> None:
    assert passage("Alpha", parse("/alpha/")) is None
    assert passage("Alpha", parse("/(?i)alpha/")) is not None


def test_an_expression_is_shown_where_it_matches() -> None:
    found = shown("x\n" * 300 + "error 42\n" + "x\n" * 300, r"/error \d+/", "log")

    assert [(line.number, line.spans) for line in found.lines] == [(301, ((0, 8),))]


def test_a_text_with_nothing_of_the_query_is_shown_where_the_index_saw_it() -> None:
    found = shown("x\n" * 100, "absent", near=50)

    assert (found.first_line <= 50 <= found.last_line, found.lines) == (True, ())


@given(st.text(max_size=400), st.text(min_size=1, max_size=30), st.integers(1, 500))
def test_a_passage_never_leaves_the_text(text: str, query: str, near: int) -> None:
    try:
        asked = parse(query)
    except BadArgument:  # nothing is asked for
        return
    found = passage(text, asked, language="python", near=near)
    lines = text.split("\n")

    if found is not None:
        assert 1 <= found.first_line <= found.last_line <= len(lines)
        for line in found.lines:
            assert line.text == lines[line.number - 1]
            assert all(0 <= start <= end <= len(line.text) for start, end in line.spans)


@pytest.mark.parametrize("query", ["lend_book", "report", "loan", "reader book", "/lend_/", "walrus"])
def test_a_passage_ends_with_the_last_line_of_its_text(query: str) -> None:
    for text in (PYTHON, PYTHON.rstrip("\n"), "loan reader book lend_book report\n"):
        found = passage(text, parse(query), language="python")
        assert found is None or found.last_line <= len(text.splitlines())


def test_only_the_places_that_the_index_names_are_looked_at() -> None:
    text = "a reader\n" * 100 + "the late reader\n" + "a reader\n" * 100

    near = passage(text, parse("late reader"), places=[(41, 60)])
    there = passage(text, parse("late reader"), places=[(41, 60), (91, 110)])

    assert near is not None
    assert there is not None
    assert {line.number for line in near.lines} <= set(range(41, 61))
    assert 101 in {line.number for line in there.lines}


def test_the_whole_text_is_looked_at_where_the_places_hold_nothing_any_more() -> None:
    found = passage("x\n" * 100 + "the late reader\n", parse("late reader"), places=[(1, 20), (400, 420)])

    assert found is not None
    assert [(line.number, line.text) for line in found.lines] == [(101, "the late reader")]


WORDS = st.lists(st.sampled_from("def class read_file readFile x = ( : file late reader #".split()), max_size=6)


@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=80), st.sampled_from(["read_file", "late reader", "file x"]))
def test_a_text_that_is_all_places_shows_what_the_whole_text_shows(lines: list[str], query: str) -> None:
    text, asked = "\n".join(lines), parse(query)
    places = [(first, first + 9) for first in range(1, len(lines) + 1, 10)]

    assert passage(text, asked, language="python", places=places) == passage(text, asked, language="python")


@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=60), st.sampled_from(["python", "markdown", "go", "text"]))
def test_a_line_has_the_definition_that_its_text_has_there(lines: list[str], language: str) -> None:
    text = "\n".join(lines)
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    found = {(one.start, one.name, one.is_type) for one in definitions_in(text, language)}

    alone = [(start, definition_in(line, language)) for start, line in zip(starts, lines, strict=True)]
    assert {(start, one.name, one.is_type) for start, one in alone if one is not None} == found


def test_a_word_in_a_line_without_end_is_shown_where_it_stands() -> None:
    line = "var a=1;" * 50_000 + "lendBook(reader);" + "var b=2;" * 50_000

    found = passage(f"x\n{line}\ny\n", parse("lendBook"), language="javascript")

    assert found is not None
    assert [(one.number, one.spans) for one in found.lines] == [(2, ((400_000, 400_008),))]


@pytest.mark.parametrize(
    ("query", "word"), [("lend_book", "lendbook"), ("größe", "GRÖSSE"), ("parse", "parsed"), ("reader", "readers")]
)
def test_a_word_in_a_line_without_end_is_shown_however_it_is_spelled(query: str, word: str) -> None:
    found = passage("compare a " * 2_000 + f"{word} b " * 2, parse(query))

    assert found is not None
    assert [(line.number, line.spans[0]) for line in found.lines] == [(1, (20_000, 20_000 + len(word)))]


@pytest.mark.parametrize("query", ["/^$/", r"/\z/", r"/\s*\z/", r"/^\s*\z/"])
@pytest.mark.parametrize("text", ["a\nb\n", "\n", "a\n\n\n", "x\n" * 50, "x\r\ny\r\n"])
def test_what_matches_behind_the_last_line_break_is_in_the_last_line(query: str, text: str) -> None:
    found = passage(text, parse(query))
    numbers = [] if found is None else [line.number for line in found.lines]

    assert found is not None
    assert (found.last_line, numbers[-1]) == (text.count("\n"), text.count("\n"))
    assert numbers == sorted(set(numbers))
