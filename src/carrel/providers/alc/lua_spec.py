"""`M.spec`: the parameters and the result of a package as shapes of algocline's `alc_shapes`, from the syntax tree.

`T.string`, `T.shape({ … })`, `T.array_of(…)` and the like become the type texts of algocline's documents: "array of
string", "shape { a: string, b?: number }". Variables are looked up among the direct statements of the file. An unknown
type is "?".
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value, replace
from carrel.providers.alc.lua_tables import Known
from carrel.providers.alc.lua_values import Evaluator, arguments_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH: Final = 32
MAX_TYPE_LENGTH: Final = 4_000
"""Maximum characters of a type's text. Nested shapes that share variables grow exponentially."""
UNKNOWN: Final = "?"
_PLAIN: Final = frozenset({"string", "number", "boolean", "table", "any"})


class Field(Value, frozen=True):
    """A field of a shape."""

    name: str
    type: str
    is_optional: bool
    doc: str


class Schema(Value, frozen=True):
    """The type of a value as text; for a shape also its fields, in order of names."""

    type: str
    fields: tuple[Field, ...] | None = None
    reference: str = ""
    is_optional: bool = False
    doc: str = ""


class Spec(Value, frozen=True):
    """The parameters and the result of a package; None if unknown."""

    parameters: Schema | None = None
    result: Schema | None = None


_NOT_KNOWN: Final = Schema(UNKNOWN)


class Shapes:
    """The shapes that one source defines: its variables, and the assignments to `M.spec` by the path below it."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.variables: dict[str, Node | None] = {}
        self._known: dict[str, Schema] = {}
        self.assigned: dict[tuple[Known, ...], Node | None] = {}

    def entry(self, name: str) -> Spec:
        """Return the parameters and the result of an entry of `M.spec`."""
        return Spec(self._part(("entries", name, "input")), self._part(("entries", name, "result")))

    def _part(self, keys: tuple[str, ...]) -> Schema | None:
        """Return the schema at a path in `M.spec`; the assignment to the longest part of the path counts."""
        lengths = (length for length in range(len(keys), -1, -1) if keys[:length] in self.assigned)
        length = next(lengths, None)
        if length is None:
            return None
        node = self.assigned[keys[:length]]
        for key in keys[length:]:
            node = self._fields(node).get(key)
        if node is None:
            return None
        if node.type == "string":
            name = self._evaluator.evaluate(node)
            return Schema(name, reference=name) if isinstance(name, str) else None
        schema = self._schema(node, 1)
        return None if schema is _NOT_KNOWN else schema

    def _fields(self, node: "Node | None") -> Mapping[str, "Node"]:
        """Return the fields of a table constructor, or of the variable that holds one."""
        if node is not None and node.type == "identifier":
            node = self.variables.get(self._evaluator.text(node))
        found = () if node is None else self._evaluator.fields(node)
        return {key: value for key, value in found if isinstance(key, str)}

    # Schemas

    def _schema(self, node: "Node", depth: int) -> Schema:
        if depth > MAX_DEPTH:
            return _NOT_KNOWN
        if node.type == "identifier":
            return self._variable(self._evaluator.text(node), depth)
        if node.type == "dot_index_expression":
            field = node.child_by_field_name("field")
            name = UNKNOWN if field is None else self._evaluator.text(field)
            return Schema(name) if name in _PLAIN else Schema(name, reference=name)
        called = node.child_by_field_name("name") if node.type == "function_call" else None
        if called is None:
            return _NOT_KNOWN
        method = called.child_by_field_name("method")
        receiver = called.child_by_field_name("table")
        if method is not None and receiver is not None:
            return self._modified(self._schema(receiver, depth + 1), self._evaluator.text(method), node)
        field = called.child_by_field_name("field")
        return self._built(node, self._evaluator.text(field), depth) if field is not None else _NOT_KNOWN

    def _variable(self, name: str, depth: int) -> Schema:
        if name not in self._known:
            self._known[name] = _NOT_KNOWN  # also during the lookup, since it may be defined by itself
            node = self.variables.get(name)
            self._known[name] = _NOT_KNOWN if node is None else self._schema(node, depth + 1)
        return self._known[name]

    def _modified(self, schema: Schema, method: str, call: "Node") -> Schema:
        if method == "is_optional":
            return replace(schema, is_optional=True)
        if method == "describe":
            return replace(schema, doc=self._text(arguments_of(call)) or schema.doc)
        return _NOT_KNOWN

    def _built(self, call: "Node", kind: str, depth: int) -> Schema:
        """Return the schema that `T.shape(…)` and the like make."""
        arguments = arguments_of(call)
        types = [self._schema(node, depth + 1).type for node in arguments] if kind in ("array_of", "map_of") else []
        match kind, types:
            case "array_of", [element]:
                return Schema(_cut(f"array of {element}"))
            case "map_of", [key, value]:
                return Schema(_cut(f"map of {key} to {value}"))
            case "one_of", _:
                return Schema(_cut(f"one_of({', '.join(self._choices(arguments))})"))
            case "discriminated", _:
                return Schema(f'discriminated by "{_cut(self._text(arguments))}"')
            case "ref", _:
                name = self._text(arguments)
                return Schema(name, reference=name)
            case "shape", _ if arguments:
                return self._shape(arguments[0], depth)
        return _NOT_KNOWN

    def _shape(self, node: "Node", depth: int) -> Schema:
        fields = []
        for name, value in sorted(self._fields(node).items()):
            one = self._schema(value, depth + 1)
            fields.append(Field(name, one.type, one.is_optional, one.doc))
        inner = ", ".join(f"{one.name}{'?' if one.is_optional else ''}: {one.type}" for one in fields)
        return Schema(_cut(f"shape {{ {inner} }}") if inner else "shape { }", tuple(fields))

    def _choices(self, arguments: Sequence["Node"]) -> list[str]:
        table = arguments[0] if arguments else None
        items = table.named_children if table is not None and table.type == "table_constructor" else []
        found = (item.child_by_field_name("value") for item in items)
        values = [self._evaluator.evaluate(node) for node in found if node is not None]
        return [f'"{value}"' if isinstance(value, str) else str(value).lower() for value in values]

    def _text(self, arguments: Sequence["Node"]) -> str:
        return self._evaluator.prose(arguments[0]) if arguments else ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TYPE_LENGTH else text[:MAX_TYPE_LENGTH] + "…"
