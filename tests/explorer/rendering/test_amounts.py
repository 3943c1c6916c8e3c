"""Numbers of bytes and counts, as people read them."""

import pytest

from carrel.explorer.rendering.amounts import count, counted, moment, size


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (1_550_000, "1.6 MB"), (2 * 10**15, "2000.0 TB")],
)
def test_a_size_has_the_largest_unit_that_fits(octets: int | None, shown: str) -> None:
    assert size(octets) == shown


@pytest.mark.parametrize(("number", "shown"), [(None, ""), (7, "7"), (1_234_567, "1\u202f234\u202f567")])
def test_thousands_are_set_apart(number: int | None, shown: str) -> None:
    assert count(number) == shown


@pytest.mark.parametrize(("number", "shown"), [(0, "0 lines"), (1, "1 line"), (2_000, "2\u202f000 lines")])
def test_a_noun_has_the_form_that_its_number_asks_for(number: int, shown: str) -> None:
    assert counted(number, "line") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-18T20:07:58.329Z", "2026-11-18 20:07 UTC"),
        ("2026-04-01T00:00:00Z", "2026-04-01 00:00 UTC"),
        ("2026-04-01T00:00:00+02:00", "2026-04-01T00:00:00+02:00"),
        ("yesterday", "yesterday"),
        ("", ""),
    ],
)
def test_a_time_in_utc_is_shown_to_the_minute_and_any_other_text_as_it_is(text: str, shown: str) -> None:
    assert moment(text) == shown
