"""Add, find and remove our entry in the text of a settings file, in any of its formats.

A change is one splice, and is checked before it is returned: the new text is read again, and without our entry it must
be what the old text was. A change that fails the check is not made.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carrel.connect import json_splice, toml_splice, yaml_splice
from carrel.connect.errors import BrokenFile, NotSpliceable
from carrel.connect.hosts import Format
from carrel.core.record import Value

Entry = Mapping[str, object]
Plain = Any
"""A document as plain values: dicts, lists, texts and numbers."""


class EntryPlace(Value, frozen=True):
    """Where an entry belongs in a file."""

    format: Format
    key: tuple[str, ...]
    name: str
    is_listed: bool = False
    new_file: Mapping[str, object] = {}

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the entry."""
        return (*self.key, self.name)


class Spliced(Value, frozen=True):
    """A changed text, and what was inserted into the old one: an empty text if an entry was replaced."""

    text: str
    piece: str
    made: int = 0
    """How many of the keys that lead to the entry were missing before."""


def read(text: str, target: EntryPlace) -> Plain:
    """Return a document as plain values; raise BrokenFile if its host cannot read it."""
    if target.format == "toml":
        return toml_splice.read(text)
    if target.format == "yaml":
        return yaml_splice.read(text)
    return json_splice.read(text, is_strict=target.format == "json")


def find(text: str, target: EntryPlace) -> Entry | None:
    """Return our entry; None if there is none."""
    entry = _found(read(text, target), target)
    return entry if isinstance(entry, Mapping) else None


def add(text: str, target: EntryPlace, entry: Entry) -> Spliced:
    """Return the text with our entry; raise BrokenFile or NotSpliceable if that cannot be done."""
    before = read(text, target)
    if _found(before, target) is not None:
        replaced = _replaced(text, target, entry)
        if _bare(read(replaced, target), target, before) != _bare(before, target, before):
            raise NotSpliceable("our entry cannot be changed without changing something else")
        return Spliced(replaced, "")
    made = sum(1 for number in range(len(target.key)) if _at(before, target.key[: number + 1]) is None)
    for place, piece in _insertions(text, target, entry):
        after = text[:place] + piece + text[place:]
        if _is_ours_only(before, after, target, entry, is_new=not text.strip("\ufeff \t\r\n")):
            return Spliced(after, piece, made)
    raise NotSpliceable(f"our entry cannot be added under {'.'.join(target.key)} without changing something else")


def remove(text: str, target: EntryPlace, piece: str = "", made: int = 0) -> str:
    """Return the text without our entry: what `add` was given, if `piece` is what it inserted.

    Without the piece, cut out the entry itself, and the `made` innermost keys above it if they are empty then.
    """
    before = read(text, target)
    place = text.find(piece) if piece else -1
    while place >= 0:
        after = text[:place] + text[place + len(piece) :]
        if _is_without(before, after, target):
            return after
        place = text.find(piece, place + 1)
    after = _cut(text, target)
    if not _is_without(before, after, target):
        raise NotSpliceable("our entry cannot be removed without changing something else")
    return _without_empty(after, target, made)


def _without_empty(text: str, target: EntryPlace, made: int) -> str:
    """Return the text without the `made` innermost keys that led to our entry, as far as they are empty now."""
    for number in range(made):
        key = target.key[: len(target.key) - number]
        if target.format == "toml" or _at(read(text, target), key) not in ({}, [], None):
            break
        text = yaml_splice.cut_key(text, key[0]) if target.format == "yaml" else json_splice.cut(text, key)
    return text


def is_empty(text: str, target: EntryPlace) -> bool:
    """Return whether a document holds nothing but what a new file needs."""
    plain = read(text, target)
    return all(target.new_file.get(key) == value for key, value in plain.items())


def rendered(target: EntryPlace, entry: Entry) -> str:
    """Return a new file with only our entry."""
    return add("", target, entry).text


def _insertions(text: str, target: EntryPlace, entry: Entry) -> Iterator[tuple[int, str]]:
    if target.format == "toml":
        return toml_splice.insertions(text, target.path, entry)
    if target.format == "yaml":
        return _yaml_insertions(text, target, entry)
    return iter([json_splice.insertion(text, target.path, entry)])


