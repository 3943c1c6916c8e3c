"""Parse the text of a query.

    retry backoff                 words: the more of them, and the rarer, the better
    "connection refused"          an exact phrase; case does not matter
    parseConfig, parse_config     a name, in every spelling
    /fn \\w+_handler/              a regular expression of RE2; case matters unless it begins with (?i)
    path:src/ -path:test lang:dart scheme:logs path:"my notes/"     filters

Everything else is searched as words, and `notes` says so. Signs without a letter or digit, such as `->{`, are no words:
they are searched as exact text if the query has nothing else.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from carrel.core.errors import BadArgument, echo
from carrel.core.record import Value, replace
from carrel.search import expressions
from carrel.search.languages import language_named, nearest_language
from carrel.search.words import WORD

MAX_CHARACTERS: Final = 10_000
"""Maximum characters of a query that are used."""
MAX_TERMS: Final = 64
"""Maximum number of words and phrases; a sentence has fewer."""
MAX_FILTERS: Final = 32
"""Maximum number of filters: SQLite refuses a condition that is nested too deeply."""
MAX_NOTES: Final = 6
FILTERS: Final = ("path", "lang", "scheme")
_MEANT: Final = {"in": "scheme", "file": "path", "filename": "path", "folder": "path", "dir": "path", "ext": "lang"}
"""Filters of other programs, and ours that do the same."""

_TOKEN: Final = re.compile(
    r"""
    (?P<not>-)?(?P<filter>[a-z]{2,12}):(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"/:][^\s"]*|/(?!/)[^\s"]*))(?=\s|$)
    | /(?P<expression>(?:[^/\\]|\\.|/(?!i?(?:\s|$)))++)/(?P<fold>i)?(?=\s|$)
    | "(?P<phrase>[^"]*)"
    | (?P<word>"|[^\s"]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKEN_AFTER: Final = re.compile(_TOKEN.pattern.replace("| /(?P<expression>", "| (?!)/(?P<expression>"), _TOKEN.flags)
"""The same without expressions."""
_OPEN: Final = re.compile(r"/(?!/i?(?:\s|$))")
_FLAGS: Final = re.compile(r"^(?:\(\?[imsU]+\))+")
"""Flags at the beginning of an expression, which are no text to search for."""
_NAME: Final = re.compile(r"\w+(?:-\w+)*")
_BARE_FILTER: Final = re.compile(rf"-?({'|'.join(FILTERS)}):")
_COMPOUND: Final = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|\w[_-]\w|^[A-Z][a-z]")
_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which no text can hold."""
_EMPTY: Final = 'The query is empty. Give words, a "phrase", a name such as parseConfig, or a /regular expression/.'


class QueryFilter(Value, frozen=True):
    """A condition on the path, the scheme or the language of a document."""

    kind: str
    value: str
    is_negated: bool = False


class Query(Value, frozen=True):
    """A parsed query. `identifiers` are the `words` that are spelled like names in code."""

    text: str
    words: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    expression: str | None = None
    filters: tuple[QueryFilter, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str:
        """Return the last word of the query if it may be the beginning of a longer one; else an empty text."""
        last = self.words[-1] if self.words else ""
        return last if last and not self.must_verify and self.text.endswith(last) else ""

    def completed(self, words: Sequence[str]) -> "Query":
        """Return the query with longer words in place of the unfinished one."""
        note = f"No text contains {echo(self.unfinished)}; words that begin with it were searched."
        names = tuple(name for name in self.identifiers if name != self.unfinished)
        every = tuple(dict.fromkeys((*self.words[:-1], *words)))
        return replace(self, words=every, identifiers=names, notes=(*self.notes, note))

    @property
    def must_verify(self) -> bool:
        """Return whether a document is a hit only if its text contains the expression and every phrase."""
        return self.expression is not None or bool(self.phrases)


def parse(text: str, schemes: Collection[str] = ()) -> Query:
    """Return the parsed query; raise `BadArgument` if there is nothing to search for.

    `schemes` are the existing schemes; without them, every scheme is accepted.
    """
    reader = _QueryReader(schemes)
    whole = _HALF.sub("\N{REPLACEMENT CHARACTER}", text)
    if whole != text:
        text = whole
        reader.notes.append("The query contains invalid characters; they were replaced by \N{REPLACEMENT CHARACTER}.")
    if len(text) > MAX_CHARACTERS:
        reader.notes.append(f"Only the first {MAX_CHARACTERS:,} characters of the query were searched for.")
    for match in _tokens(text[:MAX_CHARACTERS]):
        reader.take(match)
    return reader.query(text[:MAX_CHARACTERS])


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the parts of a query, in linear time: after an expression without an end, no other is searched for."""
    pattern, at = _TOKEN, 0
    while (match := pattern.search(text, at)) is not None:
        yield match
        at = match.end()
        if match["word"] is not None and _OPEN.match(text, match.start()):
            pattern = _TOKEN_AFTER


