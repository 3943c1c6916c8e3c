"""The values of Lua expressions, as far as they are known from the source."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from carrel.providers.alc.lua_literals import NotALiteral, Number, negate, number_text, read_number, read_string
from carrel.providers.alc.lua_tables import MAX_DEPTH, Known, Table, Unresolved

if TYPE_CHECKING:
    from tree_sitter import Node


class Evaluator:
    """Evaluates the expressions of one source."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def text(self, node: "Node") -> str:
        """Return the source text of a node."""
        return self.raw(node).decode("utf-8", "replace")

    def raw(self, node: "Node") -> bytes:
        """Return the source bytes of a node."""
        return self._source[node.start_byte : node.end_byte]

    def fields(self, table: "Node") -> Iterator[tuple[Known, "Node"]]:
        """Yield the named fields of a table constructor, each with its value; none of any other node."""
        for field in table.named_children if table.type == "table_constructor" else ():
            value, name = field.child_by_field_name("value"), field.child_by_field_name("name")
            if field.type == "field" and value is not None and name is not None:
                yield self._key(field, name), value

    def _key(self, field: "Node", name: "Node") -> Known:
        """Return a field's key: in `x = …` it is the text, in `[x] = …` the value."""
        return self.evaluate(name) if field.children[0].type == "[" else self.text(name)

    def evaluate(self, node: "Node", depth: int = 1) -> Known:
        """Return the value of an expression, or `Unresolved`; `depth` is how deep its table would be nested."""
        node, signs = _operand(node)
        if node.type == "table_constructor" and not signs:
            return self._table(node, depth) if depth <= MAX_DEPTH else Unresolved(node.start_byte)
        if node.type == "binary_expression" and not signs:
            return self._joined(node)
        if node.type in ("nil", "true", "false") and not signs:
            return {"nil": None, "true": True, "false": False}[node.type]
        return self._literal(node, signs)

    def _literal(self, node: "Node", signs: int) -> Known:
        """Return the value of a string, or of a number with this many minus signs."""
        try:
            if node.type == "string" and not signs and not node.has_error:
                return read_string(self.raw(node))
            if node.type == "number" and signs >= 0 and not node.has_error:
                value: Number = read_number(self.text(node))
                return negate(value) if signs % 2 else value
        except NotALiteral:
            pass
        return Unresolved(node.start_byte)

    def prose(self, node: "Node") -> str:
        """Return a text for people, with an ellipsis for each unknown piece."""
        value = self._joined(node, "…") if node.type == "binary_expression" else self.evaluate(node)
        return value if isinstance(value, str) else ""

    def _joined(self, node: "Node", gap: str = "") -> Known:
        """Join the pieces of `a .. b .. c`; an unknown piece is the gap, or without a gap makes all of it unknown."""
        pieces: list[str] = []
        pending = [node]
        while pending:
            one, signs = _operand(pending.pop())
            if one.type == "binary_expression" and not signs and _operator(one) == "..":
                sides = (one.child_by_field_name("right"), one.child_by_field_name("left"))
                pending.extend(side for side in sides if side is not None)
                continue
            value = self._literal(one, signs)
            if not isinstance(value, str | int | float):
                if not gap:
                    return Unresolved(node.start_byte)
                value = gap
            pieces.append(value if isinstance(value, str) else number_text(value))
        return "".join(pieces)

    def _table(self, node: "Node", depth: int) -> Table:
        """Return the table of a constructor. A syntax error also loses the field directly before it."""
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
            table.set(self._key(field, name), self.evaluate(value, depth + 1), field.start_byte)


def _operand(node: "Node") -> tuple["Node", int]:
    """Return an expression without parentheses and minus signs, and the number of signs, or -1 after an error."""
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


def arguments_of(call: "Node") -> list["Node"]:
    """Return the arguments of a call; `f "x"` and `f { }` have one."""
    listed = call.child_by_field_name("arguments")
    return [] if listed is None else [node for node in listed.named_children if node.type != "comment"]


def unwrapped(node: "Node", evaluator: Evaluator) -> "Node":
    """Return the table that a call of `setmetatable` returns; anything else as it is."""
    name = node.child_by_field_name("name") if node.type == "function_call" else None
    if name is not None and name.type == "identifier" and evaluator.text(name) == "setmetatable":
        arguments = arguments_of(node)
        return arguments[0] if arguments else node
    return node
