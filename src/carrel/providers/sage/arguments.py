"""The arguments of the tools: declared as records, checked, and cleaned for files.

Null counts as left out, a single string as a list of one, and an id may have the name of its kind. Other arguments are
ignored: a save is not refused for them. A wrong argument raises `SageError` with its name.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeVar

from carrel.core.arguments import Argument, ArgumentProblem, Arguments, InvalidArguments
from carrel.core.record import Value
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
_Record = TypeVar("_Record", bound=Value)

Query = Annotated[str, Argument(description="Words to search for.", examples=["token storage"])]
Skill = Annotated[str, Argument(description="Only items of this skill.")]
FormatName = Annotated[str, Argument(description="Format of the text.", extra_json_schema={"enum": list(FORMATS)})]
ItemId = Annotated[str, Argument(description="A short name.")]
Keywords = Annotated[list[str], Argument(description="Words to find it by.", examples=[["token"]])]
RelatedIds = Annotated[tuple[str, ...], Argument(description="Ids of knowledge items.")]
Limit50 = Annotated[int, Argument(ge=1, le=50, description="Maximum number of results.")]
Limit200 = Annotated[int, Argument(ge=1, le=200, description="Maximum number of results.")]
Limit20 = Annotated[int, Argument(ge=1, le=20, description="Maximum number of results.")]


class SearchCheckpoints(Value, frozen=True):
    """The arguments of `sage_search_checkpoints`."""

    query: Query
    limit: Limit50 = 5


class ListCheckpoints(Value, frozen=True):
    """The arguments of `sage_list_checkpoints`."""

    limit: Limit200 = 10
    skill: Skill = ""


class LoadCheckpoint(Value, frozen=True):
    """The arguments of `sage_load_checkpoint`."""

    id: Annotated[str, Argument(description="The id, a part of it that no other checkpoint has, or the URI.")]
    format: FormatName | None = None


class RecallKnowledge(Value, frozen=True):
    """The arguments of `sage_recall_knowledge`."""

    query: Query
    limit: Limit20 = 3
    skill: Skill = ""
    format: FormatName | None = None


class ListFailures(Value, frozen=True):
    """The arguments of `sage_list_failures`."""

    limit: Limit200 = 10
    query: Annotated[str, Argument(description="Words to search for. Without it, all failures are listed.")] = ""


class CodeRefArgument(Value, frozen=True):
    """A place in the code, as a caller names it."""

    file: str
    lines: Annotated[str | int, Argument(description="Line numbers, such as 12 or 12-40.")] = ""
    relevance: str = ""


class SaveCheckpoint(Value, frozen=True):
    """The arguments of `sage_save_checkpoint`."""

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
    continues_from: Annotated[str, Argument(description="Id of the previous checkpoint; the newest by default.")] = ""


class CodeLinkArgument(Value, frozen=True):
    """A link to code, as a caller names it."""

    chunk_id: Annotated[str, Argument(description="A symbol such as web/tokens.py::set_token, or a file.")]
    relation: LinkRelation = "related"
    note: str = ""


class SaveKnowledge(Value, frozen=True):
    """The arguments of `sage_save_knowledge`."""

    content: Annotated[str, Argument(description="The knowledge itself.")]
    keywords: Keywords
    id: ItemId = ""
    skill: Annotated[str, Argument(description="The skill it belongs to; without it, all skills.")] = ""
    source: Annotated[str, Argument(description="Where it comes from.")] = ""
    type: Annotated[KnowledgeType, Argument(description="The type of knowledge.")] = "knowledge"
    code_links: Annotated[tuple[CodeLinkArgument, ...], Argument(description="Code that it is about.")] = ()


class RecordFailure(Value, frozen=True):
    """The arguments of `sage_record_failure`."""

    approach: Annotated[str, Argument(description="What was tried.")]
    why_failed: Annotated[str, Argument(description="Why it did not work.")]
    learned: Annotated[str, Argument(description="What to do instead.")]
    keywords: Keywords
    id: ItemId = ""
    related_to: RelatedIds = ()


class WriteSystemFile(Value, frozen=True):
    """The arguments of `sage_write_system`."""

    filename: Annotated[str, Argument(description="The name, such as objective.md or pinned/reference.md.")]
    content: Annotated[str, Argument(description="The whole text.")]
    overwrite: Annotated[bool, Argument(description="Whether to replace an existing file.")] = True


SEARCH_CHECKPOINTS: Final = Arguments(SearchCheckpoints)
LIST_CHECKPOINTS: Final = Arguments(ListCheckpoints)
LOAD_CHECKPOINT: Final = Arguments(LoadCheckpoint)
RECALL_KNOWLEDGE: Final = Arguments(RecallKnowledge)
LIST_FAILURES: Final = Arguments(ListFailures)
SAVE_CHECKPOINT: Final = Arguments(SaveCheckpoint)
SAVE_KNOWLEDGE: Final = Arguments(SaveKnowledge)
RECORD_FAILURE: Final = Arguments(RecordFailure)
WRITE_SYSTEM: Final = Arguments(WriteSystemFile)


def check(arguments: Arguments[_Record], given: Given) -> _Record:
    """Return the arguments of a call, or raise `SageError`."""
    properties = arguments.schema["properties"]
    assert isinstance(properties, dict)
    values: dict[str, object] = {"id": ""} if "id" in properties else {}
    for name, value in given.items():
        if value is None:
            continue
        if name in ID_NAMES and "id" in properties:
            values["id"] = values["id"] or value
        elif name not in properties:
            continue
        elif isinstance(value, str) and properties.get(name, {}).get("type") == "array":
            values[name] = [value]
        else:
            values[name] = _without_nulls(value)
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
    plain = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode(errors="replace").decode()


def needed(name: str, value: str, limit: int) -> str:
    """Return a clean text that is not blank and not too large to be read again."""
    text = clean(value)
    if not text.strip():
        raise invalid(name, "must not be empty")
    return _bounded(text, name, limit)


def _bounded(text: str, name: str, limit: int) -> str:
    if len(text.encode()) > limit:
        raise invalid(name, f"larger than {limit} bytes")
    return text


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _part(outer: str, name: str, text: str) -> str:
    """Return a required text of an object on one line."""
    if not text.strip():
        raise invalid(outer, f"each needs a string {name}")
    return _one_line(text)


def _texts(given: Iterable[str]) -> tuple[str, ...]:
    """Return clean texts without blank ones."""
    return tuple(text for text in (clean(one).strip() for one in given) if text)


def _keywords(given: Iterable[str]) -> tuple[str, ...]:
    keywords = _texts(given)
    if not keywords:
        raise invalid("keywords", "must not be empty")
    return keywords


def checkpoint(given: Given, limit: int) -> Checkpoint:
    """Return the checkpoint to save."""
    asked = check(SAVE_CHECKPOINT, given)
    return Checkpoint(
        confidence=asked.confidence,
        question=needed("core_question", asked.core_question, limit),
        thesis=needed("thesis", asked.thesis, limit).strip(),
        trigger=clean(asked.trigger) or "synthesis",
        skill=clean(asked.skill),
        template=clean(asked.template),
        action_goal=clean(asked.action_goal),
        action_type=clean(asked.action_type),
        key_evidence=tuple(map(_one_line, _texts(asked.key_evidence))),
        reasoning_trace=_bounded(clean(asked.reasoning_trace), "reasoning_trace", limit).strip(),
        open_questions=tuple(map(_one_line, _texts(asked.open_questions))),
        sources=tuple(
            CheckpointSource(
                _part("sources", "id", one.id), _one_line(one.type), _one_line(one.take), _one_line(one.relation)
            )
            for one in asked.sources
        ),
        tensions=tuple(
            Tension(
                _part("tensions", "a", one.a),
                _part("tensions", "b", one.b),
                _one_line(one.nature),
                _one_line(one.resolution) or "unresolved",
            )
            for one in asked.tensions
        ),
        contributions=tuple(
            Contribution(
                _part("unique_contributions", "type", one.type), _part("unique_contributions", "content", one.content)
            )
            for one in asked.unique_contributions
        ),
        code_refs=tuple(_code_ref(one) for one in asked.code_refs),
        files_explored=_texts(asked.files_explored),
        files_changed=_texts(asked.files_changed),
        related_knowledge=_texts(asked.related_knowledge),
        continues_from=clean(asked.continues_from),
    )


def _code_ref(given: CodeRefArgument) -> CodeRef:
    lines = str(given.lines)
    if lines and not _LINES.fullmatch(lines):
        raise invalid("code_refs", "lines must look like 12 or 12-40")
    file = _part("code_refs", "file", given.file).replace("`", "")
    return CodeRef(file, lines, MARKS.get(_one_line(given.relevance), "?"))


def failure(given: Given, limit: int) -> FailureRecord:
    """Return the failure record to save."""
    asked = check(RECORD_FAILURE, given)
    return FailureRecord(
        id=clean(asked.id),
        approach=_one_line(needed("approach", asked.approach, limit)),
        why_failed=needed("why_failed", asked.why_failed, limit).strip(),
        learned=needed("learned", asked.learned, limit).strip(),
        keywords=_keywords(asked.keywords),
        related_to=_texts(asked.related_to),
    )


class KnowledgeArguments(Value, frozen=True):
    """A knowledge item to save."""

    id: str
    content: str
    keywords: tuple[str, ...]
    skill: str
    source: str
    type: str
    code_links: list[dict[str, str]]


def knowledge(given: Given, limit: int) -> KnowledgeArguments:
    """Return the knowledge item to save."""
    asked = check(SAVE_KNOWLEDGE, given)
    links = []
    for one in asked.code_links:
        link = {"chunk_id": _part("code_links", "chunk_id", one.chunk_id), "relation": one.relation}
        note = _one_line(one.note)
        links.append({**link, "note": note} if note else link)
    return KnowledgeArguments(
        clean(asked.id),
        needed("content", asked.content, limit),
        _keywords(asked.keywords),
        clean(asked.skill),
        clean(asked.source),
        asked.type,
        links,
    )
