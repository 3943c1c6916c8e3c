"""Match regular expressions in linear time with RE2, and find the literals that a text must contain to match.

`^` and `$` are the ends of a line, a dot is any character of a line; case matters unless the expression says `(?i)`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from time import monotonic
from typing import Final

import re2

from carrel.core.record import Value

_MEMORY: Final = 8 << 20
_MAX_PROGRAM: Final = 2_500
"""Steps of an expression. Time is linear in the text, but each character may cost as much as there are steps."""
_MOST: Final = 200
"""Matches that are looked for in one text; more are never shown."""
_LINES: Final = "(?m)"
"""Stands before every expression: `^` and `$` are the ends of a line."""
_DEPTH: Final = 40
_REPEAT: Final = re.compile(r"[*+?]|\{([0-9]+)(?:,[0-9]*)?\}")
"""A repetition; any other brace stands for itself."""
_IN_WORDS: Final = re.compile(r"(?:[a-z]-[a-z]|[A-Z]-[A-Z]|\d-\d|\\[wd]|\w)+", re.ASCII)
"""A class of characters that words consist of."""
CONTINUED: Final = "\0"
"""Stands at the end of a literal that is followed by a letter, a digit or an underscore."""


_MAX_STEPS: Final = 500_000_000
"""Steps times bytes; above it, a text is searched in windows, and not to its end if that takes too long."""
_WINDOW: Final = 1 << 16
_OVERLAP: Final = 1 << 12
_WINDOWS_S: Final = 0.5


class TextTooLong(Exception):
    """A text would take too long to be searched for an expression."""


@lru_cache(maxsize=64)
def _compiled(source: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.never_capture = True
    return re2.compile(f"{_LINES}{source}", options)


def quoted(text: str) -> str:
    """Return an expression that matches exactly this text."""
    return str(re2.escape(text))


def phrase_source(phrase: str) -> str:
    """Return an expression for a phrase, whose case and kind of white space do not matter."""
    return "(?i)" + r"\s+".join(map(quoted, phrase.split()))


def fault_of(source: str) -> str | None:
    """Return what is wrong with an expression, in words; None for a valid one."""
    try:
        if _compiled(source).programsize > _MAX_PROGRAM:
            return "it is too large"
    except re2.error as error:
        detail = error.args[0] if error.args else "it cannot be read"
        words = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        return words.replace(_LINES, "", 1)  # this part is not from the query
    except UnicodeEncodeError:
        return "it contains an invalid character"
    return None


def spans(source: str, text: str, most: int = _MOST) -> list[tuple[int, int]]:
    """Return where an expression matches in a text, as positions of characters; at most `most` of them."""
    content = text.encode("utf-8", "replace")  # a question mark stands for each half of a character
    expression = _compiled(source)
    if expression.programsize * len(content) > _MAX_STEPS:
        return list(islice(_in_windows(expression, content if text.isascii() else content.decode()), most))
    if text.isascii():  # bytes are at the places of characters
        return [match.span() for match in islice(expression.finditer(content), most)]
    # Most texts do not match, and to count characters takes longer than to search.
    if expression.search(content) is None:
        return []
    return [match.span() for match in islice(expression.finditer(content.decode()), most)]


def _in_windows(expression: "re2._Regexp", content: bytes | str) -> Iterator[tuple[int, int]]:
    """Yield where a slow expression matches; a match that is longer than the overlap of two windows may be missed."""
    until, is_found, done = monotonic() + _WINDOWS_S, False, 0
    for start in range(0, len(content), _WINDOW):
        if start and monotonic() > until:
            if is_found:
                return
            raise TextTooLong
        for match in expression.finditer(content, max(start, done), start + _WINDOW + _OVERLAP):
            is_found, done = True, match.end()
            yield match.span()


class Need(Value, frozen=True):
    """What every matching text must contain: all of `literals` and of `needs`; with `is_any`, one of `needs`."""

    literals: tuple[str, ...] = ()
    needs: tuple["Need", ...] = ()
    is_any: bool = False

    def __bool__(self) -> bool:
        return bool(self.literals or self.needs)

    def texts(self) -> Iterator[str]:
        """Yield every literal in it."""
        yield from self.literals
        for need in self.needs:
            yield from need.texts()


def need_of(source: str) -> Need:
    """Return what a text must contain to match an expression; an empty need if that is not certain."""
    try:
        reader = _ExpressionReader(source)
        need = reader.alternatives(0)
        return need if reader.is_at_end else Need()
    except _Unclear:
        return Need()


_CHARACTER: Final = Need()
"""What stands for any one character of some that words consist of."""


class _Unclear(Exception):
    """The expression contains syntax that is not analysed here."""


class _ExpressionReader:
    """Reads an expression from left to right; takes the needs of its parts together."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """Return whether everything was read."""
        return self._at >= len(self._source)

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _next(self) -> str:
        if self.is_at_end:
            raise _Unclear
        self._at += 1
        return self._source[self._at - 1]

    def alternatives(self, depth: int) -> Need:
        """Read up to the end of a group; return the need of one of its alternatives."""
        if depth > _DEPTH:
            raise _Unclear
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        return Need(needs=tuple(branches), is_any=True) if all(branches) else Need()

    def _sequence(self, depth: int) -> Need:
        literals: list[str] = []
        needs: list[Need] = []
        run: list[str] = []
        while not self.is_at_end and self._peek() not in "|)":
            atom = self._atom(depth)
            least = self._least()
            if isinstance(atom, str) and least is None:
                run.append(atom)
                continue
            if isinstance(atom, str) and least:
                run.append(atom)
            if atom != "":  # an assertion is between characters, and does not part them
                is_continued = atom is _CHARACTER and least != 0 and run and (run[-1].isalnum() or run[-1] == "_")
                literals.append("".join(run) + (CONTINUED if is_continued else ""))
                run.clear()
            if isinstance(atom, Need) and atom and least != 0:
                needs.append(atom)
        literals.append("".join(run))
        return Need(tuple(literal for literal in literals if literal), tuple(needs))

    def _least(self) -> int | None:
        """Read a repetition; return how often it asks for what stands before it, or None if there is none."""
        least: int | None = None
        while repeat := _REPEAT.match(self._source, self._at):
            self._at = repeat.end()
            if repeat[1]:
                low = min(1, int(repeat[1]))
                least = low if least is None else least and low
            elif repeat[0] == "+":
                least = 1 if least is None else least
            elif least is None or repeat[0] == "*":
                least = 0
            # a question mark after a repetition makes it short, and changes no need
        return least

    def _atom(self, depth: int) -> str | Need:
        """Read one part: a character, "" for an assertion, or the need of a group or of any character."""
        sign = self._next()
        if sign == "\\":
            return self._escape()
        if sign == "[":
            return self._class()
        if sign == "(":
            return self._group(depth)
        if sign in "^$":
            return ""
        if sign == ".":
            return Need()
        if sign in "*+?" or sign == CONTINUED:
            raise _Unclear
        return sign

    def _escape(self) -> str | Need:
        sign = self._next()
        if sign in "bBAz":
            return ""
        if sign in "dw":
            return _CHARACTER
        if sign in "DWsSntrfva":
            return Need()
        if sign in "pP":
            if self._next() == "{":
                self._skip_to("}")
            return Need()
        if sign.isalnum():
            raise _Unclear  # a number of a character, or a quotation
        return sign

    def _skip_to(self, sign: str) -> None:
        end = self._source.find(sign, self._at)
        if end < 0:
            raise _Unclear
        self._at = end + 1

    def _class(self) -> str | Need:
        """Read a class of characters; one that holds a letter in both cases is that letter."""
        start = self._at
        if self._peek() == "^":
            self._at += 1
        if self._peek() == "]":
            self._at += 1
        while (sign := self._next()) != "]":
            if sign == "\\":
                self._next()
            elif sign == "[" and self._peek() == ":":
                self._skip_to(":]")
                self._at += 1
        inner = self._source[start : self._at - 1]
        if inner.isalpha() and len({letter.lower() for letter in inner}) == 1:
            return inner[0]
        return _CHARACTER if _IN_WORDS.fullmatch(inner) else Need()

    def _group(self, depth: int) -> Need:
        if self._peek() == "?":
            self._at += 1
            sign = self._next()
            if sign in "P<":
                self._skip_to(">")
            elif sign != ":":
                while sign in "imsU-":
                    sign = self._next()
                if sign == ")":
                    return Need()
                if sign != ":":
                    raise _Unclear
        need = self.alternatives(depth + 1)
        if self._next() != ")":
            raise _Unclear
        return need
