"""Outlines: exact text, links to what each row names, and the sizes of a folder as bars."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markup import Content, visible
from carrel.explorer.rendering.outlines import is_outline, render_outline, sizes
from tests.support.html_law import HOSTILE, LINKS, Parsed, content, read, text_of

FILE = """\
workspace:///a%20b.py (Python, 39 lines, 412 tokens)
class Cache(Generic[_Key]) ?lines=10-39
 def get(self) -> "<b>" ?lines=19-22
[3 more: ?outline=all]
"""
FOLDER = """\
workspace:///src (folder, 58 files, 190017 bytes)
3 files, 300 bytes /lib?outline
 100 bytes /lib/a.py?outline
665 bytes /__init__.py?outline
/unsized?outline
"""


def show(text: str) -> Parsed:
    """Return an outline as a browser reads it."""
    return read(render_outline(content(text, "workspace:///x?outline"), LINKS))


def test_every_definition_leads_to_its_lines_and_the_text_is_exact() -> None:
    parsed = show(FILE)

    assert parsed.text == FILE.removesuffix("\n")
    assert parsed.addresses() == [
        "/workspace/a%20b.py",
        "/workspace/a%20b.py%3Flines=10-39",
        "/workspace/a%20b.py%3Flines=19-22",
    ]


def test_every_child_leads_to_its_page_and_its_outline() -> None:
    parsed = show(FOLDER)

    assert parsed.text == FOLDER.removesuffix("\n")
    assert parsed.addresses()[1:5] == [
        "/workspace/src/lib",
        "/workspace/src/lib%3Foutline",
        "/workspace/src/lib/a.py",
        "/workspace/src/lib/a.py%3Foutline",
    ]
    assert len(parsed.addresses()) == 9


def test_the_children_of_a_folder_have_bars_with_all_that_is_in_them() -> None:
    parsed = read(sizes(content(FOLDER, "workspace:///src?outline"), LINKS))

    assert [text_of(one) for one in parsed.all("th")[3:]] == ["__init__.py", "lib/"]
    assert [text_of(one) for one in parsed.all("td", "right")] == ["665 B", "300 B"]
    assert parsed.addresses() == ["/workspace/src/__init__.py", "/workspace/src/lib"]


def test_the_outline_of_a_file_has_no_bars() -> None:
    assert sizes(content(FILE), LINKS) == ""
    assert sizes(content(""), LINKS) == ""


@pytest.mark.parametrize(
    ("uri", "mime_type", "text", "found"),
    [
        ("workspace:///a.py?outline", "text/plain", FILE, True),
        ("workspace:///a.py?outline=all&budget=3", "text/plain", FILE, True),
        ("workspace:///a.py", "text/plain", FILE, False),
        ("workspace:///a.py?outline", "text/x-python", FILE, False),
        ("workspace:///a.py?outline", "text/plain", "No outline.", False),
        ("mem://x?outlined", "text/plain", FILE, False),
    ],
)
def test_an_outline_is_known_by_the_question_and_its_first_line(
    uri: str, mime_type: str, text: str, found: bool
) -> None:
    assert is_outline(Content(uri, mime_type, text)) is found


PIECES = (
    "workspace:///a (b)\n",
    "?lines=1-2",
    "?outline",
    " ",
    "3 bytes ",
    "2 files, ",
    "\n",
    "/x",
    "<b>",
    "javascript://x (y)\n",
)


@given(text=st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_outline_breaks_the_law_or_changes(text: str) -> None:
    assert show(text).text == visible(text).removesuffix("\n")
    read(sizes(content(text), LINKS))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_signatures_are_only_text(text: str) -> None:
    line = visible(text).replace("\n", " ")
    made = f"workspace:///{line} ({line})\n{line} ?lines=1-2\n5 bytes /{line}?outline\n{line}\n"

    assert show(made).text == made.removesuffix("\n")
    assert all(address.startswith("/workspace/") for address in show(made).addresses())


@pytest.mark.parametrize("piece", [" ", "a", "?lines=", "1 files, ", "a://", "("])
def test_hostile_outlines_take_a_bounded_time(piece: str) -> None:
    text = (piece * 60_000)[:60_000]
    began = thread_time()
    render_outline(content(f"workspace:///a (b)\n{text}"), LINKS)
    render_outline(content(text), LINKS)

    assert thread_time() - began < 2
