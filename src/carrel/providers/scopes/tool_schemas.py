"""The tools of scopes as clients see them: names, arguments, results and hints.

A tool reads, adds or changes. A repeated call of a tool that adds has another effect; of one that changes, it has none.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from carrel.core.arguments import UNSET, Argument, Arguments, UnsetType
from carrel.core.model import Tool
from carrel.core.provider import ToolLevel
from carrel.core.record import Value
from carrel.providers.scopes.uris import MAX_SKIP
from carrel.providers.scopes.values import STATUSES

KEY: Final = "idempotencyKey"
KEY_PATTERN: Final = "^[A-Za-z0-9_-]{8,128}$"

Schema = dict[str, Any]
Effect = Literal["reads", "adds", "changes"]
Text = Annotated[str, Argument(min_length=1)]
Alias = Annotated[Text, Argument(description="The scope's alias, canonical or secondary.", examples=["project-alpha"])]
Status = Annotated[Text, Argument(description=f"One of {', '.join(STATUSES)}, in upper or lower case.")]
Skip = Annotated[int, Argument(ge=0, le=MAX_SKIP, description="Number of scopes to leave out.")]
Limit = Annotated[int, Argument(ge=1, le=1_000, description="Maximum number of scopes.")]

# Arguments


class OneScope(Value, frozen=True):
    """The arguments of `scopes.get` and `aliases.resolve`."""

    alias: Alias


class ListChildren(Value, frozen=True, rename="camel"):
    """The arguments of `scopes.children`."""

    parent_alias: Alias
    skip: Skip = 0
    limit: Limit = 100


class ListRoots(Value, frozen=True):
    """The arguments of `scopes.roots`."""

    skip: Skip = 0
    limit: Limit = 100


class Repeatable(Value, frozen=True, kw_only=True, rename="camel"):
    """The arguments of every tool that writes."""

    idempotency_key: (
        Annotated[
            str,
            Argument(
                description="Makes a repeated call safe: for 24 hours, "
                "the same key and arguments return the first result again.",
                extra_json_schema={"pattern": KEY_PATTERN},
            ),
        ]
        | None
    ) = None
    if_match: (
        Annotated[
            Text,
            Argument(description="Change nothing unless this is the scope's ETag (of a new scope: its parent's)."),
        ]
        | None
    ) = None


class CreateScope(Repeatable, frozen=True):
    """The arguments of `scopes.create`."""

    title: Annotated[
        Text, Argument(description="1 to 200 characters, unique among its siblings.", examples=["Write the tests"])
    ]
    description: Annotated[str, Argument(description="At most 1000 characters.")] | None = None
    parent_alias: Annotated[Text, Argument(description="The parent; without it, the scope is a root.")] | None = None
    custom_alias: Annotated[Text, Argument(description="The canonical alias; generated if left out.")] | None = None
    status: Status = "TODO"


class UpdateScope(Repeatable, frozen=True):
    """The arguments of `scopes.update`."""

    alias: Alias
    title: Annotated[Text, Argument(description="The new title.")] | None = None
    description: Annotated[str, Argument(description='The new description; "" clears it.')] | None = None
    status: Status | None = None
    restore: Annotated[bool, Argument(description="First restore an archived scope, to TODO.")] = False
    expected_updated_at: (
        Annotated[Text, Argument(description="Change nothing unless the scope's updatedAt is this.")] | None
    ) = None


class MoveScope(Repeatable, frozen=True):
    """The arguments of `scopes.move`."""

    alias: Alias
    new_parent_alias: Annotated[
        Text | UnsetType | None, Argument(description="The new parent; null makes the scope a root.")
    ] = UNSET
    before: Annotated[Text, Argument(description="Place the scope before this sibling.")] | None = None
    after: Annotated[Text, Argument(description="Place the scope after this sibling.")] | None = None


class DeleteScope(Repeatable, frozen=True):
    """The arguments of `scopes.delete`."""

    alias: Alias
    cascade: Annotated[bool, Argument(description="Also delete everything below it.")] = False


class AddAlias(Repeatable, frozen=True):
    """The arguments of `aliases.add`."""

    scope_alias: Alias
    new_alias: Annotated[Text, Argument(description="2 to 64 characters: a-z, 0-9, - and _.", examples=["alpha"])]
    make_canonical: Annotated[bool, Argument(description="Make it the canonical alias.")] = False


class RemoveAlias(Repeatable, frozen=True):
    """The arguments of `aliases.remove`."""

    scope_alias: Alias
    alias_to_remove: Annotated[Text, Argument(description="One of its secondary aliases.", examples=["alpha"])]


class SetCanonicalAlias(Repeatable, frozen=True):
    """The arguments of `aliases.setCanonical`."""

    scope_alias: Alias
    new_canonical_alias: Annotated[Text, Argument(description="One of its aliases.", examples=["alpha"])]


# Results

_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_BOOLEAN: Final = {"type": "boolean"}
_OR_NULL: Final = {"type": ["string", "null"]}
_NAMES: Final = {"type": "array", "items": _STRING}


def _result(optional: tuple[str, ...] = (), **properties: Any) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


_COUNTS: Final[Schema] = {"total": _INTEGER, "nextSkip": {"type": ["integer", "null"]}}
_CHILD: Final = _result(alias=_STRING, title=_STRING, status=_STRING, description=_OR_NULL)
_CHILDREN: Final = {"type": "array", "items": _CHILD}
_SCOPE: Final = _result(
    ("childrenOmitted",),
    id=_STRING,
    alias=_STRING,
    title=_STRING,
    status=_STRING,
    children=_NAMES,
    description=_OR_NULL,
    parent=_OR_NULL,
    aliases=_NAMES,
    createdAt=_STRING,
    updatedAt=_STRING,
    links={"type": "array", "items": _result(rel=_STRING, uri=_STRING)},
    childrenOmitted=_INTEGER,
)
_RESULTS: Final[Mapping[str, Schema]] = {
    "scopes.children": _result(parent=_STRING, children=_CHILDREN, **_COUNTS),
    "scopes.roots": _result(roots=_CHILDREN, **_COUNTS),
    "scopes.delete": _result(alias=_STRING, deleted=_BOOLEAN, count=_INTEGER),
    "aliases.resolve": _result(alias=_STRING, canonicalAlias=_STRING, title=_STRING, status=_STRING),
    "aliases.add": _result(scope=_STRING, alias=_STRING, canonical=_BOOLEAN, aliases=_NAMES),
    "aliases.remove": _result(scope=_STRING, removed=_STRING, aliases=_NAMES),
    "aliases.setCanonical": _result(scope=_STRING, aliases=_NAMES),
}
"""The results of the tools; all other tools return a scope."""

_TOOLS: Final[Mapping[str, tuple[Effect, type[Value], str]]] = {
    "scopes.get": ("reads", OneScope, "Get everything about one scope."),
    "scopes.children": ("reads", ListChildren, "List the direct children of a scope, one page at a time."),
    "scopes.roots": ("reads", ListRoots, "List the scopes that have no parent, one page at a time."),
    "aliases.resolve": ("reads", OneScope, "Find the scope that an alias belongs to. The alias must match exactly."),
    "scopes.create": ("adds", CreateScope, "Create a scope: a project, an epic or a task."),
    "scopes.update": ("changes", UpdateScope, "Change a scope's title, description or status."),
    "scopes.move": ("changes", MoveScope, "Move a scope below another parent, or among its siblings."),
    "scopes.delete": ("changes", DeleteScope, "Delete a scope."),
    "aliases.add": ("adds", AddAlias, "Add an alias to a scope."),
    "aliases.remove": ("changes", RemoveAlias, "Remove a secondary alias of a scope."),
    "aliases.setCanonical": ("changes", SetCanonicalAlias, "Make one of a scope's aliases the canonical one."),
}
ARGUMENTS: Final[Mapping[str, Arguments[Value]]] = {name: Arguments(record) for name, (_, record, _) in _TOOLS.items()}


@cache
def tools_of(level: ToolLevel) -> tuple[Tool, ...]:
    """Return the tools that exist at a level."""
    effects = {"off": (), "read": ("reads",), "write": ("reads", "adds", "changes")}[level]
    return tuple(
        Tool(
            name,
            description,
            ARGUMENTS[name].schema,
            output_schema=_RESULTS.get(name, _SCOPE),
            read_only=effect == "reads",
            destructive=effect == "changes",
            idempotent=effect != "adds",
            open_world=False,
        )
        for name, (effect, _, description) in _TOOLS.items()
        if effect in effects
    )
