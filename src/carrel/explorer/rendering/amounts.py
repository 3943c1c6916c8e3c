"""Amounts and times for people: numbers of bytes, counts, moments in UTC."""

import re
from typing import Final

_STEP: Final = 1_000
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d{1,9})?)?Z", re.ASCII)


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


def noun(number: int, singular: str) -> str:
    """Return a noun in the form that a number asks for."""
    return singular if number == 1 else f"{singular}s"


def counted(number: int, singular: str) -> str:
    """Return a number with a noun, such as `1 line` or `2 lines`."""
    return f"{count(number)} {noun(number, singular)}"


def moment(text: str) -> str:
    """Return a time of ISO 8601 in UTC for people, to the minute; any other text as it is."""
    found = _MOMENT.fullmatch(text)
    return f"{found[1]} {found[2]} UTC" if found else text
