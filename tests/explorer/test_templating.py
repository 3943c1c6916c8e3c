"""How sizes, numbers and times are spelled."""

import pytest

from carrel.explorer import templating
from carrel.explorer.rendering.amounts import count, size


@pytest.mark.parametrize(
    ("octets", "spelled"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (65_536, "65.5 kB"), (3_000_000_000, "3.0 GB")],
)
def test_a_size_is_short(octets: int | None, spelled: str) -> None:
    assert size(octets) == spelled


def test_numbers_and_times_are_for_people() -> None:
    assert count(1_234_567) == "1\u202f234\u202f567"
    assert count(None) == ""
    assert templating.day(0) == "1970-01-01 00:00"


def test_the_address_of_the_style_sheet_changes_with_it() -> None:
    assert templating.static_address("explorer.css").startswith("/-/static/explorer.css?v=")
    assert templating.static_address("explorer.css") != templating.static_address("explorer.js")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `carrel open` now", "run <code>carrel open</code> now"),
        ("one ` alone <b>", "one ` alone &lt;b&gt;"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
    ],
)
def test_what_stands_between_backticks_is_code(text: str, shown: str) -> None:
    assert templating.coded(text) == shown
