"""Read the facts about a package from the syntax tree of its source. No Lua is ever run.

Only direct statements of the file count. A value that is only known when the program runs is named as unresolved, and
so is one that a branch, another name for the table, or a function may have changed. Every source gets an answer:
recursion is bounded by the depth of tables, and a source that takes too long to parse is given up.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value
from carrel.providers.alc.lua_spec import Shapes, Spec
from carrel.providers.alc.lua_tables import WHOLE, Known, Table, Unresolved, render
from carrel.providers.alc.lua_values import Evaluator, arguments_of, unwrapped

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_PARSED_BYTES: Final = 1_048_576
"""The largest source that is parsed: real ones have some kilobytes, and the parser needs 400 times the size."""
CHUNK: Final = 4_096
READS_PER_CHUNK: Final = 16
READS_AT_LEAST: Final = 2_000
"""How often the parser may ask for chunks of a source: about twice each, unless errors send it back and forth."""

MAX_RESCUES: Final = 3
_INDEXING: Final = frozenset({"dot_index_expression", "bracket_index_expression", "method_index_expression"})
_BLOCKS: Final = frozenset({"if_statement", "do_statement", "for_statement", "while_statement", "repeat_statement"})
_FUNCTIONS: Final = frozenset({"function_definition", "function_declaration"})
_HARMLESS: Final = frozenset(
    "assert error getmetatable ipairs next pairs print rawequal rawget rawlen require select setmetatable "
    "table.concat table.unpack tonumber tostring type unpack".split()
)
"""Functions that do not change the fields of a table that they get."""
_NAMING: Final = frozenset({"identifier", "variable_list"}) | _INDEXING
_LINE_END: Final = re.compile(r"\r\n|\n\r|\r")
_parsers = threading.local()


class Facts(Value, frozen=True):
    """What a package's source states: `M.meta` with the paths of unresolved values, and whether it defines `M.run`."""

    meta: dict[str, object]
    has_meta: bool
    unresolved: tuple[str, ...]
    runs: bool


UNPARSED: Final = Facts({}, has_meta=False, unresolved=(WHOLE,), runs=False)
"""The facts of a source that is too large, or takes too long, to be parsed."""


def read_facts(text: str) -> Facts:
    """Return the facts of a package's source."""
    module = _module(text)
    return UNPARSED if module is None else module.facts()


def read_spec(text: str) -> Spec:
    """Return the parameters and the result that a package's source declares."""
    module = _module(text)
    return Spec() if module is None else module.shapes.entry("run")


def _module(text: str) -> "Module | None":
    source = _LINE_END.sub("\n", text).encode("utf-8", "replace")  # Lua takes all line ends, the parser only this one
    tree = _parse(source) if len(source) <= MAX_PARSED_BYTES else None
    if tree is None:
        return None
    module = Module(source, tree)
    module.take_all()
    return module


def _parser() -> "Parser":
    parser: Parser | None = getattr(_parsers, "parser", None)
    if parser is None:
        import tree_sitter
        import tree_sitter_lua

        parser = _parsers.parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_lua.language()))
    return parser


