"""Git's ignore patterns: a line to what it matches, with the meaning git's own matcher gives it.

Git compares bytes, so names and patterns are taken as octets: UTF-8 read as Latin-1. A pattern
becomes one regular expression that never tries the same place twice, whatever its stars: the
files that hold patterns come from the same hands as the files they are about.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, Self

from carrel.value import Value

_SPECIAL: Final = re.compile(r"[*?\[\\]")
_UNTRIMMED: Final = re.compile(r"(?:\\.?|[^\\ ]| ++(?!\Z))*+", re.DOTALL)
"""A line without its trailing spaces, unless a backslash keeps them."""
_NEVER: Final = r"(?!)"
_POSIX: Final = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": " \t".__contains__,
    "cntrl": lambda one: one < " " or one == "\x7f",
    "digit": str.isdigit,
    "graph": lambda one: "!" <= one <= "~",
    "lower": str.islower,
    "print": lambda one: " " <= one <= "~",
    "punct": lambda one: "!" <= one <= "~" and not one.isalnum(),
    "space": " \t\n\r".__contains__,
    "upper": str.isupper,
    "xdigit": "0123456789abcdefABCDEF".__contains__,
}

_STAR: Final = "*"
_REST: Final = "**"
_ANY_FOLDERS: Final = "**/"
_SOME_FOLDERS: Final = "**\\/"
"""Pieces of a translated pattern that are no single character; all others are regular expressions of one."""


class Pattern(Value, frozen=True):
    """One line: what it matches, and whether that is ignored or, with `!`, kept.

    `text` is the pattern without its marks. An anchored one is compared with the way from the
    folder of its file, any other with the last name alone.
    """

    text: str
    is_kept: bool
    only_folders: bool
    is_anchored: bool

    @property
    def plain_name(self) -> str | None:
        """Give the one name it matches, if that is all it does."""
        return None if self.is_anchored or _SPECIAL.search(self.text) else self.text

    @property
    def plain_suffix(self) -> str | None:
        """Give the end of the names it matches, if it is a star and that end."""
        is_suffix = self.text[:1] == "*" and not self.is_anchored and not _SPECIAL.search(self.text, 1)
        return self.text[1:] if is_suffix else None

    @property
    def regex(self) -> str:
        """Give what the whole name, or way, must match."""
        pieces = _pieces(self.text, is_path=self.is_anchored)
        return _NEVER if pieces is None else _joined(pieces)

    @property
    def top(self) -> str:
        """Give the folder, with a closing `/`, below which all that it matches lies; empty if that is anywhere."""
        if not self.is_anchored:
            return ""
        special = _SPECIAL.search(self.text)
        literal = self.text if special is None else self.text[: special.start()]
        return literal[: literal.rfind("/") + 1]

    def leads_through(self, way: str) -> bool:
        """Tell whether a folder, with a closing `/`, is on the way it spells out to what it matches."""
        if not self.top or self.is_kept:
            return False
        return self.top.startswith(way) or (
            way.startswith(self.top) and ("**" in self.text or way.count("/") <= self.text.count("/"))
        )


def octets(name: str) -> str:
    """Give a name as git compares it: its bytes, one character each."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("latin-1")


def parse(line: str) -> Pattern | None:
    """Read one line, as octets and without its line end; None for a comment, or what never matches."""
    if line.startswith("#"):
        return None
    text = _without_trailing_spaces(line.partition("\0")[0])
    is_kept = text.startswith("!")
    text = text[is_kept:]
    only_folders = text.endswith("/")
    text = text[: len(text) - only_folders]
    is_anchored = "/" in text
    text = text.removeprefix("/")
    return Pattern(text, is_kept, only_folders, is_anchored) if text else None


def _without_trailing_spaces(line: str) -> str:
    found = _UNTRIMMED.match(line)
    return found[0] if found else line


def _pieces(text: str, *, is_path: bool) -> list[str] | None:
    """Translate a pattern piece by piece; None if it is malformed, and so never matches."""
    pieces: list[str] = []
    # Git compares what stands before the first special character by itself: stars there begin a pattern.
    special = _SPECIAL.search(text)
    start = special.start() if special else len(text)
    at = 0
    while at < len(text):
        one = text[at]
        if one == "*":
            at, piece = _stars(text, at, start, is_path=is_path)
        elif one == "?":
            at, piece = at + 1, "[^/]" if is_path else "."
        elif one == "[":
            found = _bracket(text, at + 1)
            if found is None:
                return None
            at, piece = found[0], _class(found[1] - {"/"} if is_path else found[1])
        elif one == "\\":
            if at + 1 == len(text):
                return None
            at, piece = at + 2, re.escape(text[at + 1])
        else:
            at, piece = at + 1, re.escape(one)
        pieces.append(piece)
    return pieces


def _stars(text: str, at: int, start: int, *, is_path: bool) -> tuple[int, str]:
    end = at
    while text[end : end + 1] == "*":
        end += 1
    begins = at in (0, start) or text[at - 1] == "/"
    if is_path and end - at > 1 and begins:
        if end == len(text):
            return end, _REST
        if text[end] == "/":
            return end + 1, _ANY_FOLDERS
        if text.startswith("\\/", end):
            return end + 2, _SOME_FOLDERS
    return end, _STAR


