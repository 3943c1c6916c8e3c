"""YAML, read and written event by event.

Reading resolves and builds nothing: a scalar is its text, and neither depth nor aliases can hurt. Changing the
knowledge index keeps every event that Carrel does not understand, so unknown keys, values and types survive.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import yaml

from carrel.providers.sage.fields import NULLS, BadFile, Fields

MAX_ALIASES: Final = 100
MAX_DEPTH: Final = 100
_WIDTH: Final = 1 << 30
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Events = list[yaml.Event]
Pair = tuple[str | None, Events, Events]
"""A key's text (None if it is not a scalar), its events, and the events of its value."""


def read_yaml(text: str, *, first_line: int = 1) -> object:
    """Return the one document of a text: `Fields`, lists, texts, and None for a plain null."""
    builder = _Builder()
    try:
        for event in _parse(text):
            if not builder.add(event):
                raise _invalid(event.start_mark.line if event.start_mark else 0, first_line)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _invalid(mark.line if mark else 0, first_line) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        raise _invalid(text.count("\n", 0, position if isinstance(position, int) else 0), first_line) from None
    return builder.value


def _parse(text: str) -> Iterator[yaml.Event]:
    return iter(yaml.parse(text, Loader=_LOADER))


def _invalid(line: int, first_line: int = 1) -> BadFile:
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
    if not isinstance(read_yaml(text), Fields):
        raise BadFile("not a mapping")
    events = list(_parse(text))
    start = next(at for at, event in enumerate(events) if isinstance(event, yaml.MappingStartEvent))
    end = _end(events, start)
    pairs = _with_item(_pairs(events[start:end]), item)
    joined = [*events[:start], *_mapping(events[start], pairs), *events[end:]]
    _check_aliases(joined)
    for event in joined:
        if isinstance(event, yaml.CollectionStartEvent):
            event.flow_style = False
    return str(yaml.emit(joined, Dumper=_DUMPER, allow_unicode=True, width=_WIDTH))


def _new_item(item: Mapping[str, object]) -> dict[str, object]:
    """Return an item as it is first written: without what is None, with the keys that Sage expects."""
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


def _with_item(pairs: list[Pair], item: Mapping[str, object]) -> list[Pair]:
    at = next((at for at, (key, _, _) in enumerate(pairs) if key == "items"), None)
    if at is None:
        return [*pairs, ("items", _events("items"), _events([_new_item(item)]))]
    key, key_events, old = pairs[at]
    if isinstance(old[0], yaml.SequenceStartEvent):
        nodes = [(_id_of(node), node) for node in _nodes(old[1:-1])]
        replaced = [node for name, node in nodes if name == item["id"]]
        new = _merge(replaced[-1], item) if replaced else _events(_new_item(item))
        kept = [event for name, node in nodes if name != item["id"] for event in node]
        items = [old[0], *kept, *new, old[-1]]
    elif isinstance(old[0], yaml.ScalarEvent) and old[0].value in ("", "~", "null"):
        items = _events([_new_item(item)])
    else:
        raise BadFile("not a mapping")
    return [*pairs[:at], (key, key_events, items), *pairs[at + 1 :]]


def _merge(old: Events, new: Mapping[str, object]) -> Events:
    """Return a mapping's events with new values; None removes a key, and keys that `new` does not have are kept."""
    before = _pairs(old)
    known = {key: value for key, _, value in before if key is not None}
    made: list[Pair] = []
    for key, value in new.items():
        was = known.get(key)
        if isinstance(value, Mapping) and was is not None and isinstance(was[0], yaml.MappingStartEvent):
            made.append((key, _events(key), _merge(was, value)))
        elif value is not None:
            made.append((key, _events(key), _events(value)))
    return _mapping(old[0], [*made, *(pair for pair in before if pair[0] is None or pair[0] not in new)])


def _end(events: Events, start: int) -> int:
    """Return the index after the node that starts at `start`."""
    depth = 0
    for at in range(start, len(events)):
        depth += isinstance(events[at], yaml.CollectionStartEvent) - isinstance(events[at], yaml.CollectionEndEvent)
        if depth == 0:
            return at + 1
    raise _invalid(0)


def _nodes(events: Events) -> list[Events]:
    nodes = []
    at = 0
    while at < len(events):
        end = _end(events, at)
        nodes.append(events[at:end])
        at = end
    return nodes


def _pairs(mapping: Events) -> list[Pair]:
    nodes = _nodes(mapping[1:-1])
    return [(_scalar(key), key, value) for key, value in zip(nodes[::2], nodes[1::2], strict=True)]


def _scalar(node: Events) -> str | None:
    return node[0].value if isinstance(node[0], yaml.ScalarEvent) else None


def _mapping(start: yaml.Event, pairs: Sequence[Pair]) -> Events:
    return [start, *(event for _, key, value in pairs for event in (*key, *value)), yaml.MappingEndEvent()]


def _id_of(node: Events) -> str | None:
    """Return the id of an index entry, or None if it has none."""
    if not isinstance(node[0], yaml.MappingStartEvent):
        return None
    return {key: _scalar(value) for key, _, value in _pairs(node)}.get("id")


def _events(value: object) -> Events:
    """Return the events of a new value, without those of stream and document."""
    return list(_parse(dump(value)))[2:-2]


def _check_aliases(events: Events) -> None:
    """Raise `BadFile` if an alias names an anchor that the replaced item had."""
    anchors: set[str | None] = set()
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise _invalid(event.start_mark.line if event.start_mark else 0)
        elif isinstance(event, yaml.NodeEvent):
            anchors.add(event.anchor)
