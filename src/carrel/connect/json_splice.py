"""Add and remove an entry in a JSON text by one splice: every other byte stays, comments and commas included."""

import json
from collections.abc import Mapping, Sequence

from carrel.connect.errors import BrokenFile, NotSpliceable
from carrel.connect.jsonc import JsonMember, JsonNode, parse


def read(text: str, *, is_strict: bool = False) -> object:
    """Return the plain value of a document, an empty dict for an empty one; raise BrokenFile if it is not JSON."""
    node = parse(text, is_strict=is_strict)
    if node is None:
        return {}
    if node.members is None:
        raise BrokenFile("line 1: the document is not an object")
    return node.plain


def insertion(text: str, path: Sequence[str], entry: object) -> tuple[int, str]:
    """Return where to insert which text, so that the object at `path` has the entry under the last key of `path`."""
    root = parse(text, is_strict=False)
    line_end = _line_end(text)
    if root is None:
        wrapped = entry
        for key in reversed(path):
            wrapped = {key: wrapped}
        # Text before it, such as a comment, keeps its line.
        gap = "" if not text.strip("\ufeff") or text.endswith("\n") else line_end
        return len(text), gap + render(wrapped, "", _unit(text, root), line_end) + line_end
    node, rest = _deepest(root, path)
    value = entry
    for key in reversed(rest[1:]):
        value = {key: value}
    return _into_object(text, node, rest[0], value, _unit(text, root))


def replacement(text: str, path: Sequence[str], entry: object) -> tuple[int, int, str]:
    """Return which part of the text to replace by what, so that the value at `path` becomes `entry`."""
    root = parse(text, is_strict=False)
    assert root is not None
    member = _member(root, path)
    indent = _indent_at(text, member.start)
    unit = "" if _is_one_line(text, member.node) and member.node.members else _unit(text, root)
    return member.node.start, member.node.end, render(entry, indent, unit, _line_end(text))


def cut(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`, and without the comma that belonged to it."""
    root = parse(text, is_strict=False)
    assert root is not None
    parent = root
    for key in path[:-1]:
        found = parent.find(key)
        assert found is not None
        parent = found.node
    member = _member(root, path)
    members = parent.members or ()
    place = members.index(member)
    start = _after_previous(text, member.start)
    if member.comma is not None:
        return text[:start] + text[member.comma + 1 :]
    without = text[:start] + text[member.node.end :]
    comma = members[place - 1].comma if place else None
    if comma is not None:
        return without[:comma] + without[comma + 1 :]
    inside = without[parent.start + 1 : parent.end - 1 - (len(text) - len(without))]
    return without if inside.strip() else without[: parent.start + 1] + without[parent.start + 1 + len(inside) :]


def _after_previous(text: str, place: int) -> int:
    """Return where the space before a place begins; a comment up to the end of its line keeps the line end."""
    start = place
    while text[start - 1] in " \t\r\n":
        start -= 1
    has_line_comment = "//" in text[text.rfind("\n", 0, start) + 1 : start]
    return text.index("\n", start) + 1 if has_line_comment and "\n" in text[start:place] else start


def render(value: object, indent: str, unit: str, line_end: str) -> str:
    """Return a value as JSON: objects over several lines if there is a unit of indentation, lists on one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    if not unit or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + unit
    members = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {render(one, inner, unit, line_end)}"
        for key, one in value.items()
    ]
    return "{" + line_end + f",{line_end}".join(members) + line_end + indent + "}"


def _deepest(root: JsonNode, path: Sequence[str]) -> tuple[JsonNode, Sequence[str]]:
    """Return the innermost object on the way to `path`, and the keys that are missing in it."""
    node = root
    for number, key in enumerate(path):
        if node.members is None:
            raise NotSpliceable(f"{'.'.join(path[:number]) or 'the document'} is not an object")
        member = node.find(key)
        if member is None:
            return node, path[number:]
        node = member.node
    raise NotSpliceable(f"{'.'.join(path)} exists already")


def _member(root: JsonNode, path: Sequence[str]) -> JsonMember:
    node, member = root, None
    for key in path:
        member = node.find(key)
        if member is None:
            raise NotSpliceable(f"{'.'.join(path)} is not there")
        node = member.node
    assert member is not None
    return member


def _into_object(text: str, node: JsonNode, key: str, value: object, unit: str) -> tuple[int, str]:
    line_end = _line_end(text)
    name = json.dumps(key, ensure_ascii=False)
    if not node.members:
        return _into_empty(text, node, name, value, unit)
    last = node.members[-1]
    is_inline = not _begins_line(text, last.start)
    indent = "" if is_inline else _indent_at(text, last.start)
    gap = " " if is_inline else line_end + indent
    member = f"{name}: {render(value, indent, '' if is_inline else unit, line_end)}"
    place = last.node.end if last.comma is None else last.comma + 1
    opening = node.start + 1
    if _has_comment(text, place) and not is_inline and not _has_comment(text, opening):
        # The comment behind the last value would seem to be about ours.
        return opening, f"{gap}{member},"
    return (place, f",{gap}{member}") if last.comma is None else (place, f"{gap}{member},")


def _into_empty(text: str, node: JsonNode, name: str, value: object, unit: str) -> tuple[int, str]:
    line_end = _line_end(text)
    if "\n" not in text.strip():
        return node.start + 1, f"{name}: {json.dumps(value, ensure_ascii=False)}"
    indent = _indent_at(text, node.start)
    member = f"{name}: {render(value, indent + unit, unit, line_end)}"
    ends_line = "\n" in text[node.start : node.end]
    return node.start + 1, f"{line_end}{indent}{unit}{member}" + ("" if ends_line else f"{line_end}{indent}")


def _unit(text: str, root: JsonNode | None) -> str:
    """Return one level of indentation as this file has it."""
    for member in (root.members or ()) if root is not None else ():
        if _begins_line(text, member.start):
            return _indent_at(text, member.start) or "  "
    return "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, place: int) -> bool:
    before = text[:place].rstrip(" \t")
    return not before or before[-1] in "\r\n\ufeff"


def _is_one_line(text: str, node: JsonNode) -> bool:
    return "\n" not in text[node.start : node.end]


def _has_comment(text: str, place: int) -> bool:
    """Return whether a comment follows on the same line."""
    end = text.find("\n", place)
    return text[place : end if end >= 0 else len(text)].strip(" \t\r,").startswith("/")