def _bracket(text: str, at: int) -> tuple[int, frozenset[str]] | None:
    """Read a set from behind its `[`: where it ends, and what it holds. None if it is malformed."""
    is_negated = text[at : at + 1] in ("!", "^")
    at += is_negated
    held: set[str] = set()
    before = ""
    is_first = True
    while is_first or text[at] != "]":
        is_first = False
        if text.startswith("[:", at) and (named := _named_set(text, at + 2)) is not None:
            at, known = named
            if known is None:
                return None
            held |= known
            before = ""
        else:
            at, before = _member(text, at, before, held)
        if at >= len(text):
            return None
    every = frozenset(map(chr, range(1, 256)))
    return at + 1, every - held if is_negated else frozenset(held)


def _member(text: str, at: int, before: str, held: set[str]) -> tuple[int, str]:
    """Read one character of a set, or a range that began with the one before it."""
    if text[at : at + 1] == "-" and before and text[at + 1 : at + 2] not in ("", "]"):
        at += 2 if text[at + 1] == "\\" else 1
        held.update(map(chr, range(ord(before), ord(text[at : at + 1] or "\0") + 1)))
        return at + 1, ""
    at += text[at : at + 1] == "\\"
    held.add(text[at : at + 1])
    return at + 1, text[at : at + 1]


def _named_set(text: str, at: int) -> tuple[int, set[str] | None] | None:
    """Read a set like `[:alpha:]` from behind its `[:`; None if it is none, without a set if nobody knows the name."""
    end = text.find("]", at)
    if end < 0:
        return len(text), None
    if text[end - 1] != ":" or end <= at:
        return None
    known = _POSIX.get(text[at : end - 1])
    return end + 1, None if known is None else set(filter(known, map(chr, range(128))))


def _class(held: frozenset[str]) -> str:
    return f"[{''.join(map(re.escape, sorted(held)))}]" if held else _NEVER


def _joined(pieces: list[str]) -> str:
    """Join pieces so that each star is tried once: the first place where the next fixed part fits is as good as any.

    That holds for a single star, which never crosses a `/`, up to the next star; and for `**/`,
    which goes on by whole names, up to the next one.
    """
    joined, mark = "", ""
    part: list[str] = []
    for piece in pieces:
        if piece in (_ANY_FOLDERS, _SOME_FOLDERS):
            joined += _by_folders(mark, part, is_last=False)
            mark, part = piece, []
        else:
            part.append(piece)
    return joined + _by_folders(mark, part, is_last=True)


def _by_folders(mark: str, part: list[str], *, is_last: bool) -> str:
    spelled = _by_stars(part)
    if not mark:
        return spelled
    going_on = f"(?:[^/]*+/){'*' if mark == _ANY_FOLDERS else '+'}?{spelled}"
    return going_on if is_last else f"(?>{going_on})"


def _by_stars(pieces: list[str]) -> str:
    runs = [""]
    for piece in pieces:
        if piece == _STAR:
            runs.append("")
        else:
            runs[-1] += ".*" if piece == _REST else piece
    first, *others = runs
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{run})" for run in others[:-1]) + f"[^/]*{others[-1]}"


_Match = Callable[[str], re.Match[str] | None]


class Rules:
    """Patterns in git-ignore syntax, relative to one folder."""

    def __init__(self, kept: Iterable[Pattern]) -> None:
        self._patterns = tuple(kept)
        simple = [one for one in self._patterns if one.plain_name is None and one.plain_suffix is None]
        self._names = frozenset(one.text for one in self._patterns if one.plain_name is not None)
        self._suffixes = tuple(one.text[1:] for one in self._patterns if one.plain_suffix is not None)
        self._match_name = _any_of([one for one in simple if not one.is_anchored])
        self._match_way = _any_of([one for one in simple if one.is_anchored])
        self._is_plain = not any(one.is_kept or one.only_folders for one in self._patterns)
        self._tops = tuple({one.top for one in self._patterns if not one.is_kept})

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Compile patterns, given as octets."""
        parsed = (parse(line) for line in lines)
        return cls(one for one in parsed if one is not None)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._patterns == other._patterns

    def __hash__(self) -> int:
        return hash(self._patterns)

    def decide(self, way: str, name: str, *, is_folder: bool) -> bool | None:
        """Tell what the last pattern that matches says: True to ignore, False to keep, None if none does.

        `way` leads from the folder of these rules to that of the name, with a closing `/`; both are
        octets. What holds for a folder above is not asked again.
        """
        if not (
            name in self._names
            or name.endswith(self._suffixes)
            or (self._match_name is not None and self._match_name(name))
            or (self._match_way is not None and self._match_way(way + name))
        ):
            return None
        return True if self._is_plain else self._last(way + name, name, is_folder=is_folder)

    def may_match_below(self, way: str) -> bool:
        """Tell whether something below a folder may be matched; True where that is not known."""
        return any(way.startswith(top) or top.startswith(way) for top in self._tops)

    def leads_through(self, way: str) -> bool:
        """Tell whether a pattern spells out a way that leads through a folder."""
        return any(one.leads_through(way) for one in self._patterns)

    def _last(self, way: str, name: str, *, is_folder: bool) -> bool | None:
        for pattern, match in self._each:
            if (is_folder or not pattern.only_folders) and match(way if pattern.is_anchored else name):
                return not pattern.is_kept
        return None

    @cached_property
    def _each(self) -> list[tuple[Pattern, _Match]]:
        return [(one, re.compile(one.regex, re.DOTALL).fullmatch) for one in reversed(self._patterns)]


def _any_of(several: list[Pattern]) -> _Match | None:
    if not several:
        return None
    return re.compile("|".join(f"(?:{one.regex})" for one in several), re.DOTALL).fullmatch
