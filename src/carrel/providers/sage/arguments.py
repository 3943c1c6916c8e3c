"""The arguments of the tools: declared as records, checked, and cleaned for files.

The docstring of a record is the description of its tool. Null counts as left out, a single string as a list of one,
and an id may also be given under the name of its kind. Unknown arguments are ignored, so that they do not make a save
fail. A wrong argument raises `SageError` with its name.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeVar

from carrel.core.arguments import Argument, ArgumentProblem, Arguments, InvalidArguments
from carrel.core.record import Value, replace
from carrel.providers.sage.memory import SageError
from carrel.providers.sage.records import (
    MARKS,
    Checkpoint,
    CheckpointSource,
    CodeRef,
    Contribution,
    FailureRecord,
    KnowledgeType,
    LinkRelation,
    Tension,
)
from carrel.providers.sage.rendering import FORMATS

Given = Mapping[str, object]
ID_NAMES: Final = ("checkpoint_id", "knowledge_id", "failure_id")
_LINES: Final = re.compile(r"\d+(?:-\d+)?")
Record = TypeVar("Record", bound=Value)

Query = Annotated[str, Argument(description="Words to search for.", examples=["token storage"])]
Skill = Annotated[str, Argument(description="Only items of this skill.")]
FormatName = Annotated[str, Argument(description="Format of the text.", extra_json_schema={"enum": list(FORMATS)})]
ItemId = Annotated[str, Argument(description="A short name.")]
Keywords = Annotated[list[str], Argument(description="Words to find it by.", examples=[["token"]])]
RelatedIds = Annotated[tuple[str, ...], Argument(description="Ids of knowledge items.")]
PreviousId = Annotated[str, Argument(description="Id of the previous checkpoint; the newest by default.")]
Limit200 = Annotated[int, Argument(ge=1, le=200, description="Maximum number of results.")]


class SearchCheckpoints(Value, frozen=True):
    """Find research checkpoints by their subject. Each result has a sage:// resource to read."""

    query: Query
    limit: Annotated[int, Argument(ge=1, le=50, description="Maximum number of results.")] = 5


class ListCheckpoints(Value, frozen=True):
    """List research checkpoints, newest first."""

    limit: Limit200 = 10
    skill: Skill = ""


class LoadCheckpoint(Value, frozen=True):
    """Read a checkpoint by its id or a part of it."""

    id: Annotated[str, Argument(description="The id, a part of it that no other checkpoint has, or the URI.")]
    format: FormatName | None = None


class RecallKnowledge(Value, frozen=True):
    """Find knowledge about a subject, with its content and the current place of its code."""

    query: Query
    limit: Annotated[int, Argument(ge=1, le=20, description="Maximum number of results.")] = 3
    skill: Skill = ""
    format: FormatName | None = None


class ListFailures(Value, frozen=True):
    """List approaches that failed, newest first, or search for them."""

    limit: Limit200 = 10
    query: Annotated[str, Argument(description="Words to search for. Without it, all failures are listed.")] = ""


class Guarded(Value, frozen=True, kw_only=True, rename={"if_match": "ifMatch"}):
    """The argument of every tool that writes."""

    if_match: Annotated[str, Argument(description="Write nothing unless this is the item's ETag.")] | None = None


class CodeRefArgument(Value, frozen=True):
    """A place in the code, as a caller names it."""

    file: str
    lines: Annotated[str | int, Argument(description="Line numbers, such as 12 or 12-40.")] = ""
    relevance: str = ""


