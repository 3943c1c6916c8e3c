"""Regular expressions are matched in linear time; what they need is never more than they do."""

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.search import expressions
from carrel.search.expressions import CONTINUED, Need, TextTooLong, fault_of, need_of, phrase_source, quoted, spans


@pytest.mark.parametrize(
    ("source", "literals"),
    [
        ("foo", ("foo",)),
        (r"fn \w+_handler\(", ("fn ", "_handler(")),
        ("foo+bar", ("foo", "bar")),
        ("foo?bar", ("fo", "bar")),
        ("foo*", ("fo",)),
        ("fo{2,3}bar", ("fo", "bar")),
        ("fo{0,3}bar", ("f", "bar")),
        ("^foo$", ("foo",)),
        (r"\bfoo\b", ("foo",)),
        ("[Ff]oo", ("Foo",)),
        ("[fg]oo", ("oo",)),
        ("foo.bar", ("foo", "bar")),
        (r"a\.b", ("a.b",)),
        ("(?i)foo", ("foo",)),
        (r"foo\w+", (f"foo{CONTINUED}",)),
        (r"foo_[a-f0-9]{2}bar", (f"foo_{CONTINUED}", "bar")),
        (r"foo\w*", ("foo",)),
        (r"foo[a-z-]", ("foo",)),
        (r"foo \w+", ("foo ",)),
        (f"foo{CONTINUED}", ()),
        (r"\x41bc", ()),
        (r"\Qfoo\E", ()),
        ("a{b", ("a{b",)),
        ("->{", ("->{",)),
        ("a{,3}+b", ("a{,3}", "b")),
        ("+a", ()),
    ],
)
def test_a_sequence_needs_its_literals(source: str, literals: tuple[str, ...]) -> None:
    assert need_of(source) == Need(literals)


def test_alternatives_need_one_of_them() -> None:
    assert need_of("foo|bar") == Need(needs=(Need(("foo",)), Need(("bar",))), is_any=True)
    assert not need_of("foo|.*")


def test_a_group_needs_what_is_in_it_unless_it_may_be_left_out() -> None:
    assert need_of("a(?:foo)+b") == Need(("a", "b"), (Need(("foo",)),))
    assert need_of("a(foo)?b") == Need(("a", "b"))
    assert need_of("a(?P<name>foo|bar)b").needs[0].is_any


def test_a_deep_expression_is_not_followed_to_its_end() -> None:
    assert not need_of("(" * 500 + "a" + ")" * 500)


@pytest.mark.parametrize("source", ["(", "a{2000}{2000}", r"(a)\1", "(?=a)", "[z-a]", "\udc80"])
def test_what_cannot_be_matched_in_linear_time_has_a_fault_in_words(source: str) -> None:
    fault = fault_of(source)

    assert fault
    assert "Error" not in fault
    assert "(?m)" not in fault, "nobody wrote that"


def test_positions_are_of_characters() -> None:
    assert spans("b", "äb漢b") == [(1, 2), (3, 4)]
    assert spans("b", "\udc80b") == [(1, 2)]


def test_the_ends_of_lines_are_ends() -> None:
    assert spans("^b$", "a\nb\nc") == [(2, 3)]
    assert spans("a.b", "a\nb") == []


def test_a_phrase_minds_neither_case_nor_white_space() -> None:
    assert spans(phrase_source("connection refused (111)"), "Connection\n   Refused\t(111)") == [(0, 27)]


def test_an_expression_that_others_never_end_is_fast() -> None:
    started = time.process_time()

    spans("(a+)+$", "a" * 100_000 + "b")

    assert time.process_time() - started < 1


@pytest.mark.parametrize("source", ["b", "^b$", "foo", r"\bfo+\b", "c$", "z", "[ab]+", r"a\s+foo"])
@pytest.mark.parametrize("unit", ["a b\nb\nfoo c\n", "ä b\nb\nfoo c\n漢a\n foo"])
def test_a_slow_expression_matches_in_windows_what_it_matches_in_the_whole(
    monkeypatch: pytest.MonkeyPatch, source: str, unit: str
) -> None:
    whole = spans(source, unit * 30, 500)
    monkeypatch.setattr(expressions, "_MAX_STEPS", 0)
    monkeypatch.setattr(expressions, "_WINDOW", 16)
    monkeypatch.setattr(expressions, "_OVERLAP", 8)

    assert spans(source, unit * 30, 500) == whole


def test_a_slow_expression_is_given_up_in_a_long_text_unless_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(random.Random(1).choices("ab", k=1 << 20))
    monkeypatch.setattr(expressions, "_WINDOWS_S", 0.0)

    with pytest.raises(TextTooLong):
        spans(r"(\w{1,60}a){10}c", text)
    assert spans(r"(\w{1,60}a){10}c", f"{'b' * 9}{'a' * 40}c {text}")[0] == (0, 50)


def test_no_more_matches_are_looked_for_than_asked() -> None:
    assert len(spans("a", "a" * 1_000, 7)) == 7


ATOMS = st.sampled_from(
    ["a", "b", "_", "ab", "foo", "Bar", ".", r"\w", r"\d", r"\s", "[ab]", "[^a]", "[Ff]", r"\.", "1", " "]
)
SOURCES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "+?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"^{one}"),
    ),
    max_leaves=8,
)


def holds(need: Need, text: str) -> bool:
    """Return whether a text holds what is needed."""
    if need.is_any:
        return any(holds(inner, text) for inner in need.needs)
    folded = text.lower()
    return all(literal.lower() in folded for literal in need.literals) and all(holds(n, text) for n in need.needs)


@given(SOURCES, st.text(alphabet="abfoBar_.1 \nF", max_size=30))
def test_a_text_that_matches_holds_what_is_needed(source: str, text: str) -> None:
    matched = spans(source, text)

    assert (
        [span for span in matched if span[0] < span[1]][:50]
        == [match.span() for match in re.finditer(source, text, re.MULTILINE | re.ASCII) if match[0]][:50]
        or "+?" in source
        or "*" in source
    )
    if matched:
        assert holds(need_of(source), text)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_has_a_fault(source: str) -> None:
    if fault_of(source) is None:
        spans(source, "some text\nof two lines")
        need_of(source)


@given(st.text(max_size=60).filter(str.isprintable))
def test_a_quoted_text_matches_itself(text: str) -> None:
    assert not text or spans(quoted(text), f"\n{text}\n")[0] == (1, 1 + len(text))
