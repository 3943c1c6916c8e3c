"""Source code: colours by type and name only, lines with addresses, bounded time, and colours that can be read."""

import re
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.code import (
    LANGUAGES,
    MAX_COLOURED,
    MAX_LINE,
    coloured_lines,
    language_named,
    language_of,
    render_block,
    render_code,
)
from carrel.explorer.rendering.markup import Content, visible
from tests.support.html_law import HOSTILE, read, text_of

STYLE = Path(__file__).parents[3] / "src/carrel/explorer/static/reading.css"
SOURCE = "import os\n\n\ndef f(a: int) -> str:\n    # Why\n    return f\"{a} <b>\" + '\\n'\n"


def _code(text: str, name: str = "a.py", first: int = 1) -> Content:
    return Content(f"workspace:///{name}", "", text, first_line=first)


def test_the_text_of_a_source_is_exactly_its_text() -> None:
    assert read(render_code(_code(SOURCE))).text == SOURCE.removesuffix("\n")


def test_keywords_strings_comments_and_names_have_classes() -> None:
    parsed = read(render_code(_code(SOURCE)))

    assert [text_of(one) for one in parsed.all("span", "k")] == ["import", "def", "return"]
    assert [text_of(one) for one in parsed.all("span", "c")] == ["# Why"]
    assert "f" in [text_of(one) for one in parsed.all("span", "f")]


def test_every_line_has_an_address_from_the_first_number_on() -> None:
    parsed = read(render_code(_code("a = 1\nb = 2\n", first=40)))

    assert [one.get("id") for one in parsed.all("span", "l")] == ["L40", "L41"]
    assert parsed.addresses() == ["#L40", "#L41"]
    assert [one.get("data-n") for one in parsed.all("a", "n")] == ["40", "41"]


def test_the_part_that_scrolls_can_be_reached_by_keys_and_has_a_name() -> None:
    [outer] = read(render_code(_code("a"))).all("div")

    assert (outer.get("tabindex"), outer.get("role"), outer.get("aria-label")) == ("0", "group", "Text")


@pytest.mark.parametrize(
    ("uri", "mime_type", "language"),
    [
        ("workspace:///a.py", "text/x-python", "python"),
        ("workspace:///a", "text/x-python; charset=utf-8", "python"),
        ("workspace:///lib/a.dart", "text/x-dart", "dart"),
        ("workspace:///A.TSX", "text/x-typescript", "tsx"),
        ("workspace:///a.py?blame", "text/plain", "python"),
        ("workspace:///Makefile", "text/plain", "make"),
        ("workspace:///setup.cfg", "text/plain", "ini"),
        ("workspace:///notes.txt", "text/plain", None),
        ("workspace:///x", "", None),
        ("mem://x", "text/x-unheard-of", None),
        ("mem://x", "application/x-python-code", None),
    ],
)
def test_the_language_comes_from_the_type_and_the_name(uri: str, mime_type: str, language: str | None) -> None:
    assert language_of(Content(uri, mime_type, "#!/usr/bin/env python\nimport os\n")) == language


def test_a_fence_names_its_language_in_many_ways() -> None:
    assert [language_named(name) for name in ("py", "Sh", " rust ", "c++", "klingon", "")] == [
        "python", "bash", "rust", "cpp", None, None,
    ]  # fmt: skip


@pytest.mark.slow
def test_every_language_of_the_table_is_there_and_keeps_the_text() -> None:
    text = "a = 'b' # c\n/* d */ <e f=\"g\">1.5</e>\n\n- [x]: {y}\n\t@z\n"

    for language in sorted(LANGUAGES):
        assert read(render_block(text, language)).text == text.removesuffix("\n"), language


@pytest.mark.parametrize("language", ["bash", "html", "javascript", "markdown", "php", "python", "ruby", "yaml", None])
@given(text=st.text(st.one_of(st.sampled_from("<>&\"'`\\/#{}()[]$%@=-: \n\tab1"), st.characters()), max_size=200))
def test_no_text_becomes_anything_but_coloured_text(language: str | None, text: str) -> None:
    assert read(render_block(text, language)).text == visible(text).removesuffix("\n")


@pytest.mark.parametrize("name", ["a.py", "a.html", "a.php", "a.md", "a.svg", "a.vue", "a"])
def test_hostile_sources_are_only_text(name: str) -> None:
    for text in HOSTILE:
        assert read(render_code(_code(text, name))).text == visible(text)


def test_a_long_text_and_a_long_line_have_no_colours() -> None:
    line = "x = 1\n"

    assert "<span" in coloured_lines(line, "python")[0]
    assert coloured_lines("x = " + "1" * MAX_LINE, "python") == ["x = " + "1" * MAX_LINE]
    assert "<span" not in coloured_lines(line * (MAX_COLOURED // len(line) + 1), "python")[0]


PIECES = ("\n", "a b ", "<a ", '"', "\\", "${(")


@pytest.mark.slow
@pytest.mark.parametrize("language", ["java", "yaml"])
def test_a_lexer_that_is_slow_on_hostile_text_stops_at_the_deadline(language: str) -> None:
    coloured_lines("", language)  # the expressions are compiled once
    for piece in ("\n", "a b "):
        text = (piece * MAX_COLOURED)[: MAX_COLOURED // 4]
        text = "\n".join(text[at : at + MAX_LINE] for at in range(0, len(text), MAX_LINE))
        began = thread_time()
        lines = coloured_lines(text, language)

        assert thread_time() - began < 2.5, piece
        assert len(lines) == text.removesuffix("\n").count("\n") + 1


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_no_lexer_takes_long_on_hostile_text(language: str) -> None:
    coloured_lines("", language)
    for piece in PIECES:
        text = (piece * MAX_COLOURED)[: MAX_COLOURED // 32]
        text = "\n".join(text[at : at + MAX_LINE - 1] for at in range(0, len(text), MAX_LINE - 1))
        began = thread_time()
        coloured_lines(text, language)

        assert thread_time() - began < 3, piece


def test_a_line_of_a_megabyte_is_shown_at_once() -> None:
    began = thread_time()
    html = render_code(_code("<" * 1_000_000))

    assert html.count("&lt;") == 1_000_000
    assert thread_time() - began < 1


# The style sheet


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("at", "page"), [(0, "#ffffff"), (1, "#14171a")], ids=["light", "dark"])
def test_every_colour_of_text_can_be_read_on_every_ground_it_may_have(at: int, page: str) -> None:
    colours = _colours(re.findall(r":root \{([^}]*)\}", STYLE.read_text(encoding="utf-8"))[at])
    pairs = [(name, "code-bg") for name in "code-fg quiet c k s m f t e p add del error warning info debug".split()]
    pairs += [(name, "mark") for name in "code-fg k s m f t e p".split()]
    pairs += [("add", "add-bg"), ("del", "del-bg"), ("error", "error-bg"), ("warning", "warning-bg"), ("c", "mark")]
    pairs += [("quiet", "add-bg"), ("quiet", "del-bg")]
    found = {f"{ink} on {ground}": _contrast(colours[ink], colours[ground]) for ink, ground in pairs}
    found |= {f"{ink} on the page": _contrast(colours[ink], page) for ink in "quiet k s m f error add del".split()}

    assert {pair: round(value, 2) for pair, value in found.items() if value < 4.5} == {}


def test_every_class_of_a_token_is_in_the_style_sheet() -> None:
    from carrel.explorer.rendering.code import _CLASSES

    style = STYLE.read_text(encoding="utf-8")

    assert [name for name in set(_CLASSES.values()) if f".{name} {{" not in style] == []
