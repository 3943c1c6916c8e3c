"""The definitions of a source file, by tree-sitter.

The parser holds Python's lock while it works, so it gets the text in pieces, between which other threads run, and is
stopped at a deadline. A text that is nested deeper than people write is not parsed at all: it can take gigabytes.
"""

import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value, replace
from carrel.core.version import how_to_install
from carrel.outline.languages import Language
from carrel.outline.rows import FUNCTIONS, MAX_ROWS, Row, TextOutline

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

MAX_NESTING: Final = 256
"""Brackets that are open at once."""
MAX_LINE: Final = 50_000
"""Characters in a line; a longer one was generated, and its lines say nothing."""
DEADLINE_S: Final = 1.0
"""Time for parsing one text."""
MAX_SIGNATURE: Final = 140
UNSOUND: Final = "parts of it did not parse; what is defined there may be missing"

_PIECES: Final = tuple(bytearray(1 << power) for power in range(13))
"""What the parser is given, again and again: it never releases an object, and so a new one each time would stay."""
_OPENING, _CLOSING = b"([{", b")]}"
_OTHER_BYTES: Final = bytes(set(range(256)) - set(_OPENING + _CLOSING))
_STEPS: Final = bytes.maketrans(_OPENING + _CLOSING, b"\x02\x02\x02\x00\x00\x00")
_BODIES: Final = frozenset(
    "block body_statement class_body compound_statement declaration_list do_block enum_body enum_class_body "
    "enum_member_declaration_list enumerator_list extension_body field_declaration_list function_body interface_body "
    "object_type statement_block template_body accessor_list arrow_expression_clause macro_rule match_block "
    "enum_variant_list ordered_field_declaration_list field_initializer_list".split()
)
"""Nodes at which a signature ends, in grammars whose fields do not name the body."""
_COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment"})
_FOLLOWING: Final = frozenset({"function_body"})
"""Nodes that are the body of the definition before them."""
_ANNOTATIONS: Final = re.compile(
    r"(?:@(?!interface\b)[\w.:]+(?:\([^()]*\))?\s+|\[[^\[\]]*\]\s+|#\[[^\[\]]*\]\s+)+(?=\S)"
)
_CALLED: Final = re.compile(
    r"((?:[\w$]+(?:<[^()<>]*>)?(?:::|\.))*~?(?:operator\s*[^\s\w(]+|[\w$]+[?!=]?))\s*(?:<[^()]*>)?\("
)
_WORD: Final = re.compile(r"[\w$]+")

_parsing: Final = threading.Lock()
"""One text is parsed at a time, so that hostile texts use their memory only once."""


class _Grammar(Value, frozen=True):
    parser: "Parser"
    query: "Query"


class NoGrammar(Exception):
    """The package with the grammar of a language is not installed."""


@cache
def _grammar(language: Language) -> _Grammar:
    """Load the grammar of a language."""
    try:
        import tree_sitter

        module = import_module(language.package)
    except ImportError:
        raise NoGrammar(language.name) from None
    grammar = tree_sitter.Language(getattr(module, language.entry)())
    with _quietly():
        parser = tree_sitter.Parser(grammar, timeout_micros=int(DEADLINE_S * 1_000_000))
    return _Grammar(parser, tree_sitter.Query(grammar, language.query))


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the warning that a time limit is deprecated: the callback that replaces it crashes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def outline_code(data: bytes, language: Language) -> TextOutline:
    """Return the definitions of a source file; a note says why there are none, or where parsing stopped."""
    if _nesting(data) > MAX_NESTING:
        return TextOutline(language.name, note=f"it has more than {MAX_NESTING} brackets open at once")
    if max(map(len, data.splitlines()), default=0) > MAX_LINE:
        return TextOutline(language.name, note=f"it has lines of more than {MAX_LINE:,} bytes, as made by a program")
    try:
        with _parsing:
            parsed = _parse(data, language, _grammar(language))
    except NoGrammar:
        note = f"the grammar of {language.name} is not installed; install it with: {how_to_install('outline')}"
        return TextOutline(language.name, note=note)
    if parsed is None:
        return TextOutline(language.name, note="it takes too long to parse")
    rows, is_sound = parsed
    note = "" if is_sound else UNSOUND
    return TextOutline(language.name, rows, note or ("" if rows else "nothing is defined in it"))


def _nesting(data: bytes) -> int:
    """Return the maximum number of brackets open at once; brackets in strings and comments count too."""
    steps = data.translate(_STEPS, _OTHER_BYTES)
    return max(accumulate(step - 1 for step in steps), default=0)


