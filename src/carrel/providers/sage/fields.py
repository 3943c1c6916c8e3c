"""The text of Sage's files: UTF-8, usually with YAML front matter, whose values are read as `Fields`.

A scalar is its text, and a value of the wrong type counts as missing. An unusable file raises `BadFile`.
"""

from typing import Final, TypeVar

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Plain scalars that YAML reads as null."""
MAX_FRONT_MATTER: Final = 65_536
FENCE: Final = "---"

_Kind = TypeVar("_Kind")


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
        return self._each(name, str)

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
        return self._each(name, Fields)

    def _each(self, name: str, kind: type[_Kind]) -> tuple[_Kind, ...]:
        value = self.get(name)
        return tuple(one for one in (value if isinstance(value, list) else [value]) if isinstance(one, kind))


def decode(data: bytes, *, keeps_line_ends: bool = False) -> str:
    """Return the text of a file without a BOM; line ends become LF unless `keeps_line_ends` is set."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadFile("not UTF-8 text") from None
    if "\0" in text:
        raise BadFile("not UTF-8 text")
    text = text.removeprefix("\ufeff")
    if keeps_line_ends or "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter and the body."""
    if text.partition("\n")[0] != FENCE:
        raise BadFile("no front matter")
    head, is_closed, body = f"{text[len(FENCE) :]}\n".partition(f"\n{FENCE}\n")
    if not is_closed:
        raise BadFile("front matter is not closed")
    return f"{head}\n"[1:], body[:-1]
