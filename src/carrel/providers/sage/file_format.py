"""How Sage's files are written: UTF-8 text, YAML front matter, and values taken as they are written.

YAML is read event by event, never by a recursive loader: nothing in it is resolved or built, a
scalar is its text, and neither depth nor aliases can hurt. What cannot be read raises `Broken`.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FRONT_MATTER: Final = 65_536
MAX_ALIASES: Final = 100
MAX_DEPTH: Final = 100
FENCE: Final = "---"

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_WORDS: Final = r"[A-Za-z0-9_./+][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*"
_SIMPLE: Final = re.compile(rf"([a-z_]+): (?:'([^'\n]*)'|({_WORDS}))")
"""A line every YAML reader reads alike; files that have no other kind need no YAML reader."""

Fields = Mapping[str, Any]


class Broken(Exception):
    """A file cannot be read; `reason` is one of the page's reasons."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(data: bytes, *, keeps_line_ends: bool = False) -> str:
    """Give the text of a file: without a BOM and, but for system files, with LF alone."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Broken("not UTF-8 text") from None
    if "\0" in text:
        raise Broken("not UTF-8 text")
    text = text.removeprefix("\ufeff")
    if keeps_line_ends or "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_front_matter(text: str) -> tuple[str, str]:
    """Give the front matter and what follows it."""
    if text != FENCE and not text.startswith(FENCE + "\n"):
        raise Broken("no front matter")
    after = text[len(FENCE) + 1 :]
    if after == FENCE or after.startswith(FENCE + "\n"):
        return "", after[len(FENCE) + 1 :]
    end = after.find(f"\n{FENCE}\n")
    if end < 0:
        if not after.endswith(f"\n{FENCE}"):
            raise Broken("front matter is not closed")
        end = len(after) - len(FENCE) - 1
    return after[: end + 1], after[end + len(FENCE) + 2 :]


def read_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Give a file's fields and its body."""
    head, body = split_front_matter(text)
    return read_fields(head), body


def read_fields(head: str) -> dict[str, Any]:
    """Read front matter, which begins on the second line of its file."""
    size = len(head.encode()) if not head.isascii() else len(head)
    if size > MAX_FRONT_MATTER:
        raise Broken(f"too large ({size} bytes, limit {MAX_FRONT_MATTER})")
    simple = _read_simple(head)
    return simple if simple is not None else read_mapping(head, first_line=2)


def read_mapping(text: str, *, first_line: int = 1) -> dict[str, Any]:
    """Read YAML that is one mapping."""
    value = read_yaml(text, first_line=first_line)
    if not isinstance(value, dict):
        raise Broken("not a mapping")
    return value


def _read_simple(head: str) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    for line in head.split("\n")[:-1]:
        found = _SIMPLE.fullmatch(line)
        if found is None:
            return None
        key, quoted, plain = found.groups()
        fields[key] = quoted if plain is None else None if plain in _NULLS else plain
    return fields or None


def read_yaml(text: str, *, first_line: int = 1) -> Any:
    """Give the one document of a YAML text: dicts, lists, texts, and None for a plain null."""
    import yaml  # only where there is YAML that is not simple

    aliases = 0
    builder = _Builder()
    try:
        for event in read_events(text):
            if type(event).__name__ == "AliasEvent":
                aliases += 1
                if aliases > MAX_ALIASES or event.anchor not in builder.anchors:
                    raise _invalid(event.start_mark.line, first_line)
            if not builder.take(event):
                raise _invalid(event.start_mark.line, first_line)
    except yaml.MarkedYAMLError as error:
        marks: list[Any] = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
        raise _invalid(marks[0].line if marks else 0, first_line) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        raise _invalid(text.count("\n", 0, position if isinstance(position, int) else 0), first_line) from None
    return builder.value


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_events(text: str) -> "Iterator[Any]":
    """Give the events of a YAML text, for those who write it again; the caller has read it before."""
    import yaml

    return iter(yaml.parse(text, Loader=_loader()))


def _invalid(line: int, first_line: int) -> Broken:
    return Broken(f"not valid YAML (line {line + first_line})")


class _Builder:
    """Makes values of events, without recursion. An alias is the very object it names."""

    def __init__(self) -> None:
        self.value: Any = None
        self.anchors: dict[str, Any] = {}
        self._open: list[tuple[Any, list[Any]]] = []
        self._documents = 0

    def take(self, event: Any) -> bool:
        """Take an event; tell whether it may stand there."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            is_null = event.implicit[0] and not event.style and event.value in _NULLS
            self._put(event.anchor, None if is_null else event.value)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            made: Any = {} if kind == "MappingStartEvent" else []
            self._put(event.anchor, made)
            self._open.append((made, []))
            return len(self._open) <= MAX_DEPTH
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._open.pop()
        elif kind == "AliasEvent":
            self._put(None, self.anchors[event.anchor])
        elif kind == "DocumentStartEvent":
            self._documents += 1
            return self._documents == 1
        return True

    def _put(self, anchor: str | None, value: Any) -> None:
        if anchor is not None:
            self.anchors[anchor] = value
        if not self._open:
            self.value = value
            return
        into, key = self._open[-1]
        if isinstance(into, list):
            into.append(value)
        elif not key:
            key.append(value)
        else:
            name = key.pop()
            if isinstance(name, str):
                into[name] = value


# Values out of fields: what has the wrong type counts as missing.


def text_of(fields: Fields, name: str) -> str:
    """Give a text as it was written; empty if it is missing."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def texts_of(fields: Fields, name: str) -> tuple[str, ...]:
    """Give a list of texts; a single one is a list of one."""
    value = fields.get(name)
    if isinstance(value, str):
        return (value,)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def number_of(fields: Fields, name: str) -> float | None:
    """Give a number; None if it is missing or none."""
    value = fields.get(name)
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        return float(value)
    except ValueError:
        return None


def count_of(fields: Fields, name: str) -> int:
    """Give a whole number; 0 if it is missing or none."""
    value = number_of(fields, name)
    return int(value) if value is not None and abs(value) < 1e15 else 0


def share_of(fields: Fields, name: str) -> float:
    """Give a number from 0 to 1; anything else counts as 0."""
    value = number_of(fields, name)
    return value if value is not None and 0 <= value <= 1 else 0.0


def flag_of(fields: Fields, name: str) -> bool | None:
    """Give yes or no; None if it is missing or neither."""
    word = text_of(fields, name).lower()
    return True if word in ("true", "yes", "on") else False if word in ("false", "no", "off") else None


def mapping_of(fields: Fields, name: str) -> Fields:
    """Give a mapping; an empty one if it is missing."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def mappings_of(fields: Fields, name: str) -> tuple[Fields, ...]:
    """Give a list of mappings; a single one is a list of one."""
    value = fields.get(name)
    if isinstance(value, dict):
        return (value,)
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
