"""Differences and commits: exact text, numbers of lines, links to files and commits."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.diff import MAX_LINES, render_commit, render_diff
from carrel.explorer.rendering.markup import visible
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, text_of

PATCH = """\
diff --git a/lib/a b.py b/lib/a b.py
--- a/lib/a b.py
+++ b/lib/a b.py
@@ -3,4 +3,5 @@ def f():
 same
-old
--- a dash
+new
+++ a plus
+third
 end
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
"""
ID = "0123456789abcdef0123456789abcdef01234567"
COMMIT = f"""\
commit {ID}
parents {"a" * 40} {"b" * 40}
author Ada <ada@example.org> 2026-01-31T12:00:00Z

    Say why

    - in two parts

Compared with the first parent.
{PATCH}"""


def show(text: str) -> Parsed:
    """Return a patch as a browser reads it."""
    return read(render_diff(content(text, "git://diff/a..b", "text/x-diff"), LINKS))


def test_each_file_has_a_section_with_a_link_and_counts() -> None:
    parsed = show(PATCH)

    assert [text_of(one) for one in parsed.all("h2")] == ["lib/a b.py +3 −2", "gone +0 −1"]
    assert parsed.addresses() == ["/workspace/lib/a%20b.py", "/workspace/gone"]
    assert [one.get("aria-label") for one in parsed.all("section")] == ["Changes of lib/a b.py", "Changes of gone"]


def test_the_text_of_a_patch_is_exactly_its_text() -> None:
    assert "\n".join(text_of(one) for one in show(PATCH).all("pre")) == PATCH.removesuffix("\n")


def test_lines_have_the_numbers_they_had_and_have() -> None:
    lines = show(PATCH).all("span", "l")[3:11]

    assert [(one.get("class"), one.get("data-old"), one.get("data-new")) for one in lines] == [
        ("l hunk", None, None),
        ("l same", "3", "3"),
        ("l del", "4", None),
        ("l del", "5", None),
        ("l add", None, "4"),
        ("l add", None, "5"),
        ("l add", None, "6"),
        ("l same", "6", "7"),
    ]


def test_what_stands_before_the_first_file_is_shown() -> None:
    parsed = show(f"3 files are left out.\n{PATCH}")

    assert text_of(parsed.all("pre")[0]) == "3 files are left out."
    assert len(parsed.all("section")) == 2


def test_a_commit_has_its_facts_its_message_and_its_patch() -> None:
    parsed = read(render_commit(content(COMMIT, f"git://commit/{ID}"), LINKS))

    assert [text_of(one) for one in parsed.all("dt")] == ["commit", "parents", "author"]
    assert parsed.addresses()[:3] == [f"/git/commit/{one}" for one in (ID, "a" * 40, "b" * 40)]
    assert text_of(parsed.all("pre", "message")[0]) == "Say why\n\n- in two parts\n\nCompared with the first parent."
    assert len(parsed.all("section")) == 2


def test_a_commit_without_changes_and_without_a_message_is_shown() -> None:
    parsed = read(render_commit(content(f"commit {ID}\n"), LINKS))

    assert parsed.text.strip() == f"commit{ID}"


@pytest.mark.slow
def test_a_sentence_instead_of_a_patch_is_no_line_of_code() -> None:
    parsed = show("No differences.\n")

    assert parsed.all("pre") == []
    assert parsed.text.strip() == "No differences."


@pytest.mark.slow
def test_lines_that_are_too_many_are_counted() -> None:
    parsed = show("diff --git a/a b/a\n@@ -0,0 +1,30000 @@\n" + "+x\n" * 30_000)

    assert len(parsed.all("span", "add")) == MAX_LINES - 2
    assert "10\u202f002 more lines are not shown here." in parsed.text


PIECES = ("diff --git a/x b/x\n", "@@ -1,2 +3,4 @@", "+", "-", " ", "\n", "<", "&", "commit ", "a", "\\")


@given(text=st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_patch_breaks_the_law(text: str) -> None:
    show(text)
    read(render_commit(content(text), LINKS))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_lines_people_and_messages_are_only_text(text: str) -> None:
    line = visible(text).replace("\n", " ")
    patch = f"diff --git a/{line} b/{line}\n--- a/{line}\n+++ b/{line}\n@@ -1,1 +1,1 @@ {line}\n-{line}\n+{line}\n"
    parsed = read(render_commit(content(f"commit {line}\nauthor {line} <{line}>\n\n    {line}\n\n{patch}"), LINKS))

    assert parsed.text.count(line) >= 9
    assert all(address.startswith(("/workspace/", "/git/commit/")) for address in parsed.addresses())


@pytest.mark.parametrize("piece", ["diff --git a/x b/x\n", "@@ -1,9 +1,9 @@\n", "+\n", "diff --git a/ b/", " b/"])
def test_hostile_patches_take_a_bounded_time(piece: str) -> None:
    began = thread_time()
    render_diff(content((piece * 60_000)[:60_000]), LINKS)

    assert thread_time() - began < 2
