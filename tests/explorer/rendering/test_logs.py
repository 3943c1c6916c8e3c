"""Logs: levels, times, terminal colours, and lines that can be added one by one."""

from datetime import UTC, datetime
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.logs import is_log, level, log_lines, plain, render_log, time_of
from carrel.explorer.rendering.markup import Content, visible
from tests.support.html_law import HOSTILE, content, read, text_of

LOG = """\
2026-11-18T01:02:03.123Z INFO started
2026-11-18 01:02:04,5 WARN slow
[01:02:05] ERROR broken: <b>
  File "x.py", line 3
Jan  3 12:00:01 host app[1]: [debug] x
plain words
"""


def test_each_line_has_its_level_its_time_and_an_address() -> None:
    parsed = read(render_log(content(LOG, "logs://run/a")))

    lines = parsed.all("span", "l")
    assert [one.get("data-level") for one in lines] == ["info", "warning", "error", None, "debug", None]
    assert [one.get("class") for one in lines[:3]] == ["l level-info", "l level-warning", "l level-error"]
    assert [one.get("id") for one in lines] == [f"L{number}" for number in range(1, 7)]
    assert [text_of(one) for one in parsed.all("span", "time")] == [
        "2026-11-18T01:02:03.123Z",
        "2026-11-18 01:02:04,5",
        "[01:02:05]",
        "Jan  3 12:00:01",
    ]


def test_the_text_of_a_log_is_exactly_its_text() -> None:
    assert read(render_log(content(LOG))).text == LOG.removesuffix("\n")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ERROR x", "error"),
        ("E/flutter: x", "error"),
        ("ValueError: x", "error"),
        ("\x1b[31mERROR\x1b[0m x", "error"),
        ('{"level":"warn"}', "warning"),
        ("warning: x", "warning"),
        ("[info] x", "info"),
        ("level=info x", "info"),
        ("NOTICE x", "info"),
        ("DEBUG x", "debug"),
        ("level=trace x", "debug"),
        ("no errors here", ""),
        ("information", ""),
        ("", ""),
    ],
)
def test_the_level_of_a_line_is_found(line: str, found: str) -> None:
    assert level(line) == found


def test_terminal_colours_become_classes_and_other_sequences_go() -> None:
    parsed = read(log_lines("\x1b[1;31mbad\x1b[0m and \x1b[92mgood\x1b[39m \x1b]0;title\x07\x1b[2K\x1b[?25lend", 1))

    assert parsed.text == "bad and good end"
    coloured = [(one.get("class"), text_of(one)) for one in parsed.elements if "ansi" in one.get("class", "")]
    assert coloured == [("ansi-red bold", "bad"), ("ansi-green", "good")]


def test_a_sequence_that_is_no_sequence_is_shown() -> None:
    assert read(log_lines("a\x1b", 1)).text == "a\\x1b"


def test_lines_that_are_added_later_are_those_of_the_whole() -> None:
    lines = LOG.splitlines()
    whole = log_lines(LOG, 1)

    assert "\n".join(log_lines(line, number) for number, line in enumerate(lines, 1)) == whole


@pytest.mark.parametrize(
    ("uri", "mime_type", "text", "found"),
    [
        ("logs://run/a", "text/plain", "x", True),
        ("logs://run/a?format=json", "application/x-ndjson", "{}", False),
        ("workspace:///build/app.log", "text/plain", "x", True),
        ("workspace:///var/app.log.1", "text/plain", "x", True),
        ("workspace:///notes.txt", "text/plain", "2026-01-01T00:00:00Z a\n" * 3, True),
        ("workspace:///notes.txt", "text/plain", "Remember the milk.\nERROR is a word.\n", False),
        ("workspace:///a.py", "text/x-python", "2026", False),
        ("workspace:///logging.md", "text/markdown", "x", False),
    ],
)
def test_a_log_is_known_by_its_scheme_its_name_or_its_times(uri: str, mime_type: str, text: str, found: bool) -> None:
    assert is_log(Content(uri, mime_type, text)) is found


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("2026-11-18T01:02:03.123Z x", datetime(2026, 11, 18, 1, 2, 3, tzinfo=UTC)),
        ("2026-11-18 01:02:03,5 x", datetime(2026, 11, 18, 1, 2, 3, tzinfo=UTC)),
        ("[2026-11-18T01:02:03+02:00] x", datetime(2026, 11, 17, 23, 2, 3, tzinfo=UTC)),
        ("2026-13-18T01:02:03Z x", None),
        ("0001-01-01T00:00:00+23:59 x", None),
        ("01:02:03 x", None),
        ("x 2026-11-18T01:02:03Z", None),
    ],
)
def test_a_whole_time_at_the_start_is_understood(line: str, moment: datetime | None) -> None:
    assert time_of(line) == moment


TEXT = st.text(st.one_of(st.sampled_from("\x1b[]m;0319\x07\\<>&\"' \n\r\tERRORwarn:"), st.characters()), max_size=200)


@given(text=TEXT)
def test_no_log_breaks_the_law_or_changes_its_words(text: str) -> None:
    shown = read(render_log(content(text))).text

    assert shown == visible(
        "\n".join(plain(line) for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_lines_are_only_text(text: str) -> None:
    parsed = read(render_log(content(f"{text}\n2026-11-18T01:02:03Z ERROR {text}\n")))

    assert {str(one.tag) for one in parsed.elements} == {"div", "pre", "code", "span", "a"}
    assert visible(plain(text)) in parsed.text


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["\x1b[", "\x1b]", "\x1b[0;", "level=", '"level": "', " ", "a", "A", "\x1b[31m", "9"])
def test_hostile_lines_take_a_bounded_time(piece: str) -> None:
    began = thread_time()
    log_lines((piece * 200_000)[:200_000], 1)

    assert thread_time() - began < 2
