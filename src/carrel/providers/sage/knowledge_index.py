"""The knowledge index as it is written: one item put at the end, everything else kept as it stands.

The YAML is taken as events and given back as events, so what Carrel does not understand keeps its keys,
its values and their types.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from carrel.providers.sage.file_format import Broken, read_events, read_yaml

_WIDTH: Final = 1 << 30

Events = list[Any]
Pair = tuple[str | None, Events, Events]


def dump(value: object) -> str:
    """Write a value as YAML: keys in their order, block style, Unicode kept."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        value, Dumper=dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_WIDTH
    )
    return text


def put(text: str, item: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> str:
    """Put an item at the end of an index; `others` are the items an index that is not there yet begins with."""
    if not text.strip():
        return dump({"version": 1, "items": [*others, _fresh(item)]})
    if not isinstance(read_yaml(text), dict):
        raise Broken("not a mapping")
    events = list(read_events(text))
    start = next(at for at, event in enumerate(events) if _kind(event) == "MappingStart")
    end = _end(events, start)
    pairs = _pairs(events[start:end])
    made = _put_item(pairs, item)
    joined = [*events[:start], *_mapping(events[start], made), *events[end:]]
    _check_aliases(joined)
    return _emit(joined)


def _fresh(item: Mapping[str, Any]) -> dict[str, Any]:
    """Give an item as it stands in the index for the first time."""
    made = {**item, "triggers": {**item["triggers"], "patterns": []}, "scope": {**item["scope"], "always": False}}
    made["metadata"] = {key: value for key, value in item["metadata"].items() if value is not None}
    return made


def _put_item(pairs: list[Pair], item: Mapping[str, Any]) -> list[Pair]:
    """Give the index's pairs with the item last in its list."""
    at = next((at for at, (key, _, _) in enumerate(pairs) if key == "items"), None)
    if at is None:
        return [*pairs, ("items", _events("items"), _events([_fresh(item)]))]
    key, key_events, old = pairs[at]
    if _kind(old[0]) != "SequenceStart":
        if _kind(old[0]) != "Scalar" or old[0].value not in ("", "~", "null"):
            raise Broken("not a mapping")
        return [*pairs[:at], (key, key_events, _events([_fresh(item)])), *pairs[at + 1 :]]
    kept: list[Events] = []
    replaced: Events | None = None
    for node in _nodes(old[1:-1]):
        if _id_of(node) == item["id"]:
            replaced = node
        else:
            kept.append(node)
    new = _events(_fresh(item)) if replaced is None else _merge(replaced, item)
    inner = [event for node in (*kept, new) for event in node]
    return [*pairs[:at], (key, key_events, [old[0], *inner, old[-1]]), *pairs[at + 1 :]]


def _merge(old: Events, new: Mapping[str, Any]) -> Events:
    """Give a mapping's events with new values; None takes one away, and all others are kept."""
    before = {key: value for key, _, value in _pairs(old) if key is not None}
    made: list[Pair] = []
    for key, value in new.items():
        was = before.get(key)
        if isinstance(value, Mapping) and was is not None and _kind(was[0]) == "MappingStart":
            made.append((key, _events(key), _merge(was, value)))
        elif value is not None:
            made.append((key, _events(key), _events(value)))
    made += [pair for pair in _pairs(old) if pair[0] is None or pair[0] not in new]
    return _mapping(old[0], made)


# Events


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _end(events: Events, start: int) -> int:
    """Give where the node that starts there has ended."""
    depth = 0
    for at in range(start, len(events)):
        kind = _kind(events[at])
        depth += kind in ("MappingStart", "SequenceStart")
        depth -= kind in ("MappingEnd", "SequenceEnd")
        if depth == 0:
            return at + 1
    raise Broken("not valid YAML (line 1)")


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
    return [
        (key[0].value if _kind(key[0]) == "Scalar" else None, key, value)
        for key, value in zip(nodes[::2], nodes[1::2], strict=True)
    ]


def _mapping(start: Any, pairs: Sequence[Pair]) -> Events:
    import yaml

    inner = [event for _, key, value in pairs for event in (*key, *value)]
    return [start, *inner, yaml.MappingEndEvent()]


def _id_of(node: Events) -> str | None:
    """Give the id of an item that is understood."""
    if _kind(node[0]) != "MappingStart":
        return None
    values = {key: value for key, _, value in _pairs(node)}
    named = values.get("id")
    return named[0].value if named is not None and _kind(named[0]) == "Scalar" else None


def _events(value: object) -> Events:
    """Give a value's own events."""
    return list(read_events(dump(value)))[2:-2]


def _check_aliases(events: Events) -> None:
    """Refuse what would name an anchor that went with the replaced item."""
    anchors: set[str] = set()
    for event in events:
        anchor = getattr(event, "anchor", None)
        if _kind(event) == "Alias" and anchor not in anchors:
            raise Broken(f"not valid YAML (line {event.start_mark.line + 1})")
        if anchor is not None:
            anchors.add(anchor)


def _emit(events: Events) -> str:
    import yaml

    for event in events:
        if _kind(event) in ("MappingStart", "SequenceStart"):
            event.flow_style = False
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.emit(events, Dumper=dumper, allow_unicode=True, width=_WIDTH)
    return text
