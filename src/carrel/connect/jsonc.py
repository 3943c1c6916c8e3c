"""Read JSON with comments and trailing commas, with the position of everything.

Numbers and strings have the strict form of JSON. The parser is our own, since no parser of the standard library or of
our dependencies tells positions.
"""

import json
import re
from typing import Final

from carrel.connect.errors import BrokenFile
from carrel.core.record import Value

MAX_DEPTH: Final = 200
_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_COMMENT: Final = re.compile(r"//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_WORD: Final = re.compile(r"true\b|false\b|null\b")
_MARK: Final = "\ufeff"


class JsonMember(Value, frozen=True):
    """A key, its value, and their positions."""

    key: str
    start: int
    node: "JsonNode"
    comma: int | None
    """The position of the comma after the value."""


class JsonNode(Value, frozen=True):
    """A value, where it begins and ends, and its members if it is an object."""

    start: int
    end: int
    plain: object
    members: tuple[JsonMember, ...] | None = None

    def find(self, key: str) -> JsonMember | None:
        """Return the last member with this key, which is the one that counts."""
        return next((member for member in reversed(self.members or ()) if member.key == key), None)


def parse(text: str, *, is_strict: bool) -> JsonNode | None:
    """Return the document; None if it is empty. Raise BrokenFile if it is not JSON.

    With `is_strict`, comments and commas after the last value are errors too.
    """
    parser = _JsonParser(text, is_strict)
    place = parser.skip(len(_MARK) if text.startswith(_MARK) else 0)
    if place == len(text):
        return None
    node = parser.value(place, 0)
    place = parser.skip(node.end)
    if place != len(text):
        raise parser.broken("there is something after the end", place)
    return node


class _JsonParser:
    def __init__(self, text: str, is_strict: bool) -> None:
        self._text = text
        self._is_strict = is_strict

    def broken(self, why: str, place: int) -> BrokenFile:
        line = self._text.count("\n", 0, place) + 1
        column = place - self._text.rfind("\n", 0, place)
        return BrokenFile(f"line {line}, column {column}: {why}")

    def skip(self, place: int) -> int:
        """Return the place of the next thing that is neither space nor comment."""
        while True:
            space = _SPACE.match(self._text, place)
            place = space.end() if space else place
            if not self._text.startswith("/", place):
                return place
            comment = _COMMENT.match(self._text, place)
            if comment is None:
                raise self.broken("a comment does not end", place)
            if self._is_strict:
                raise self.broken("this host's settings may not have comments", place)
            place = comment.end()

    def value(self, place: int, depth: int) -> JsonNode:
        """Return the value that begins here."""
        if depth > MAX_DEPTH:
            raise self.broken(f"nested more than {MAX_DEPTH} deep", place)
        if self._text.startswith("{", place):
            return self._object(place, depth)
        if self._text.startswith("[", place):
            return self._array(place, depth)
        for form in (_STRING, _NUMBER, _WORD):
            found = form.match(self._text, place)
            if found is not None:
                return JsonNode(place, found.end(), _plain(found[0]))
        raise self.broken("a value is missing or misspelt", place)

    def _object(self, start: int, depth: int) -> JsonNode:
        members: list[JsonMember] = []
        place = self.skip(start + 1)
        while not self._ends(place, "}", bool(members)):
            key = _STRING.match(self._text, place)
            if key is None:
                raise self.broken("a key in double quotes is missing", place)
            colon = self.skip(key.end())
            if not self._text.startswith(":", colon):
                raise self.broken("a colon is missing", colon)
            node = self.value(self.skip(colon + 1), depth + 1)
            comma, place = self._after(node.end, "}")
            members.append(JsonMember(str(_plain(key[0])), key.start(), node, comma))
        plain = {member.key: member.node.plain for member in members}
        return JsonNode(start, place + 1, plain, tuple(members))

    def _array(self, start: int, depth: int) -> JsonNode:
        items: list[object] = []
        place = self.skip(start + 1)
        while not self._ends(place, "]", bool(items)):
            node = self.value(place, depth + 1)
            items.append(node.plain)
            _, place = self._after(node.end, "]")
        return JsonNode(start, place + 1, items)

    def _ends(self, place: int, closing: str, has_values: bool) -> bool:
        if not self._text.startswith(closing, place):
            return False
        if has_values and self._is_strict and self._text[self._before(place)] == ",":
            raise self.broken("this host's settings may not have a comma after the last value", place)
        return True

    def _before(self, place: int) -> int:
        """Return the position of the last character before this one that is not a space; comments are skipped too."""
        place -= 1
        while self._text[place] in " \t\r\n":
            place -= 1
        return place

    def _after(self, place: int, closing: str) -> tuple[int | None, int]:
        """Return the place of the comma after a value, and of what follows it."""
        place = self.skip(place)
        if self._text.startswith(",", place):
            return place, self.skip(place + 1)
        if not self._text.startswith(closing, place):
            raise self.broken(f"a comma or {closing} is missing", place)
        return None, place


def _plain(token: str) -> object:
    try:
        return json.loads(token)
    except ValueError:  # a number with more digits than Python converts
        return token
