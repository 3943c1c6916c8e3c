"""Checks of the arguments of tools and commands. A wrong argument raises `SageError` with its name."""

import math
import re
from collections.abc import Mapping
from typing import Final

from carrel.core.record import Value
from carrel.providers.sage.memory import SageError
from carrel.providers.sage.records import (
    LINK_RELATIONS,
    MARKS,
    TYPES,
    Checkpoint,
    CheckpointSource,
    CodeRef,
    Contribution,
    FailureRecord,
    Tension,
)

Arguments = Mapping[str, object]
ALIASES: Final = ("checkpoint_id", "knowledge_id", "failure_id")
_LINES: Final = re.compile(r"\d+(?:-\d+)?")


def invalid(name: str, why: str) -> SageError:
    """Return the error for an argument."""
    return SageError(f"Invalid {name}: {why}", "invalid")


def clean(text: str) -> str:
    """Return a text that a file can hold: without NUL, with LF line ends, in valid UTF-8."""
    plain = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode(errors="replace").decode()


def text(given: Arguments, name: str, default: str = "") -> str:
    """Return an optional text."""
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise invalid(name, "must be a string")
    return clean(value)


def needed(given: Arguments, name: str, limit: int) -> str:
    """Return a required text."""
    value = text(given, name)
    if not value.strip():
        raise invalid(name, "must not be empty")
    return bounded(value, name, limit)


def bounded(value: str, name: str, limit: int) -> str:
    """Return a text; raise `SageError` if it is too large to be read again."""
    if len(value.encode()) > limit:
        raise invalid(name, f"larger than {limit} bytes")
    return value


def item_id(given: Arguments) -> str:
    """Return the id, by any of its names; it may be empty."""
    for name in ("id", *ALIASES):
        if given.get(name) is not None:
            return text(given, name)
    return ""


def texts(given: Arguments, name: str) -> tuple[str, ...]:
    """Return a list of texts without blank ones; a single text is a list of one."""
    value = given.get(name)
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) for one in listed):
        raise invalid(name, "must be a list of strings")
    cleaned = [clean(one).strip() for one in listed]
    return tuple(one for one in cleaned if one)


def needed_texts(given: Arguments, name: str) -> tuple[str, ...]:
    """Return a list of at least one text."""
    listed = texts(given, name)
    if not listed:
        raise invalid(name, "must not be empty")
    return listed


def count(given: Arguments, name: str, default: int, most: int) -> int:
    """Return a whole number from 1 to `most`."""
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise invalid(name, f"must be between 1 and {most}")
    return value


def flag(given: Arguments, name: str, *, default: bool) -> bool:
    """Return true or false."""
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise invalid(name, "must be true or false")
    return value


def choice(given: Arguments, name: str, known: tuple[str, ...], default: str) -> str:
    """Return one of the known words."""
    value = text(given, name, default)
    if value not in known:
        raise invalid(name, f"must be one of {', '.join(known)}")
    return value


def confidence(given: Arguments) -> float:
    """Return the confidence, a number from 0 to 1."""
    value = given.get("confidence")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    shown = "" if value is None else f" {str(value)[:50]}"
    raise SageError(f"Invalid confidence{shown}: must be between 0.0 and 1.0", "invalid")


def records(given: Arguments, name: str) -> list[Mapping[str, object]]:
    """Return a list of objects."""
    value = given.get(name)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(one, dict) for one in value):
        raise invalid(name, "must be a list of objects")
    return [one for one in value if isinstance(one, dict)]


def _part(given: Arguments, outer: str, name: str, *, is_needed: bool = False, default: str = "") -> str:
    value = given.get(name)
    if value is None:
        value = default
    if not isinstance(value, str) or (is_needed and not value.strip()):
        raise invalid(outer, f"each needs a string {name}")
    return " ".join(clean(value).split())