def _yaml_insertions(text: str, target: EntryPlace, entry: Entry) -> Iterator[tuple[int, str]]:
    is_new = not text.strip("\ufeff \t\r\n")
    header = "".join(f"{key}: {value}\n" for key, value in target.new_file.items()) if is_new else ""
    for place, piece in yaml_splice.insertions(text, target.key[0], target.name, entry, is_listed=target.is_listed):
        yield place, header + piece


def _replaced(text: str, target: EntryPlace, entry: Entry) -> str:
    if target.format == "toml":
        start, end = toml_splice.span(text, target.path)
        return text[:start] + toml_splice.rendered(text, target.path, entry) + text[end:]
    if target.format == "yaml":
        start, end, indent = yaml_splice.span(text, target.key[0], target.name, is_listed=target.is_listed)
        ours = yaml_splice.entry_text(text, target.name, entry, indent, is_listed=target.is_listed)
        return text[:start] + ours + text[end:]
    start, end, value = json_splice.replacement(text, target.path, entry)
    return text[:start] + value + text[end:]


def _cut(text: str, target: EntryPlace) -> str:
    if target.format == "toml":
        start, end = toml_splice.span(text, target.path)
        return text[:start] + text[end:]
    if target.format == "yaml":
        start, end, indent = yaml_splice.span(text, target.key[0], target.name, is_listed=target.is_listed)
        if indent is None:
            raise NotSpliceable("our entry is written in braces; remove it by hand")
        return text[:start] + text[end:]
    return json_splice.cut(text, target.path)


# Checks


def _is_ours_only(before: Plain, after: str, target: EntryPlace, entry: Entry, *, is_new: bool) -> bool:
    """Return whether a text has our entry, and is otherwise what it was."""
    try:
        plain = read(after, target)
    except BrokenFile:
        return False
    found = _found(plain, target)
    wanted = {"name": target.name, **entry} if target.is_listed else dict(entry)
    if repr(found) != repr(wanted):
        return False
    if is_new:
        return True
    return _bare(plain, target, before) == _bare(before, target, before)


def _is_without(before: Plain, after: str, target: EntryPlace) -> bool:
    """Return whether a text lacks our entry, and is otherwise what it was."""
    try:
        plain = read(after, target) if after.strip("\ufeff \t\r\n") else {}
    except BrokenFile:
        return False
    if _found(plain, target) is not None:
        return False
    if not plain and set(before) <= {target.key[0], *target.new_file}:
        return _bare(before, target, {}) in ("{}", repr(dict(target.new_file)))
    return _bare(before, target, plain) == _bare(plain, target, plain)


def _bare(plain: Plain, target: EntryPlace, model: Plain) -> str:
    """Return a document as text, without our entry and without keys above it that `model` does not have."""
    plain = copy.deepcopy(plain)
    container = _at(plain, target.key)
    if isinstance(container, dict):
        container.pop(target.name, None)
    elif isinstance(container, list):
        container[:] = [one for one in container if not _is_named(one, target.name)]
    for number in range(len(target.key), 0, -1):
        above, key = _at(plain, target.key[: number - 1]), target.key[number - 1]
        if not isinstance(above, dict) or above.get(key) not in ({}, [], None):
            break
        known = _at(model, target.key[: number - 1])
        if not isinstance(known, dict) or key not in known:
            above.pop(key, None)
        elif known[key] is None:
            above[key] = None
    return repr(plain)


def _at(plain: Plain, path: Sequence[str]) -> Plain:
    for key in path:
        if not isinstance(plain, dict):
            return None
        plain = plain.get(key)
    return plain


def _found(plain: Plain, target: EntryPlace) -> Plain:
    container = _at(plain, target.key)
    if isinstance(container, list):
        return next((one for one in container if _is_named(one, target.name)), None)
    return container.get(target.name) if isinstance(container, dict) else None


def _is_named(item: Plain, name: str) -> bool:
    return isinstance(item, dict) and item.get("name") == name
