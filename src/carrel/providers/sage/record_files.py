"""Parse records from the text of their files, and write that text. An unusable text raises `BadFile`.

A text is escaped when it is written into a section, so that it cannot be read as a heading. Headings inside a code
fence are text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from carrel.core.record import Value, replace
from carrel.providers.sage.fields import MAX_FRONT_MATTER, NULLS, BadFile, Fields, split_front_matter
from carrel.providers.sage.records import (
    RECOVERY,
    TYPES,
    Checkpoint,
    CheckpointSource,
    CodeLink,
    CodeRef,
    Contribution,
    DiffSummary,
    FailureRecord,
    GitContext,
    Kind,
    KnowledgeItem,
    KnowledgeLink,
    Tension,
    from_fields,
    to_data,
)

_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_HEADING: Final = re.compile(r"\\*##? ")
_ESCAPED: Final = re.compile(r"\\+(?:##? |\s*(?:`{3,}|~{3,}))")
_ESCAPED_FENCE: Final = re.compile(r"\\+\s*(?:`{3,}|~{3,})")
_CODE_REF: Final = re.compile(r"- \[(.)\] `([^`]+?)(?::(\d+(?:-\d+)?))?`\s*")
_CONFIDENCE: Final = re.compile(
    r"[*_]+confidence[*_]*:?[*_]*\s*(\d{1,3}(?:\.\d+)?)[ \t]*(%?)[^\n]*(?:\n|\Z)", re.IGNORECASE
)
_RECOVERY_HEADINGS: Final = {"Question": "Core Question", "Current Thesis": "Thesis"}

_WORDS: Final = r"[A-Za-z0-9_./+][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*"
_SIMPLE: Final = re.compile(rf"([a-z_]+): (?:'([^'\n]*)'|({_WORDS}))")
"""A line that means the same to every YAML reader. Most files have no other lines, and then PyYAML is not imported."""

Sections = list[tuple[str, str]]
"""Headings, each with its text."""


# Front matter


def read_front_matter(text: str) -> tuple[Fields, str]:
    """Return the fields of the front matter, and the body."""
    head, body = split_front_matter(text)
    return read_fields(head), body


def read_fields(head: str) -> Fields:
    """Return the fields of front matter, which begins on the second line of its file."""
    size = len(head.encode()) if not head.isascii() else len(head)
    if size > MAX_FRONT_MATTER:
        raise BadFile(f"too large ({size} bytes, limit {MAX_FRONT_MATTER})")
    return _read_simple(head) or read_mapping(head, first_line=2)


def read_mapping(text: str, *, first_line: int = 1) -> Fields:
    """Return the one mapping of a YAML text."""
    from carrel.providers.sage.yaml_text import read_yaml  # PyYAML takes long to import

    value = read_yaml(text, first_line=first_line)
    if not isinstance(value, Fields):
        raise BadFile("not a mapping")
    return value


def _read_simple(head: str) -> Fields | None:
    fields = Fields()
    for line in head.split("\n")[:-1]:
        found = _SIMPLE.fullmatch(line)
        if found is None:
            return None
        key, quoted, plain = found.groups()
        fields[key] = quoted if plain is None else None if plain in NULLS else plain
    return fields


# Markdown


class Fence:
    """Follows code fences line by line."""

    def __init__(self) -> None:
        self.opened = ""

    def covers(self, line: str) -> bool:
        """Take the next line; return whether it is a fence or inside one."""
        found = _FENCE.match(line)
        if not self.opened:
            if found is None or (found[1][0] == "`" and "`" in found[2]):
                return False
            self.opened = found[1]
            return True
        if found is not None and found[1].startswith(self.opened) and not found[2].strip():
            self.opened = ""
        return True


def split_sections(body: str) -> tuple[str, Sections]:
    """Return the question and the sections in order."""
    question: str | None = None
    parts: list[tuple[str, list[str]]] = []
    fence = Fence()
    for line in body.split("\n"):
        if not fence.covers(line):
            if line.startswith("## "):
                parts.append((line[3:].strip(), []))
                continue
            if line.startswith("# ") and not parts and question is None:
                question = line[2:].strip()
                continue
        if parts:
            parts[-1][1].append(line)
    return question or "", [(heading, "\n".join(lines).strip()) for heading, lines in parts]


def unescape(text: str) -> str:
    """Return a section's text as it was before it was written."""
    if "\\" not in text:
        return text
    return "\n".join(line[1:] if _ESCAPED.match(line) else line for line in text.split("\n"))


