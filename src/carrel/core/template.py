"""URI templates: the part of RFC 6570 that can be matched and expanded.

{x}      one path segment or a part of one; never empty, never with a `/`
{+x}     any number of segments, also none; at most once in a template
{?a,b}   query parameters, each optional, in any order; only at the end

Two variables always have a `/` between them, so a URI matches in at most one way, in time proportional to its length.
The catalogue decides which of two matching templates wins.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from carrel.core.errors import BadArgument, TemplateError
from carrel.core.uri import PATH_SAFE, QUERY_SAFE, decode, find_unsound, is_text, pairs, quote

REST_SAFE: Final = PATH_SAFE + "[]"
"""What `{+x}` does not escape: the reserved characters except `?` and `#`."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:")
_TOKEN: Final = re.compile(r"\{[^{}]*+\}|[^{}?#]++|[{}?#]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_STRAY: Final = {
    "{": "Unclosed brace",
    "}": "Closing brace without an opening one",
    "?": 'Literal "?" (a query is written {?name})',
    "#": 'Literal "#" (no resource has a fragment)',
}
_OPERATORS: Final = frozenset("#./;&=,!@|")
"""Operators of RFC 6570 that cannot be matched, and those that it reserves."""

_Variable = tuple[str, str, bool]
"""A path variable: the literal text before it, its name, whether it is `{+x}`."""
_Parts = tuple[list[_Variable], str, tuple[str, ...]]
"""The path's variables, the literal text after the last of them, the query's variables."""


