"""A session's log, cut to the newest whole rounds that fit."""

import sys
from itertools import accumulate

from carrel.providers.alc import compact_json

ROUNDS = "transcript"


class DoesNotFit(Exception):
    """No number of rounds fits; `needed` is the smallest size that would."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


def newest_rounds(log: object, limit: int, max_chars: int, max_wire: int = sys.maxsize) -> str:
    """Return a log as JSON with its newest rounds, at most `limit` of them, in at most `max_chars` characters.

    More rounds are dropped until the text takes at most `max_wire` bytes in a message. If dropping all of them is not
    enough, that bound is ignored: the text can still be read in parts. Raise `DoesNotFit` or `ValueError`.
    """
    rounds = log.get(ROUNDS) if isinstance(log, dict) else None
    if not isinstance(log, dict) or not isinstance(rounds, list):
        return _fitting(compact_json.dumps(log), max_chars)
    total = len(rounds)
    texts = [compact_json.dumps(one) for one in rounds[max(0, total - limit) :]]
    rest = {key: compact_json.dumps(value) for key, value in log.items() if key != ROUNDS}
    whole = _join(rest, texts) if len(texts) == total else None
    if whole is not None and len(whole) <= max_chars and compact_json.wire_size(whole) <= max_wire:
        return whole
    if not total:
        return _fitting(_join(rest, []), max_chars)
    kept = texts[1:] if whole is not None else texts
    text = _longest(rest, kept, total, max_chars, max_wire)
    if text is None:
        text = whole if whole is not None and len(whole) <= max_chars else _longest(rest, kept, total, max_chars)
    if text is None:
        least = len(_truncated(rest, [], total))
        raise DoesNotFit(least if whole is None else min(least, len(whole)))
    return text


def _longest(
    rest: dict[str, str], kept: list[str], total: int, max_chars: int, max_wire: int = sys.maxsize
) -> str | None:
    """Return the truncated log with as many of the newest rounds as fit; None if it does not fit without rounds."""
    empty = _truncated(rest, [], total)
    chars, wire = len(empty) - len("0"), compact_json.wire_size(empty) - len("0")
    # The size with the last n rounds: the rounds, a comma between two, and the digits of n.
    sizes = accumulate((len(one) + 1 for one in reversed(kept)), initial=0)
    wires = accumulate((compact_json.wire_size(one) + 1 for one in reversed(kept)), initial=0)
    found = None
    for number, (size, on_wire) in enumerate(zip(sizes, wires, strict=True)):
        more = len(str(number)) - (number > 0)
        if chars + size + more <= max_chars and wire + on_wire + more <= max_wire:
            found = number
    return None if found is None else _truncated(rest, kept[len(kept) - found :], total)


def _truncated(rest: dict[str, str], kept: list[str], total: int) -> str:
    notes = {"truncated": "true", "original_rounds": str(total), "returned_rounds": str(len(kept))}
    return _join({**rest, **notes}, kept)


def _join(rest: dict[str, str], kept: list[str]) -> str:
    parts = {**rest, ROUNDS: f"[{','.join(kept)}]"}
    return f"{{{','.join(f'{compact_json.dumps(key)}:{parts[key]}' for key in sorted(parts))}}}"


def _fitting(text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        raise DoesNotFit(len(text))
    return text
