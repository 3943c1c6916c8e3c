"""Times as text: ISO 8601, UTC, as every page of Carrel spells them."""

from functools import lru_cache
from time import gmtime


@lru_cache(maxsize=1_024)
def iso(ms: int) -> str:
    """Spell milliseconds since 1970: UTC, with milliseconds only where there are any."""
    seconds, fraction = divmod(ms, 1000)
    year, month, day, hour, minute, second, *_ = gmtime(seconds)
    tail = f".{fraction:03d}Z" if fraction else "Z"
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{tail}"