class UriTemplate:
    """A parsed template. Immutable; equal if the text is equal. Parsing raises `TemplateError`.

    `variables` has those of the path, then those of the query; `literal_start` is the text before the first one.
    """

    __slots__ = ("_fullmatch", "_parts", "is_fixed", "literal_start", "query_variables", "text", "variables")

    text: str
    variables: tuple[str, ...]
    query_variables: frozenset[str]
    literal_start: str
    is_fixed: bool  # no variables: only one URI matches
    _parts: _Parts
    _fullmatch: Callable[[str], re.Match[str] | None] | None  # compiled for the first match

    def __init__(self, text: str) -> None:
        path, tail, query = parts = _parse(text)
        put = super().__setattr__
        put("text", text)
        put("variables", (*(name for _, name, _ in path), *query))
        put("query_variables", frozenset(query))
        put("literal_start", path[0][0] if path else tail)
        put("is_fixed", not self.variables)
        put("_parts", parts)
        put("_fullmatch", None)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} of a UriTemplate cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} of a UriTemplate cannot be deleted")

    def __reduce__(self) -> tuple[type["UriTemplate"], tuple[str]]:
        return UriTemplate, (self.text,)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, UriTemplate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the variables, decoded once, or None if `uri` does not match.

        Only the scheme ignores case. Query variables that `uri` does not have are absent.
        """
        found = (self._fullmatch or self._compile())(uri)
        if found is None:
            return None
        is_plain = uri.isascii() and "%" not in uri and "?" not in uri
        return found.groupdict() if is_plain else self._decoded(found.groupdict(), uri)

    def _compile(self) -> Callable[[str], re.Match[str] | None]:
        fullmatch = _pattern_of(self._parts).fullmatch
        super().__setattr__("_fullmatch", fullmatch)
        return fullmatch

    def expand(self, values: Mapping[str, str]) -> str:
        """Return the URI that matches with these values: `match(expand(values)) == values`.

        Therefore `{+x}` always encodes `%`, `?` and `#`, unlike in RFC 6570. Query variables that are not in `values`
        are left out; names that are not in the template are ignored.
        """
        path, tail, query = self._parts
        spelt = "".join(before + _spell(name, values.get(name), is_rest=is_rest) for before, name, is_rest in path)
        given = [f"{name}={quote(_sound(name, values[name]), QUERY_SAFE)}" for name in query if name in values]
        return f"{spelt}{tail}?{'&'.join(given)}" if given else spelt + tail

    def expand_before(self, variable: str, values: Mapping[str, str]) -> tuple[str, bool]:
        """Return the URI up to a variable of the path, and whether the variable is `{+x}`."""
        spelt = ""
        for before, name, is_rest in self._parts[0]:
            spelt += before
            if name == variable:
                return spelt, is_rest
            spelt += _spell(name, values.get(name), is_rest=is_rest)
        raise BadArgument(f"Variable {variable} is not in the path", data={"parameter": variable})

    def _decoded(self, raw: dict[str, str], uri: str) -> dict[str, str] | None:
        try:
            values = {name: decode(text) for name, text in raw.items()}
            for name, value in pairs(uri.partition("?")[2]):
                if name in values or name not in self.query_variables:
                    return None
                values[name] = value
        except BadArgument:
            return None
        holds_slash = "%" in uri and any("/" in values[name] for _, name, is_rest in self._parts[0] if not is_rest)
        return None if holds_slash else values


def _pattern_of(parts: _Parts) -> re.Pattern[str]:
    """Return one pattern without nested repeats.

    `{x}` backtracks only for literal text in its own segment, which matches at the end of the segment or not at all.
    `{+x}` backtracks to the left, and the rest is tried once per segment, over as many segments as the template has
    after it. So matching is linear in the length of the URI.
    """
    path, tail, query = parts
    literals = [*(before for before, _, _ in path), tail]
    scheme, _, start = literals[0].partition(":")
    # With the flag `a`, since otherwise a `k` in a scheme would match the Kelvin sign.
    pieces = [f"(?ai:{re.escape(scheme)}):{re.escape(start)}"]
    for (_, name, is_rest), after in zip(path, literals[1:], strict=True):
        repeat = "*" if is_rest else "+"
        kept = "+" if not after or (after[0] == "/" and not is_rest) else ""
        pieces.append(rf"(?P<{name}>[^?#\0{'' if is_rest else '/'}]{repeat}{kept}){re.escape(after)}")
    pieces.append(r"(?:\?[^#]*+)?" if query else r"\??")
    return re.compile("".join(pieces))


def _parse(text: str) -> _Parts:
    _check_start(text)
    path: list[_Variable] = []
    query: tuple[str, ...] = ()
    literal = ""
    taken: set[str] = set()
    for token in _TOKEN.finditer(text):
        at, end = token.span()
        if query:
            raise _fault(text, at, "Nothing may follow the query expression")
        if token[0] in _STRAY:
            raise _fault(text, at, _STRAY[token[0]])
        if text[at] != "{":
            literal = token[0]
        elif text[at + 1] == "?":
            query = _names(text, at + 2, end - 1, taken)
        else:
            path.append(_variable(text, (at, end), literal, path, taken))
            literal = ""
    return path, literal, query


def _check_start(text: str) -> None:
    unsound = find_unsound(text)
    if unsound >= 0:
        raise _fault(text, unsound, "Control character or lone surrogate")
    if not _SCHEME.match(text):
        brace = text.partition(":")[0].find("{")
        raise _fault(text, max(brace, 0), "No scheme" if brace < 0 else "The scheme must be literal")


def _variable(text: str, span: tuple[int, int], before: str, path: list[_Variable], taken: set[str]) -> _Variable:
    at, end = span
    is_rest = text[at + 1] == "+"
    name, *more = _names(text, at + 1 + is_rest, end - 1, taken)
    if more:
        raise _fault(text, text.index(",", at), "More than one variable in one path segment")
    if path and "/" not in before:
        raise _fault(text, at, 'No "/" between two variables')
    if is_rest and any(other for _, _, other in path):
        raise _fault(text, at, "More than one {+…}")
    return before, name, is_rest


def _names(text: str, at: int, end: int, taken: set[str]) -> tuple[str, ...]:
    names: list[str] = []
    for piece in text[at:end].split(","):
        name = _NAME.match(piece)
        if name is None:
            raise _fault(text, at, f'Unknown operator "{piece[0]}"' if piece[:1] in _OPERATORS else "No variable name")
        if name.end() < len(piece):
            wrong = piece[name.end()]
            why = "A modifier cannot be matched" if wrong in "*:" else f'"{wrong}" in a variable name'
            raise _fault(text, at + name.end(), why)
        if piece in taken:
            raise _fault(text, at, f'Variable "{piece}" for the second time')
        taken.add(piece)
        names.append(piece)
        at += len(piece) + 1
    return tuple(names)


def _fault(text: str, at: int, why: str) -> TemplateError:
    start = max(0, at - 60)
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[start : at + 20])
    return TemplateError(f"{why}, at column {at + 1} of the URI template:\n  {shown}\n  {' ' * (at - start)}^")


def _spell(name: str, value: str | None, *, is_rest: bool) -> str:
    if value is None:
        raise BadArgument(f"Variable {name} has no value", data={"parameter": name})
    if is_rest:
        return quote(_sound(name, value), REST_SAFE)
    if not value or "/" in value:
        raise BadArgument(f"Variable {name} must not be empty or hold a slash", data={"parameter": name})
    return quote(_sound(name, value), "")


def _sound(name: str, value: str) -> str:
    if not is_text(value):
        raise BadArgument(f"Variable {name} holds a NUL or a lone surrogate", data={"parameter": name})
    return value
