"""Estimate how many tokens a text costs a model, by classes of characters, without a tokenizer.

The estimate is meant to be too high rather than too low. The weights were fitted by linear programming against
`o200k_base` on some 19,000 texts (novels and manuals in a dozen languages, twenty kinds of code, logs, JSON, lists of
names, words in alternating case, checksums, random letters). Of 12,000 files of an operating system and its libraries
it is too low for about thirty, nearly all of them tables of characters in rare scripts. `tests/core/test_tokens.py`
holds it against the tokenizer.

Each character becomes one byte of flags, and many bytes one large integer: shifts and masks then look at all
characters at once, where a loop over them would take a hundred times as long.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

_LOWER, _UPPER, _DIGIT, _MARK, _SPACE, _BREAK, _CONSONANT, _FOREIGN = (1 << bit for bit in range(8))
"""The flags of a character; `_FOREIGN` are letters of alphabets that are not Latin, such as Cyrillic."""

_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_CONTROLS: Final = bytes([*range(9), 11, 12, *range(14, 32), 127])

_PIECE: Final = 1 << 15
"""Characters looked at in one step: integers of this size stay in the cache of a processor."""
_AHEAD: Final = 8
"""Characters after a step that its runs may reach into."""

_EACH: Final = 1_000
"""One token: the weights are thousandths."""
JOINT: Final = 10
"""Maximum tokens by which the estimate of a text exceeds those of its two parts: runs may cross the joint."""

_LEADS: Final[Mapping[range, int]] = {
    range(0xC2, 0xC3): 500,  # ©, «, non-breaking spaces
    range(0xC3, 0xC4): 1_185,  # é, ü, ñ: these break words that a model knows in one piece
    range(0xC4, 0xCE): 3_520,  # ł, ő, ş
    range(0xCE, 0xD0): 75,  # Greek; the runs count
    range(0xD0, 0xD2): 20,  # Cyrillic; the runs count
    range(0xD2, 0xE0): 595,  # Armenian, Hebrew, Arabic; the runs count
    range(0xE0, 0xE1): 425,  # Indian alphabets, Thai
    range(0xE1, 0xE2): 4_110,  # Georgian, Khmer, accents upon accents
    range(0xE2, 0xE3): 1_500,  # dashes, quotes, arrows, drawn lines
    range(0xE3, 0xE4): 710,  # kana, and the marks of Chinese and Japanese
    range(0xE4, 0xEA): 875,  # Chinese characters
    range(0xEA, 0xEE): 825,  # Hangul
    range(0xEE, 0xF0): 815,  # private use, wide forms
    range(0xF0, 0x100): 4_000,  # emoji, and what is rare
}
"""The weight of a character by the first byte of its UTF-8."""

_TRADITIONAL: Final = "這個們來時會說對國為學發過還種"
"""Frequent characters of traditional Chinese, which costs more than simplified; each stands for several others."""
_TRADITIONAL_WEIGHT: Final = 3_000


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens in a text, too high rather than too low.

    The estimate of two texts joined is at most the sum of their estimates and `JOINT`.
    """
    if not text:
        return 0
    data = text.encode("utf-8", "surrogatepass")
    flags = b"\0" + data.translate(_flags(), _CONTINUATIONS)
    total = sum(_count_runs(flags[at : at + _PIECE + _AHEAD]) for at in range(0, len(flags), _PIECE))
    total += 2 * _EACH * (len(data) - len(data.translate(None, _CONTROLS)))
    total += _EACH * (data.count(b"\t ") + data.count(b" \t"))
    if len(data) != len(text):
        total += _count_leads(text, data)
    return 1 + total // _EACH


def _count_runs(flags: bytes) -> int:
    """Return the cost of the runs in one step, each with the weight of its kind."""
    here = int.from_bytes(flags, "little")
    after = here >> 8
    starts = after & (here ^ after)
    twos = here & after
    return _count_letters(here, after, starts, twos) + _count_others(here, after, starts, twos)


