"""A file's text to the record it holds, or `Broken` with the reason."""

import re
from collections.abc import Callable
from typing import Any, Final

from carrel.providers.sage import checkpoint_body
from carrel.providers.sage.file_format import (
    Broken,
    Fields,
    count_of,
    flag_of,
    mapping_of,
    mappings_of,
    read_front_matter,
    read_mapping,
    share_of,
    split_front_matter,
    text_of,
    texts_of,
)
from carrel.providers.sage.records import (
    RECOVERY,
    TYPES,
    Checkpoint,
    CodeLink,
    Contribution,
    DiffSummary,
    Failure,
    GitContext,
    Knowledge,
    KnowledgeLink,
    Source,
    Tension,
)

_REQUIRED: Final = ("id", "ts", "trigger", "core_question", "thesis", "confidence")
_TEXTS: Final = "trigger skill project parent_checkpoint action_goal action_type template continues_from".split()


def parse_checkpoint(text: str) -> Checkpoint:
    """Read a checkpoint or a recovery file."""
    fields, body = read_front_matter(text)
    question, sections = checkpoint_body.split(body)
    confidence = share_of(fields, "confidence")
    if text_of(fields, "type") == RECOVERY:
        question, confidence, sections = _recovered(question, confidence, sections, text_of(fields, "core_question"))
    known: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for heading, content in sections:
        if heading in _PARTS:
            known[heading] = f"{known[heading]}\n\n{content}" if heading in known else content
        else:
            others.append((heading, content))
    parts: dict[str, Any] = {name: text_of(fields, name) for name in _TEXTS}
    for heading, (name, read) in _PARTS.items():
        if heading in known:
            parts[name] = read(known[heading])
    parts["thesis"] = parts.get("thesis") or text_of(fields, "thesis")
    return Checkpoint(
        id=text_of(fields, "id"),
        type=text_of(fields, "type") or "checkpoint",
        ts=text_of(fields, "ts") or text_of(fields, "extracted_at"),
        confidence=confidence,
        message_count=count_of(fields, "message_count"),
        token_estimate=count_of(fields, "token_estimate"),
        files_explored=texts_of(fields, "files_explored"),
        files_changed=texts_of(fields, "files_changed"),
        git_context=_git_context(fields),
        diff_summary=_diff_summary(fields),
        related_knowledge=texts_of(fields, "related_knowledge"),
        question=question or text_of(fields, "core_question"),
        others=tuple(others),
        **parts,
    )


def _recovered(
    title: str, confidence: float, sections: checkpoint_body.Sections, told: str
) -> tuple[str, float, checkpoint_body.Sections]:
    """Return question, confidence and other sections of a recovery file, whose body has them in places of its own.

    Its title is no question; that stands in a section. The thesis may begin with a line that tells the confidence.
    """
    question, rest = "", checkpoint_body.Sections()
    for heading, content in sections:
        name = _RECOVERED.get(heading, heading)
        found = _CONFIDENCE.match(content) if name == "Thesis" else None
        if found is not None:
            share = float(found[1]) / (100 if found[2] else 1)
            confidence = share if 0 <= share <= 1 else confidence
        if name == "Core Question":
            question = question or checkpoint_body.unescape(content)
        else:
            rest.append((name, content[found.end() :].strip() if found is not None else content))
    if not question:
        question = told if title.casefold().startswith(RECOVERY) else title
    return question, confidence, rest


_RECOVERED: Final = {"Question": "Core Question", "Current Thesis": "Thesis"}
_CONFIDENCE: Final = re.compile(
    r"[*_]+confidence[*_]*:?[*_]*\s*(\d{1,3}(?:\.\d+)?)[ \t]*(%?)[^\n]*(?:\n|\Z)", re.IGNORECASE
)

_PARTS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "Thesis": ("thesis", checkpoint_body.unescape),
    "Key Evidence": ("key_evidence", checkpoint_body.entries),
    "Reasoning Trace": ("reasoning_trace", checkpoint_body.unescape),
    "Open Questions": ("open_questions", checkpoint_body.entries),
    "Sources": ("sources", checkpoint_body.sources),
    "Tensions": ("tensions", checkpoint_body.tensions),
    "Unique Contributions": ("contributions", checkpoint_body.contributions),
    "Code References": ("code_refs", checkpoint_body.code_refs),
}


def _git_context(fields: Fields) -> GitContext | None:
    given = mapping_of(fields, "git_context")
    if not text_of(given, "branch") and not text_of(given, "commit"):
        return None
    recent = texts_of(given, "recent_commits")
    return GitContext(text_of(given, "branch"), text_of(given, "commit"), flag_of(given, "dirty"), recent)


def _diff_summary(fields: Fields) -> DiffSummary | None:
    given = mapping_of(fields, "diff_summary")
    if not given:
        return None
    counts = count_of(given, "insertions"), count_of(given, "deletions")
    summary = DiffSummary(texts_of(given, "files_changed"), texts_of(given, "staged_files"), *counts)
    return None if summary == DiffSummary() else summary


