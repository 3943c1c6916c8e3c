"""What a package's source says of it, read off the syntax tree. No Lua is ever run.

Only direct statements of the file count. What cannot be known without running the program is named,
not guessed; so is what a branch, another name for the table, or a function may have changed. Whatever
the source, there is an answer: nothing here recurses further than tables may nest, and a source whose
errors cost too much to make sense of is given up.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value
from carrel.providers.alc.lua_spec import Shapes, Spec
from carrel.providers.alc.lua_tables import WHOLE, Known, Table, Unresolved, render
from carrel.providers.alc.lua_values import Values, arguments_of, unwrapped

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_PARSED_BYTES: Final = 1_048_576
"""The largest source that is parsed: real ones have some kilobytes, and a parser takes 400 times their size."""
CHUNK: Final = 4_096
READS_PER_CHUNK: Final = 16
READS_AT_LEAST: Final = 2_000
"""How often the parser may ask for parts of a source: about twice each, unless errors send it back and forth."""

MAX_RESCUES: Final = 3
_INDEXING: Final = frozenset({"dot_index_expression", "bracket_index_expression", "method_index_expression"})
_BLOCKS: Final = frozenset({"if_statement", "do_statement", "for_statement", "while_statement", "repeat_statement"})
_FUNCTIONS: Final = frozenset({"function_definition", "function_declaration"})
_HARMLESS: Final = frozenset(
    "assert error getmetatable ipairs next pairs print rawequal rawget rawlen require select setmetatable "
    "table.concat table.unpack tonumber tostring type unpack".split()
)
"""Functions that change no field of a table that is passed to them."""
_NAMING: Final = frozenset({"identifier", "variable_list"}) | _INDEXING
_LINE_END: Final = re.compile(r"\r\n|\n\r|\r")
_parsers = threading.local()


class Facts(Value, frozen=True):
    """What the source of a package says: its `M.meta`, as far as that can be known, and whether it can run."""

    meta: dict[str, object]
    has_meta: bool
    unresolved: tuple[str, ...]
    runs: bool


def read_facts(text: str) -> Facts:
    """Read a package's source."""
    module = _module(text)
    return give_up() if module is None else module.facts()


def read_spec(text: str) -> Spec:
    """Return what a package's source says of what it takes and gives."""
    module = _module(text)
    return Spec() if module is None else module.spec()


def _module(text: str) -> "Module | None":
    source = _LINE_END.sub("\n", text).encode("utf-8", "replace")  # they are all one to Lua, not to the parser
    tree = _parse(source) if len(source) <= MAX_PARSED_BYTES else None
    return None if tree is None else Module(source, tree)


def give_up() -> Facts:
    """Return what is said of a source that is too large, or takes too long, to be parsed."""
    return Facts({}, has_meta=False, unresolved=(WHOLE,), runs=False)


def _parser() -> "Parser":
    parser: Parser | None = getattr(_parsers, "parser", None)
    if parser is None:
        import tree_sitter
        import tree_sitter_lua

        parser = _parsers.parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_lua.language()))
    return parser


