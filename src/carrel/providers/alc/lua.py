"""What a package's source says of it, read off the syntax tree. No Lua is ever run.

Only direct statements of the file count. What cannot be known without running the program is named,
not guessed. Whatever the source, there is an answer: nothing here recurses further than tables may
nest, and a source whose errors cost too much to make sense of is given up.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from carrel.providers.alc.literals import NotALiteral, Number, negate, read_number, read_string, spell_number
from carrel.providers.alc.tables import MAX_DEPTH, WHOLE, Known, Table, Unresolved, render
from carrel.value import Value

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
    source = _LINE_END.sub("\n", text).encode("utf-8", "replace")  # they are all one to Lua, not to the parser
    tree = _parse(source) if len(source) <= MAX_PARSED_BYTES else None
    return give_up() if tree is None else Module(source, tree).facts()


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

    def _take(self, statement: "Node") -> None:
        match statement.type:
            case "assignment_statement":
                self._assign(statement)
            case "variable_declaration":
                for inner in statement.named_children:
                    if inner.type == "assignment_statement":
                        self._assign(inner)
            case "function_declaration":
                name = statement.child_by_field_name("name")
                self._runs = self._runs or (name is not None and self._way(name) == ["run"])
            case "return_statement":
                values = _returned(statement)
                if values and values[0].type == "table_constructor":
                    self._take_fields(values[0])
            case "ERROR":
                self._rescue(statement)

    def _assign(self, statement: "Node") -> None:
        names = _list_of(statement, "variable_list", "name")
        values = _list_of(statement, "expression_list", "value")
        for number, name in enumerate(names):
            way = self._way(name)
            if way is not None:
                self._set(way, values[number] if number < len(values) else None, name.start_byte)

    def _set(self, way: list[Known], value: "Node | None", at: int) -> None:
        match way:
            case []:
                # The module's own table: what was said of an earlier one no longer holds.
                self._meta, self._has_meta, self._is_unknown = None, False, False
                if value is not None and value.type == "table_constructor":
                    self._take_fields(value)
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
                self._runs = self._runs or key == "run"

    def _set_meta(self, value: "Node | None") -> None:
        known = None if value is None else self._values.evaluate(value)
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

    def _way(self, node: "Node") -> list[Known] | None:
        """Give the keys from the module's variable to what is named; None if it begins elsewhere."""
        keys: list[Known] = []
        while node.type in _INDEXING:
            table = node.child_by_field_name("table")
            field = node.child_by_field_name("field") or node.child_by_field_name("method")
            if table is None or field is None:
                return None
            is_name = node.type != "bracket_index_expression"
            keys.append(self._values.text(field) if is_name else self._values.evaluate(field))
            node = table
        return keys[::-1] if node.type == "identifier" and self._values.text(node) == self._name else None

    def _module_name(self) -> str:
        for statement in reversed(self._statements):
            if statement.type == "return_statement":
                values = _returned(statement)
                if len(values) == 1 and values[0].type == "identifier":
                    return self._values.text(values[0])
        return "M"

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


class Values:
    """The values of expressions in one source."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def text(self, node: "Node") -> str:
        """Give what stands in the source."""
        return self._raw(node).decode("utf-8", "replace")

    def _raw(self, node: "Node") -> bytes:
        return self._source[node.start_byte : node.end_byte]

    def key(self, field: "Node", name: "Node") -> Known:
        """Give a field's key: `x = …` spells it, `[x] = …` has it computed."""
        return self.evaluate(name) if field.children[0].type == "[" else self.text(name)

    def evaluate(self, node: "Node", depth: int = 1) -> Known:
        """Give the value of an expression, or that it is not known; `depth` is that of the table it would be."""
        node, signs = _operand(node)
        if node.type == "table_constructor" and not signs:
            return self._table(node, depth) if depth <= MAX_DEPTH else Unresolved(node.start_byte)
        if node.type == "binary_expression" and not signs:
            return self._joined(node)
        if node.type in ("nil", "true", "false") and not signs:
            return {"nil": None, "true": True, "false": False}[node.type]
        return self._literal(node, signs)

    def _literal(self, node: "Node", signs: int) -> Known:
        """Give the value of a string, or of a number with so many minus signs."""
        try:
            if node.type == "string" and not signs and not node.has_error:
                return read_string(self._raw(node))
            if node.type == "number" and signs >= 0 and not node.has_error:
                value: Number = read_number(self.text(node))
                return negate(value) if signs % 2 else value
        except NotALiteral:
            pass
        return Unresolved(node.start_byte)

    def _joined(self, node: "Node") -> Known:
        """Join the pieces of `a .. b .. c`, however many; one that is not known spoils all."""
        pieces: list[str] = []
        ahead = [node]
        while ahead:
            one, signs = _operand(ahead.pop())
            if one.type == "binary_expression" and not signs and _operator(one) == "..":
                sides = (one.child_by_field_name("right"), one.child_by_field_name("left"))
                ahead.extend(side for side in sides if side is not None)
                continue
            value = self._literal(one, signs)
            if not isinstance(value, str | int | float):
                return Unresolved(node.start_byte)
            pieces.append(value if isinstance(value, str) else spell_number(value))
        return "".join(pieces)

    def _table(self, node: "Node", depth: int) -> Table:
        """Evaluate a constructor. An error node takes the field directly before it along."""
        table = Table()
        children = [child for child in node.children if child.type != "comment"]
        for number, child in enumerate(children):
            is_before_error = number + 1 < len(children) and children[number + 1].is_error
            is_spoilt = child.has_error and any(inner.is_error for inner in child.children)
            if child.is_error or (child.type == "field" and (is_spoilt or is_before_error)):
                table.lose(child.start_byte)
            elif child.type == "field":
                self._take_field(table, child, depth)
        table.settle()
        return table

    def _take_field(self, table: Table, field: "Node", depth: int) -> None:
        value, name = field.child_by_field_name("value"), field.child_by_field_name("name")
        if value is None:
            table.lose(field.start_byte)
        elif name is None:
            table.append(self.evaluate(value, depth + 1))
        else:
            table.set(self.key(field, name), self.evaluate(value, depth + 1), field.start_byte)


def _operand(node: "Node") -> tuple["Node", int]:
    """Take off parentheses and minus signs; say how many signs there were, or -1 where there is no telling."""
    signs = 0
    while node.type == "table_constructor" or not node.has_error:
        if node.type == "parenthesized_expression":
            inner = [child for child in node.named_children if child.type != "comment"]
        elif node.type == "unary_expression" and _operator(node) == "-":
            inner = node.children_by_field_name("operand")
            signs += 1
        else:
            return node, signs
        if len(inner) != 1:
            break
        node = inner[0]
    return node, -1


def _operator(node: "Node") -> str:
    operator = node.child_by_field_name("operator")
    return "" if operator is None else operator.type
