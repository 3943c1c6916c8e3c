"""Source code with colours and lines that have links.

Pygments is asked for one of the languages in a table, by MIME type or file name; code is never guessed. Its expressions
were not written for hostile text: each sees a short window of it, and after a deadline the rest stays plain.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from time import thread_time
from typing import Final

from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.data import YamlLexer, YamlLexerContext
from pygments.token import Token, _TokenType

from carrel.core.uri import decode_loosely, split_query
from carrel.explorer.rendering.lines import numbered, width
from carrel.explorer.rendering.markup import Content, Html, element, escape, scrolling, visible
from carrel.files.file_types import known_type
from carrel.search.languages import ALIASES

MAX_COLOURED: Final = 400_000
"""Characters of a text with colours."""
MAX_LINE: Final = 5_000
"""Characters of a line with colours; a text with a longer line is generated or hostile."""
WINDOW: Final = 4_096
"""Characters that an expression may look at."""
DEADLINE_S: Final = 0.3
"""Seconds of this thread's processor time, so that a busy machine shows the same colours."""
_STEPS: Final = 64
"""Steps between two checks of the clock."""

_BY_TYPE: Final = {
    "application/json": "json",
    "application/toml": "toml",
    "application/x-ndjson": "json",
    "application/xml": "xml",
    "image/svg+xml": "xml",
    "text/css": "css",
    "text/html": "html",
    "text/javascript": "javascript",
    "text/markdown": "markdown",
    "text/x-c++": "cpp",
    "text/x-diff": "diff",
    "text/x-dockerfile": "docker",
    "text/x-makefile": "make",
    "text/x-protobuf": "protobuf",
    "text/x-shellscript": "bash",
    "text/x-vue": "html",
    "text/yaml": "yaml",
}
_LIKE_THEIR_TYPE: Final = frozenset(
    (
        "c clojure cmake csharp dart elixir erlang go graphql groovy haskell java julia kotlin logtalk lua nix"
        " objective-c perl php powershell prolog python r ruby rust scala sql swift terraform typescript zig"
    ).split()
)
"""Languages whose MIME type is `text/x-` and the name."""
_BY_SUFFIX: Final = {
    "bat": "batch",
    "cfg": "ini",
    "conf": "ini",
    "editorconfig": "ini",
    "fish": "fish",
    "ini": "ini",
    "jsx": "jsx",
    "po": "pot",
    "properties": "properties",
    "rst": "rst",
    "sass": "scss",
    "scss": "scss",
    "tex": "tex",
    "tsx": "tsx",
}
_OTHER_NAMES: Final = {
    **ALIASES,
    "console": "bash",
    "dockerfile": "docker",
    "makefile": "make",
    "objc": "objective-c",
    "zsh": "bash",
}
"""Names of languages after the fence of a Markdown block."""
LANGUAGES: Final = frozenset((*_BY_TYPE.values(), *_LIKE_THEIR_TYPE, *_BY_SUFFIX.values()))

_CLASSES: Final[dict[_TokenType, str]] = {
    Token.Comment: "c",
    Token.Comment.Preproc: "p",
    Token.Generic.Deleted: "gd",
    Token.Generic.Heading: "k",
    Token.Generic.Inserted: "gi",
    Token.Generic.Subheading: "k",
    Token.Keyword: "k",
    Token.Keyword.Type: "t",
    Token.Literal.Date: "m",
    Token.Literal.Number: "m",
    Token.Literal.String: "s",
    Token.Literal.String.Escape: "e",
    Token.Literal.String.Interpol: "e",
    Token.Literal.String.Regex: "e",
    Token.Name.Attribute: "f",
    Token.Name.Builtin: "t",
    Token.Name.Class: "f",
    Token.Name.Constant: "m",
    Token.Name.Decorator: "p",
    Token.Name.Entity: "e",
    Token.Name.Exception: "t",
    Token.Name.Function: "f",
    Token.Name.Tag: "k",
    Token.Operator.Word: "k",
}
"""The classes of the style sheet; a kind of token without one has that of the kind around it."""

Piece = tuple[_TokenType, str]
_Place = tuple[int, _TokenType, str]
_Action = Callable[[Lexer, re.Match[str]], Iterator[_Place]]
_NewState = tuple[str, ...] | int | str | None
_Rules = Mapping[str, Sequence[tuple[Callable[[str, int, int], re.Match[str] | None], _Action | None, _NewState]]]
"""By the name of a state: the expressions to try, what each match is, and the state after it."""


def language_of(content: Content) -> str | None:
    """Return the language of a text by its MIME type and its name."""
    name = decode_loosely(split_query(content.uri)[0]).rpartition("/")[2]
    by_suffix = _BY_SUFFIX.get(name.rpartition(".")[2].lower()) if "." in name else None
    known = known_type(name) if content.type in ("", "text/plain") else None
    return by_suffix or _language_of_type(known[0] if known else content.type)


def _language_of_type(mime_type: str) -> str | None:
    named = mime_type.removeprefix("text/x-")
    return _BY_TYPE.get(mime_type) or (named if named in _LIKE_THEIR_TYPE else None)