def _parse(data: bytes, language: Language, grammar: _Grammar) -> tuple[tuple[Row, ...], bool] | None:
    """Return the rows, and whether the whole text was parsed; None if that takes too long."""
    from tree_sitter import QueryCursor

    def read(offset: int, _point: object) -> bytes | bytearray:
        power = min((len(data) - offset).bit_length(), len(_PIECES)) - 1
        if power < 0:
            return b""
        piece = _PIECES[power]
        piece[:] = data[offset : offset + len(piece)]
        return piece

    try:
        tree = grammar.parser.parse(read)
    except ValueError:  # the deadline
        grammar.parser.reset()
        return None
    with _quietly():
        cursor = QueryCursor(grammar.query, timeout_micros=int(DEADLINE_S * 1_000_000))
    began = monotonic()
    matches = cursor.matches(tree.root_node)
    if monotonic() - began >= DEADLINE_S:
        return None
    found = [_definition(captures, language, data) for _, captures in matches[:MAX_ROWS]]
    return tuple(_nested(found)), not tree.root_node.has_error


def _nested(found: Iterable[tuple[int, int, Row]]) -> Iterator[Row]:
    """Yield the rows in order, with their depth: a row lies in those that end after it begins."""
    around: list[tuple[int, Row]] = []
    latest = None
    for start, end, row in sorted(found, key=lambda one: (one[0], -one[1])):
        if (start, end) == latest:
            continue
        latest = (start, end)
        while around and around[-1][0] <= start:
            around.pop()
        is_inner = any(outer.kind in FUNCTIONS for _, outer in around)
        nested = replace(row, depth=len(around), is_inner=is_inner)
        around.append((end, nested))
        yield nested


def _definition(captures: "dict[str, list[Node]]", language: Language, data: bytes) -> tuple[int, int, Row]:
    """Return where a definition begins and ends, and its row."""
    kind = next(name for name in captures if name not in ("name", "body"))
    node = captures[kind][0]
    first, last = node, node
    spelled = node
    # A wrapper ends with what it wraps, or with one semicolon more; a list of definitions ends later.
    while (parent := first.parent) is not None and parent.type in language.wrappers:
        if parent.end_byte > node.end_byte + 1:
            break
        spelled = parent if parent.type in language.spelled else spelled
        first = parent
    following = node.next_named_sibling
    if following is not None and following.type in _FOLLOWING:
        last = following
    body = captures["body"][0] if "body" in captures else _body(node)
    stop = node.end_byte if body is None else body.start_byte
    text = data[spelled.start_byte : max(stop, node.start_byte)].decode("utf-8", "replace")
    if body is None and kind not in FUNCTIONS:
        text = text.partition("{")[0]
    signature = _signature(text)
    name_node = captures["name"][0] if "name" in captures else node.child_by_field_name("name")
    name = _name(name_node, signature, data)
    if body is not None and name_node is not None and body.start_byte < name_node.start_byte:
        signature = f"{signature} {name}"  # a typedef, whose name stands at its end
    is_private = name.startswith("#") or (name.startswith("_") and not name.endswith("__"))
    is_private = is_private or re.search(language.private, signature) is not None
    row = Row(kind, name, signature, 0, first.start_point.row + 1, _last_line(last), is_private)
    return first.start_byte, last.end_byte, row


def _last_line(node: "Node") -> int:
    """Return the last line of a node, without comments after its last statement."""
    leaf = node
    while (child := _last_child(leaf)) is not None:
        leaf = child
    end = leaf.end_point
    return end.row if end.column == 0 and end.row > node.start_point.row else end.row + 1


def _last_child(node: "Node") -> "Node | None":
    for index in range(node.child_count - 1, -1, -1):
        child = node.child(index)
        if child is not None and child.end_byte > child.start_byte and child.type not in _COMMENTS:
            return child
    return None


def _body(node: "Node") -> "Node | None":
    body = node.child_by_field_name("body")
    return next((child for child in node.named_children if child.type in _BODIES), None) if body is None else body


def _signature(text: str) -> str:
    """Return a definition's beginning on one line, without annotations and without the mark of its body."""
    line = " ".join(text.split())
    line = _ANNOTATIONS.sub("", line, count=1) if line[:1] in "@[#" else line
    line = line.rstrip(" :;={,").removesuffix("=>").removesuffix(" end").rstrip()
    line = line.replace("( ", "(").replace(" )", ")").replace(",)", ")")
    return line if len(line) <= MAX_SIGNATURE else f"{line[: MAX_SIGNATURE - 1]}…"


def _name(node: "Node | None", signature: str, data: bytes) -> str:
    """Return the name of a definition: where the grammar says, or else what stands before its parameters."""
    if node is not None:
        return " ".join(data[node.start_byte : node.end_byte].decode("utf-8", "replace").split())[:MAX_SIGNATURE]
    called = _CALLED.search(signature)
    if called is not None:
        return called[1]
    words = _WORD.findall(signature)
    return words[-1] if words else signature
