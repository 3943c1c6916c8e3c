"""Values read from YAML: a scalar is its text, and a value of the wrong type counts as missing."""

from typing import Final

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Plain scalars that YAML reads as null."""


class BadFile(Exception):
    """A file cannot be used; `reason` says why, in words for the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Fields(dict[str, object]):
    """A YAML mapping, with a reader for each type of value."""

    def text(self, name: str) -> str:
        """Return a text as written, or an empty text."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is a list of one."""
        value = self.get(name)
        if isinstance(value, str):
            return (value,)
        return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()

    def number(self, name: str) -> float | None:
        """Return a number, or None."""
        value = self.get(name)
        if not isinstance(value, str) or len(value) > 64:
            return None
        try:
            return float(value)
        except ValueError:
            return None

    def count(self, name: str) -> int:
        """Return a whole number, or 0."""
        value = self.number(name)
        return int(value) if value is not None and abs(value) < 1e15 else 0

    def share(self, name: str) -> float:
        """Return a number from 0 to 1; any other value counts as 0."""
        value = self.number(name)
        return value if value is not None and 0 <= value <= 1 else 0.0

    def flag(self, name: str) -> bool | None:
        """Return true or false, or None."""
        word = self.text(name).lower()
        return True if word in ("true", "yes", "on") else False if word in ("false", "no", "off") else None

    def mapping(self, name: str) -> "Fields":
        """Return a mapping, or an empty one."""
        value = self.get(name)
        return value if isinstance(value, Fields) else Fields()

    def mappings(self, name: str) -> "tuple[Fields, ...]":
        """Return a list of mappings; a single mapping is a list of one."""
        value = self.get(name)
        if isinstance(value, Fields):
            return (value,)
        return tuple(each for each in value if isinstance(each, Fields)) if isinstance(value, list) else ()