def parse_legacy(text: str) -> Checkpoint:
    """Read a checkpoint of the old form, all YAML."""
    outer = read_mapping(text)
    if not isinstance(outer.get("checkpoint"), dict):
        raise Broken("missing checkpoint" if outer.get("checkpoint") is None else "not a mapping")
    fields = mapping_of(outer, "checkpoint")
    for name in _REQUIRED:
        if fields.get(name) is None:
            raise Broken(f"missing {name}")
    action, metadata = mapping_of(fields, "action"), mapping_of(fields, "metadata")
    return Checkpoint(
        id=text_of(fields, "id"),
        ts=text_of(fields, "ts"),
        trigger=text_of(fields, "trigger"),
        confidence=share_of(fields, "confidence"),
        skill=text_of(metadata, "skill"),
        project=text_of(metadata, "project"),
        parent_checkpoint=text_of(metadata, "parent_checkpoint"),
        message_count=count_of(metadata, "message_count"),
        token_estimate=count_of(metadata, "token_estimate"),
        action_goal=text_of(action, "goal"),
        action_type=text_of(action, "type"),
        question=text_of(fields, "core_question").strip(),
        thesis=text_of(fields, "thesis").strip(),
        open_questions=texts_of(fields, "open_questions"),
        sources=tuple(_source(one) for one in mappings_of(fields, "sources")),
        tensions=tuple(_tension(one) for one in mappings_of(fields, "tensions")),
        contributions=tuple(
            Contribution(text_of(one, "type"), text_of(one, "content"))
            for one in mappings_of(fields, "unique_contributions")
        ),
    )


def _source(given: Fields) -> Source:
    return Source(text_of(given, "id"), text_of(given, "type"), text_of(given, "take"), text_of(given, "relation"))


def _tension(given: Fields) -> Tension:
    first, second = (*texts_of(given, "between"), "", "")[:2]
    return Tension(first, second, text_of(given, "nature"), text_of(given, "resolution"))


def parse_failure(text: str) -> Failure:
    """Read a failure record."""
    fields, body = read_front_matter(text)
    sections = dict(reversed(checkpoint_body.split(body)[1]))
    return Failure(
        id=text_of(fields, "id"),
        approach=text_of(fields, "approach"),
        why_failed=checkpoint_body.unescape(sections.get("Why it failed", "")),
        learned=checkpoint_body.unescape(sections.get("Learned", "")),
        keywords=texts_of(fields, "keywords"),
        related_to=texts_of(fields, "related_to"),
        added=text_of(fields, "added"),
        project=text_of(fields, "project"),
    )


# Knowledge


def parse_index(text: str) -> list[Knowledge]:
    """Read the knowledge index; a bad entry is skipped, and of two with one id the last wins."""
    fields = read_mapping(text)
    items: dict[str, Knowledge] = {}
    for given in mappings_of(fields, "items"):
        item = parse_entry(given)
        if item is not None:
            items.pop(item.id, None)
            items[item.id] = item
    return list(items.values())


def parse_entry(given: Fields) -> Knowledge | None:
    """Read one entry of the index; None if it names no id or no file."""
    item_id, file = text_of(given, "id"), text_of(given, "file")
    if not item_id or not file:
        return None
    triggers, scope, metadata = (mapping_of(given, name) for name in ("triggers", "scope", "metadata"))
    code_links = (
        CodeLink(text_of(one, "chunk_id"), text_of(one, "relation") or "related", text_of(one, "note"))
        for one in mappings_of(given, "code_links")
    )
    knowledge_links = (
        KnowledgeLink(text_of(one, "target_id"), text_of(one, "relation") or "related", text_of(one, "note"))
        for one in mappings_of(given, "knowledge_links")
    )
    return Knowledge(
        item_id,
        file,
        _type(given),
        texts_of(triggers, "keywords"),
        texts_of(scope, "skills"),
        bool(flag_of(scope, "always")),
        text_of(metadata, "added"),
        text_of(metadata, "source"),
        text_of(metadata, "status"),
        text_of(metadata, "saved_at_commit"),
        tuple(link for link in code_links if link.chunk_id),
        tuple(link for link in knowledge_links if link.target_id),
    )


def _type(given: Fields) -> str:
    named = text_of(given, "type")
    return named if named in TYPES else "knowledge"


def parse_content(text: str, file: str, stem: str) -> Knowledge:
    """Read an item out of its content file alone, for when there is no index."""
    try:
        fields, _ = read_front_matter(text)
    except Broken:
        fields = {}
    skill = text_of(fields, "skill")
    return Knowledge(
        text_of(fields, "id") or stem,
        file,
        _type(fields),
        texts_of(fields, "keywords"),
        (skill,) if skill else (),
        False,
        text_of(fields, "added"),
        text_of(fields, "source"),
        text_of(fields, "status"),
    )


def content_of(text: str) -> str:
    """Give the content of a content file: what follows the front matter, or all of it."""
    try:
        return split_front_matter(text)[1].strip()
    except Broken:
        return text.strip()
