"""Times as text."""

import pytest

from carrel.core.isotime import iso


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_794_808_075_297, "2026-11-16T05:47:55.297Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        (10**23, "9999-12-31T23:59:59.999Z"),
        (-(10**23), "0001-01-01T00:00:00Z"),
    ],
)
def test_every_time_can_be_said_those_of_other_years_as_the_nearest(ms: int, told: str) -> None:
    assert iso(ms) == told
