"""The tools as clients see them."""

from collections.abc import Mapping
from typing import Any, Final

from carrel.core.model import Tool
from carrel.providers.sage.records import LINK_RELATIONS, TYPES
from carrel.providers.sage.rendering import FORMATS

Schema = dict[str, Any]


def _text(told: str) -> Schema:
    return {"type": "string", "description": told}


def _texts(told: str) -> Schema:
    return {"type": "array", "items": {"type": "string"}, "description": told}


def _number(default: int, most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default, "description": "At most so many."}


def _records(told: str, required: tuple[str, ...], **parts: Schema) -> Schema:
    item = {"type": "object", "properties": parts, "required": list(required)}
    return {"type": "array", "items": item, "description": told}


_FORMAT: Final[Schema] = {"type": "string", "enum": list(FORMATS), "description": "How the text is written."}
_SKILL: Final = _text("Only what belongs to this skill.")
_PLAIN: Final = {"type": "string"}
_LINES: Final = {"type": ["string", "integer"], "description": "As 12 or 12-40."}


def _tool(name: str, title: str, told: str, required: tuple[str, ...], properties: Schema, *, writes: bool) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(
        name,
        told,
        schema,
        title=title,
        read_only=not writes,
        destructive=name == "sage_write_system",
        idempotent=not writes,
        open_world=False,
    )


READING: Final = (
    _tool(
        "sage_search_checkpoints",
        "Search checkpoints",
        "Find research checkpoints by what they are about. Each result names a sage:// resource to read.",
        ("query",),
        {"query": _text("What to look for."), "limit": _number(5, 50)},
        writes=False,
    ),
    _tool(
        "sage_list_checkpoints",
        "List checkpoints",
        "List research checkpoints, newest first.",
        (),
        {"limit": _number(10, 200), "skill": _SKILL},
        writes=False,
    ),
    _tool(
        "sage_load_checkpoint",
        "Load a checkpoint",
        "Read a checkpoint by its id or a part of it.",
        ("id",),
        {"id": _text("The id, a part of it that only one has, or its URI."), "format": _FORMAT},
        writes=False,
    ),
    _tool(
        "sage_recall_knowledge",
        "Recall knowledge",
        "Find what is known about a subject, with content and where the code is now.",
        ("query",),
        {"query": _text("What to look for."), "limit": _number(3, 20), "skill": _SKILL, "format": _FORMAT},
        writes=False,
    ),
    _tool(
        "sage_list_failures",
        "List failures",
        "List what was tried and failed, newest first, or find it.",
        (),
        {"limit": _number(10, 200), "query": _text("What to look for; without it, all are listed.")},
        writes=False,
    ),
)
WRITING: Final = (
    _tool(
        "sage_save_checkpoint",
        "Save a checkpoint",
        "Save a state of research: the question, the thesis, and what it rests on.",
        ("core_question", "thesis", "confidence"),
        {
            "core_question": _text("What is asked."),
            "thesis": _text("What is held to be the answer now."),
            "confidence": {"type": "number", "minimum": 0, "maximum": 1, "description": "From 0 to 1."},
            "trigger": _text("Why it is saved; synthesis if not given."),
            "key_evidence": _texts("What speaks for the thesis."),
            "reasoning_trace": _text("How the thesis was reached."),
            "open_questions": _texts("What is still to be found out."),
            "sources": _records("What it rests on.", ("id",), id=_PLAIN, type=_PLAIN, take=_PLAIN, relation=_PLAIN),
            "tensions": _records(
                "Sources that disagree.", ("a", "b"), a=_PLAIN, b=_PLAIN, nature=_PLAIN, resolution=_PLAIN
            ),
            "unique_contributions": _records(
                "What only this research found.", ("type", "content"), type=_PLAIN, content=_PLAIN
            ),
            "action_goal": _text("What it is for."),
            "action_type": _text("What kind of work that is."),
            "code_refs": _records("Places in the code.", ("file",), file=_PLAIN, lines=_LINES, relevance=_PLAIN),
            "files_explored": _texts("Files that were read."),
            "files_changed": _texts("Files that were changed."),
            "related_knowledge": _texts("Ids of knowledge items."),
            "skill": _text("The skill it belongs to."),
            "template": _text("The template it follows."),
            "continues_from": _text("The checkpoint before it; the newest if not given."),
        },
        writes=True,
    ),
    _tool(
        "sage_save_knowledge",
        "Save knowledge",
        "Save something that is worth knowing again; the same id replaces it.",
        ("content", "keywords"),
        {
            "id": _text("A short name."),
            "content": _text("What is known."),
            "keywords": _texts("Words it is found by."),
            "skill": _text("The skill it belongs to; all of them if not given."),
            "source": _text("Where it comes from."),
            "type": {"type": "string", "enum": list(TYPES), "description": "What kind of knowledge it is."},
            "code_links": {
                "type": "array",
                "description": "The code it is about.",
                "items": {
                    "type": "object",
                    "properties": {
                        "chunk_id": _text("As web/tokens.py::set_token, or a file."),
                        "relation": {"type": "string", "enum": list(LINK_RELATIONS)},
                        "note": _PLAIN,
                    },
                    "required": ["chunk_id"],
                },
            },
        },
        writes=True,
    ),
    _tool(
        "sage_record_failure",
        "Record a failure",
        "Record what was tried, why it failed and what was learned.",
        ("approach", "why_failed", "learned", "keywords"),
        {
            "id": _text("A short name."),
            "approach": _text("What was tried."),
            "why_failed": _text("Why it did not work."),
            "learned": _text("What to do instead."),
            "keywords": _texts("Words it is found by."),
            "related_to": _texts("Ids of knowledge items."),
        },
        writes=True,
    ),
    _tool(
        "sage_write_system",
        "Write a system file",
        "Write a file that is told at the start of every conversation, as objective.md.",
        ("filename", "content"),
        {
            "filename": _text("As objective.md or pinned/reference.md."),
            "content": _text("The whole text."),
            "overwrite": {
                "type": "boolean",
                "default": True,
                "description": "Whether a file that is there is replaced.",
            },
        },
        writes=True,
    ),
)
BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in (*READING, *WRITING)}
