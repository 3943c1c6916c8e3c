"""Git's ignore patterns, with the meaning that git itself gives them.

Git compares bytes, so names and patterns are octets here: UTF-8 decoded as Latin-1. A pattern becomes one regular
expression that never tries the same position twice, however many stars it has: a hostile repository brings its own
patterns.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Self

from carrel.core.record import Value

MAX_PATTERNS: Final = 100_000
"""Maximum number of patterns in one file. Those without wildcards are looked up, so they cost only memory."""

MAX_WILD_PATTERNS: Final = 1_000
MAX_WILD_CHARACTERS: Final = 32_768
"""Limits for patterns with wildcards in one file: each name is compared with each of them, and compiling takes 10 µs
a character."""

_FEW_SUFFIXES: Final = 64
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
"""Pieces of a translated pattern that match any number of characters; all others match one."""


class Pattern(Value, frozen=True):
    """One line; `is_kept` if it begins with `!` and keeps what it matches.

    `text` is the pattern without its marks. An anchored pattern is compared with the path from the folder of its file,
    any other with the last name alone.
    """

    text: str
    is_kept: bool
    only_folders: bool
    is_anchored: bool

    @property
    def plain_suffix(self) -> str | None:
        """The suffix of the names it matches, if it is a star and a suffix."""
        is_suffix = self.text[:1] == "*" and not self.is_anchored and not _SPECIAL.search(self.text, 1)
        return self.text[1:] if is_suffix else None

    @property
    def regex(self) -> str:
        """The regular expression for the whole name or path."""
        pieces = _pieces(self.text, is_path=self.is_anchored)
        return _NEVER if pieces is None else _joined(pieces)

    @property
    def top(self) -> str:
        """The folder, with a closing `/`, below which all matches lie; empty if they may lie anywhere."""
        if not self.is_anchored:
            return ""
        special = _SPECIAL.search(self.text)
        literal = self.text if special is None else self.text[: special.start()]
        return literal[: literal.rfind("/") + 1]

    def leads_through(self, folder: str) -> bool:
        """Return whether a folder, with a closing `/`, lies on the path that the pattern spells out."""
        if not self.top or self.is_kept:
            return False
        return self.top.startswith(folder) or (
            folder.startswith(self.top) and ("**" in self.text or folder.count("/") <= self.text.count("/"))
        )


def octets(name: str) -> str:
    """Return a name as git compares it: its bytes, one character each."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("latin-1")


def parse(line: str) -> Pattern | None:
    """Parse one line, given as octets without its line end; None if it is a comment or empty."""
    if line.startswith("#"):
        return None
    text = line.partition("\0")[0]
    untrimmed = _UNTRIMMED.match(text)
    text = untrimmed[0] if untrimmed else text
    is_kept = text.startswith("!")
    text = text[is_kept:]
    only_folders = text.endswith("/")
    text = text[: len(text) - only_folders]
    is_anchored = "/" in text
    text = text.removeprefix("/")
    return Pattern(text, is_kept, only_folders, is_anchored) if text else None


def _pieces(text: str, *, is_path: bool) -> list[str] | None:
    """Translate a pattern piece by piece; None if it is malformed and therefore never matches."""
    pieces: list[str] = []
    # Git compares the text before the first special character separately: stars after it begin a pattern.
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
    """Parse a set from behind its `[`; return its end and its characters. None if it is malformed."""
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
    """Parse one character of a set, or a range that began with the character before it."""
    if text[at : at + 1] == "-" and before and text[at + 1 : at + 2] not in ("", "]"):
        at += 2 if text[at + 1] == "\\" else 1
        held.update(map(chr, range(ord(before), ord(text[at : at + 1] or "\0") + 1)))
        return at + 1, ""
    at += text[at : at + 1] == "\\"
    held.add(text[at : at + 1])
    return at + 1, text[at : at + 1]


def _named_set(text: str, at: int) -> tuple[int, set[str] | None] | None:
    """Parse a class like `[:alpha:]` from behind its `[:`; None if it is no class, no characters if it is unknown."""
    end = text.find("]", at)
    if end < 0:
        return len(text), None
    if text[end - 1] != ":" or end <= at:
        return None
    known = _POSIX.get(text[at : end - 1])
    return end + 1, None if known is None else set(filter(known, map(chr, range(128))))


def _class(held: frozenset[str]) -> str:
    """Return a regular expression for a set of characters, with ranges, which compile quickly."""
    if not held:
        return _NEVER
    spelled = ""
    codes = sorted(map(ord, held))
    first = before = codes[0]
    for code in (*codes[1:], 0):
        if code != before + 1:
            spelled += f"\\x{first:02x}-\\x{before:02x}"
            first = code
        before = code
    return f"[{spelled}]"


