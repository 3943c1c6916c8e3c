"""Laws of `UriTemplate`: matching undoes expanding, nothing surprises, hostile text costs little."""

import contextlib
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.core.errors import BadArgument, TemplateError
from carrel.core.template import UriTemplate

LITERAL = st.text(
    st.one_of(st.sampled_from("aab./%+*()[]\\^$|-~ö"), st.characters(codec="utf-8", exclude_categories=["Cc"]))
)
CLEAN = LITERAL.map(lambda text: "".join(character for character in text if character not in "{}?#"))
VALUE = st.text(st.one_of(st.sampled_from("aab./%+?#&=2Fö\n"), st.characters(codec="utf-8", exclude_characters="\0")))
SEGMENT = VALUE.map(lambda text: text.replace("/", "")).filter(bool)
ANYTHING = st.text(st.one_of(st.sampled_from("{{}}+?,*:/%aab=&#\0\ud800"), st.characters()))


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Draw a template of the allowed grammar and values for it."""
    names = iter(draw(st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), unique=True, min_size=8)))
    count = draw(st.integers(0, 4))
    rest = draw(st.integers(-1, count - 1))
    text = draw(st.sampled_from(["a:", "Ab+c.1-d:", "x://", "x:///", "x://host/"])) + draw(CLEAN)
    values: dict[str, str] = {}
    for place in range(count):
        name = next(names)
        values[name] = draw(VALUE if place == rest else SEGMENT)
        text += f"{{+{name}}}" if place == rest else f"{{{name}}}"
        text += draw(CLEAN)
        if place < count - 1:
            text += "/" + draw(CLEAN)
    query = [next(names) for _ in range(draw(st.integers(0, 4)))]
    values |= {name: draw(VALUE) for name in query if draw(st.booleans())}
    return text + (f"{{?{','.join(query)}}}" if query else ""), values


@given(templates())
@example(("a:{+x}.md", {"x": "a.md"}))
@example(("a:{x}/{+y}/{z}", {"x": "%2F", "y": "/", "z": "?"}))
@example(("a:/{x}aba", {"x": "ab"}))
def test_matching_an_expansion_gives_the_values_back(drawn: tuple[str, dict[str, str]]) -> None:
    text, values = drawn
    template = UriTemplate(text)

    assert template.match(template.expand(values)) == values


@given(templates())
def test_a_parsed_template_tells_its_variables(drawn: tuple[str, dict[str, str]]) -> None:
    text, values = drawn
    template = UriTemplate(text)

    assert set(values) <= set(template.variables)
    assert template.is_fixed == (template.literal_start == text)
    assert text.startswith(template.literal_start)


@given(templates())
def test_the_case_of_the_scheme_and_the_order_of_the_query_do_not_matter(drawn: tuple[str, dict[str, str]]) -> None:
    text, values = drawn
    template = UriTemplate(text)
    head, _, query = template.expand(values).partition("?")
    scheme, _, path = head.partition(":")
    turned = f"{scheme.swapcase()}:{path}?{'&'.join(reversed(query.split('&')))}"

    assert template.match(turned) == values


@given(templates(), ANYTHING)
def test_no_text_makes_matching_raise_and_a_match_can_be_expanded(drawn: tuple[str, dict[str, str]], tail: str) -> None:
    template = UriTemplate(drawn[0])

    for uri in (tail, template.literal_start + tail):
        values = template.match(uri)
        if values is not None:
            assert template.match(template.expand(values)) == values


@given(templates(), ANYTHING)
def test_no_value_makes_expanding_raise_anything_else(drawn: tuple[str, dict[str, str]], value: str) -> None:
    template = UriTemplate(drawn[0])
    values = dict.fromkeys(template.variables, value)

    with contextlib.suppress(BadArgument):
        assert template.match(template.expand(values)) == values


@given(ANYTHING, st.sampled_from(["", "a:", "a:/{x}/", "a:{+x}/{"]))
@example("{x}/" * 20_000, "a:")
@example("{" * 65_536, "a:")
@example("(" * 65_536, "a:")
@example(",".join(["{x"] * 20_000), "a:")
def test_no_text_makes_parsing_raise_anything_else(text: str, start: str) -> None:
    with contextlib.suppress(TemplateError):
        assert UriTemplate(start + text).text == start + text


SIZE = 65_536
GENEROUS_S = 0.05
NASTY = [
    "a:///{x}",
    "a:///{x}.json",
    "a:///{x}aaab",
    "a:///p{x}s/q{y}t",
    "a:///{+x}",
    "a:///{+x}/end",
    "a:///{+x}aaab",
    "a:///{+x}/aa/aa/aa/ab",
    "a:///{+x}/{b}/{c}/{d}/{e}z",
    "a:///{p}a/{+x}/a{q}ab",
    "a:///{+x}.a/{b}.a/{c}.ab",
    "a:///{+x}a/a{y}a/a{z}ab",
    "a:///{+x}/a{?a,b}",
]
HOSTILE = {
    "slashes": "/" * SIZE,
    "percent signs": "%" * SIZE,
    "escapes": "%41" * (SIZE // 3),
    "letters": "a" * SIZE,
    "short segments": "a/" * (SIZE // 2),
    "near misses of a literal suffix": "/aa" * (SIZE // 3),
    "near misses of many variables": "q.a/" * (SIZE // 4),
    "near misses of long segments": ("a" * 250 + "/") * (SIZE // 251) + "a",
    "a late NUL": "/a" * (SIZE // 2) + "\0",
    "non-ASCII": "ö/" * (SIZE // 2),
    "repeated parameters": "x/a?" + "&a=" * (SIZE // 3),
    "ampersands": "x/a?" + "&" * SIZE,
    "question marks": "?" * SIZE,
}


@pytest.mark.parametrize("text", NASTY)
def test_a_hostile_uri_is_matched_in_little_time(text: str) -> None:
    template = UriTemplate(text)

    def takes_little(uri: str) -> bool:
        start = time.thread_time()
        template.match(uri)
        return time.thread_time() - start < GENEROUS_S

    assert [kind for kind, path in HOSTILE.items() if not any(takes_little("a:///" + path) for _ in range(5))] == []
