"""Which part of a tree is asked for: its parameters, read by their own rules."""

import re
from collections.abc import Mapping
from typing import Final

from carrel.core.errors import echo
from carrel.core.record import Value
from carrel.providers.scopes.scope_errors import invalid

MAX_DEPTH: Final = 5
MAX_SKIP: Final = 2_147_483_647
DEFAULT_NODES: Final = 1_000
PARAMETERS: Final = ("depth", "skip", "limit", "max_nodes")

_INTEGER: Final = re.compile(r"([+-]?)0*+([0-9]*+)")
_MANY_DIGITS: Final = 18


class Wanted(Value, frozen=True, gc=False):
    """What of a tree is asked for. None where a parameter was not given."""

    depth: int | None = None
    skip: int | None = None
    limit: int | None = None
    max_nodes: int | None = None

    def query(self) -> str:
        """Spell it as a URI's query, in the order of the parameters."""
        given = [(name, getattr(self, name)) for name in PARAMETERS]
        spelled = "&".join(f"{name}={value}" for name, value in given if value is not None)
        return f"?{spelled}" if spelled else ""


def parse_wanted(given: Mapping[str, str], ceiling: int) -> Wanted:
    """Read the parameters: a depth is made to fit, every other value must."""
    return Wanted(
        depth=_depth(given["depth"]) if "depth" in given else None,
        skip=_number(given, "skip", 0, MAX_SKIP),
        limit=_number(given, "limit", 1, ceiling),
        max_nodes=_number(given, "max_nodes", 1, ceiling),
    )


def _depth(text: str) -> int:
    number = read_integer(text)
    return 1 if number is None else min(max(number, 1), MAX_DEPTH)


def _number(given: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    if name not in given:
        return None
    number = read_integer(given[name])
    if number is None or not low <= number <= high:
        value = echo(given[name])
        raise invalid(f"Invalid parameter: {name}={value} (expected an integer from {low} to {high})")
    return number


def read_integer(text: str) -> int | None:
    """Read an optional sign and ASCII digits, however many; None if it is anything else."""
    found = _INTEGER.fullmatch(text)
    if found is None or not text[-1:].isdigit():
        return None
    digits = found[2] if len(found[2]) <= _MANY_DIGITS else "9" * _MANY_DIGITS
    number = int(digits or "0")
    return -number if found[1] == "-" else number