def _joined(pieces: list[str]) -> str:
    """Join pieces so that each star is tried once: the first position where the next fixed part fits is enough.

    That holds for a single star, which never crosses a `/`, up to the next star; and for `**/`, which takes whole
    names, up to the next `**/`.
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
_Ranks = tuple[int, int]
"""The last line that matches files, and the last that matches folders, counted from 1; 0 for none."""


class TooManyPatterns(ValueError):
    """There are too many patterns; the message names the limit."""


def _note(known: dict[str, _Ranks], text: str, rank: int, pattern: "Pattern") -> None:
    """Record that a line without wildcards matches a text; lines come in order."""
    for_files, _ = known.get(text, (0, 0))
    known[text] = (for_files if pattern.only_folders else rank, rank)


class _Wild:
    """Patterns with wildcards, compiled when needed: all together at first, one by one only after a match."""

    def __init__(self, ranked: list[tuple[int, Pattern]]) -> None:
        self._ranked = ranked
        self._each: dict[int, _Match] = {}
        self.match: _Match = self._compile_and_match
        """Matches a text if any of the patterns does."""

    def rank(self, text: str, *, is_folder: bool) -> int:
        """Return the rank of the last line that matches, or 0."""
        for rank, pattern in reversed(self._ranked):
            if (is_folder or not pattern.only_folders) and self._match_of(rank, pattern)(text):
                return rank
        return 0

    def _compile_and_match(self, text: str) -> re.Match[str] | None:
        joined = "|".join(f"(?:{pattern.regex})" for _, pattern in self._ranked)
        self.match = re.compile(joined, re.DOTALL).fullmatch
        return self.match(text)

    def _match_of(self, rank: int, pattern: Pattern) -> _Match:
        match = self._each.get(rank)
        if match is None:
            match = self._each[rank] = re.compile(pattern.regex, re.DOTALL).fullmatch
        return match


class Rules:
    """Patterns in git-ignore syntax, relative to one folder.

    The rank of a pattern is its position, from 1: the last pattern that matches a name decides. Patterns without
    wildcards are found by lookup, so their number does not matter.
    """

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        """Use the patterns in this order; raise `TooManyPatterns` past a limit."""
        self._patterns = tuple(islice(patterns, MAX_PATTERNS + 1))
        if len(self._patterns) > MAX_PATTERNS:
            raise TooManyPatterns(f"more than {MAX_PATTERNS} patterns")
        self._names: dict[str, _Ranks] = {}
        self._paths: dict[str, _Ranks] = {}
        self._suffixes: dict[str, _Ranks] = {}
        wild_names: list[tuple[int, Pattern]] = []
        wild_paths: list[tuple[int, Pattern]] = []
        for rank, pattern in enumerate(self._patterns, 1):
            suffix = pattern.plain_suffix
            if not _SPECIAL.search(pattern.text):
                _note(self._paths if pattern.is_anchored else self._names, pattern.text, rank, pattern)
            elif suffix is not None:
                _note(self._suffixes, suffix, rank, pattern)
            else:
                (wild_paths if pattern.is_anchored else wild_names).append((rank, pattern))
        self.wild_count = len(wild_names) + len(wild_paths)
        self.wild_characters = sum(len(one.text) for _, one in (*wild_names, *wild_paths))
        if self.wild_count > MAX_WILD_PATTERNS:
            raise TooManyPatterns(f"more than {MAX_WILD_PATTERNS} patterns with wildcards")
        if self.wild_characters > MAX_WILD_CHARACTERS:
            raise TooManyPatterns(f"more than {MAX_WILD_CHARACTERS} characters of patterns with wildcards")
        self._wild_names = _Wild(wild_names) if wild_names else None
        self._wild_paths = _Wild(wild_paths) if wild_paths else None
        self._suffix_lengths = tuple(sorted({len(suffix) for suffix in self._suffixes}))
        # One call that compares a few endings is quicker than a lookup for each length.
        self._few_suffixes = tuple(self._suffixes) if len(self._suffixes) <= _FEW_SUFFIXES else ("",)
        self._has_paths = bool(self._paths or wild_paths)
        self._tops = tuple({one.top for one in self._patterns if not one.is_kept})

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Return the rules of these lines, given as octets; raise `TooManyPatterns` past a limit."""
        return cls(one for line in lines if line and (one := parse(line)) is not None)

    def __len__(self) -> int:
        return len(self._patterns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._patterns == other._patterns

    def __hash__(self) -> int:
        return hash(self._patterns)

    def decide(self, prefix: str, name: str, *, is_folder: bool) -> bool | None:
        """Return what the last pattern that matches decides: True to ignore, False to keep; None if none matches.

        `prefix` is the path from the folder of these rules to that of the name, with a closing `/`; both are octets.
        Folders above the name are not compared again.
        """
        ranks = self._names.get(name)
        rank = 0 if ranks is None else ranks[is_folder]
        if name.endswith(self._few_suffixes):
            rank = max(rank, self._suffix_rank(name, is_folder=is_folder))
        wild = self._wild_names
        if wild is not None and wild.match(name):
            rank = max(rank, wild.rank(name, is_folder=is_folder))
        if self._has_paths:
            path = prefix + name
            ranks = self._paths.get(path)
            rank = rank if ranks is None else max(rank, ranks[is_folder])
            wild = self._wild_paths
            if wild is not None and wild.match(path):
                rank = max(rank, wild.rank(path, is_folder=is_folder))
        return not self._patterns[rank - 1].is_kept if rank else None

    def _suffix_rank(self, name: str, *, is_folder: bool) -> int:
        ends = (name[len(name) - length :] for length in self._suffix_lengths if length <= len(name))
        return max((self._suffixes[end][is_folder] for end in ends if end in self._suffixes), default=0)

    def may_match_below(self, folder: str) -> bool:
        """Return whether a pattern may match something below a folder."""
        return any(folder.startswith(top) or top.startswith(folder) for top in self._tops)

    def leads_through(self, folder: str) -> bool:
        """Return whether a pattern spells out a path through a folder."""
        return any(one.leads_through(folder) for one in self._patterns)


Chain = tuple[tuple[Rules, str], ...]
"""The rules that apply in a folder, outermost first, each with the path from its own folder to this one."""


def ignores(chain: Chain, name: str, *, is_folder: bool) -> bool:
    """Return whether the rules of a folder ignore a name in it; the innermost rules that match decide."""
    spelled = octets(name)
    for rules, prefix in reversed(chain):
        decided = rules.decide(prefix, spelled, is_folder=is_folder)
        if decided is not None:
            return decided
    return False