class SaveCheckpoint(Value, frozen=True, rename={"if_match": "ifMatch"}):
    """Save the state of your research: the question, the thesis and the evidence for it."""

    core_question: Annotated[str, Argument(description="The question under research.")]
    thesis: Annotated[str, Argument(description="The current answer.")]
    confidence: Annotated[float, Argument(ge=0, le=1, description="Confidence in it, from 0 to 1.")]
    trigger: Annotated[str, Argument(description="The reason for saving; synthesis by default.")] = ""
    key_evidence: Annotated[tuple[str, ...], Argument(description="Evidence for the thesis.")] = ()
    reasoning_trace: Annotated[str, Argument(description="How the thesis was reached.")] = ""
    open_questions: Annotated[tuple[str, ...], Argument(description="Questions that are still open.")] = ()
    sources: Annotated[tuple[CheckpointSource, ...], Argument(description="Sources used.")] = ()
    tensions: Annotated[tuple[Tension, ...], Argument(description="Sources that disagree.")] = ()
    unique_contributions: Annotated[tuple[Contribution, ...], Argument(description="New findings.")] = ()
    action_goal: Annotated[str, Argument(description="The goal of the work.")] = ""
    action_type: Annotated[str, Argument(description="The type of work.")] = ""
    code_refs: Annotated[tuple[CodeRefArgument, ...], Argument(description="Places in the code.")] = ()
    files_explored: Annotated[tuple[str, ...], Argument(description="Files that were read.")] = ()
    files_changed: Annotated[tuple[str, ...], Argument(description="Files that were changed.")] = ()
    related_knowledge: RelatedIds = ()
    skill: Annotated[str, Argument(description="The skill it belongs to.")] = ""
    template: Annotated[str, Argument(description="The template it follows.")] = ""
    continues_from: PreviousId | None = None
    if_match: (
        Annotated[str, Argument(description="Write nothing unless this is the previous checkpoint's ETag.")] | None
    ) = None


class CodeLinkArgument(Value, frozen=True):
    """A link to code, as a caller names it."""

    chunk_id: Annotated[str, Argument(description="A symbol such as web/tokens.py::set_token, or a file.")]
    relation: LinkRelation = "related"
    note: str = ""


class SaveKnowledge(Guarded, frozen=True):
    """Save knowledge for later. An item with the same id is replaced."""

    content: Annotated[str, Argument(description="The knowledge itself.")]
    keywords: Keywords
    id: ItemId = ""
    skill: Annotated[str, Argument(description="The skill it belongs to; without it, all skills.")] = ""
    source: Annotated[str, Argument(description="Where it comes from.")] = ""
    type: Annotated[KnowledgeType, Argument(description="The type of knowledge.")] = "knowledge"
    code_links: Annotated[tuple[CodeLinkArgument, ...], Argument(description="Code that it is about.")] = ()


class RecordFailure(Guarded, frozen=True):
    """Record an approach that failed, why it failed and what was learned."""

    approach: Annotated[str, Argument(description="What was tried.")]
    why_failed: Annotated[str, Argument(description="Why it did not work.")]
    learned: Annotated[str, Argument(description="What to do instead.")]
    keywords: Keywords
    id: ItemId = ""
    related_to: RelatedIds = ()


class WriteSystemFile(Guarded, frozen=True):
    """Write a file, such as objective.md, that every conversation starts with."""

    filename: Annotated[str, Argument(description="The name, such as objective.md or pinned/reference.md.")]
    content: Annotated[str, Argument(description="The whole text.")]
    overwrite: Annotated[bool, Argument(description="Whether to replace an existing file.")] = True


def check(arguments: Arguments[Record], given: Given) -> Record:
    """Return the arguments of a call, or raise `SageError`."""
    properties = arguments.schema["properties"]
    assert isinstance(properties, dict)
    values: dict[str, object] = {"id": ""} if "id" in properties else {}
    for name, value in given.items():
        if value is not None and name in ID_NAMES and "id" in properties:
            values["id"] = values["id"] or value
        elif value is not None and name in properties:
            is_single = isinstance(value, str) and properties[name].get("type") == "array"
            values[name] = [value] if is_single else _without_nulls(value)
    try:
        return arguments.check(values)
    except InvalidArguments as error:
        problem = error.problems[0]
        raise _refusal(problem, properties.get(problem.name, {}), given.get(problem.name)) from None


def _without_nulls(value: object) -> object:
    """Return a JSON value without the nulls in its objects; `between` of a tension becomes `a` and `b`."""
    if isinstance(value, dict):
        between = value.get("between")
        if isinstance(between, list | tuple) and len(between) == 2:
            value = {**value, "a": between[0], "b": between[1]}
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list | tuple) else value


def _refusal(problem: ArgumentProblem, schema: dict[str, object], value: object) -> SageError:
    if problem.name == "confidence":
        shown = "" if value is None else f" {str(value)[:50]}"
        return SageError(f"Invalid confidence{shown}: must be between 0.0 and 1.0", "invalid")
    if problem.fault == "missing":
        return invalid(problem.name, "must not be empty")
    if "minimum" in schema:
        return invalid(problem.name, f"must be between {schema['minimum']} and {schema['maximum']}")
    return invalid(problem.name, f"must be {problem.expected}")


