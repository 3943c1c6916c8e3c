"""`M.spec`: what a package takes and gives, in the words of algocline's `alc_shapes`, read off the syntax tree.

`T.string`, `T.shape({ … })`, `T.array_of(…)` and their like become the type texts of algocline's own documents:
"array of string", "shape { a: string, b?: number }". Variables are looked up where they are set once, as direct
statements of the file; what cannot be known is "?".
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from carrel.core.record import Value, replace
from carrel.providers.alc.lua_tables import Known
from carrel.providers.alc.lua_values import Values, arguments_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH: Final = 32
MAX_TYPE_LENGTH: Final = 4_000
"""Characters of a type's text. Shapes of shapes that share variables may grow without end."""
UNKNOWN: Final = "?"
_PLAIN: Final = frozenset({"string", "number", "boolean", "table", "any"})


class Field(Value, frozen=True):
    """A field of a shape."""

    name: str
    type: str
    is_optional: bool
    doc: str


class Schema(Value, frozen=True):
    """What a value looks like: the text of its type, and, of a shape, its fields in order of names."""

    type: str
    fields: tuple[Field, ...] | None = None
    reference: str = ""
    is_optional: bool = False
    doc: str = ""


class Spec(Value, frozen=True):
    """What a package takes and gives; None where nothing is known."""

    takes: Schema | None = None
    gives: Schema | None = None


_NOT_KNOWN: Final = Schema(UNKNOWN)


class Shapes:
    """The shapes that one source defines."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._variables: dict[str, Node | None] = {}
        self._known: dict[str, Schema] = {}
        self._spec: dict[tuple[Known, ...], Node | None] = {}

    def define(self, name: str, value: "Node | None") -> None:
        """Note what a variable is set to."""
        self._variables[name] = value

    def specify(self, keys: Sequence[Known], value: "Node | None") -> None:
        """Note what `M.spec`, or a field of it, is set to."""
        self._spec[tuple(keys)] = value

    def entry(self, name: str) -> Spec:
        """Return what an entry of the spec takes and gives."""
        return Spec(self._part(("entries", name, "input")), self._part(("entries", name, "result")))

    def _part(self, keys: tuple[str, ...]) -> Schema | None:
        """Return the schema at a place of `M.spec`; the assignment that names most of the way there counts."""
        for length in range(len(keys), -1, -1):
            if keys[:length] in self._spec:
                node = self._inner(self._spec[keys[:length]], keys[length:])
                break
        else:
            return None
        if node is None:
            return None
        if node.type == "string":
            name = self._values.evaluate(node)
            return Schema(name, reference=name) if isinstance(name, str) else None
        schema = self._schema(node, 1)
        return None if schema is _NOT_KNOWN else schema

    def _inner(self, node: "Node | None", keys: Sequence[str]) -> "Node | None":
        for key in keys:
            node = self._fields(node).get(key)
        return node

    def _fields(self, node: "Node | None") -> Mapping[str, "Node"]:
        """Return the fields of a table constructor, or of the variable that holds one."""
        node = self._variables.get(self._values.text(node)) if node is not None and node.type == "identifier" else node
        found: dict[str, Node] = {}
        for field in node.named_children if node is not None and node.type == "table_constructor" else ():
            value, name = field.child_by_field_name("value"), field.child_by_field_name("name")
            key = self._values.key(field, name) if field.type == "field" and name is not None else None
            if isinstance(key, str) and value is not None:
                found[key] = value
        return found

    # Schemas

    def _schema(self, node: "Node", depth: int) -> Schema:
        if depth > MAX_DEPTH:
            return _NOT_KNOWN
        if node.type == "identifier":
            return self._variable(self._values.text(node), depth)
        if node.type == "dot_index_expression":
            field = node.child_by_field_name("field")
            name = UNKNOWN if field is None else self._values.text(field)
            return Schema(name) if name in _PLAIN else Schema(name, reference=name)
        called = node.child_by_field_name("name") if node.type == "function_call" else None
        if called is None:
            return _NOT_KNOWN
        method = called.child_by_field_name("method")
        receiver = called.child_by_field_name("table")
        if method is not None and receiver is not None:
            return self._modified(self._schema(receiver, depth + 1), self._values.text(method), node)
        field = called.child_by_field_name("field")
        return self._built(node, self._values.text(field), depth) if field is not None else _NOT_KNOWN

    def _variable(self, name: str, depth: int) -> Schema:
        if name not in self._known:
            self._known[name] = _NOT_KNOWN  # also while it is looked for: it may be defined by itself
            node = self._variables.get(name)
            self._known[name] = _NOT_KNOWN if node is None else self._schema(node, depth + 1)
        return self._known[name]

    def _modified(self, schema: Schema, method: str, call: "Node") -> Schema:
        if method == "is_optional":
            return replace(schema, is_optional=True)
        if method == "describe":
            doc = self._text(arguments_of(call))
            return replace(schema, doc=doc or schema.doc)
        return _NOT_KNOWN

    def _built(self, call: "Node", kind: str, depth: int) -> Schema:
        """Return what `T.shape(…)` and its like make."""
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
        values = [self._values.evaluate(node) for node in found if node is not None]
        return [f'"{value}"' if isinstance(value, str) else str(value).lower() for value in values]

    def _text(self, arguments: Sequence["Node"]) -> str:
        return self._values.prose(arguments[0]) if arguments else ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TYPE_LENGTH else text[:MAX_TYPE_LENGTH] + "…"
