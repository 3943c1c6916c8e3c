"""Escaping, and the one table of what may stand in a page."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markup import (
    Html,
    element,
    escape,
    facts,
    is_web,
    join,
    link,
    outside,
    scrolling,
    visible,
)
from tests.support.html_law import HOSTILE, LINKS, read

ANYTHING = st.text(
    st.one_of(st.sampled_from("<>&\"'\0\r\n\t\x1b\x7f\x85\u202e\u2028\ufeff\ufffe\ud800"), st.characters())
)


@given(text=ANYTHING)
def test_an_escaped_text_reads_as_the_text_that_is_shown(text: str) -> None:
    parsed = read(f"<p>{escape(text)}</p>")

    assert parsed.text == visible(text)
    assert len(parsed.elements) == 1


@given(text=ANYTHING)
def test_an_escaped_attribute_is_the_text_that_is_shown(text: str) -> None:
    [made] = read(element("span", title=text)).elements

    assert made.get("title") == visible(text)


@given(text=ANYTHING)
def test_what_is_shown_can_be_encoded_and_obeys_nothing(text: str) -> None:
    shown = visible(text)

    assert shown.encode().decode() == shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]", shown)


def test_line_ends_are_newlines_and_a_lone_return_is_seen() -> None:
    assert visible("a\r\nb\rc\n") == "a\nb\\x0dc\n"


def test_direction_controls_and_lone_surrogates_are_spelled() -> None:
    assert visible("\u202e\ud800\ufdd0\U0010ffff\x85") == r"\u202e\ud800\ufdd0\U0010ffff\x85"


def test_a_text_that_is_spelled_twice_stays_the_same() -> None:
    once = visible("\x1b\u202e\ud800")

    assert visible(once) == once


def test_a_child_that_is_html_stays_and_any_other_is_escaped() -> None:
    assert element("p", "<b>", Html("<b>x</b>")) == "<p>&lt;b&gt;<b>x</b></p>"


def test_attributes_that_are_none_or_false_are_left_out() -> None:
    assert element("a", "x", href=None, title="") == '<a title="">x</a>'
    assert element("details", open=False) == "<details></details>"
    assert element("details", open=True) == '<details open=""></details>'


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        ("script", {}),
        ("iframe", {}),
        ("p", {"onclick": "x"}),
        ("p", {"style": "x"}),
        ("img", {"srcset": "x"}),
        ("p", {"tabindex": "0"}),
    ],
)
def test_a_name_that_is_not_allowed_is_refused(tag: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"allowed|may not have"):
        element(tag, **attributes)


def test_a_void_element_has_no_end() -> None:
    assert join((element("br"), element("img", src="/x", alt="y"))) == '<br><img src="/x" alt="y">'


def test_a_template_takes_html_as_it_is() -> None:
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string("{{ a }}{{ b }}")

    assert template.render(a=Html("<b>"), b="<b>") == "<b>&lt;b&gt;"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text_everywhere_it_can_stand(text: str) -> None:
    made = join(
        (
            element("p", text, title=text, class_=None),
            facts([(text, text)]),
            scrolling(text, "code", element("pre", text)),
            link("workspace:///x", LINKS, text),
            link(f"nowhere://{text}", LINKS, text),
            outside(text, text),
        )
    )

    assert visible(text).replace("\n", "") in read(made).text.replace("\n", "")


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "//evil.example",
        "data:text/html,x",
        "HTTPS//x",
        " https://x",
        "https://a b",
        "file:///etc",
        "",
    ],
)
def test_an_address_that_is_not_of_the_web_is_not_linked(address: str) -> None:
    assert not is_web(address)
    assert "<a" not in outside(address, "words")


def test_an_address_of_the_web_is_linked_and_tells_nothing() -> None:
    assert outside("https://example.org/a?b=c", "x") == (
        '<a href="https://example.org/a?b=c" rel="noopener noreferrer">x</a>'
    )


def test_a_uri_without_a_page_is_only_its_text() -> None:
    assert link("other://x", LINKS) == "<span>other://x</span>"
    assert link("sage://knowledge/x", LINKS, "x", "id") == '<a href="/sage/knowledge/x" class="id">x</a>'


def test_facts_without_a_value_are_left_out() -> None:
    assert facts([("a", ""), ("b", "c")]) == '<dl class="facts"><dt>b</dt><dd>c</dd></dl>'
    assert facts([("a", "")]) == ""
