"""Times in milliseconds since 1970, and as text: ISO 8601 in UTC."""

from contextlib import suppress
from functools import lru_cache
from time import gmtime, time_ns
from typing import Final

_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""From the year 1 to the year 9999. File systems may keep times outside of that."""


def now_ms() -> int:
    """Return the present time in milliseconds since 1970."""
    return time_ns() // 1_000_000


def clamp(ms: int) -> int:
    """Return a time in milliseconds, or the nearest one with a year from 1 to 9999."""
    return min(max(ms, _FIRST_MS), _LAST_MS)


@lru_cache(maxsize=1_024)
def iso(ms: int) -> str:
    """Return milliseconds since 1970 as text, with a fraction only if it is not zero."""
    seconds, fraction = divmod(clamp(ms), 1000)
    year, month, day, hour, minute, second, *_ = gmtime(seconds)
    tail = f".{fraction:03d}Z" if fraction else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{tail}"


def iso_ms(ms: int) -> str:
    """Return milliseconds since 1970 in UTC, always with milliseconds."""
    text = iso(ms)
    return text if ms % 1000 else f"{text[:-1]}.000Z"


def parse_iso(text: object) -> int | None:
    """Return an ISO time in milliseconds since 1970, or None for anything else; without a zone it is UTC."""
    from datetime import UTC, datetime  # only where a time is read

    if isinstance(text, str):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(text)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    return None
