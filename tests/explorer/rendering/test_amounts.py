"""Numbers of bytes and counts, as people read them."""

import pytest

from carrel.explorer.rendering.amounts import count, size


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (1_550_000, "1.6 MB"), (2 * 10**15, "2000.0 TB")],
)
def test_a_size_has_the_largest_unit_that_fits(octets: int | None, shown: str) -> None:
    assert size(octets) == shown


@pytest.mark.parametrize(("number", "shown"), [(None, ""), (7, "7"), (1_234_567, "1\u202f234\u202f567")])
def test_thousands_are_set_apart(number: int | None, shown: str) -> None:
    assert count(number) == shown
