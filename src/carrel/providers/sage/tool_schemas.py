"""The tools as clients see them."""

from collections.abc import Mapping
from typing import Final

from carrel.core.arguments import Arguments
from carrel.core.model import Tool
from carrel.core.record import Value
from carrel.providers.sage import arguments


def _tool(name: str, title: str, description: str, declared: Arguments[Value], *, writes: bool = False) -> Tool:
    # An id may have the name of its kind, and other arguments are ignored: the schema allows them.
    schema = {key: value for key, value in declared.schema.items() if key != "additionalProperties"}
    return Tool(
        name,
        description,
        schema,
        title=title,
        read_only=not writes,
        destructive=name == "sage_write_system",
        idempotent=not writes,
        open_world=False,
    )


_TOOLS: Final = (
    _tool(
        "sage_search_checkpoints",
        "Search checkpoints",
        "Find research checkpoints by their subject. Each result has a sage:// resource to read.",
        arguments.SEARCH_CHECKPOINTS,
    ),
    _tool(
        "sage_list_checkpoints",
        "List checkpoints",
        "List research checkpoints, newest first.",
        arguments.LIST_CHECKPOINTS,
    ),
    _tool(
        "sage_load_checkpoint",
        "Load a checkpoint",
        "Read a checkpoint by its id or a part of it.",
        arguments.LOAD_CHECKPOINT,
    ),
    _tool(
        "sage_recall_knowledge",
        "Recall knowledge",
        "Find knowledge about a subject, with its content and the current place of its code.",
        arguments.RECALL_KNOWLEDGE,
    ),
    _tool(
        "sage_list_failures",
        "List failures",
        "List approaches that failed, newest first, or search for them.",
        arguments.LIST_FAILURES,
    ),
    _tool(
        "sage_save_checkpoint",
        "Save a checkpoint",
        "Save the state of your research: the question, the thesis and the evidence for it.",
        arguments.SAVE_CHECKPOINT,
        writes=True,
    ),
    _tool(
        "sage_save_knowledge",
        "Save knowledge",
        "Save knowledge for later. An item with the same id is replaced.",
        arguments.SAVE_KNOWLEDGE,
        writes=True,
    ),
    _tool(
        "sage_record_failure",
        "Record a failure",
        "Record an approach that failed, why it failed and what was learned.",
        arguments.RECORD_FAILURE,
        writes=True,
    ),
    _tool(
        "sage_write_system",
        "Write a system file",
        "Write a file, such as objective.md, that every conversation starts with.",
        arguments.WRITE_SYSTEM,
        writes=True,
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}