def checkpoint(given: Arguments, limit: int) -> Checkpoint:
    """Return the checkpoint to save."""
    question = needed(given, "core_question", limit)
    thesis = needed(given, "thesis", limit)
    return Checkpoint(
        confidence=confidence(given),
        question=question,
        thesis=thesis.strip(),
        trigger=text(given, "trigger") or "synthesis",
        skill=text(given, "skill"),
        template=text(given, "template"),
        action_goal=text(given, "action_goal"),
        action_type=text(given, "action_type"),
        key_evidence=tuple(" ".join(one.split()) for one in texts(given, "key_evidence")),
        reasoning_trace=bounded(text(given, "reasoning_trace"), "reasoning_trace", limit).strip(),
        open_questions=tuple(" ".join(one.split()) for one in texts(given, "open_questions")),
        sources=tuple(_source(one) for one in records(given, "sources")),
        tensions=tuple(_tension(one) for one in records(given, "tensions")),
        contributions=tuple(
            Contribution(
                _part(one, "unique_contributions", "type", is_needed=True),
                _part(one, "unique_contributions", "content", is_needed=True),
            )
            for one in records(given, "unique_contributions")
        ),
        code_refs=tuple(_code_ref(one) for one in records(given, "code_refs")),
        files_explored=texts(given, "files_explored"),
        files_changed=texts(given, "files_changed"),
        related_knowledge=texts(given, "related_knowledge"),
        continues_from=text(given, "continues_from"),
    )


def _source(given: Arguments) -> CheckpointSource:
    names = ("type", "take", "relation")
    kind, take, relation = (_part(given, "sources", name) for name in names)
    return CheckpointSource(_part(given, "sources", "id", is_needed=True), kind, take, relation)


def _tension(given: Arguments) -> Tension:
    between = given.get("between")
    if isinstance(between, list | tuple) and len(between) == 2:
        given = {**given, "a": between[0], "b": between[1]}
    first, second = (_part(given, "tensions", name, is_needed=True) for name in ("a", "b"))
    resolution = _part(given, "tensions", "resolution", default="unresolved") or "unresolved"
    return Tension(first, second, _part(given, "tensions", "nature"), resolution)


def _code_ref(given: Arguments) -> CodeRef:
    file = _part(given, "code_refs", "file", is_needed=True).replace("`", "")
    lines = given.get("lines")
    spelled = "" if lines is None else str(lines) if isinstance(lines, int | str) else "?"
    if spelled and not _LINES.fullmatch(spelled):
        raise invalid("code_refs", "lines must look like 12 or 12-40")
    return CodeRef(file, spelled, MARKS.get(_part(given, "code_refs", "relevance"), "?"))


def failure(given: Arguments, limit: int) -> FailureRecord:
    """Return the failure record to save."""
    return FailureRecord(
        id=item_id(given),
        approach=" ".join(needed(given, "approach", limit).split()),
        why_failed=needed(given, "why_failed", limit).strip(),
        learned=needed(given, "learned", limit).strip(),
        keywords=needed_texts(given, "keywords"),
        related_to=texts(given, "related_to"),
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


def knowledge(given: Arguments, limit: int) -> KnowledgeArguments:
    """Return the knowledge item to save."""
    return KnowledgeArguments(
        item_id(given),
        needed(given, "content", limit),
        needed_texts(given, "keywords"),
        text(given, "skill"),
        text(given, "source"),
        choice(given, "type", TYPES, "knowledge"),
        [_code_link(one) for one in records(given, "code_links")],
    )


def _code_link(given: Arguments) -> dict[str, str]:
    relation = _part(given, "code_links", "relation", default="related") or "related"
    if relation not in LINK_RELATIONS:
        raise invalid("code_links", f"relation must be one of {', '.join(LINK_RELATIONS)}")
    link = {"chunk_id": _part(given, "code_links", "chunk_id", is_needed=True), "relation": relation}
    note = _part(given, "code_links", "note")
    return {**link, "note": note} if note else link
