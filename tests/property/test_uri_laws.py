"""Laws of `carrel.core.uri`: what holds for every text."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.core import uri
from carrel.core.errors import BadArgument

TEXT = st.text()
"""Anything that can be encoded; `ANYTHING` also has lone surrogates, and more of what URIs are made of."""
ANYTHING = st.text(st.one_of(st.sampled_from("%%%24afAF:/?#&=+.~ {}\0\n\x7f\ud800öÉ"), st.characters()))

CALLS: dict[str, Callable[[str], object]] = {
    "scheme_of": uri.scheme_of,
    "split_query": uri.split_query,
    "decode": uri.decode,
    "quote": uri.quote,
    "pairs": uri.pairs,
    "without": lambda text: uri.without(text, frozenset({"a", ""})),
    "with_query": lambda text: uri.with_query("a:b?" + text, a=text),
    "normalise": uri.normalise,
    "same": lambda text: uri.same(text, "a:b"),
}


@pytest.mark.parametrize("name", CALLS)
@given(text=ANYTHING)
@example(text="%" * 65_536)
@example(text="%C3" * 20_000)
@example(text="a:" + "&a=" * 20_000)
@example(text="?" + "&" * 65_536)
def test_no_text_makes_anything_else_be_raised(name: str, text: str) -> None:
    with contextlib.suppress(BadArgument):
        CALLS[name](text)


@given(text=TEXT.filter(lambda text: "\0" not in text), safe=st.sampled_from(["", uri.SEGMENT_SAFE, uri.PATH_SAFE]))
def test_what_is_quoted_decodes_to_itself(text: str, safe: str) -> None:
    quoted = uri.quote(text, safe)

    assert (uri.decode(quoted), set(quoted) - set(uri.UNRESERVED + safe + "%")) == (text, set())


@given(text=TEXT)
def test_a_quoted_text_is_spelt_normally(text: str) -> None:
    quoted = "x:///" + uri.quote(text, uri.PATH_SAFE)

    assert uri.normalise(quoted) == quoted


@given(text=ANYTHING)
@example(text="a://%C3%89")
@example(text="%41:B")
@example(text="%%34%31")
@example(text="A://B??")
def test_normalising_twice_is_normalising_once(text: str) -> None:
    with contextlib.suppress(BadArgument):
        once = uri.normalise(text)

        assert uri.normalise(once) == once


@given(text=ANYTHING)
def test_normalising_changes_the_spelling_only(text: str) -> None:
    path = "x:///" + text.replace("?", "")

    with contextlib.suppress(BadArgument):
        assert uri.decode(path) == uri.decode(uri.normalise(path))


@given(text=ANYTHING)
def test_a_scheme_is_what_stands_before_the_first_colon(text: str) -> None:
    with contextlib.suppress(BadArgument):
        assert uri.scheme_of(text) == text.partition(":")[0].lower()


@given(texts=st.tuples(ANYTHING, ANYTHING))
def test_being_the_same_has_no_direction(texts: tuple[str, str]) -> None:
    a, b = texts

    with contextlib.suppress(BadArgument):
        assert (uri.same(a, b), uri.same(a, a)) == (uri.same(b, a), True)


NAMES = st.text(min_size=1).filter(lambda name: "\0" not in name)
VALUES = TEXT.filter(lambda text: "\0" not in text)


@given(head=st.sampled_from(["a:b", "a:b?", "a:b?x=%7a&&y"]), values=st.dictionaries(NAMES, VALUES, max_size=8))
def test_parameters_that_were_set_are_read_back(head: str, values: dict[str, str]) -> None:
    query = uri.split_query(uri.with_query(head, **values))[1]
    kept = [(name, value) for name, value in uri.pairs(uri.split_query(head)[1] or "") if name not in values]

    assert uri.pairs(query or "") == [*kept, *values.items()]


@given(head=st.sampled_from(["a:b", "a:b?x=%7a&y"]), values=st.dictionaries(NAMES, VALUES, max_size=8))
def test_parameters_that_were_set_can_be_removed(head: str, values: dict[str, str]) -> None:
    names = frozenset(values)

    assert uri.without(uri.with_query(head, **values), names) == uri.without(head, names)
