"""The front matter of a `SKILL.md`: YAML as JSON, with every value as its author wrote it.

Scalars are resolved by the core schema of YAML 1.2, as hosts do: a date, `yes` and `12:30` are texts. Nothing is built
but mappings, lists, texts, numbers, booleans and null. The size is bounded, whatever aliases say.
"""

import re
from typing import Final

import yaml

from carrel.core.record import Value

MAX_BYTES: Final = 16_384
MAX_NODES: Final = 1_000
MAX_DEPTH: Final = 32
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1_024
NAME_RULE: Final = f"1 to {MAX_NAME} of a-z, 0-9 and -, with no - at its start or end and no two - in a row"

_BLOCK: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)(?:(?<=\n)|\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LARGEST: Final = 2**63 - 1
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadFrontMatter(Exception):
    """The front matter cannot be used; the message says why, for people."""


class FrontMatter(Value, frozen=True):
    """The fields of a skill; `name` and `description` are among them."""

    fields: dict[str, object]
    name: str
    description: str


def parse(text: str, folder: str) -> FrontMatter:
    """Return the front matter of a `SKILL.md` in a folder of this name; raise `BadFrontMatter`."""
    found = _BLOCK.match(text)
    if found is None:
        raise BadFrontMatter("it does not begin with front matter between two lines ---")
    fields = _read(found[1])
    if not isinstance(fields, dict):
        raise BadFrontMatter("its front matter is not a mapping of names to values")
    name, description = (_required(fields, key) for key in ("name", "description"))
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise BadFrontMatter(f"its name is not {NAME_RULE}")
    if name != folder:
        raise BadFrontMatter(f"its name is {name}, but its folder is {folder}")
    if len(description) > MAX_DESCRIPTION:
        raise BadFrontMatter(f"its description has {len(description)} characters; {MAX_DESCRIPTION} are allowed")
    return FrontMatter(fields, name, description)


def _required(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    if value is None or value == "":
        raise BadFrontMatter(f"its front matter has no {key}")
    if not isinstance(value, str):
        raise BadFrontMatter(f"its {key} is not a text")
    if not value.strip():
        raise BadFrontMatter(f"its front matter has no {key}")
    return value


def _read(text: str) -> object:
    if len(text.encode()) > MAX_BYTES:
        raise BadFrontMatter(f"its front matter is larger than {MAX_BYTES} bytes")
    builder = _FieldBuilder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.add(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _invalid(mark.line if mark else 0) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        raise _invalid(text.count("\n", 0, position if isinstance(position, int) else 0)) from None
    return builder.value


def _invalid(line: int) -> BadFrontMatter:
    return BadFrontMatter(f"its front matter is not valid YAML (line {line + 2})")


class _OpenNode:
    """A value that is being built, and how many nodes and characters it has with everything inside."""

    __slots__ = ("anchor", "characters", "key", "size", "value")

    def __init__(self, value: dict[str, object] | list[object], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.size = 1
        self.characters = 0


class _FieldBuilder:
    """Builds the value of one document from events."""

    def __init__(self) -> None:
        self.value: object = None
        self._anchors: dict[str, tuple[object, int, int]] = {}
        self._open: list[_OpenNode] = []
        self._documents = 0

    def add(self, event: yaml.Event) -> None:
        """Add an event; raise for one that is not allowed."""
        if isinstance(event, yaml.ScalarEvent):
            self._put(event.anchor, _scalar(event), 1, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise BadFrontMatter(f"its front matter is nested deeper than {MAX_DEPTH} levels")
            made: dict[str, object] | list[object] = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._open.append(_OpenNode(made, event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            node = self._open.pop()
            self._put(node.anchor, node.value, node.size, node.characters)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _invalid(event.start_mark.line if event.start_mark else 0)
            self._put(None, *self._anchors[event.anchor])
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _invalid(event.start_mark.line if event.start_mark else 0)

    def _put(self, anchor: str | None, value: object, size: int, characters: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, size, characters
        if not self._open:
            self.value = value
            return
        into = self._open[-1]
        into.size += size
        into.characters += characters
        if into.size > MAX_NODES:
            raise BadFrontMatter(f"its front matter has more than {MAX_NODES} values")
        if into.characters > MAX_BYTES:
            raise BadFrontMatter(f"its front matter has more than {MAX_BYTES} characters with its aliases")
        if isinstance(into.value, list):
            into.value.append(value)
        elif into.key is None:
            into.key = _key(value)
            if into.key in into.value:
                raise BadFrontMatter(f"its front matter has {into.key[:MAX_NAME]} twice")
        else:
            into.value[into.key] = value
            into.key = None


def _key(value: object) -> str:
    """Return a key as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise BadFrontMatter("its front matter has a mapping or a list as a name")
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return str(value)


def _scalar(event: yaml.ScalarEvent) -> object:
    """Return a scalar as the core schema resolves it; what JSON cannot have stays as it was written."""
    text: str = event.value
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadFrontMatter("its front matter holds half of a surrogate pair")
    is_plain = event.implicit[0] and not event.style
    if not is_plain or event.tag not in (None, "!"):
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(text) if len(text) <= 20 else _LARGEST + 1
        return number if abs(number) <= _LARGEST else text
    if _FLOAT.fullmatch(text) and len(text) <= MAX_NAME:
        value = float(text)
        return text if value in (float("inf"), float("-inf")) else value
    return text
