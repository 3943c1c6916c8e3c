"""Amounts for people: numbers of bytes, and counts."""

from typing import Final

_STEP: Final = 1_000
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def size(octets: int | None) -> str:
    """Return a number of bytes for people."""
    if octets is None:
        return ""
    amount, unit = float(octets), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{octets} B" if not unit else f"{amount:.1f} {_UNITS[unit]}"


def count(number: int | None) -> str:
    """Return a number for people, with thin spaces between thousands."""
    return "" if number is None else f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