def _parse(source: bytes) -> "Tree | None":
    """Return the syntax tree; None for a source that takes too long."""
    left = READS_AT_LEAST + READS_PER_CHUNK * (len(source) // CHUNK + 1)

    def read(start: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        return source[start : start + CHUNK] if left > 0 else b""

    tree = _parser().parse(read)
    return tree if left > 0 else None


class Module:
    """One file, statement by statement: later ones override earlier ones."""

    def __init__(self, source: bytes, tree: "Tree") -> None:
        self._source = source
        self._evaluator = Evaluator(source)
        self._root = tree.root_node
        self._name = self._module_name()
        self._meta: Table | None = None
        self._has_meta = False
        self._is_unknown = False
        self._runs = False
        self._rescues = MAX_RESCUES
        self._aliases: dict[str, list[Known]] = {}
        self.shapes = Shapes(self._evaluator)

    def take_all(self) -> None:
        """Go through all statements."""
        for statement in self._root.children:
            self._take(statement)

    def facts(self) -> Facts:
        """Return the facts that the statements give."""
        if self._root.is_error and self._meta is None:
            self._rescue(self._root)
        meta, unresolved = ({}, ()) if self._meta is None else render(self._meta)
        if self._is_unknown:
            unresolved = (WHOLE, *unresolved)
        return Facts(meta, self._has_meta, unresolved, self._runs)

    def _take(self, statement: "Node") -> None:
        match statement.type:
            case "assignment_statement":
                self._assign(statement)
                self._doubt(statement)
            case "variable_declaration":
                for inner in statement.named_children:
                    if inner.type == "assignment_statement":
                        self._assign(inner)
                        self._doubt(inner)
            case "function_declaration":
                name = statement.child_by_field_name("name")
                self._runs = self._runs or (name is not None and self._path(name) == ["run"])
            case "return_statement":
                for value in _returned(statement)[:1]:
                    self._take_fields(value)
            case "ERROR":
                self._rescue(statement)
            case kind if kind in _BLOCKS or kind == "function_call":
                self._doubt(statement)

    def _assign(self, statement: "Node") -> None:
        for name, value in _assigned(statement):
            path = self._path(name)
            if path is not None:
                self._set(path, value, name.start_byte)
            elif name.type == "identifier":
                self.shapes.variables[self._evaluator.text(name)] = value
            self._note_alias(name, value)

    def _set(self, path: list[Known], value: "Node | None", at: int) -> None:
        match path:
            case []:
                # Another table for the module: what was known of the earlier one no longer holds.
                self._meta, self._has_meta, self._is_unknown = None, False, False
                if value is not None:
                    self._take_fields(value)
            case ["spec", *keys]:
                self.shapes.assigned[tuple(keys)] = value
            case ["meta"]:
                self._set_meta(value)
            case ["meta", *keys]:
                self._meta = self._meta or Table()
                known = None if value is None else self._evaluator.evaluate(value, len(keys) + 1)
                self._meta.set_inner(keys, known, at, keep_unresolved=True)
            case ["run"]:
                self._runs = True

    def _take_fields(self, module: "Node") -> None:
        """Take the fields of the module's table, if it is a constructor."""
        for key, value in self._evaluator.fields(unwrapped(module, self._evaluator)):
            if key in ("meta", "spec", "run"):
                self._set([key], value, value.start_byte)

    def _set_meta(self, value: "Node | None") -> None:
        known = None if value is None else self._evaluator.evaluate(unwrapped(value, self._evaluator))
        self._meta = known if isinstance(known, Table) else None
        self._has_meta = self._meta is not None
        self._is_unknown = known is not None and not self._has_meta

    def _path(self, node: "Node", *, by_alias: bool = False) -> list[Known] | None:
        """Return the keys from the module's variable, or an alias of it, to what a node names; None for other names."""
        keys: list[Known] = []
        while node.type in _INDEXING:
            table = node.child_by_field_name("table")
            field = node.child_by_field_name("field") or node.child_by_field_name("method")
            if table is None or field is None:
                return None
            is_name = node.type != "bracket_index_expression"
            keys.append(self._evaluator.text(field) if is_name else self._evaluator.evaluate(field))
            node = table
        name = self._evaluator.text(node) if node.type == "identifier" else None
        keys.reverse()
        if name == self._name:
            return keys
        return [*self._aliases[name], *keys] if by_alias and name in self._aliases else None

    def _module_name(self) -> str:
        for statement in reversed(self._root.children):
            if statement.type == "return_statement":
                values = _returned(statement)
                module = unwrapped(values[0], self._evaluator) if len(values) == 1 else None
                if module is not None and module.type == "identifier":
                    return self._evaluator.text(module)
        return "M"

    # Changes of `meta` that are not direct statements

    def _note_alias(self, name: "Node", value: "Node | None") -> None:
        """Remember that a variable is another name for the module or for a part of its `meta`."""
        if name.type == "identifier":
            path = None if value is None else self._path(value, by_alias=True)
            variable = self._evaluator.text(name)
            self._aliases.pop(variable, None)
            if path is not None and variable != self._name and (not path or path[0] == "meta"):
                self._aliases[variable] = path

    def _doubt(self, statement: "Node") -> None:
        """Mark the parts of `meta` that a statement may change: by a call, by an alias, or somewhere in a block."""
        raw = self._evaluator.raw(statement)
        if b"meta" not in raw and not any(alias.encode() in raw for alias in self._aliases):
            return
        is_block = statement.type in _BLOCKS
        pending = [statement]
        while pending:
            node = pending.pop()
            if node.type == "function_call":
                self._doubt_call(node)
            elif node.type == "assignment_statement":
                self._doubt_assignment(node, is_block=is_block)
            pending.extend(child for child in reversed(node.named_children) if child.type not in _FUNCTIONS)

    def _doubt_assignment(self, statement: "Node", *, is_block: bool) -> None:
        for name, value in _assigned(statement):
            if name.type in _INDEXING and (is_block or self._path(name) is None):
                path = self._path(name, by_alias=True)
                if path and path[0] == "meta":
                    self._forget(path[1:], name.start_byte)
            if is_block:
                self._note_alias(name, value)

    def _doubt_call(self, call: "Node") -> None:
        """Mark the tables that are passed to a function which may change them."""
        name = call.child_by_field_name("name")
        if name is None or (called := self._evaluator.text(name)) in _HARMLESS:
            return
        arguments = arguments_of(call)
        receiver = name.child_by_field_name("table") if name.type == "method_index_expression" else None
        for number, node in enumerate(arguments if receiver is None else [receiver, *arguments]):
            path = self._path(node, by_alias=True)
            if not path or path[0] != "meta":
                continue
            if called == "rawset" and number == 0 and len(arguments) > 1:
                self._forget([*path[1:], self._evaluator.evaluate(arguments[1])], node.start_byte)
            elif self._meta is not None and isinstance(self._meta.inner(path[1:]), Table):
                self._forget(path[1:], node.start_byte, keep_table=len(path) == 1)

    def _forget(self, keys: Sequence[Known], at: int, *, keep_table: bool = False) -> None:
        """Make a field unresolved; without keys the whole table, whose fields are kept or dropped."""
        if self._meta is None:
            return
        if keys:
            self._meta.set_inner(keys, Unresolved(at), at)
            return
        self._is_unknown = True
        self._meta = self._meta if keep_table else None

    def _rescue(self, error: "Node") -> None:
        """Find `M.meta = …` among the pieces of a broken statement, and parse it alone."""
        wanted = re.compile(rb"%s\s*\.\s*meta\s*=(?!=)" % re.escape(self._name.encode()))
        for piece in _pieces(error):
            if piece.type not in _NAMING or not wanted.match(self._source, piece.start_byte) or not self._rescues:
                continue
            self._rescues -= 1
            rest = self._source[piece.start_byte :]
            tree = _parse(rest)
            first = tree.root_node.child(0) if tree is not None else None
            self._meta, self._has_meta, self._is_unknown = None, False, True
            if tree is not None and first is not None and first.type == "assignment_statement":
                alone = Module(rest, tree)
                alone._name = self._name
                alone._assign(first)
                self._meta, self._has_meta, self._is_unknown = alone._meta, alone._has_meta, alone._is_unknown


def _returned(statement: "Node") -> list["Node"]:
    values = [node for child in statement.named_children for node in child.named_children]
    return [node for node in values if node.type != "comment"]


def _assigned(statement: "Node") -> Iterator[tuple["Node", "Node | None"]]:
    """Yield the names of an assignment, each with its value; None if there is none."""
    values = _list_of(statement, "expression_list", "value")
    for number, name in enumerate(_list_of(statement, "variable_list", "name")):
        yield name, values[number] if number < len(values) else None


def _list_of(statement: "Node", kind: str, field: str) -> list["Node"]:
    lists = (child for child in statement.named_children if child.type == kind)
    return [node for child in lists for node in child.children_by_field_name(field)]


def _pieces(error: "Node") -> Iterator["Node"]:
    """Yield the children of an error node in order; an error node among them is replaced by its own children."""
    pending = [error]
    while pending:
        node = pending.pop()
        if node.is_error:
            pending.extend(reversed(node.children))
        else:
            yield node
