"""Add and remove an entry in a YAML text by one splice. ruamel.yaml reads it, with the position of everything."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from carrel.connect.errors import BrokenFile, NotSpliceable

_MARK: Final = "\ufeff"
Node = Any
"""A node of ruamel.yaml, which has no types."""


def read(text: str) -> object:
    """Return the document as plain values, an empty dict for an empty one; raise BrokenFile if it is not YAML."""
    from ruamel.yaml.error import YAMLError  # only for hosts with YAML

    try:
        plain = _reader("safe").load(text.removeprefix(_MARK))
    except (YAMLError, ValueError, RecursionError) as error:
        raise BrokenFile(" ".join(str(error).split())[:200]) from None
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise BrokenFile("line 1: the document is not a mapping")
    return plain


def insertions(
    text: str, key: str, name: str, entry: Mapping[str, object], *, is_listed: bool
) -> Iterator[tuple[int, str]]:
    """Yield where to insert which text, best first, so that the entry stands under `key`."""
    root, shift = _compose(text)
    line_end = _line_end(text)
    ours = _item(name, entry, is_listed=is_listed)
    pair = None if root is None else _pair(root, key)
    if pair is None:
        indent = "" if root is None else _indent_at(text, root.start_mark.index + shift)
        block = _block({key: [ours] if is_listed else ours}, indent, line_end)
        gap = "" if not text.strip(_MARK) or text.endswith("\n") else line_end
        yield len(text), gap + block
        if root is not None:
            yield _line_start(text, root.start_mark.index + shift), block
        return
    yield from _into_value(text, pair, shift, ours)


def span(text: str, key: str, name: str, *, is_listed: bool) -> tuple[int, int, str | None]:
    """Return where an entry stands, from the start of its line, and its indentation; None instead in a flow style."""
    root, shift = _compose(text)
    pair = None if root is None else _pair(root, key)
    if pair is None:
        raise NotSpliceable(f"{key} is not there")
    container = pair[1]
    start, value = _place_of(container, name, is_listed=is_listed)
    if container.flow_style:
        return start + shift, _end(value) + shift, None
    indent = _indent_at(text, start + shift) if not is_listed else " " * (container.start_mark.column)
    begin, end = _line_start(text, start + shift), _end(value) + shift
    line_end = text.find("\n", end)
    if begin > start + shift or (text[begin : start + shift].strip(" -") != ""):
        raise NotSpliceable(f"{name} does not begin on its own line")
    return begin, len(text) if line_end < 0 else line_end + 1, indent


def entry_text(text: str, name: str, entry: Mapping[str, object], indent: str | None, *, is_listed: bool) -> str:
    """Return an entry as lines with this indentation; without one, in braces."""
    ours = _item(name, entry, is_listed=is_listed)
    if indent is None:
        return json.dumps(ours, ensure_ascii=False) if is_listed else json.dumps(ours, ensure_ascii=False)[1:-1]
    return _block([ours] if is_listed else ours, indent, _line_end(text))


def cut_key(text: str, key: str) -> str:
    """Return the text without the line of a key that has no value."""
    root, shift = _compose(text)
    pair = None if root is None else _pair(root, key)
    if pair is None or "\n" in text[pair[0].start_mark.index + shift : pair[1].end_mark.index + shift].rstrip():
        return text
    start = _line_start(text, pair[0].start_mark.index + shift)
    end = text.find("\n", start)
    return text[:start] + ("" if end < 0 else text[end + 1 :])


def _into_value(text: str, pair: tuple[Node, Node], shift: int, ours: dict[str, object]) -> Iterator[tuple[int, str]]:
    """Yield the insertions into a mapping or list that exists, or in place of a null."""
    key, value = pair
    line_end = _line_end(text)
    is_listed = value.id == "sequence" or (value.id == "scalar" and "name" in ours and len(ours) > 1)
    shown: object = [ours] if is_listed else ours
    if value.id == "scalar":
        if value.value != "":
            raise NotSpliceable(f"{key.value} has the value {value.value}; remove it, then try again")
        end = text.find("\n", key.end_mark.index + shift)
        indent = _indent_at(text, key.start_mark.index + shift) + "  "
        block = _block(shown, indent, line_end)
        yield (len(text), line_end + block) if end < 0 else (end + 1, block)
        return
    if value.flow_style:
        inner = json.dumps(ours, ensure_ascii=False)
        flow = inner if is_listed else inner[1:-1]
        opening = text.index("[" if is_listed else "{", value.start_mark.index + shift) + 1
        yield opening, flow + (", " if value.value else "")
        return
    first = value.value[0] if is_listed else value.value[0][0]
    start = (value if is_listed else first).start_mark
    begin = _line_start(text, start.index + shift)
    if text[begin : start.index + shift].strip(" "):
        raise NotSpliceable(f"the first entry of {key.value} does not begin on its own line")
    yield begin, _block(shown, " " * start.column, line_end)


def _item(name: str, entry: Mapping[str, object], *, is_listed: bool) -> dict[str, object]:
    return {"name": name, **entry} if is_listed else {name: dict(entry)}


def _block(value: object, indent: str, line_end: str) -> str:
    """Return a mapping or a list of mappings in block style; lists of plain values stay on one line."""
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            inner = _block(item, indent + "  ", line_end)
            lines.append(f"{indent}- {inner.removeprefix(indent + '  ')}")
        return "".join(lines)
    assert isinstance(value, Mapping)
    for key, one in value.items():
        if isinstance(one, Mapping | list) and one and not _is_plain_list(one):
            lines.append(f"{indent}{_scalar(key)}:{line_end}{_block(one, indent + '  ', line_end)}")
        else:
            lines.append(f"{indent}{_scalar(key)}: {_scalar(one)}{line_end}")
    return "".join(lines)


def _is_plain_list(value: object) -> bool:
    return isinstance(value, list) and not any(isinstance(one, Mapping | list) for one in value)


def _scalar(value: object) -> str:
    """Return a plain value: words as they are, everything else as JSON, which is YAML too."""
    is_word = isinstance(value, str) and value.replace("-", "").replace("_", "").isalpha() and value.isascii()
    if is_word and str(value).lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n"):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _reader(kind: str) -> Any:
    from ruamel.yaml import YAML  # only for hosts with YAML

    reader = YAML(typ=kind, pure=True)
    reader.composer.warn_double_anchors = False
    return reader


def _compose(text: str) -> tuple[Node, int]:
    """Return the root node, None for an empty document, and how far its marks are from places in the text."""
    from ruamel.yaml.error import YAMLError  # only for hosts with YAML

    bare = text.removeprefix(_MARK)
    try:
        return _reader("rt").compose(bare), len(text) - len(bare)
    except (YAMLError, ValueError, RecursionError) as error:
        raise BrokenFile(" ".join(str(error).split())[:200]) from None


def _pair(root: Node, key: str) -> tuple[Node, Node] | None:
    return next((pair for pair in root.value if pair[0].value == key), None)


def _place_of(container: Node, name: str, *, is_listed: bool) -> tuple[int, Node]:
    """Return where an entry begins, and its value."""
    for item in container.value if container.id in ("mapping", "sequence") else ():
        if is_listed and item.id == "mapping":
            found = _pair(item, "name")
            if found is not None and found[1].value == name:
                return item.start_mark.index, item
        elif not is_listed and item[0].value == name:
            return item[0].start_mark.index, item[1]
    raise NotSpliceable(f"{name} is not there")


def _end(node: Node) -> int:
    """Return the position of a value's last character; the mark of a block is after blank lines and comments."""
    if node.id == "scalar" or node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if node.id == "mapping" else last)


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1 or len(text) - len(text.removeprefix(_MARK))


def _indent_at(text: str, place: int) -> str:
    line = text[_line_start(text, place) : place]
    return line[: len(line) - len(line.lstrip(" "))]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
