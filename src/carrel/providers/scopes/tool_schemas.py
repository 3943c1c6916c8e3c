"""The tools an assistant sees: names, arguments and results, as one table.

R tools only read. A tools add and may be called again with another effect. W tools change
or remove, and calling one again changes nothing more.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from carrel.core.model import Tool
from carrel.core.provider import ToolLevel
from carrel.providers.scopes.values import STATUSES

KEY: Final = "idempotencyKey"
KEY_PATTERN: Final = "^[A-Za-z0-9_-]{8,128}$"
MAX_PAGE: Final = 1_000
DEFAULT_PAGE: Final = 100

Schema = dict[str, Any]


def _text(told: str, *, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "description": told} if least else _free(told)


def _free(told: str) -> Schema:
    return {"type": "string", "description": told}


def _flag(told: str) -> Schema:
    return {"type": "boolean", "description": told}


_ALIAS: Final = _text("The scope's alias, canonical or not.")
_STATUS: Final = _text(f"One of {', '.join(STATUSES)}, in any case.")
_KEY: Final = {
    "type": "string",
    "pattern": KEY_PATTERN,
    "description": "Makes a repeated call safe: the same key and arguments give the first result again for 24 hours.",
}
_PAGE: Final = {
    "skip": {"type": "integer", "minimum": 0, "default": 0, "description": "Leave out so many."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_PAGE,
        "default": DEFAULT_PAGE,
        "description": "At most so many.",
    },
}

# Results

_STRING: Final = {"type": "string"}
_OR_NULL: Final = {"type": ["string", "null"]}
_NAMES: Final = {"type": "array", "items": _STRING}


def _result(optional: tuple[str, ...] = (), **properties: Any) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


_BRIEF: Final = _result(alias=_STRING, title=_STRING, status=_STRING, description=_OR_NULL)
_COUNTS: Final[Schema] = {"total": {"type": "integer"}, "nextSkip": {"type": ["integer", "null"]}}
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
    childrenOmitted={"type": "integer"},
)


def _tool(
    name: str,
    hint: Literal["R", "A", "W"],
    told: str,
    arguments: Mapping[str, Schema],
    required: tuple[str, ...],
    result: Schema,
) -> Tool:
    properties = dict(arguments) if hint == "R" else {**arguments, KEY: _KEY}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return Tool(
        name,
        told,
        schema,
        output_schema=result,
        read_only=hint == "R",
        destructive=hint == "W",
        idempotent=hint != "A",
        open_world=False,
    )


READING: Final = (
    _tool("scopes.get", "R", "Get everything about one scope.", {"alias": _ALIAS}, ("alias",), _SCOPE),
    _tool(
        "scopes.children",
        "R",
        "List the direct children of a scope, a page at a time.",
        {"parentAlias": _ALIAS, **_PAGE},
        ("parentAlias",),
        _result(parent=_STRING, children={"type": "array", "items": _BRIEF}, **_COUNTS),
    ),
    _tool(
        "scopes.roots",
        "R",
        "List the scopes that have no parent, a page at a time.",
        _PAGE,
        (),
        _result(roots={"type": "array", "items": _BRIEF}, **_COUNTS),
    ),
    _tool(
        "aliases.resolve",
        "R",
        "Say which scope an alias belongs to. The alias must match exactly.",
        {"alias": _ALIAS},
        ("alias",),
        _result(alias=_STRING, canonicalAlias=_STRING, title=_STRING, status=_STRING),
    ),
)
WRITING: Final = (
    _tool(
        "scopes.create",
        "A",
        "Create a scope: a project, an epic or a task.",
        {
            "title": _text("1 to 200 characters, unique among its siblings."),
            "description": _free("At most 1000 characters."),
            "parentAlias": _text("The scope it belongs to; without it, it is a root."),
            "customAlias": _text("Its canonical alias; without it, one is made up."),
            "status": _STATUS,
        },
        ("title",),
        _SCOPE,
    ),
    _tool(
        "scopes.update",
        "W",
        "Change a scope's title, description or status.",
        {
            "alias": _ALIAS,
            "title": _text("The new title."),
            "description": _free('The new description; "" clears it.'),
            "status": _STATUS,
            "restore": _flag("Bring an archived scope back first, as TODO."),
            "expectedUpdatedAt": _text("Change nothing unless the scope's updatedAt is this."),
        },
        ("alias",),
        _SCOPE,
    ),
    _tool(
        "scopes.move",
        "W",
        "Move a scope beneath another parent, or elsewhere among its siblings.",
        {
            "alias": _ALIAS,
            "newParentAlias": {
                "type": ["string", "null"],
                "minLength": 1,
                "description": "The new parent; null makes it a root.",
            },
            "before": _text("The sibling it shall stand before."),
            "after": _text("The sibling it shall stand after."),
        },
        ("alias",),
        _SCOPE,
    ),
    _tool(
        "scopes.delete",
        "W",
        "Delete a scope.",
        {"alias": _ALIAS, "cascade": _flag("Delete everything beneath it too.")},
        ("alias",),
        _result(alias=_STRING, deleted={"type": "boolean"}, count={"type": "integer"}),
    ),
    _tool(
        "aliases.add",
        "A",
        "Give a scope one more alias.",
        {
            "scopeAlias": _ALIAS,
            "newAlias": _text("2 to 64 characters: a-z, 0-9, - and _."),
            "makeCanonical": _flag("Make it the canonical alias."),
        },
        ("scopeAlias", "newAlias"),
        _result(scope=_STRING, alias=_STRING, canonical={"type": "boolean"}, aliases=_NAMES),
    ),
    _tool(
        "aliases.remove",
        "W",
        "Take a secondary alias from a scope.",
        {"scopeAlias": _ALIAS, "aliasToRemove": _text("One of its secondary aliases.")},
        ("scopeAlias", "aliasToRemove"),
        _result(scope=_STRING, removed=_STRING, aliases=_NAMES),
    ),
    _tool(
        "aliases.setCanonical",
        "W",
        "Make one of a scope's aliases the canonical one.",
        {"scopeAlias": _ALIAS, "newCanonicalAlias": _text("One of its aliases.")},
        ("scopeAlias", "newCanonicalAlias"),
        _result(scope=_STRING, aliases=_NAMES),
    ),
)
TOOLS: Final = {tool.name: tool for tool in (*READING, *WRITING)}


def tools_of(level: ToolLevel) -> tuple[Tool, ...]:
    """Give the tools there are at a level."""
    return {"off": (), "read": READING, "write": (*READING, *WRITING)}[level]
