"""Times as text."""

import pytest

from carrel.core.isotime import iso, parse_iso


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


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-16T05:47:55.297Z", 1_794_808_075_297),
        ("2026-11-16T06:47:55.297+01:00", 1_794_808_075_297),
        ("2026-11-16T05:47:55.297", 1_794_808_075_297),
        ("2026-11-16", 1_794_787_200_000),
        ("yesterday", None),
        ("", None),
        (1_794_808_075_297, None),
        (None, None),
    ],
)
def test_an_iso_time_is_read_in_any_zone_and_anything_else_is_none(text: object, ms: int | None) -> None:
    assert parse_iso(text) == ms
