"""Find the line of a source file that defines a symbol, by the form of definitions in most languages.

Comments are removed first, by the file's extension. Every pattern takes linear time on any text.
"""

import re
from typing import Final

_INTRODUCERS: Final = (
    "def class function func fn interface type struct enum trait union const let var val module object record namespace"
    " fun sub defp defmodule defmacro protocol mod static typealias mixin extension"
).split()
_OPENERS: Final = "if for while switch return else elif catch with match".split()
_NO_TYPES: Final = (
    *_OPENERS,
    *"new throw import package goto delete case using await yield not in and or do try raise assert del".split(),
)
_OPENS: Final = re.compile(rf"(?:{'|'.join(_OPENERS)})\b")
_INTRODUCED: Final = rf"(?<!\w)(?:{'|'.join(_INTRODUCERS)})\s+(?:\([^()]*\)\s*)?(?:\w+(?:\.|::?))*"
_TYPED: Final = rf"\s*(?:@\w+\s+)*+(?!(?:{'|'.join(_NO_TYPES)})\b)(?:[\w<>\[\],.?:]+(?:\s+[*&]*|[*&]+\s*))+?"
"""Annotations, modifiers and a type, as before a name in C and similar languages."""

_USED_TYPE: Final = re.compile(r"\s*[;*&)]|\s+\w+\s*[;,)=\[(]")
_TAIL: Final = re.compile(r"[^;{}=()]*+(?:\([^()]*+\)[^;{}=()]*+)*+(=>|[{;])?")
"""The text between the parameters of a function and its body: `const`, `throws …`, an initializer list; then `{`."""

MAX_LINE: Final = 1_000
"""Longer lines are generated code, to which no link leads."""

MAX_PARAMETERS: Final = 4_000

_STRING: Final = r'"(?:[^"\\\n]|\\.)*+"?' + r"|'(?:[^'\\\n]|\\.)*+'?"
_TRIPLE: Final = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"
_BLOCK: Final = r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_COMMENTS: Final = {
    "c": re.compile(rf"(?P<comment>{_BLOCK}|//[^\n]*)|{_STRING}|`(?:[^`\\]|\\.)*+`?", re.DOTALL),
    "hash": re.compile(rf"(?P<comment>{_TRIPLE}|(?<!\S)#[^\n]*)|{_STRING}", re.DOTALL),
    "dash": re.compile(rf"(?P<comment>--\[\[(?:[^\]]|\](?!\]))*+(?:\]\])?|--[^\n]*)|{_STRING}", re.DOTALL),
    "any": re.compile(r"(?m)(?P<comment>^\s*(?://|--|#(?!\s*define|\[|!\[)|\*|/\*)[^\n]*)"),
}
_C_ONLY: Final = frozenset("c h cc cpp cxx hpp hh m mm".split())
_FAMILIES: Final = {
    **dict.fromkeys(_C_ONLY, "c"),
    **dict.fromkeys("java js jsx mjs cjs ts tsx go rs swift kt kts scala cs dart php groovy zig proto".split(), "c"),
    **dict.fromkeys("py pyi pyx rb rake sh bash zsh fish pl pm r jl ex exs cr nim tcl".split(), "hash"),
    **dict.fromkeys("lua sql hs elm".split(), "dash"),
}


def find_definition(text: str, symbol: str, file: str = "") -> int:
    """Return the number of the first line that defines the symbol's last part, or 0."""
    name = symbol.rpartition(".")[2]
    if not name or name not in text:
        return 0
    extension = file.rpartition(".")[2].lower()
    plain = _without_comments(text, _FAMILIES.get(extension, "any"))
    lines = plain.split("\n")
    likely = [at for at, line in enumerate(lines) if name in line and len(line) <= MAX_LINE]
    form = _DefinitionForms(name, lines, is_c=extension in _C_ONLY)
    surest = (form.is_introduced, form.is_assigned, form.is_block, form.has_body, form.is_declared, form.is_member)
    return next((at + 1 for defines in surest for at in likely if defines(at)), 0)


class _DefinitionForms:
    """The forms in which a line may define one name."""

    def __init__(self, name: str, lines: list[str], *, is_c: bool) -> None:
        word = re.escape(name)
        self._lines = lines
        self._is_c = is_c
        self._introduced = re.compile(rf"{_INTRODUCED}{word}(?!\w)")
        self._macro = re.compile(rf"\s*#\s*define\s+{word}(?!\w)")
        self._assigned = re.compile(rf"\s*{word}\s*(?::[^=]*)?=(?![=>])")
        self._member = re.compile(rf"\s*(?:(?:\w+\.)+{word}\s*=(?![=>])|{word}:\s*(?:async\s+)?function\b)")
        self._called = re.compile(rf"(?<!\w){word}\(")
        self._typed = re.compile(rf"{_TYPED}(?:\w+::)*~?{word}\s*\(")
        self._bare = re.compile(rf"\s*(?:\w+::)*~?{word}\s*\(")
        self._field = re.compile(rf"{_TYPED}{word}\s*(?:=(?!=)|;|\[)")
        self._closing = re.compile(rf"\s*\}}[\s*]*{word}\s*;|\s*typedef\b[^;]*(?<!\w){word}\s*;")

    def is_introduced(self, at: int) -> bool:
        """Return whether a word such as `def` or `class` precedes the name."""
        line = self._lines[at]
        if self._macro.match(line):
            return True
        found = self._introduced.search(line)
        # In C, `struct name` also uses a type, or declares it before its definition.
        return found is not None and not (self._is_c and _USED_TYPE.match(line, found.end()))

    def is_assigned(self, at: int) -> bool:
        """Return whether the line begins with the name and assigns a value to it."""
        return self._assigned.match(self._lines[at]) is not None

    def is_block(self, at: int) -> bool:
        """Return whether the name is followed by `(`, and the line opens a block."""
        line = self._lines[at]
        opens = line.rstrip().endswith(("{", ":")) and not _OPENS.match(line.lstrip(" \t}"))
        return opens and self._called.search(line) is not None

    def has_body(self, at: int) -> bool:
        """Return whether a body follows the parameters, which may take several lines."""
        return self._after_parameters(at) == "{"

    def is_declared(self, at: int) -> bool:
        """Return whether a type precedes the name, and a value, a `;`, a `=>` or parameters follow it."""
        line = self._lines[at]
        if self._field.match(line) or self._closing.match(line):
            return True
        return self._typed.match(line) is not None and self._after_parameters(at) in (";", "=>")

    def is_member(self, at: int) -> bool:
        """Return whether the line assigns a value to the name in a table or an object."""
        return self._member.match(self._lines[at]) is not None

    def _after_parameters(self, at: int) -> str:
        """Return what follows the parameters: `{` or `=>` before a body, `;` after a declaration; else nothing."""
        line = self._lines[at]
        found = self._typed.match(line) or self._bare.match(line)
        if found is None:
            return ""
        rest = "\n".join(self._lines[at : at + 50])[found.end() : found.end() + MAX_PARAMETERS]
        depth = 1
        for place, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                tail = _TAIL.match(rest, place + 1)
                return (tail[1] or "") if tail is not None else ""
        return ""


def _without_comments(text: str, family: str) -> str:
    """Return the text without comments, with every line at its old number."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found["comment"] is None else "\n" * found[0].count("\n")

    return _COMMENTS[family].sub(blank, text)
