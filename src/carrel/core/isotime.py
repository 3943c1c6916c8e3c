"""Times as text: ISO 8601, UTC, as every page of Carrel spells them."""

from functools import lru_cache
from time import gmtime
from typing import Final

_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""From the year 1 to the year 9999. Some file systems keep times of any year."""


def sayable(ms: int) -> int:
    """Give a time, or the nearest one that has a year of four digits."""
    return min(max(ms, _FIRST_MS), _LAST_MS)


@lru_cache(maxsize=1_024)
def iso(ms: int) -> str:
    """Spell milliseconds since 1970: UTC, with milliseconds only where there are any."""
    seconds, fraction = divmod(sayable(ms), 1000)
    year, month, day, hour, minute, second, *_ = gmtime(seconds)
    tail = f".{fraction:03d}Z" if fraction else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{tail}"
