"""What a client prefers, by the weights of its `Accept`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.transports.http.accept import preferred, prefers_html

CHROME = b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
FIREFOX = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SAFARI = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept",
    [
        CHROME,
        FIREFOX,
        SAFARI,
        b"text/html",
        b"TEXT/HTML; Q=0.5",
        b"text/html, */*",
        b"text/html;level=1",
        b"application/json;q=0.5, text/html",
        b"text/html, application/json",
        b"text/html;q=0.9, text/*;q=0.5",
    ],
)
def test_these_prefer_html(accept: bytes) -> None:
    assert prefers_html(accept)


@pytest.mark.parametrize(
    "accept",
    [
        b"",
        b"*/*",
        b"text/*",
        b"application/json",
        b"application/json, text/html",
        b"text/html;q=0",
        b"text/html;q=0.2, */*;q=0.8",
        b"text/html;q=0.5, text/plain;q=0.9",
        b"text/html;q=nonsense",
        b"text/html;q=7",
        b"text/htmlx",
        b"image/avif,image/webp,*/*;q=0.8",
        b"application/json, text/event-stream",
    ],
)
def test_these_do_not(accept: bytes) -> None:
    assert not prefers_html(accept)


def test_the_heaviest_type_wins_and_the_first_where_nothing_is_said() -> None:
    offered = ("text/html", "application/json", "text/markdown")

    assert preferred(b"", offered) == "text/html"
    assert preferred(b"*/*", offered) == "text/html"
    assert preferred(b"text/markdown;q=0.4, application/json;q=0.5", offered) == "application/json"
    assert preferred(b"text/markdown, text/html;q=0.5", offered) == "text/markdown"
    assert preferred(b"application/*", offered) == "application/json"
    assert preferred(b"image/png", offered) == "text/html"


@given(st.binary(max_size=200))
def test_any_header_has_an_answer(accept: bytes) -> None:
    assert prefers_html(accept) in (True, False)
    assert preferred(accept, ("a/b", "c/d")) in ("a/b", "c/d")
