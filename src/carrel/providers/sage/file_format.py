"""The text of Sage's files: UTF-8, usually with YAML front matter. An unusable file raises `BadFile`."""

import re
from typing import Final

from carrel.providers.sage.fields import NULLS, BadFile, Fields

MAX_FRONT_MATTER: Final = 65_536
FENCE: Final = "---"

_WORDS: Final = r"[A-Za-z0-9_./+][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*"
_SIMPLE: Final = re.compile(rf"([a-z_]+): (?:'([^'\n]*)'|({_WORDS}))")
"""A line that means the same to every YAML reader. Most files have no other lines, and then PyYAML is not imported."""


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
    if text != FENCE and not text.startswith(FENCE + "\n"):
        raise BadFile("no front matter")
    after = text[len(FENCE) + 1 :]
    if after == FENCE or after.startswith(FENCE + "\n"):
        return "", after[len(FENCE) + 1 :]
    end = after.find(f"\n{FENCE}\n")
    if end < 0:
        if not after.endswith(f"\n{FENCE}"):
            raise BadFile("front matter is not closed")
        end = len(after) - len(FENCE) - 1
    return after[: end + 1], after[end + len(FENCE) + 2 :]


def read_front_matter(text: str) -> tuple[Fields, str]:
    """Return the fields of the front matter, and the body."""
    head, body = split_front_matter(text)
    return read_fields(head), body


def read_fields(head: str) -> Fields:
    """Return the fields of front matter, which begins on the second line of its file."""
    size = len(head.encode()) if not head.isascii() else len(head)
    if size > MAX_FRONT_MATTER:
        raise BadFile(f"too large ({size} bytes, limit {MAX_FRONT_MATTER})")
    return _read_simple(head) or read_mapping(head, first_line=2)


def read_mapping(text: str, *, first_line: int = 1) -> Fields:
    """Return the one mapping of a YAML text."""
    from carrel.providers.sage.yaml_text import read_yaml  # PyYAML takes long to import

    value = read_yaml(text, first_line=first_line)
    if not isinstance(value, Fields):
        raise BadFile("not a mapping")
    return value


def _read_simple(head: str) -> Fields | None:
    fields = Fields()
    for line in head.split("\n")[:-1]:
        found = _SIMPLE.fullmatch(line)
        if found is None:
            return None
        key, quoted, plain = found.groups()
        fields[key] = quoted if plain is None else None if plain in NULLS else plain
    return fields
