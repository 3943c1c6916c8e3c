"""Logs of commits, branches, blame and status: exact text, with links."""

from datetime import UTC, datetime
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.git_lines import commit_times, render_blame, render_commits, render_status
from carrel.explorer.rendering.markup import visible
from tests.support.html_law import HOSTILE, LINKS, content, read, text_of

LOG = """\
70707848cfd3 2026-11-18T01:37Z Ada Lovelace: Find: the token
ec6cd3bb0740 2026-11-17T01:14Z Bob: Look <b>
"""
BRANCHES = "  main 70707848cfd3 2026-11-18T01:37Z Ada: x\n* origin/a 70707848cfd3 2026-11-18T01:37Z Ada: y\n"
BLAME = """\
 9dff09fb7f73 2026-11-15 Ada Lovelace   9: def f():
 9dff09fb7f73 2026-11-15 Ada Lovelace  10:     return "<b>"
^589e020d327e 2026-11-14 Bob           11: #
"""
STATUS = "On main, at 70707848cfd3.\n2 files are left out.\n M lib/a b.py\n?? new/\n"


def test_a_commit_is_linked_and_the_text_is_exact() -> None:
    parsed = read(render_commits(content(LOG, "git://log"), LINKS))

    assert parsed.text == LOG.removesuffix("\n")
    assert parsed.addresses() == ["/git/commit/70707848cfd3", "/git/commit/ec6cd3bb0740"]
    assert [text_of(one) for one in parsed.all("span", "who")] == ["Ada Lovelace: ", "Bob: "]
    assert [text_of(one) for one in parsed.all("span", "time")] == ["2026-11-18T01:37Z", "2026-11-17T01:14Z"]


def test_branches_and_tags_have_their_names() -> None:
    parsed = read(render_commits(content(BRANCHES, "git://branches"), LINKS))

    assert parsed.text == BRANCHES.removesuffix("\n")
    assert [text_of(one) for one in parsed.all("strong")] == ["main ", "origin/a "]
    assert read(render_commits(content("There are no tags.\n"), LINKS)).text == "There are no tags."


def test_blame_has_the_commit_of_each_line_and_the_colours_of_the_file() -> None:
    parsed = read(render_blame(content(BLAME, "workspace:///a.py?blame"), LINKS))

    assert parsed.text == BLAME.removesuffix("\n")
    assert parsed.addresses() == [f"/git/commit/{one}" for one in ("9dff09fb7f73", "9dff09fb7f73", "589e020d327e")]
    assert [one.get("id") for one in parsed.all("span", "l")] == ["L9", "L10", "L11"]
    assert ["new" in one.get("class", "") for one in parsed.all("span", "l")] == [True, False, True]
    assert [text_of(one) for one in parsed.all("span", "k")] == ["def", "return"]


def test_a_number_that_stands_twice_in_a_blame_is_an_id_once() -> None:
    line = " 9dff09fb7f73 2026-11-15 Ada 1: x\n"

    assert [one.get("id") for one in read(render_blame(content(line * 2), LINKS)).all("span", "l")] == ["L1", None]


def test_a_changed_file_is_linked() -> None:
    parsed = read(render_status(content(STATUS, "git://status"), LINKS))

    assert parsed.text == STATUS.removesuffix("\n")
    assert parsed.addresses() == ["/workspace/lib/a%20b.py", "/workspace/new/"]


def test_the_times_of_commits_are_found() -> None:
    assert commit_times(content(f"{LOG}70707848cfd3 2026-99-18T01:37Z A: b\nwords\n")) == [
        datetime(2026, 11, 18, 1, 37, tzinfo=UTC),
        datetime(2026, 11, 17, 1, 14, tzinfo=UTC),
    ]


PIECES = st.sampled_from(
    ["70707848cfd3", " ", "2026-11-18T01:37Z", "2026-11-18", ": ", "Ada", "1: ", "\n", "<b>", "* ", "^", "M", "é"]
)


@given(text=st.lists(PIECES, max_size=40).map("".join))
def test_no_text_breaks_the_law_or_changes(text: str) -> None:
    for renderer in (render_commits, render_blame, render_status):
        assert read(renderer(content(text, "workspace:///a.py?blame"), LINKS)).text == visible(text).removesuffix("\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_people_subjects_paths_and_lines_are_only_text(text: str) -> None:
    line = visible(text).replace("\n", " ")
    for renderer, made in (
        (render_commits, f"{line} 70707848cfd3 2026-11-18T01:37Z {line}: {line}\n"),
        (render_blame, f" 9dff09fb7f73 2026-11-15 {line}   9: {line}\n"),
        (render_status, f"On {line}.\n M {line}\n"),
    ):
        parsed = read(renderer(content(made, "workspace:///a.html?blame"), LINKS))

        assert parsed.text == made.removesuffix("\n")
        assert all(address.startswith(("/workspace/", "/git/commit/")) for address in parsed.addresses())


@pytest.mark.parametrize("piece", [" ", ": ", "a", "70707848cfd3 2026-11-18T01:37Z ", "1: "])
def test_hostile_lines_take_a_bounded_time(piece: str) -> None:
    text = (piece * 50_000)[:50_000]
    began = thread_time()
    for renderer in (render_commits, render_blame, render_status):
        renderer(content(text), LINKS)

    assert thread_time() - began < 2
