"""Find the lines that two texts have in common: a shortest edit, within limits.

Lines that only one text has are set aside first; they cannot be in common. For the rest, Myers' algorithm finds a
shortest edit, as `git diff --minimal` does. If the texts differ in more than `MAX_EDITS` places after that, the lines
that occur once in each text are the common ones. That is correct, but may show more lines as changed than necessary.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

MAX_EDITS: Final = 600
"""The work grows with the square of it."""

Pair = tuple[int, int]
Run = tuple[int, int, int]
"""Where equal lines begin in the old and in the new text, and how many they are."""


def equal_runs(old: Sequence[bytes], new: Sequence[bytes], check: Callable[[], None]) -> list[Run]:
    """Return the runs of equal lines, in order; `check` is called now and then, and may raise."""
    start = 0
    least = min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    inner = _pairs(old[start : len(old) - end], new[start : len(new) - end], check)
    pairs = [(start + i, start + j) for i, j in inner]
    runs = [(0, 0, start)] if start else []
    for i, j in pairs:
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (i, j):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((i, j, 1))
    if end:
        runs.append((len(old) - end, len(new) - end, end))
    return _joined(runs)


def _joined(runs: list[Run]) -> list[Run]:
    """Join runs without a gap between them."""
    joined: list[Run] = []
    for i, j, count in runs:
        if joined and (joined[-1][0] + joined[-1][2], joined[-1][1] + joined[-1][2]) == (i, j):
            joined[-1] = (*joined[-1][:2], joined[-1][2] + count)
        else:
            joined.append((i, j, count))
    return joined


def _pairs(old: Sequence[bytes], new: Sequence[bytes], check: Callable[[], None]) -> list[Pair]:
    in_new, in_old = frozenset(new), frozenset(old)
    left = [at for at, line in enumerate(old) if line in in_new]
    right = [at for at, line in enumerate(new) if line in in_old]
    check()
    numbers: dict[bytes, int] = {}
    a = [numbers.setdefault(old[at], len(numbers)) for at in left]
    b = [numbers.setdefault(new[at], len(numbers)) for at in right]
    found = _shortest(a, b, check)
    if found is None:
        found = _once_in_each(a, b)
    return [(left[i], right[j]) for i, j in found]


def _shortest(a: list[int], b: list[int], check: Callable[[], None]) -> list[Pair] | None:
    """Return the common lines of a shortest edit; None if it has more than `MAX_EDITS` steps."""
    if not a or not b:
        return []
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MAX_EDITS) + 1):
        check()
        trace.append(furthest)
        furthest, is_done = _one_more_edit(a, b, furthest, edits)
        if is_done:
            return _traced_back(a, b, trace)
    return None


def _one_more_edit(a: list[int], b: list[int], furthest: dict[int, int], edits: int) -> tuple[dict[int, int], bool]:
    """Return how far each diagonal gets with one more edit, and whether the end is reached."""
    reached: dict[int, int] = {}
    size_a, size_b = len(a), len(b)
    for k in range(-edits, edits + 1, 2):
        down, right = furthest.get(k + 1, -1), furthest.get(k - 1, -1)
        x = down if k == -edits or (k != edits and right < down) else right + 1
        y = x - k
        if x < 0 or x > size_a or y < 0 or y > size_b:
            continue
        while x < size_a and y < size_b and a[x] == b[y]:
            x += 1
            y += 1
        reached[k] = x
        if x >= size_a and y >= size_b:
            return reached, True
    return reached, False


def _traced_back(a: list[int], b: list[int], trace: list[dict[int, int]]) -> list[Pair]:
    pairs: list[Pair] = []
    x, y = len(a), len(b)
    for edits in range(len(trace) - 1, -1, -1):
        furthest = trace[edits]
        k = x - y
        down, right = furthest.get(k + 1, -1), furthest.get(k - 1, -1)
        is_down = k == -edits or (k != edits and right < down)
        before_k = k + 1 if is_down else k - 1
        before_x = furthest.get(before_k, 0) if edits else 0
        before_y = before_x - before_k if edits else 0
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    pairs.reverse()
    return pairs


def _once_in_each(a: list[int], b: list[int]) -> list[Pair]:
    """Return the longest rising sequence of lines that occur once in each text."""
    in_a, in_b = Counter(a), Counter(b)
    places = {line: at for at, line in enumerate(b) if in_b[line] == 1}
    candidates = [(at, places[line]) for at, line in enumerate(a) if in_a[line] == 1 and line in places]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(candidates):
        place = bisect_left(ends, j)
        before.append(last[place - 1] if place else -1)
        if place == len(ends):
            ends.append(j)
            last.append(number)
        else:
            ends[place], last[place] = j, number
    chosen: list[Pair] = []
    at = last[-1] if last else -1
    while at >= 0:
        chosen.append(candidates[at])
        at = before[at]
    chosen.reverse()
    return chosen