def escape(text: str) -> str:
    """Return a text for a section: no line of it is a heading, and every fence in it is closed."""
    lines = text.strip().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = [f"\\{line}" if _HEADING.match(line) or _ESCAPED_FENCE.match(line) else line for line in lines]
    start = 0
    while True:
        fence, opened = Fence(), start
        for at in range(start, len(lines)):
            was_open = fence.opened
            fence.covers(lines[at])
            opened = opened if was_open else at
        if not fence.opened:
            return "\n".join(lines)
        lines[opened] = f"\\{lines[opened]}"  # it is never closed
        start = opened + 1


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(line[2:].strip() for line in text.split("\n") if line.startswith("- ") and line[2:].strip())


def _read_code_refs(text: str) -> tuple[CodeRef, ...]:
    fence = Fence()  # a snippet below a reference is not read
    matches = (_CODE_REF.fullmatch(line) for line in text.split("\n") if not fence.covers(line))
    return tuple(CodeRef(match[2], match[3] or "", match[1]) for match in matches if match)


def _write_list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_one_line(text)}" for text in texts)


def _write_code_refs(refs: Iterable[CodeRef]) -> str:
    return "\n".join(_one_line(ref.bullet) for ref in refs)


def _one_line(text: str) -> str:
    return re.sub(r"\r\n|\r|\n", " ", text)


def _read_records(kind: type[Kind], pattern: re.Pattern[str], text: str) -> tuple[Kind, ...]:
    """Return the records of the lines that match; the groups of the pattern are their fields."""
    matches = (pattern.fullmatch(line.rstrip()) for line in text.split("\n") if line)
    return tuple(kind(*(group.strip() for group in match.groups(default=""))) for match in matches if match)


def _write_records(form: str, records: Iterable[Value]) -> str:
    return _write_list(form.format(one).removesuffix(" — __") for one in records)


_TAIL: Final = r"(?: (.*?))?(?: — _((?:(?! — _).)*)_)?"
"""The rest of a line: a text and, in ` — _…_`, how it relates to the thesis."""

_SECTIONS: Final[Mapping[str, tuple[str, Callable[[str], object], Callable[..., str]]]] = {
    "Thesis": ("thesis", unescape, escape),
    "Key Evidence": ("key_evidence", _read_list, _write_list),
    "Reasoning Trace": ("reasoning_trace", unescape, escape),
    "Open Questions": ("open_questions", _read_list, _write_list),
    "Sources": (
        "sources",
        partial(_read_records, CheckpointSource, re.compile(rf"- \*\*(.+?)\*\* \((.*?)\):{_TAIL}")),
        partial(_write_records, "**{0.id}** ({0.type}): {0.take} — _{0.relation}_"),
    ),
    "Tensions": (
        "tensions",
        partial(_read_records, Tension, re.compile(rf"- \*\*(.+?)\*\* vs \*\*(.+?)\*\*:{_TAIL}")),
        partial(_write_records, "**{0.a}** vs **{0.b}**: {0.nature} — _{0.resolution}_"),
    ),
    "Unique Contributions": (
        "contributions",
        partial(_read_records, Contribution, re.compile(r"- \*\*(.+?)\*\*:(?: (.*))?")),
        partial(_write_records, "**{0.type}**: {0.content}"),
    ),
    "Code References": ("code_refs", _read_code_refs, _write_code_refs),
}
"""A checkpoint's sections in the order of its file: field, reader, writer."""


# Checkpoints

