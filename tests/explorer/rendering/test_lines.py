"""Lines with numbers that can be linked to."""

from carrel.explorer.rendering.code import render_code
from carrel.explorer.rendering.lines import numbered, width
from carrel.explorer.rendering.logs import render_log
from carrel.explorer.rendering.markup import Content, Html
from tests.support.html_law import read, text_of


def test_lines_have_numbers_addresses_and_levels_and_keep_their_text() -> None:
    parsed = read(numbered([Html("a &lt; b"), Html("")], 7, ["error", ""]))

    assert [(one.get("id"), one.get("data-level")) for one in parsed.all("span", "l")] == [
        ("L7", "error"),
        ("L8", None),
    ]
    assert [one.get("href") for one in parsed.all("a")] == ["#L7", "#L8"]
    assert [text_of(one) for one in parsed.all("span", "l")] == ["a < b", ""]


def test_lines_whose_numbers_are_not_known_have_none() -> None:
    assert "<a" not in numbered([Html("a")], 0)


def test_numbers_of_more_than_four_digits_have_room() -> None:
    near = Content("workspace:///a.py", "text/x-python", "x\n" * 3)
    far = Content("workspace:///a.py", "text/x-python", "x\n" * 3, first_line=9_998)

    assert width(near) == ""
    assert 'class="code far scroll"' in render_code(far)
    assert 'class="code log far scroll"' in render_log(far)
