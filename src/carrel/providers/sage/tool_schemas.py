"""The tools as clients see them."""

from collections.abc import Mapping
from typing import Final

from carrel.core.model import Tool
from carrel.providers.sage.records import LINK_RELATIONS, TYPES
from carrel.providers.sage.rendering import FORMATS

Schema = dict[str, object]


def _string(description: str) -> Schema:
    return {"type": "string", "description": description}


def _strings(description: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _limit(default: int, most: int) -> Schema:
    schema: Schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return {**schema, "description": "Maximum number of results."}


def _objects(description: str, required: tuple[str, ...], **parts: Schema) -> Schema:
    item = {"type": "object", "properties": parts, "required": list(required)}
    return {"type": "array", "items": item, "description": description}


_FORMAT: Final[Schema] = {"type": "string", "enum": list(FORMATS), "description": "Format of the text."}
_QUERY: Final = _string("Words to search for.")
_SKILL: Final = _string("Only items of this skill.")
_ID: Final = _string("A short name.")
_KEYWORDS: Final = _strings("Words to find it by.")
_PLAIN: Final[Schema] = {"type": "string"}
_LINES: Final[Schema] = {"type": ["string", "integer"], "description": "Line numbers, such as 12 or 12-40."}


def _read_tool(name: str, title: str, description: str, required: tuple[str, ...], **properties: Schema) -> Tool:
    return _tool(name, title, description, required, properties, writes=False)


def _write_tool(name: str, title: str, description: str, required: tuple[str, ...], **properties: Schema) -> Tool:
    return _tool(name, title, description, required, properties, writes=True)


def _tool(
    name: str,
    title: str,
    description: str,
    required: tuple[str, ...],
    properties: Mapping[str, Schema],
    *,
    writes: bool,
) -> Tool:
    return Tool(
        name,
        description,
        {"type": "object", "properties": properties, "required": list(required)},
        title=title,
        read_only=not writes,
        destructive=name == "sage_write_system",
        idempotent=not writes,
        open_world=False,
    )


_TOOLS: Final = (
    _read_tool(
        "sage_search_checkpoints",
        "Search checkpoints",
        "Find research checkpoints by their subject. Each result has a sage:// resource to read.",
        ("query",),
        query=_QUERY,
        limit=_limit(5, 50),
    ),
    _read_tool(
        "sage_list_checkpoints",
        "List checkpoints",
        "List research checkpoints, newest first.",
        (),
        limit=_limit(10, 200),
        skill=_SKILL,
    ),
    _read_tool(
        "sage_load_checkpoint",
        "Load a checkpoint",
        "Read a checkpoint by its id or a part of it.",
        ("id",),
        id=_string("The id, a part of it that no other checkpoint has, or the URI."),
        format=_FORMAT,
    ),
    _read_tool(
        "sage_recall_knowledge",
        "Recall knowledge",
        "Find knowledge about a subject, with its content and the current place of its code.",
        ("query",),
        query=_QUERY,
        limit=_limit(3, 20),
        skill=_SKILL,
        format=_FORMAT,
    ),
    _read_tool(
        "sage_list_failures",
        "List failures",
        "List approaches that failed, newest first, or search for them.",
        (),
        limit=_limit(10, 200),
        query=_string("Words to search for. Without it, all failures are listed."),
    ),
    _write_tool(
        "sage_save_checkpoint",
        "Save a checkpoint",
        "Save the state of your research: the question, the thesis and the evidence for it.",
        ("core_question", "thesis", "confidence"),
        core_question=_string("The question under research."),
        thesis=_string("The current answer."),
        confidence={"type": "number", "minimum": 0, "maximum": 1, "description": "Confidence in it, from 0 to 1."},
        trigger=_string("The reason for saving; synthesis by default."),
        key_evidence=_strings("Evidence for the thesis."),
        reasoning_trace=_string("How the thesis was reached."),
        open_questions=_strings("Questions that are still open."),
        sources=_objects("Sources used.", ("id",), id=_PLAIN, type=_PLAIN, take=_PLAIN, relation=_PLAIN),
        tensions=_objects("Sources that disagree.", ("a", "b"), a=_PLAIN, b=_PLAIN, nature=_PLAIN, resolution=_PLAIN),
        unique_contributions=_objects("New findings.", ("type", "content"), type=_PLAIN, content=_PLAIN),
        action_goal=_string("The goal of the work."),
        action_type=_string("The type of work."),
        code_refs=_objects("Places in the code.", ("file",), file=_PLAIN, lines=_LINES, relevance=_PLAIN),
        files_explored=_strings("Files that were read."),
        files_changed=_strings("Files that were changed."),
        related_knowledge=_strings("Ids of knowledge items."),
        skill=_string("The skill it belongs to."),
        template=_string("The template it follows."),
        continues_from=_string("Id of the previous checkpoint; the newest by default."),
    ),
    _write_tool(
        "sage_save_knowledge",
        "Save knowledge",
        "Save knowledge for later. An item with the same id is replaced.",
        ("content", "keywords"),
        id=_ID,
        content=_string("The knowledge itself."),
        keywords=_KEYWORDS,
        skill=_string("The skill it belongs to; without it, all skills."),
        source=_string("Where it comes from."),
        type={"type": "string", "enum": list(TYPES), "description": "The type of knowledge."},
        code_links=_objects(
            "Code that it is about.",
            ("chunk_id",),
            chunk_id=_string("A symbol such as web/tokens.py::set_token, or a file."),
            relation={"type": "string", "enum": list(LINK_RELATIONS)},
            note=_PLAIN,
        ),
    ),
    _write_tool(
        "sage_record_failure",
        "Record a failure",
        "Record an approach that failed, why it failed and what was learned.",
        ("approach", "why_failed", "learned", "keywords"),
        id=_ID,
        approach=_string("What was tried."),
        why_failed=_string("Why it did not work."),
        learned=_string("What to do instead."),
        keywords=_KEYWORDS,
        related_to=_strings("Ids of knowledge items."),
    ),
    _write_tool(
        "sage_write_system",
        "Write a system file",
        "Write a file, such as objective.md, that every conversation starts with.",
        ("filename", "content"),
        filename=_string("The name, such as objective.md or pinned/reference.md."),
        content=_string("The whole text."),
        overwrite={"type": "boolean", "default": True, "description": "Whether to replace an existing file."},
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}
