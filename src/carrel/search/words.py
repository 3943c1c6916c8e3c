"""Words of texts and names, as the index keeps them.

A word such as `parseConfigs` is found by its parts (`pars`, `config`: their stems) and by all of it in small letters
(`parseconfigs`), so that it is the same as `parse_configs`, `parse-configs` and `PARSE_CONFIGS`. Accents do not matter.
Scripts that write no spaces are cut into pairs of signs.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

WORD: Final = re.compile(r"[^\W_]\w*(?:-[^\W\d_]\w*)*")
"""A word of a text, or a name; signs before it do not belong to it."""
MAX_WORD: Final = 64
"""Maximum characters of a word; longer ones are data."""
MAX_PARTS: Final = 8
"""A word with more parts is not a name but a number or data, and is found only as a whole."""
MAX_NOTED: Final = 512
"""Maximum characters of a word that is noted in the list of words."""
LONG: Final = "¤"
"""The term of a text with a word that is longer than `MAX_NOTED`."""
SIGNS: Final = "÷"
"""Stands before the term of signs: of two ASCII signs that stand together, or of another sign."""
OPEN: Final = "¬"
"""Stands at the end of a word that ends with an underscore, where words are noted and among their terms."""

_ASCII_SIGNS: Final = b"!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~"
_ONLY_SIGNS: Final = bytes(code if code in _ASCII_SIGNS else 32 for code in range(256))
_OTHER_SIGN: Final = re.compile(r"[^\w\s\x00-\x7f]")
_KNOWN_WORDS: Final = 60_000
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_DERIVED: Final = tuple(
    "ization isation ational fulness iveness ation ition ator ment able ible tion sion ate ize ise er or ly".split()
)
_KEPT: Final = {"ization": "iz", "isation": "iz", "ize": "iz", "ise": "iz", "tion": "t", "sion": "s", "ition": "it"}


def plain(text: str) -> str:
    """Return a text without accents."""
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return bare.replace("ß", "ss").replace("ẞ", "SS")  # before words are parted at signs other than ASCII


def folded(text: str) -> str:
    """Return a text without accents and differences of case, character by character."""
    return text.lower() if text.isascii() else plain(text).casefold()


def bare(text: str) -> str:
    """Return a text as `needles_of` its terms lie in it: folded, and without the signs within names."""
    return folded(text).replace("_", "").replace("-", "")


def needles_of(terms: Iterable[str]) -> tuple[str, ...]:
    """Return for each term what is in every bare text that has it: a stem may end in another letter than its word."""
    return tuple(dict.fromkeys(term if len(term) < 4 else term[:-1] for term in terms))


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return the common part of the English forms of a word: `caching`, `cached` and `caches` are `cach`."""
    if len(word) < 4 or not word.isascii() or word.isdigit():
        return word
    word = _inflected(word)
    for ending in _DERIVED:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if len(rest) >= 3 and _VOWEL.search(rest):
                word = _without_double(rest) + _KEPT.get(ending, "")
                break
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    return word[:-1] + "i" if word[-1] == "y" and len(word) > 3 else word


def _inflected(word: str) -> str:
    """Return a word without the endings of plural and time."""
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word[-1] == "s" and word[-2] not in "su" and not word.endswith("is"):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and _VOWEL.search(rest):
            return f"{rest}e" if rest.endswith(("at", "bl", "iz")) else _without_double(rest)
    return word


def _without_double(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls" else word


def parts_of(word: str) -> list[str]:
    """Return the parts of a name in small letters, not stemmed; of scripts without spaces, pairs of signs."""
    parts: list[str] = []
    for part in _PARTS.findall(plain(word)):
        small = folded(part)
        if small.isascii():
            parts.append(small)
        else:
            parts.extend(_pairs(small))
    return parts


def _pairs(text: str) -> list[str]:
    """Return a word of letters as it is, and runs of signs without spaces as overlapping pairs."""
    found: list[str] = []
    last = 0
    for match in _UNSPACED.finditer(text):
        found.append(text[last : match.start()])
        run = match[0]
        found.extend(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        last = match.end()
    found.append(text[last:])
    return [part for part in found if part]


def is_unspaced(word: str) -> bool:
    """Return whether a word has signs of a script that writes no spaces."""
    return not word.isascii() and _UNSPACED.search(word) is not None


def whole_of(word: str) -> str:
    """Return a name in small letters, without the signs between its parts."""
    return folded(word.replace("_", "").replace("-", ""))


def terms_of(word: str) -> tuple[str, ...]:
    """Return the terms of a word: the whole word first, then the stems of its parts."""
    if len(word) > MAX_WORD and not _UNSPACED.search(word):
        return (whole_of(word)[:MAX_WORD], LONG)[: 1 + (len(word) > MAX_NOTED)]
    parts = parts_of(word)
    if len(parts) == 1:
        return (stem(parts[0]),)
    whole = whole_of(word)[:MAX_WORD]
    if len(parts) > MAX_PARTS and word.isascii():
        return (whole,)
    names = (stem(part) for part in parts if len(part) > 1)
    return tuple(dict.fromkeys((whole, *names)))


def sign_terms(text: str) -> list[str]:
    """Return the terms of the signs in a text: an expression without letters is looked for only where these are."""
    runs = set(text.encode("utf-8", "replace").translate(_ONLY_SIGNS).split())
    found = {run[at : at + 2].hex() for run in runs for at in range(len(run) - 1)}
    if not text.isascii():  # a circled letter has two cases
        others = set(_OTHER_SIGN.findall(text))
        found.update(f"{ord(sign):04x}u" for sign in others if sign.upper() == sign.lower())
    return [SIGNS + signs for signs in sorted(found)]


class Terms(dict[str, str]):
    """The terms of each distinct word, joined by spaces. Each word is taken apart once, and noted in `fresh`."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[str] = []

    def __missing__(self, word: str) -> str:
        """Return the terms of a word that was not seen before."""
        if len(self) > _KNOWN_WORDS:
            self.clear()
        terms = terms_of(word)
        if LONG not in terms:
            self.fresh.append(whole_of(word))
            if word[-1] == "_":
                self.fresh.append(whole_of(word) + OPEN)
                terms = (*terms, self.fresh[-1][:MAX_WORD])
        self[word] = joined = " ".join(terms)
        return joined
