"""A session's log, cut to the newest rounds that fit: whole rounds only, and never more than was asked for."""

from itertools import accumulate

from carrel.providers.alc import compact

ROUNDS = "transcript"


class DoesNotFit(Exception):
    """No number of rounds fits; `needed` is the smallest size that would."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


def window(log: object, limit: int, max_chars: int) -> str:
    """Spell a log with its newest rounds, at most `limit` of them, in at most `max_chars` characters."""
    rounds = log.get(ROUNDS) if isinstance(log, dict) else None
    if not isinstance(log, dict) or not isinstance(rounds, list):
        return _fitting(compact.dumps(log), max_chars)
    total = len(rounds)
    spelled = [compact.dumps(one) for one in rounds[max(0, total - limit) :]]
    rest = {key: compact.dumps(value) for key, value in log.items() if key != ROUNDS}
    smallest = []
    if len(spelled) == total:
        text = _join(rest, spelled)
        if len(text) <= max_chars:
            return text
        smallest.append(len(text))
    if total:
        kept = spelled[1:] if len(spelled) == total else spelled
        text = _longest(rest, kept, total, max_chars)
        if len(text) <= max_chars:
            return text
        smallest.append(len(text))
    raise DoesNotFit(min(smallest))


def _longest(rest: dict[str, str], kept: list[str], total: int, max_chars: int) -> str:
    """Give the truncated log with as many of the newest rounds as fit; with none, if not even that fits."""
    empty = len(_truncated(rest, [], total)) - len("0")
    # The size with the last n rounds: theirs, a comma between two, and the digits of n itself.
    sizes = accumulate((len(one) + 1 for one in reversed(kept)), initial=0)
    fitting = [
        number for number, size in enumerate(sizes) if empty + len(str(number)) + size - (number > 0) <= max_chars
    ]
    number = fitting[-1] if fitting else 0
    return _truncated(rest, kept[len(kept) - number :], total)


def _truncated(rest: dict[str, str], kept: list[str], total: int) -> str:
    told = {"truncated": "true", "original_rounds": str(total), "returned_rounds": str(len(kept))}
    return _join({**rest, **told}, kept)


def _join(rest: dict[str, str], kept: list[str]) -> str:
    parts = {**rest, ROUNDS: f"[{','.join(kept)}]"}
    return f"{{{','.join(f'{compact.dumps(key)}:{parts[key]}' for key in sorted(parts))}}}"


def _fitting(text: str, max_chars: int) -> str:
    if len(text) > max_chars:
        raise DoesNotFit(len(text))
    return text