def invalid(name: str, why: str) -> SageError:
    """Return the error for an argument."""
    return SageError(f"Invalid {name}: {why}", "invalid")


# Values for files


def clean(text: str) -> str:
    """Return a text that a file can hold: without NUL, with LF line ends, in valid UTF-8."""
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace").decode()


def needed(name: str, value: str, limit: int) -> str:
    """Return a clean text that is not blank and not too large to be read again."""
    text = clean(value)
    if not text.strip():
        raise invalid(name, "must not be empty")
    return bounded(text, name, limit)


def bounded(text: str, name: str, limit: int) -> str:
    """Return a text that is not too large to be read again, or raise `SageError`."""
    if len(text.encode()) > limit:
        raise invalid(name, f"larger than {limit} bytes")
    return text


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _texts(given: Iterable[str]) -> tuple[str, ...]:
    """Return clean texts without blank ones."""
    return tuple(text for text in (clean(one).strip() for one in given) if text)


def _lines(given: Iterable[str]) -> tuple[str, ...]:
    """Return texts, each on one line, without blank ones."""
    return tuple(map(_one_line, _texts(given)))


def _parts(name: str, given: Iterable[Record]) -> tuple[Record, ...]:
    """Return objects with each text on one line; a text without a default must not be blank."""
    parts = []
    for one in given:
        names = one.__struct_fields__
        texts = {field: _one_line(str(getattr(one, field))) for field in names}
        for field in names[: len(names) - len(one.__struct_defaults__)]:
            if not texts[field]:
                raise invalid(name, f"each needs a string {field}")
        parts.append(replace(one, **texts))
    return tuple(parts)


def _keywords(given: Iterable[str]) -> tuple[str, ...]:
    keywords = _texts(given)
    if not keywords:
        raise invalid("keywords", "must not be empty")
    return keywords


def checkpoint(asked: SaveCheckpoint, limit: int) -> Checkpoint:
    """Return the checkpoint to save."""
    return Checkpoint(
        confidence=asked.confidence,
        question=needed("core_question", asked.core_question, limit),
        thesis=needed("thesis", asked.thesis, limit).strip(),
        trigger=clean(asked.trigger) or "synthesis",
        skill=clean(asked.skill),
        template=clean(asked.template),
        action_goal=clean(asked.action_goal),
        action_type=clean(asked.action_type),
        key_evidence=_lines(asked.key_evidence),
        reasoning_trace=bounded(clean(asked.reasoning_trace), "reasoning_trace", limit).strip(),
        open_questions=_lines(asked.open_questions),
        sources=_parts("sources", asked.sources),
        tensions=tuple(
            replace(one, resolution=one.resolution or "unresolved") for one in _parts("tensions", asked.tensions)
        ),
        contributions=_parts("unique_contributions", asked.unique_contributions),
        code_refs=tuple(_code_ref(one) for one in _parts("code_refs", asked.code_refs)),
        files_explored=_texts(asked.files_explored),
        files_changed=_texts(asked.files_changed),
        related_knowledge=_texts(asked.related_knowledge),
        continues_from=clean(asked.continues_from or ""),
    )


def _code_ref(given: CodeRefArgument) -> CodeRef:
    lines = str(given.lines)
    if lines and not _LINES.fullmatch(lines):
        raise invalid("code_refs", "lines must look like 12 or 12-40")
    return CodeRef(given.file.replace("`", ""), lines, MARKS.get(given.relevance, "?"))


def failure(asked: RecordFailure, limit: int) -> FailureRecord:
    """Return the failure record to save."""
    return FailureRecord(
        id=clean(asked.id),
        approach=_one_line(needed("approach", asked.approach, limit)),
        why_failed=needed("why_failed", asked.why_failed, limit).strip(),
        learned=needed("learned", asked.learned, limit).strip(),
        keywords=_keywords(asked.keywords),
        related_to=_texts(asked.related_to),
    )


def knowledge(asked: SaveKnowledge, limit: int) -> SaveKnowledge:
    """Return the knowledge item to save, with clean texts."""
    return replace(
        asked,
        id=clean(asked.id),
        content=needed("content", asked.content, limit),
        keywords=_keywords(asked.keywords),
        skill=clean(asked.skill),
        source=clean(asked.source),
        code_links=_parts("code_links", asked.code_links),
    )