def language_named(name: str) -> str | None:
    """Return the language that a Markdown fence names."""
    lower = name.strip().lower()
    known = _OTHER_NAMES.get(lower, lower)
    return known if known in LANGUAGES else None


def render_code(content: Content) -> Html:
    """Return a text with line numbers, and colours if its language is known."""
    text = content.text or ""
    lines = coloured_lines(text, language_of(content))
    shown = element("pre", element("code", numbered(lines, content.first_line)))
    return scrolling("Text", f"code{width(content)}", shown)


def render_block(text: str, language: str | None) -> Html:
    """Return a piece of code without line numbers, as in the middle of a document."""
    return scrolling("Code", "block", element("pre", element("code", Html("\n".join(coloured_lines(text, language))))))


def coloured_lines(text: str, language: str | None) -> list[Html]:
    """Return a text as lines of HTML. A newline at its end begins no line."""
    shown = visible(text).removesuffix("\n")
    if language is None or len(shown) > MAX_COLOURED or any(len(line) > MAX_LINE for line in shown.split("\n")):
        return [escape(line) for line in shown.split("\n")]
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, value in _pieces(f"{shown}\n", _lexer(language)):  # many expressions expect the end of a line
        class_ = _class_of(kind)
        first, *rest = value.split("\n")
        lines[-1].append((class_, first))
        lines += [[(class_, line)] for line in rest]
    return [_coloured(line) for line in lines[:-1]]


def _coloured(line: list[tuple[str, str]]) -> Html:
    """Return the parts of a line, those of one class together."""
    shown = []
    for class_, parts in groupby(line, lambda part: part[0]):
        text = escape("".join(part[1] for part in parts))
        shown.append(f'<span class="{class_}">{text}</span>' if class_ and text else text)
    return Html("".join(shown))


@lru_cache(maxsize=512)
def _class_of(kind: _TokenType) -> str:
    here: _TokenType | None = kind
    while here is not None:
        if here in _CLASSES:
            return _CLASSES[here]
        here = here.parent
    return ""


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer:
    # A block of code inside a document would be given to any lexer that it names.
    return get_lexer_by_name(language, handlecodeblocks=False)


def _pieces(text: str, lexer: Lexer) -> Iterator[Piece]:
    """Yield the tokens of a text; after the deadline, the rest as one plain token. Joined, they are the whole text."""
    until = thread_time() + DEADLINE_S
    at = 0
    for count, (start, kind, value) in enumerate(_tokens(text, lexer, until), 1):
        if start != at or not text.startswith(value, at):
            break  # a lexer that drops or repeats text
        yield kind, value
        at += len(value)
        if count % _STEPS == 0 and thread_time() > until:
            break
    if at < len(text):
        yield Token.Text, text[at:]


def _tokens(text: str, lexer: Lexer, until: float) -> Iterator[_Place]:
    if isinstance(lexer, ExtendedRegexLexer):
        kind = _YamlWindow if isinstance(lexer, YamlLexer) else _WindowContext
        return lexer.get_tokens_unprocessed(text, kind(text, 0))
    if isinstance(lexer, RegexLexer):
        return _regex_tokens(text, lexer, until)
    return lexer.get_tokens_unprocessed(text)  # JSON, by hand and in linear time


class _WindowContext(LexerContext):
    """A place in a text that pretends that the text ends soon after it."""

    @property
    def end(self) -> int:
        return min(len(str(self.text)), int(self.pos) + WINDOW)

    @end.setter
    def end(self, value: int) -> None:
        """Ignore the end that the constructor sets."""


class _YamlWindow(_WindowContext, YamlLexerContext):
    """The same for YAML, whose lexer also records the indentation of lines."""


def _regex_tokens(text: str, lexer: RegexLexer, until: float) -> Iterator[_Place]:
    """Yield the tokens of a text, as `RegexLexer` does, with a window for each expression and a look at the clock."""
    rules: _Rules = vars(lexer).get("_tokens") or vars(type(lexer))["_tokens"]  # some choose theirs by an option
    stack, at, steps = ["root"], 0, 0
    while at < len(text):
        steps += 1
        if steps % _STEPS == 0 and thread_time() > until:
            return
        end = min(len(text), at + WINDOW)
        for match, action, new_state in rules[stack[-1]]:
            found = match(text, at, end)
            if found:
                if isinstance(action, _TokenType):
                    yield at, action, found[0]
                elif action is not None:
                    yield from action(lexer, found)
                at = found.end()
                _enter(stack, new_state)
                break
        else:
            if text[at] == "\n":
                stack = ["root"]
            yield at, Token.Text, text[at]
            at += 1


def _enter(stack: list[str], new_state: _NewState) -> None:
    """Change the state as a rule says: push names, pop some, or push the top once more."""
    if isinstance(new_state, tuple):
        for name in new_state:
            if name == "#pop":
                del stack[max(1, len(stack) - 1) :]
            else:
                stack.append(stack[-1] if name == "#push" else name)
    elif isinstance(new_state, int):
        if abs(new_state) >= len(stack):
            del stack[1:]
        else:
            del stack[new_state:]
    elif new_state == "#push":
        stack.append(stack[-1])
