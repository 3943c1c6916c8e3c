"""A text as rows of the index: pieces of equal numbers of lines, each with the terms it is found by.

Beside its words a piece has terms with a mark before them, which no word has: what it defines, the parts of those
names, and, in the first piece, the words of the path and the title, and the signs of the whole text.
"""

from collections.abc import Sequence
from typing import Final

from carrel.core.record import Value
from carrel.search.languages import Definition, definitions_in
from carrel.search.words import WORD, Terms, parts_of, sign_terms, stem, whole_of

DEFINES: Final = "§"
"""Stands before the whole name of a definition."""
DEFINES_TYPE: Final = "‡"
"""Stands before the whole name of a type or a module."""
DEFINES_PART: Final = "°"
"""Stands before the stem of a part of such a name."""
PLACE: Final = "¶"
"""Stands before the stem of a word of the path or title."""

PIECE_CHARACTERS: Final = 1_600
"""About how long a piece is: a screen of code, a few paragraphs."""
PIECE_BITS: Final = 10
"""Bits of the number of a piece; those above them are the number of the document."""
MAX_PIECES: Final = (1 << PIECE_BITS) - 1
"""Pieces of one text; a longer one has longer pieces."""
MAX_LINES: Final = 60
_MAX_NAME: Final = 200
_KNOWN_NAMES: Final = 20_000


class Pieces(Value, frozen=True):
    """The rows of one text: how many lines each covers, and its terms, joined by spaces."""

    lines_each: int
    terms: list[str]
    has_definitions: bool


class Splitter:
    """Cuts texts into pieces; remembers how words are taken apart."""

    def __init__(self) -> None:
        self.terms = Terms()
        self._defined: dict[tuple[str, bool], str] = {}

    def split(self, text: str, path: str, title: str, language: str) -> Pieces:
        """Return the rows of a text."""
        lines = text.split("\n")
        each = max(1, min(MAX_LINES, PIECE_CHARACTERS * len(lines) // (len(text) + 1)), -(-len(lines) // MAX_PIECES))
        definitions = definitions_in(text, language)
        has_definitions = bool(definitions)
        definitions.reverse()
        rows: list[str] = []
        end = 0
        for first in range(0, len(lines), each):
            piece = "\n".join(lines[first : first + each])
            end += len(piece) + 1
            found = list(map(self.terms.__getitem__, set(WORD.findall(piece))))
            while definitions and definitions[-1].start < end:
                found.append(self._definition(definitions.pop()))
            rows.append(" ".join(found))
        rows[0] += " " + " ".join((*place_terms(path, title), *sign_terms(text)))
        return Pieces(each, rows, has_definitions)

    def split_fields(self, fields: Sequence[str]) -> Pieces:
        """Return the rows of a record: one for each field, and more for the last one if it is long."""
        *short, last = fields
        rows = [" ".join(map(self.terms.__getitem__, set(WORD.findall(field)))) for field in short]
        more = self.split(last, "", "", "").terms
        return Pieces(0, rows + more[: MAX_PIECES - len(rows)], has_definitions=False)

    def _definition(self, definition: Definition) -> str:
        """Return the terms of a definition by its name."""
        key = definition[1:]
        known = self._defined.get(key)
        if known is None:
            if len(self._defined) > _KNOWN_NAMES:
                self._defined.clear()
            self._defined[key] = known = " ".join(definition_terms(*key))
        return known


def definition_terms(name: str, is_type: bool) -> list[str]:
    """Return the terms of a definition: `Phoenix.Router` is found as `Router` too, a heading only as a whole."""
    words = WORD.findall(name[:_MAX_NAME])
    wholes = {"".join(map(whole_of, words)), *(map(whole_of, words[-1:]) if " " not in name else ())}
    parts = {stem(part) for word in words for part in parts_of(word)}
    marks = (DEFINES, DEFINES_TYPE) if is_type else (DEFINES,)
    return [*(mark + whole for mark in marks for whole in wholes), *(DEFINES_PART + part for part in parts)]


def place_terms(path: str, title: str) -> list[str]:
    """Return the terms of a path and a title."""
    words = WORD.findall(f"{path} {title}")
    return sorted({PLACE + stem(part) for word in words for part in parts_of(word)})