def _count_letters(here: int, after: int, starts: int, twos: int) -> int:
    """Return the cost of the letters, from each character, the one after it, and where runs and pairs begin."""
    lower, upper, _, _, _, _, consonant, _ = _masks()
    alone = starts & ~(after >> 8)
    fours = twos & (twos >> 16)
    eights = fours & (fours >> 32)
    rising = (here << 1) & after  # the next flag up: an upper after a lower letter
    falling = (here >> 1) & after
    threes = twos & (after >> 8)
    vowels = (after | after >> 1) & ~(after >> 6) & lower
    return (
        1_166 * (starts & lower).bit_count()
        + 63 * (twos & lower).bit_count()
        + 141 * (eights & lower).bit_count()
        + 245 * (alone & lower).bit_count()
        - 400 * (here >> 4 & after & lower).bit_count()  # a word and the space before it are one
        + 418 * (here >> 3 & after & lower).bit_count()  # a word after a mark
        + 1_560 * (starts & upper).bit_count()
        + 136 * (twos & upper).bit_count()
        + 813 * (alone & upper).bit_count()
        - 400 * (here >> 3 & after & upper).bit_count()
        - 846 * (rising & upper).bit_count()
        - 1_427 * (falling & lower).bit_count()  # a capital letter and its word are one
        + 507 * (threes & consonant).bit_count()
        + 1_224 * (fours & consonant).bit_count()  # checksums, abbreviations
        - 674 * (eights & consonant).bit_count()  # no letter of a long run is more than a token
        + 985 * (vowels & vowels >> 8 & vowels >> 16).bit_count()
    )


def _count_others(here: int, after: int, starts: int, twos: int) -> int:
    """Return the cost of digits, marks, spaces and foreign letters, from the same integers."""
    _, _, digit, mark, space, line_break, _, foreign = _masks()
    threes = twos & (after >> 8)
    fours = twos & (twos >> 16)
    eights = fours & (fours >> 32)
    rising = (here << 1) & after  # the next flag up: a space after a mark
    return (
        1_452 * (starts & digit).bit_count()
        + 422 * (threes & digit).bit_count()
        + 1_200 * (rising & digit).bit_count()
        + 613 * (here >> 2 & after & digit).bit_count()
        + 571 * (starts & mark).bit_count()
        - 33 * (twos & mark).bit_count()
        + 957 * (threes & mark).bit_count()
        - 567 * (eights & mark).bit_count()  # drawn lines: many marks are one token
        - 400 * (here << 3 & after & mark).bit_count()
        + 156 * (here >> 1 & after & mark).bit_count()
        + 339 * (rising & space).bit_count()
        + 5 * (twos & space).bit_count()
        + 937 * (starts & (twos >> 8) & space).bit_count()
        + 1_007 * (starts & line_break).bit_count()
        + 41 * (here & line_break).bit_count()
        + 1_500 * (rising & line_break).bit_count()  # spaces at the end of a line
        + 1_597 * (starts & foreign).bit_count()
        + 41 * (fours & foreign).bit_count()
    )


def _count_leads(text: str, data: bytes) -> int:
    """Return the cost of the characters that are not ASCII, without that of their runs."""
    total = 0
    for leads, weight in _LEADS.items():
        total += weight * (len(data) - len(data.translate(None, bytes(leads))))
    return total + _TRADITIONAL_WEIGHT * sum(map(text.count, _TRADITIONAL))


@cache
def _masks() -> tuple[int, ...]:
    """Return for each flag an integer that has it in every byte of a step."""
    return tuple(int.from_bytes(bytes([1 << bit]) * _PIECE, "little") for bit in range(8))


@cache
def _flags() -> bytes:
    """Return the flags of each first byte of a character."""
    table = bytearray(256)

    def put(flag: int, leads: Iterable[int]) -> None:
        for lead in leads:
            table[lead] |= flag

    ascii_marks = [code for code in range(0x21, 0x7F) if not chr(code).isalnum()]
    put(_LOWER, [*b"abcdefghijklmnopqrstuvwxyz", *range(0xC3, 0xCE)])
    put(_UPPER, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    put(_CONSONANT, b"bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ")
    put(_DIGIT, b"0123456789")
    put(_MARK, [*ascii_marks, 0xC2, 0xE2])
    put(_SPACE, b" \t")
    put(_BREAK, b"\n\r")
    put(_FOREIGN, range(0xCE, 0xE0))
    return bytes(table)