class _QueryReader:
    """Collects the parts of one query."""

    def __init__(self, schemes: Collection[str]) -> None:
        self.schemes = schemes
        self.words: list[str] = []
        self.signs: list[str] = []
        """What stands where a word could, and has no letter or digit."""
        self.signs_end = 0
        self.has_open_mark = False
        self.phrases: list[str] = []
        self.expression: str | None = None
        self.filters: list[QueryFilter] = []
        self.notes: list[str] = []

    def take(self, match: re.Match[str]) -> None:
        """Take the next part."""
        if match["filter"] is not None:
            value = match["quoted"] if match["quoted"] is not None else match["value"]
            self._take_filter(match["filter"], value, is_negated=bool(match["not"]))
        elif match["expression"] is not None:
            self._take_expression(match["expression"], match[0], folds=match["fold"] is not None)
        elif match["phrase"] is not None:
            self._take_phrase(match["phrase"])
        elif match["word"] == '"':
            self.has_open_mark = True
            self._take_sign(match)
        else:
            self._take_word(match)

    def query(self, text: str) -> Query:
        """Return the parsed query; raise `BadArgument` if there is nothing to search for."""
        if self.signs and not (self.words or self.phrases or self.expression):
            self._take_signs()
        elif self.has_open_mark:
            self.notes.append('A quotation mark is not closed; its text was searched as words. Write "like this".')
        words = tuple(dict.fromkeys(self.words))
        phrases = tuple(dict.fromkeys(self.phrases))
        if len(words) + len(phrases) > MAX_TERMS:
            self.notes.append(f"Only the first {MAX_TERMS} words of the query were searched for.")
            words, phrases = words[:MAX_TERMS], phrases[:MAX_TERMS]
        filters = tuple(dict.fromkeys(self.filters))
        if len(filters) > MAX_FILTERS:
            self.notes.insert(0, f"Only the first {MAX_FILTERS} filters of the query were used.")
            filters = filters[:MAX_FILTERS]
        notes = tuple(dict.fromkeys(self.notes))[:MAX_NOTES]
        if not (words or phrases or self.expression or filters):
            told = f"Nothing is left to search for. {' '.join(notes)}" if notes else _EMPTY
            raise BadArgument(told, data={"parameter": "query"})
        names = tuple(word for word in words if _COMPOUND.search(word))
        return Query(text, words, names, phrases, self.expression, filters, notes)

    def _take_word(self, match: re.Match[str]) -> None:
        if bare := _BARE_FILTER.fullmatch(match[0]):
            self.notes.append(f"{match[0]} was searched as a word, since no value follows it; write {bare[1]}:VALUE.")
        if not self._take_words(match[0]):
            self._take_sign(match)

    def _take_sign(self, match: re.Match[str]) -> None:
        if self.signs and match.start() == self.signs_end:
            self.signs[-1] += match[0]
        else:
            self.signs.append(match[0])
        self.signs_end = match.end()

    def _take_words(self, text: str) -> bool:
        """Take the words of a text; return whether there are any."""
        words = [word for word in _NAME.findall(text) if WORD.search(word)]
        self.words.extend(words)
        return bool(words)

    def _take_signs(self) -> None:
        """Take the signs as exact text, with any white space between them."""
        source = r"\s+".join(map(expressions.quoted, self.signs))
        if fault := expressions.fault_of(source):
            self.notes.append(f"The query has no letter or digit, and cannot be searched as exact text: {fault}.")
            return
        self.expression = source
        self.notes.append("The query has no letter or digit, so it was searched as exact text.")

    def _take_phrase(self, text: str) -> None:
        phrase = " ".join(text.split())
        if WORD.search(phrase):
            self.phrases.append(phrase)
        elif phrase:
            self._take_exact(phrase, f'"{echo(phrase)}"', "")

    def _take_expression(self, typed: str, whole: str, *, folds: bool) -> None:
        """Take an expression; `whole` is its text with the slashes; with `folds`, an `i` follows them."""
        source = f"(?i){typed}" if folds else typed
        shown, fault = echo(whole), expressions.fault_of(typed) or expressions.fault_of(source)
        if fault is None and self.expression is None:
            self.expression = source
            return
        reason = f": {fault}." if fault else ", since a query can have one expression."
        text = _FLAGS.sub("", typed)
        if self._take_words(text):
            self.notes.append(f"{shown} was searched as words{reason}")
        else:
            self._take_exact(text, shown, reason)

    def _take_exact(self, text: str, shown: str, reason: str) -> None:
        """Take a text without words: as an expression that matches it, unless the query has another one."""
        source = expressions.quoted(text)
        fault = expressions.fault_of(source)
        if self.expression is None and fault is None:
            self.expression = source
            if reason:
                self.notes.append(f"{shown} was searched as exact text{reason}")
        else:
            why = f": {fault}." if fault else ", since a query can have one expression or text of signs."
            self.notes.append(f"{shown} was left out{why}")

    def _take_filter(self, kind: str, value: str, *, is_negated: bool) -> None:
        if kind not in FILTERS:
            near = self._meant(kind, value)
            meant = f"; did you mean {echo(near)}?" if near else "; there are path:, lang: and scheme:."
            self.notes.append(f"{kind}:{echo(value)} was searched as words, since there is no filter {kind}:{meant}")
            self._take_words(f"{kind} {value}")
            return
        known = self._known_value(kind, value)
        if known is not None:
            self.filters.append(QueryFilter(kind, known, is_negated))

    def _meant(self, kind: str, value: str) -> str:
        """Return our filter that does the same as one of another program; empty if there is none."""
        if kind == "in" and self.schemes and value.lower() not in self.schemes:
            return f"path:{value}"
        if kind == "ext" and language_named(value) is None:
            return f"path:.{value.lstrip('.')}"
        near = _MEANT.get(kind) or next(iter(difflib.get_close_matches(kind, FILTERS, 1, 0.4)), None)
        return f"{near}:{value}" if near else ""

    def _known_value(self, kind: str, value: str) -> str | None:
        """Return the known value for the given one; None, with a note, if there is none."""
        if not value:
            self.notes.append(f"{kind}: was left out, since it has no value.")
            return None
        if kind == "path":
            return value
        if kind == "lang":
            known, near = language_named(value), nearest_language(value)
        else:
            folded = value.lower()
            known = folded if not self.schemes or folded in self.schemes else None
            near = next(iter(difflib.get_close_matches(folded, sorted(self.schemes), 1, 0.4)), None)
        if known is None:
            what = "language" if kind == "lang" else "scheme"
            meant = f" Did you mean {kind}:{near}?" if near else ""
            self.notes.append(f"{kind}:{echo(value)} was left out: no {what} has that name.{meant}")
        return known
