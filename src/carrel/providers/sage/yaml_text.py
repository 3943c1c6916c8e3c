"""YAML: read event by event, and changed node by node.

Reading constructs no objects: a scalar is its text, and neither depth nor aliases can take much time or memory.
Changing the knowledge index keeps every node that Carrel does not know, so unknown keys, values and types stay.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from carrel.providers.sage.fields import NULLS, BadFile, Fields

MAX_ALIASES: Final = 100
MAX_DEPTH: Final = 100
_WIDTH: Final = 1 << 30
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SEQUENCE: Final = "tag:yaml.org,2002:seq"


def read_yaml(text: str, *, first_line: int = 1) -> object:
    """Return the one document of a text: `Fields`, lists, texts, and None for a plain null."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if not builder.add(event):
                raise _invalid(event.start_mark.line if event.start_mark else 0, first_line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _invalid(mark.line if mark else 0, first_line) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        raise _invalid(text.count("\n", 0, position if isinstance(position, int) else 0), first_line) from None
    return builder.value


def _invalid(line: int, first_line: int) -> BadFile:
    return BadFile(f"not valid YAML (line {line + first_line})")


class _Builder:
    """Builds values from events without recursion. An alias is the same object as its anchor."""

    def __init__(self) -> None:
        self.value: object = None
        self._anchors: dict[str, object] = {}
        self._open: list[tuple[Fields | list[object], list[object]]] = []
        self._documents = self._aliases = 0

    def add(self, event: yaml.Event) -> bool:
        """Add an event; return whether it is allowed."""
        if isinstance(event, yaml.ScalarEvent):
            is_null = event.implicit[0] and not event.style and event.value in NULLS
            self._put(event.anchor, None if is_null else event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            made: Fields | list[object] = Fields() if isinstance(event, yaml.MappingStartEvent) else []
            self._put(event.anchor, made)
            self._open.append((made, []))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            if event.anchor not in self._anchors:
                return False
            self._put(None, self._anchors[event.anchor])
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
        return len(self._open) <= MAX_DEPTH and self._aliases <= MAX_ALIASES and self._documents <= 1

    def _put(self, anchor: str | None, value: object) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        if not self._open:
            self.value = value
            return
        into, key = self._open[-1]
        if isinstance(into, list):
            into.append(value)
        elif not key:
            key.append(value)
        elif isinstance(name := key.pop(), str):
            into[name] = value


def dump(value: object) -> str:
    """Return a value as YAML: keys in their order, block style, Unicode kept."""
    text: str = yaml.dump(
        value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_WIDTH
    )
    return text


# The knowledge index


def put_item(text: str, item: Mapping[str, object], others: Sequence[Mapping[str, object]] = ()) -> str:
    """Return the index with an item put last, in the place of one with its id; a new index begins with `others`."""
    if not text.strip():
        return dump({"version": 1, "items": [_new_item(each) for each in (*others, item)]})
    root, every = _index(text)
    named = (node for node in every if isinstance(node, yaml.MappingNode))
    replaced = [node for node in named if _text(_child(node, "id")) == item["id"]]
    new = _merge(replaced[-1], item) if replaced else _node(_new_item(item))
    return _with_items(root, [*(node for node in every if node not in replaced), new])


def join_items(text: str, other: str) -> str:
    """Return an index with the items put last that only another index has."""
    root, every = _index(text)
    known = {_text(_child(node, "id")) for node in every}
    new = [node for node in _index(other)[1] if _text(_child(node, "id")) not in known]
    return _with_items(root, [*every, *new]) if new else text


def _index(text: str) -> tuple[yaml.MappingNode, list[yaml.Node]]:
    # Reading refuses a text that is too deep for `compose`, which is recursive.
    root = yaml.compose(text, Loader=_LOADER) if isinstance(read_yaml(text), Fields) else None
    if not isinstance(root, yaml.MappingNode):
        raise BadFile("not a mapping")
    items = _child(root, "items")
    if not isinstance(items, yaml.SequenceNode | None) and _text(items) not in NULLS:
        raise BadFile("not a mapping")
    return root, items.value if isinstance(items, yaml.SequenceNode) else []


def _with_items(root: yaml.MappingNode, every: list[yaml.Node]) -> str:
    changed = yaml.SequenceNode(_SEQUENCE, every)
    pairs = root.value if _child(root, "items") is not None else [*root.value, (_node("items"), changed)]
    root.value = [(key, changed if _text(key) == "items" else value) for key, value in pairs]
    _use_block_style(root)
    return str(yaml.serialize(root, Dumper=_DUMPER, allow_unicode=True, width=_WIDTH))


def _new_item(item: Mapping[str, object]) -> dict[str, object]:
    """Return an item as it is first written: without values of None, with the keys that Sage expects."""
    # New lists for each item: YAML writes a shared list as an alias.
    expected: dict[str, dict[str, object]] = {"triggers": {"patterns": []}, "scope": {"always": False}}
    made: dict[str, object] = {}
    for key, value in item.items():
        if isinstance(value, Mapping):
            kept = {name: part for name, part in value.items() if part is not None}
            made[key] = {**kept, **expected.get(key, {})}
        else:
            made[key] = value
    return made


def _merge(old: yaml.MappingNode, new: Mapping[str, object]) -> yaml.MappingNode:
    """Return a mapping with new values; None removes a key, and keys that `new` does not have are kept.

    It is a new node, because an alias may refer to the old one.
    """
    made: list[tuple[yaml.Node, yaml.Node]] = []
    for key, value in new.items():
        before = _child(old, key)
        if isinstance(value, Mapping) and isinstance(before, yaml.MappingNode):
            made.append((_node(key), _merge(before, value)))
        elif value is not None:
            made.append((_node(key), _node(_new_item({key: value})[key])))
    return yaml.MappingNode(old.tag, made + [(key, value) for key, value in old.value if _text(key) not in new])


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    """Return the value of a key, or None if there is no such key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in reversed(pairs) if _text(key) == name), None)


def _text(node: yaml.Node | None) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _node(value: object) -> yaml.Node:
    made = yaml.compose(dump(value), Loader=_LOADER)
    assert made is not None
    return made


def _use_block_style(root: yaml.Node) -> None:
    ahead, seen = [root], set[yaml.Node]()
    while ahead:
        node = ahead.pop()
        if isinstance(node, yaml.CollectionNode) and node not in seen:
            seen.add(node)
            node.flow_style = False
            ahead += [part for child in node.value for part in (child if isinstance(child, tuple) else (child,))]
