"""A session's log, cut to the newest rounds that fit: whole rounds only, and never more than was asked for."""

import sys
from itertools import accumulate

from carrel.providers.alc import compact_json

ROUNDS = "transcript"


class DoesNotFit(Exception):
    """No number of rounds fits; `needed` is the smallest size that would."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


def window(log: object, limit: int, max_chars: int, max_wire: int = sys.maxsize) -> str:
    """Spell a log with its newest rounds, at most `limit` of them, in at most `max_chars` characters.

    Rounds are dropped too until the text fits a message, in which it may take `max_wire` bytes. If dropping all does
    not help, that bound is ignored: the text can still be read in parts.
    """
    rounds = log.get(ROUNDS) if isinstance(log, dict) else None
    if not isinstance(log, dict) or not isinstance(rounds, list):
        return _fitting(compact_json.dumps(log), max_chars)
    total = len(rounds)
    spelled = [compact_json.dumps(one) for one in rounds[max(0, total - limit) :]]
    rest = {key: compact_json.dumps(value) for key, value in log.items() if key != ROUNDS}
    whole = _join(rest, spelled) if len(spelled) == total else None
    if whole is not None and len(whole) <= max_chars and compact_json.wire_size(whole) <= max_wire:
        return whole
    if not total:
        return _fitting(_join(rest, []), max_chars)
    kept = spelled[1:] if whole is not None else spelled
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
    """Return the truncated log with as many of the newest rounds as fit; None if not even none of them do."""
    empty = _truncated(rest, [], total)
    chars, wire = len(empty) - len("0"), compact_json.wire_size(empty) - len("0")
    # The size with the last n rounds: theirs, a comma between two, and the digits of n itself.
    sizes = accumulate((len(one) + 1 for one in reversed(kept)), initial=0)
    wires = accumulate((compact_json.wire_size(one) + 1 for one in reversed(kept)), initial=0)
    found = None
    for number, (size, on_wire) in enumerate(zip(sizes, wires, strict=True)):
        more = len(str(number)) - (number > 0)
        if chars + size + more <= max_chars and wire + on_wire + more <= max_wire:
            found = number
    return None if found is None else _truncated(rest, kept[len(kept) - found :], total)


def _truncated(rest: dict[str, str], kept: list[str], total: int) -> str:
    told = {"truncated": "true", "original_rounds": str(total), "returned_rounds": str(len(kept))}
    return _join({**rest, **told}, kept)


def _join(rest: dict[str, str], kept: list[str]) -> str:
    parts = {**rest, ROUNDS: f"[{','.join(kept)}]"}
    return f"{{{','.join(f'{compact_json.dumps(key)}:{parts[key]}' for key in sorted(parts))}}}"


def _fitting(text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        raise DoesNotFit(len(text))
    return text