_FRONT_MATTER: Final = Checkpoint.__struct_fields__[: Checkpoint.__struct_fields__.index("question")]
_LEGACY: Final = {
    "checkpoint": ("id", "ts", "trigger", "thesis", "confidence", "open_questions"),
    "metadata": ("skill", "project", "parent_checkpoint", "message_count", "token_estimate"),
}
_REQUIRED: Final = ("id", "ts", "trigger", "core_question", "thesis", "confidence")


def parse_checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint of a Markdown file; a recovery file is one too."""
    fields, body = read_front_matter(text)
    question, sections = split_sections(body)
    confidence = fields.share("confidence")
    if fields.text("type") == RECOVERY:
        question, confidence, sections = _read_recovery(question, sections, fields)
    known: dict[str, str] = {}
    others: Sections = []
    for heading, content in sections:
        if heading in _SECTIONS:
            known[heading] = f"{known[heading]}\n\n{content}" if heading in known else content
        else:
            others.append((heading, content))
    parts = {name: read(known.get(heading, "")) for heading, (name, read, _) in _SECTIONS.items()}
    parts["thesis"] = parts["thesis"] or fields.text("thesis")
    git, diff = (fields.mapping(name) for name in ("git_context", "diff_summary"))
    summary = from_fields(DiffSummary, diff)
    return from_fields(
        Checkpoint,
        fields,
        type=fields.text("type") or "checkpoint",
        ts=fields.text("ts") or fields.text("extracted_at"),
        confidence=confidence,
        git_context=from_fields(GitContext, git) if git.text("branch") or git.text("commit") else None,
        diff_summary=None if summary == DiffSummary() else summary,
        question=question or fields.text("core_question"),
        others=tuple(others),
        **parts,
    )


def _read_recovery(title: str, sections: Sections, fields: Fields) -> tuple[str, float, Sections]:
    """Return the question, the confidence and the other sections of a recovery file.

    Its question is a section, since its title may be a fixed one. Its thesis may begin with a line that has the
    confidence.
    """
    question, confidence, rest = "", fields.share("confidence"), Sections()
    for heading, content in sections:
        name = _RECOVERY_HEADINGS.get(heading, heading)
        found = _CONFIDENCE.match(content) if name == "Thesis" else None
        if found is not None:
            share = float(found[1]) / (100 if found[2] else 1)
            confidence = share if 0 <= share <= 1 else confidence
        if name == "Core Question":
            question = question or unescape(content)
        else:
            rest.append((name, content[found.end() :].strip() if found is not None else content))
    if not question:
        question = fields.text("core_question") if title.casefold().startswith(RECOVERY) else title
    return question, confidence, rest


def parse_legacy_checkpoint(text: str) -> Checkpoint:
    """Return the checkpoint of an older file, which is all YAML."""
    outer = read_mapping(text)
    fields = outer.mapping("checkpoint")
    if not isinstance(outer.get("checkpoint"), Fields):
        raise BadFile("missing checkpoint" if outer.get("checkpoint") is None else "not a mapping")
    for name in _REQUIRED:
        if fields.get(name) is None:
            raise BadFile(f"missing {name}")
    action, metadata = fields.mapping("action"), fields.mapping("metadata")
    flat = Fields({"action_goal": action.get("goal"), "action_type": action.get("type")})
    flat |= {name: fields.get(name) for name in _LEGACY["checkpoint"]}
    flat |= {name: metadata.get(name) for name in _LEGACY["metadata"]}
    return from_fields(
        Checkpoint,
        flat,
        type="checkpoint",
        question=fields.text("core_question").strip(),
        thesis=fields.text("thesis").strip(),
        sources=tuple(from_fields(CheckpointSource, one) for one in fields.mappings("sources")),
        tensions=tuple(_read_legacy_tension(one) for one in fields.mappings("tensions")),
        contributions=tuple(from_fields(Contribution, one) for one in fields.mappings("unique_contributions")),
    )


def _read_legacy_tension(fields: Fields) -> Tension:
    first, second = (*fields.texts("between"), "", "")[:2]
    return from_fields(Tension, fields, a=first, b=second)


def compose_checkpoint(one: Checkpoint) -> str:
    """Return the text of a checkpoint's file; empty fields are left out, except for the counts."""
    fields = to_data(one, *_FRONT_MATTER)
    fields["template"] = "" if one.template == "default" else one.template
    fields |= {"files_explored": sorted(one.files_explored), "files_changed": sorted(one.files_changed)}
    if (git := one.git_context) is not None:
        context = to_data(replace(git, recent_commits=git.recent_commits[:3]))
        fields["git_context"] = {key: value for key, value in context.items() if value is not None}
    body = f"# {_one_line(one.question).strip()}\n\n"
    for heading, (name, _, write) in _SECTIONS.items():
        content = write(getattr(one, name))
        if content or heading == "Thesis":
            body += f"## {heading}\n{content}\n\n"
    return _compose(fields, body)


