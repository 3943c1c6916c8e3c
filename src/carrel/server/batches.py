"""Batches, as 2025-03-26 has them: one array of messages, and one array of answers that fits a message."""

from collections.abc import Callable, Sequence
from functools import partial

from carrel.protocol import jsonrpc, wire_errors
from carrel.server.requests import Running, Work


def together(lines: Sequence[bytes], given: Sequence[bytes | Work | None], max_bytes: int) -> bytes | Work | None:
    """Make one array of the answers to these lines: now, or as work of its own where one of them may wait."""
    answers = [None if isinstance(one, Work) else one for one in given]

    def settle(way: Callable[[Work], bytes | None]) -> bytes | None:
        for at, one in enumerate(given):
            if isinstance(one, Work) and answers[at] is None:
                answers[at] = way(one)
        fitting = _fit(lines, answers, max_bytes)
        return b"[" + b",".join(fitting) + b"]" if fitting else None

    waiting = [one for one in given if isinstance(one, Work)]
    if not waiting:
        return settle(Work.run)
    return Work(
        Running(lambda: None),
        run=partial(settle, Work.run),
        late=partial(settle, Work.expire),
        busy=partial(settle, Work.refuse),
        deadline_s=max(one.deadline_s for one in waiting),
        is_patient=any(one.is_patient for one in waiting),
        owner=waiting[0].owner,
    )


def _fit(lines: Sequence[bytes], answers: Sequence[bytes | None], max_bytes: int) -> Sequence[bytes]:
    """Give the answers as one message holds them; those that no longer fit are to be asked for singly."""
    present = [(line, answer) for line, answer in zip(lines, answers, strict=True) if answer is not None]
    left = max_bytes - len(present) - 1
    if sum(len(answer) for _, answer in present) <= left:
        return [answer for _, answer in present]
    message = "Too large: the answers of this batch do not fit one message; ask for this one by itself"
    refusals = [
        min(answer, wire_errors.too_large(jsonrpc.id_of(line), message, max_bytes), key=len) for line, answer in present
    ]
    left -= sum(map(len, refusals))
    fitting = []
    for (_, answer), refusal in zip(present, refusals, strict=True):
        more = len(answer) - len(refusal)
        fitting.append(answer if more <= left else refusal)
        left -= more if more <= left else 0
    return fitting
