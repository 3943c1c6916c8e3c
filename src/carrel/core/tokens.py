"""How many tokens a text costs a model: an estimate by classes of characters, without a tokenizer.

The estimate is meant to be too high rather than too low. It adds up what each character costs, and what each pair of
neighbours costs: "th" is hardly ever cut into two tokens, "qx" always is. So text that looks like words is cheap, and
random letters are not. `carrel.core.token_weights` has the numbers, `tests/core/test_tokens.py` holds the estimate
against a tokenizer.

There are sixteen classes, so that a pair of them fits into one byte. One large integer then makes all pairs at once,
`bytes.translate` turns each into its weight, and Adler-32, whose lower half is the sum of the bytes, adds the weights
up. A loop over the characters would take a hundred times as long.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final
from zlib import adler32

from carrel.core import token_weights
from carrel.core.token_weights import UNIT

JOINT: Final = 10
"""By how much a text may cost more than its two parts: the pairs where they meet."""

_LEAST: Final = 2
"""Tokens that every text gets on top: in a short text one unlucky word is not made up for by the others."""
_ASCII: Final = bytes(range(0x80))
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""

_PIECE: Final = 1 << 15
"""Characters looked at in one step: integers of this size stay in the cache of a processor."""
_SUMMED: Final = 512
"""Weights that Adler-32 adds up in one step: none is above 127, and the sum must stay below 65,521."""

_KINDS: Final[Sequence[Iterable[int]]] = (
    b" ",
    b"\t",
    b"\n\r",
    b"0123456789",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"abcdefghijklmnopqrstuvwxyz",
    b"_",
    b"'\"`",
    b"([{<",
    b")]}>",
    b",;",
    b".:",
    b"-=/*#+~",
    b"!$%&?@^|\\",
    range(0xC3, 0xE0),  # the first bytes of é, ж, ש
    (*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xC3), *range(0xE0, 0x100)),
)
_LATIN: Final = "a e i o u yw n r s t l dc mpb fghkv jqxz"
_CYRILLIC: Final = "а е и о уюыэяё н р с т лв кд мпб йьъ гзжчхшщцф іїєґјљњћђџў"  # noqa: RUF001 these letters are Cyrillic
"""Letters by class, from 1: frequent letters are alone, like ones together. Whatever is no letter is in class 0."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is: rather too many than too few.

    The estimate of two texts joined is at most the sum of their estimates and `JOINT`.
    """
    if not text:
        return 0
    data = text.encode("utf-8", "surrogatepass")
    is_ascii = len(data) == len(text)
    leads = b"\n" + (data if is_ascii else data.translate(None, _CONTINUATIONS))
    total = _weigh(leads[1:].translate(token_weights.CHARACTERS))
    kinds, letters = _kinds(), _letters(_LATIN, "ascii")
    for at in range(0, len(leads), _PIECE):
        piece = leads[at : at + _PIECE + 2]
        total += _weigh_pairs(piece.translate(kinds), 1, token_weights.KINDS)
        classes = piece.translate(letters)
        total += _weigh_pairs(classes, 1, token_weights.LETTERS)
        total += _weigh_pairs(classes, 2, token_weights.LETTERS_APART)
    if not is_ascii:
        total += _weigh_foreign(text, data)
    return _LEAST - -total // UNIT


def _weigh_pairs(classes: bytes, distance: int, weights: bytes) -> int:
    """Return what the pairs of a piece cost whose first character is within the step."""
    here = int.from_bytes(classes, "little")
    pairs = (here | here >> 8 * distance - 4).to_bytes(len(classes), "little")
    return _weigh(pairs[: min(_PIECE, len(classes) - distance)].translate(weights))


def _weigh_foreign(text: str, data: bytes) -> int:
    """Return what characters that are not ASCII cost more: letters of Cyrillic, and what is rare."""
    total = 0
    if any(lead in data for lead in (b"\xd0", b"\xd1", b"\xd2")):
        classes = b"\0" + text.encode("cp1251", "replace").translate(_letters(_CYRILLIC, "cp1251"))
        for at in range(0, len(classes), _PIECE):
            total += _weigh_pairs(classes[at : at + _PIECE + 1], 1, token_weights.CYRILLIC)
    rare = data.translate(None, _ASCII).decode("utf-8", "surrogatepass")
    for common, weights in _rarities():
        rare = common.sub("", rare)
        total += _weigh(rare.encode("utf-8", "surrogatepass").translate(weights))
    return total


def _weigh(weights: bytes) -> int:
    """Return the sum of the weights."""
    return sum([(adler32(weights[at : at + _SUMMED]) & 0xFFFF) - 1 for at in range(0, len(weights), _SUMMED)])


@cache
def _kinds() -> bytes:
    """Return the kind of each first byte of a character."""
    return _table((codes, kind) for kind, codes in enumerate(_KINDS))


@cache
def _letters(groups: str, encoding: str) -> bytes:
    """Return the class of each letter in an encoding of one byte, capitals as their small letters."""
    return _table(((group + group.upper()).encode(encoding), n) for n, group in enumerate(groups.split(), 1))


@cache
def _rarities() -> tuple[tuple[re.Pattern[str], bytes], ...]:
    """Return which characters count for nothing more, and what the others cost, by the first byte of their UTF-8."""
    return tuple(
        (re.compile(f"[{common}]+"), _table((leads, weight) for leads, weight in weights.items()))
        for common, weights in (
            (token_weights.FREQUENT, token_weights.LESS_FREQUENT),
            (token_weights.OTHER_CHINESE, token_weights.NO_TOKEN),
        )
    )


def _table(values: Iterable[tuple[Iterable[int], int]]) -> bytes:
    """Return a table for `bytes.translate` from the values of groups of bytes."""
    table = bytearray(256)
    for codes, value in values:
        for code in codes:
            table[code] = value
    return bytes(table)