def _parse(source: bytes) -> "Tree | None":
    """Parse, or give None for a source made to be parsed for hours."""
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
        self._values = Values(source)
        self._root = tree.root_node
        self._statements = self._root.children
        self._name = self._module_name()
        self._meta: Table | None = None
        self._has_meta = False
        self._is_unknown = False
        self._runs = False
        self._rescues = MAX_RESCUES
        self._aliases: dict[str, list[Known]] = {}
        self._shapes = Shapes(self._values)

    def facts(self) -> Facts:
        """Go through the file and say what it says."""
        for statement in self._statements:
            self._take(statement)
        if self._root.is_error and self._meta is None:
            self._rescue(self._root)
        meta, unresolved = ({}, ()) if self._meta is None else render(self._meta)
        if self._is_unknown:
            unresolved = (WHOLE, *unresolved)
        return Facts(meta, self._has_meta, unresolved, self._runs)

    def spec(self) -> Spec:
        """Go through the file and return what it says of its entry `run`."""
        for statement in self._statements:
            self._take(statement)
        return self._shapes.entry("run")

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
                self._runs = self._runs or (name is not None and self._way(name) == ["run"])
            case "return_statement":
                values = _returned(statement)
                module = unwrapped(values[0], self._values) if values else None
                if module is not None and module.type == "table_constructor":
                    self._take_fields(module)
            case "ERROR":
                self._rescue(statement)
            case kind if kind in _BLOCKS or kind == "function_call":
                self._doubt(statement)

    def _assign(self, statement: "Node") -> None:
        for name, value in _assigned(statement):
            way = self._way(name)
            if way is not None:
                self._set(way, value, name.start_byte)
            elif name.type == "identifier":
                self._shapes.define(self._values.text(name), value)
            self._note_alias(name, value)

    def _set(self, way: list[Known], value: "Node | None", at: int) -> None:
        match way:
            case []:
                # The module's own table: what was said of an earlier one no longer holds.
                self._meta, self._has_meta, self._is_unknown = None, False, False
                value = None if value is None else unwrapped(value, self._values)
                if value is not None and value.type == "table_constructor":
                    self._take_fields(value)
            case ["spec", *keys]:
                self._shapes.specify(keys, value)
            case ["meta"]:
                self._set_meta(value)
            case ["meta", *keys]:
                self._set_field(keys, value, at)
            case ["run"]:
                self._runs = True

    def _take_fields(self, module: "Node") -> None:
        for field in module.named_children:
            value, name = field.child_by_field_name("value"), field.child_by_field_name("name")
            if field.type == "field" and value is not None and name is not None:
                key = self._values.key(field, name)
                if key == "meta":
                    self._set_meta(value)
                if key == "spec":
                    self._shapes.specify((), value)
                self._runs = self._runs or key == "run"

    def _set_meta(self, value: "Node | None") -> None:
        known = None if value is None else self._values.evaluate(unwrapped(value, self._values))
        self._meta = known if isinstance(known, Table) else None
        self._has_meta = self._meta is not None
        self._is_unknown = known is not None and not self._has_meta

    def _set_field(self, keys: Sequence[Known], value: "Node | None", at: int) -> None:
        table = self._meta = Table() if self._meta is None else self._meta
        for key in keys[:-1]:
            inner = table.fields.get(key) if isinstance(key, str | int | float) else None
            if not isinstance(inner, Table):
                if not isinstance(inner, Unresolved):
                    table.set(key, Unresolved(at), at)
                return
            table = inner
        known = None if value is None else self._values.evaluate(value, len(keys) + 1)
        table.set(keys[-1], known, at)

    def _way(self, node: "Node", *, by_alias: bool = False) -> list[Known] | None:
        """Give the keys from the module's variable, or an alias, to what is named; None if it begins elsewhere."""
        keys: list[Known] = []
        while node.type in _INDEXING:
            table = node.child_by_field_name("table")
            field = node.child_by_field_name("field") or node.child_by_field_name("method")
            if table is None or field is None:
                return None
            is_name = node.type != "bracket_index_expression"
            keys.append(self._values.text(field) if is_name else self._values.evaluate(field))
            node = table
        if node.type != "identifier":
            return None
        name = self._values.text(node)
        if name == self._name:
            return keys[::-1]
        return [*self._aliases[name], *keys[::-1]] if by_alias and name in self._aliases else None

    def _module_name(self) -> str:
        for statement in reversed(self._statements):
            if statement.type == "return_statement":
                values = _returned(statement)
                module = unwrapped(values[0], self._values) if len(values) == 1 else None
                if module is not None and module.type == "identifier":
                    return self._values.text(module)
        return "M"

    # What may have changed without a direct statement

    def _note_alias(self, name: "Node", value: "Node | None") -> None:
        """Remember that a variable is another name for the module or for a part of its `meta`."""
        if name.type == "identifier":
            way = None if value is None else self._way(value, by_alias=True)
            spelled = self._values.text(name)
            self._aliases.pop(spelled, None)
            if way is not None and spelled != self._name and (not way or way[0] == "meta"):
                self._aliases[spelled] = way

    def _doubt(self, statement: "Node") -> None:
        """Mark what a statement may change of `meta`: by a call, by another name, or somewhere in a block."""
        raw = self._values.raw(statement)
        if b"meta" not in raw and not any(alias.encode() in raw for alias in self._aliases):
            return
        is_block = statement.type in _BLOCKS
        ahead = [statement]
        while ahead:
            node = ahead.pop()
            if node.type == "function_call":
                self._doubt_call(node)
            elif node.type == "assignment_statement":
                self._doubt_assignment(node, is_block=is_block)
            ahead.extend(child for child in reversed(node.named_children) if child.type not in _FUNCTIONS)

    def _doubt_assignment(self, statement: "Node", *, is_block: bool) -> None:
        for name, value in _assigned(statement):
            if name.type in _INDEXING and (is_block or self._way(name) is None):
                way = self._way(name, by_alias=True)
                if way and way[0] == "meta":
                    self._lose(way[1:], name.start_byte)
            if is_block:
                self._note_alias(name, value)

    def _doubt_call(self, call: "Node") -> None:
        """Mark the tables that are passed to a function which may change them."""
        name = call.child_by_field_name("name")
        if name is None or (called := self._values.text(name)) in _HARMLESS:
            return
        arguments = arguments_of(call)
        receiver = name.child_by_field_name("table") if name.type == "method_index_expression" else None
        for number, node in enumerate(arguments if receiver is None else [receiver, *arguments]):
            way = self._way(node, by_alias=True)
            if not way or way[0] != "meta":
                continue
            if called == "rawset" and number == 0 and len(arguments) > 1:
                self._lose([*way[1:], self._values.evaluate(arguments[1])], node.start_byte)
            elif isinstance(self._known_at(way[1:]), Table):
                self._lose(way[1:], node.start_byte, is_kept=len(way) == 1)

    def _known_at(self, keys: Sequence[Known]) -> Known:
        found: Known = self._meta
        for key in keys:
            if not isinstance(found, Table) or not isinstance(key, str | int | float):
                return None
            found = found.fields.get(key)
        return found

    def _lose(self, keys: Sequence[Known], at: int, *, is_kept: bool = False) -> None:
        """Take back what is known of a field; of the whole table too, unless it is kept with a warning."""
        if self._meta is None:
            return
        if not keys:
            self._is_unknown = True
            self._meta = self._meta if is_kept else None
            return
        table = self._meta
        for key in keys[:-1]:
            inner = table.fields.get(key) if isinstance(key, str | int | float) else None
            if not isinstance(inner, Table):
                table.set(key, Unresolved(at), at)
                return
            table = inner
        table.set(keys[-1], Unresolved(at), at)

    def _rescue(self, error: "Node") -> None:
        """Find `M.meta = …` among the pieces of a broken statement, and read it as if it stood alone."""
        wanted = re.compile(rb"%s\s*\.\s*meta\s*=(?!=)" % re.escape(self._name.encode()))
        for piece in _pieces(error):
            if piece.type not in _NAMING or not wanted.match(self._source, piece.start_byte) or not self._rescues:
                continue
            self._rescues -= 1
            rest = self._source[piece.start_byte :]
            tree = _parse(rest)
            first = tree.root_node.child(0) if tree is not None else None
            if tree is not None and first is not None and first.type == "assignment_statement":
                alone = Module(rest, tree)
                alone._name = self._name
                alone._assign(first)
                self._meta, self._has_meta, self._is_unknown = alone._meta, alone._has_meta, alone._is_unknown
            else:
                self._meta, self._has_meta, self._is_unknown = None, False, True


def _returned(statement: "Node") -> list["Node"]:
    values = [node for child in statement.named_children for node in child.named_children]
    return [node for node in values if node.type != "comment"]


def _assigned(statement: "Node") -> Iterator[tuple["Node", "Node | None"]]:
    """Yield what an assignment names, each with its value; None where there is none."""
    values = _list_of(statement, "expression_list", "value")
    for number, name in enumerate(_list_of(statement, "variable_list", "name")):
        yield name, values[number] if number < len(values) else None


def _list_of(statement: "Node", kind: str, field: str) -> list["Node"]:
    lists = (child for child in statement.named_children if child.type == kind)
    return [node for child in lists for node in child.children_by_field_name(field)]


def _pieces(error: "Node") -> Iterator["Node"]:
    """Give what an error node holds in order, and what error nodes in it hold."""
    ahead = [error]
    while ahead:
        node = ahead.pop()
        if node.is_error:
            ahead.extend(reversed(node.children))
        else:
            yield node