def _compose(fields: Mapping[str, object], body: str) -> str:
    from carrel.providers.sage.yaml_text import dump  # only to write: PyYAML takes long to import

    present = {key: value for key, value in fields.items() if value not in ("", None, [], {})}
    return f"---\n{dump(present)}---\n\n{body}"


# Failures


def parse_failure(text: str) -> FailureRecord:
    """Return the failure record of a file."""
    fields, body = read_front_matter(text)
    sections = dict(reversed(split_sections(body)[1]))
    why_failed, learned = (unescape(sections.get(heading, "")) for heading in ("Why it failed", "Learned"))
    return from_fields(FailureRecord, fields, why_failed=why_failed, learned=learned)


def compose_failure(one: FailureRecord) -> str:
    """Return the text of a failure record's file."""
    rest = to_data(one, "approach", "keywords", "related_to", "added", "project")
    fields = {"id": one.id, "type": "failure", **rest}
    return _compose(fields, f"## Why it failed\n{escape(one.why_failed)}\n\n## Learned\n{escape(one.learned)}\n")


# Knowledge


def parse_index(text: str) -> list[KnowledgeItem]:
    """Return the items of the knowledge index; bad entries are skipped, and of two with one id the last counts."""
    items: dict[str, KnowledgeItem] = {}
    for entry in read_mapping(text).mappings("items"):
        item_id, file = entry.text("id"), entry.text("file")
        if item_id and file:
            items.pop(item_id, None)
            triggers, scope = entry.mapping("triggers"), entry.mapping("scope")
            named = {"keywords": triggers.get("keywords"), "skills": scope.get("skills"), "always": scope.get("always")}
            items[item_id] = from_fields(
                KnowledgeItem,
                Fields({**entry.mapping("metadata"), **named}),
                id=item_id,
                file=file,
                type=_read_type(entry),
                code_links=_read_links(CodeLink, entry.mappings("code_links"), "chunk_id"),
                knowledge_links=_read_links(KnowledgeLink, entry.mappings("knowledge_links"), "target_id"),
            )
    return list(items.values())


def _read_type(fields: Fields) -> str:
    named = fields.text("type")
    return named if named in TYPES else "knowledge"


def _read_links(kind: type[Kind], links: Sequence[Fields], target: str) -> tuple[Kind, ...]:
    return tuple(
        from_fields(kind, link, relation=link.text("relation") or "related") for link in links if link.text(target)
    )


def parse_content_file(text: str, file: str) -> KnowledgeItem:
    """Return the item that a content file describes, for when there is no index."""
    try:
        fields, _ = read_front_matter(text)
    except BadFile:
        fields = Fields()
    item_id = fields.text("id") or file.rpartition("/")[2].removesuffix(".md")
    skills = (fields.text("skill"),) if fields.text("skill") else ()
    known = {name: fields.get(name) for name in ("keywords", "added", "source", "status")}
    return from_fields(KnowledgeItem, Fields(known), id=item_id, file=file, type=_read_type(fields), skills=skills)


def content_of(text: str) -> str:
    """Return the content of a content file: the text after the front matter, or all of it."""
    try:
        return split_front_matter(text)[1].strip()
    except BadFile:
        return text.strip()


def compose_content(fields: Mapping[str, object], content: str) -> str:
    """Return the text of a knowledge item's content file."""
    return _compose(fields, f"{content.strip()}\n")
