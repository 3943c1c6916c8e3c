"""Records as the text that clients get, in Markdown or in TOON, a form with fewer tokens."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from carrel.providers.sage.code_links import ResolvedLink
from carrel.providers.sage.records import Checkpoint, FailureRecord, KnowledgeItem

Format = Literal["markdown", "toon"]
FORMATS: Final[tuple[Format, ...]] = ("markdown", "toon")
MIME_TYPES: Final[dict[Format, str]] = {"markdown": "text/markdown", "toon": "text/plain"}

SOURCE_MARKS: Final = {"supports": "+", "contradicts": "-", "nuances": "~"}
LINK_MARKS: Final = {"ok": "+", "modified": "~", "not found": "!", "not checked": "?"}
MAX_EXPLORED: Final = 10
MAX_UNCOMMITTED: Final = 5

Lines = Sequence[str]
Section = tuple[str, Lines]
"""A heading and the lines below it."""


def minute_of(ts: str) -> str:
    """Return an ISO time as people write it, up to the minute."""
    return ts[:16].replace("T", " ")


def percent(confidence: float) -> str:
    """Return a confidence in whole percent."""
    return f"{int(confidence * 100 + 0.5)}%"


def tokens(text: str) -> int:
    """Return an estimate of a text's tokens."""
    return len(text) // 4


# Checkpoints


def render_checkpoint(checkpoint: Checkpoint, stem: str, form: Format = "markdown") -> str:
    """Return a checkpoint's text; `stem` names it if it has no id."""
    name = checkpoint.id or stem
    head = _markdown_head(checkpoint, name) if form == "markdown" else _toon_head(checkpoint, name)
    parts = _markdown_sections(checkpoint) if form == "markdown" else _toon_sections(checkpoint)
    others = [(f"## {heading}", (text,) if text else ()) for heading, text in checkpoint.others]
    present = [(heading, lines) for heading, lines in parts if lines]
    return "".join("\n".join((heading, *lines)) + "\n\n" for heading, lines in (*head, *present, *others))


def _markdown_head(one: Checkpoint, name: str) -> tuple[Section, ...]:
    continues = f" | Continues: {one.continues_from}" if one.continues_from else ""
    saved = f"*Saved: {minute_of(one.ts)} | Confidence: {percent(one.confidence)}{continues}*"
    return (
        ("# Research Context (Restored from Checkpoint)", (f"*Checkpoint: {name}*", saved)),
        ("## Core Question", (one.question,)),
        ("## Current Thesis", (one.thesis,)),
    )


def _toon_head(one: Checkpoint, name: str) -> tuple[Section, ...]:
    saved = f"saved: {minute_of(one.ts)} | confidence: {percent(one.confidence)}"
    return (
        ("# Research Context", (f"checkpoint: {name}", saved)),
        ("## Question", (one.question,)),
        ("## Thesis", (one.thesis,)),
    )


def _markdown_sections(one: Checkpoint) -> Iterator[Section]:
    """Yield the sections in order; those without lines are left out by the caller."""
    yield "## Key Evidence", _bullets(one.key_evidence)
    yield "## Reasoning Trace", _optional(one.reasoning_trace)
    yield "## Open Questions", _bullets(one.open_questions)
    yield "## Key Sources", _source_lines(one)
    yield "## Unresolved Tensions", _tension_lines(one)
    yield "## Unique Discoveries", _discovery_lines(one)
    if one.action_goal:
        kind = _optional(one.action_type and f"**Type**: {one.action_type}")
        yield "## Action Context", (f"**Goal**: {one.action_goal}", *kind)
    yield "## Code References", [ref.bullet for ref in one.code_refs]
    yield "## Files Changed", _file_lines(one.files_changed)
    if not one.files_changed:
        left = len(one.files_explored) - MAX_EXPLORED
        more = [f"- _...and {left} more_"] if left > 0 else []
        yield "## Files Explored", [*_file_lines(one.files_explored[:MAX_EXPLORED]), *more]
    if (git := one.git_context) is not None:
        commits = ["Recent commits:", *_bullets(git.recent_commits)] if git.recent_commits else []
        yield "## Git Context", [f"Branch: `{git.branch}` @ `{git.commit}`{' (dirty)' if git.dirty else ''}", *commits]
    if (diff := one.diff_summary) is not None:
        files = list(dict.fromkeys((*diff.files_changed, *diff.staged_files)))
        marked = [f"{'●' if name in diff.staged_files else '○'} `{name}`" for name in files[:MAX_UNCOMMITTED]]
        left = len(files) - MAX_UNCOMMITTED
        more = [f"_...and {left} more files_"] if left > 0 else []
        counts = f"+{diff.insertions} -{diff.deletions} lines"
        yield "## Uncommitted Changes (at save time)", [counts, *_bullets((*marked, *more))]
    yield "## Related Knowledge", _related_lines(one)


def _toon_sections(one: Checkpoint) -> Iterator[Section]:
    yield _counted("Evidence", _bullets(one.key_evidence))
    yield "## Reasoning", _optional(one.reasoning_trace)
    yield _counted("Open", _bullets(one.open_questions))
    sources = [_row(each.id, each.type, each.take, _source_mark(each.relation)) for each in one.sources]
    yield _table("Sources", "sources", "{id,type,take,rel}", _source_lines(one), sources)
    tensions = [_row(each.a, each.b, each.nature) for each in one.tensions if each.resolution == "unresolved"]
    yield _table("Tensions", "tensions", "{a,b,nature}", _tension_lines(one), tensions)
    yield _counted("Discoveries", _discovery_lines(one))
    if one.action_goal:
        yield "## Action", (f"goal: {one.action_goal}", *_optional(one.action_type and f"type: {one.action_type}"))
    refs = [_row(ref.file, ref.lines or "-", ref.mark) for ref in one.code_refs]
    yield _table("Code", "refs", "{file,lines,rel}", [ref.bullet for ref in one.code_refs], refs)
    if one.files_changed:
        yield _table("Changed", "files", "", _file_lines(one.files_changed), _rows(one.files_changed), 5)
    else:
        count = len(one.files_explored)
        table = [f"files[{min(count, MAX_EXPLORED)}]:", *_rows(one.files_explored[:MAX_EXPLORED])]
        more = [f"  ...+{count - MAX_EXPLORED} more"] if count > MAX_EXPLORED else []
        yield f"## Explored [{count}]", _file_lines(one.files_explored) if count < 5 else [*table, *more]
    if (git := one.git_context) is not None:
        yield "## Git", [f"branch: {git.branch} @ {git.commit[:7]}{'*' if git.dirty else ''}"]
    yield _counted("Related", _related_lines(one))


def _optional(text: str) -> Lines:
    return (text,) if text else ()


def _counted(heading: str, lines: Lines) -> Section:
    return f"## {heading} [{len(lines)}]", lines


def _table(heading: str, name: str, columns: str, lines: Lines, rows: Lines, least: int = 3) -> Section:
    """Return a section with a table if it has at least `least` rows, or else with plain lines."""
    table = [f"{name}[{len(rows)}]{columns}:", *rows]
    return f"## {heading} [{len(rows)}]", lines if len(rows) < least else table


def _row(*cells: str) -> str:
    return "  " + ",".join(" ".join(cell.split("\n")).replace(",", ";") for cell in cells)


def _rows(names: Lines) -> list[str]:
    return [_row(name) for name in names]


def _bullets(texts: Lines) -> list[str]:
    return [f"- {text}" for text in texts]


def _source_mark(relation: str) -> str:
    return SOURCE_MARKS.get(relation, "?")


def _source_lines(one: Checkpoint) -> list[str]:
    return [f"- [{_source_mark(each.relation)}] **{each.id}** ({each.type}): {each.take}" for each in one.sources]


def _tension_lines(one: Checkpoint) -> list[str]:
    return [
        f"- **{each.a}** vs **{each.b}**: {each.nature}" for each in one.tensions if each.resolution == "unresolved"
    ]


def _discovery_lines(one: Checkpoint) -> list[str]:
    return [f"- *{each.type}*: {each.content}" for each in one.contributions]


def _file_lines(names: Lines) -> list[str]:
    return [f"- `{name}`" for name in names]


def _related_lines(one: Checkpoint) -> list[str]:
    return [f"- sage://knowledge/{name}" for name in one.related_knowledge]


# Knowledge and failures


def render_knowledge(
    item: KnowledgeItem, content: str, links: Sequence[ResolvedLink], form: Format = "markdown"
) -> str:
    """Return a knowledge item's text with the current place of its code."""
    added, status, keywords = item.added or "unknown", item.status or "active", ", ".join(item.keywords)
    if form == "markdown":
        lines = [f"## {item.id}", f"*Type: {item.type} | Added: {added} | Status: {status}*"]
        lines += [f"*Source: {item.source}*"] if item.source else []
        lines += [f"*Keywords: {keywords}*"] if item.keywords else []
        code, knowledge = ["### Linked Code", *map(_link_line, links)], "### Linked Knowledge"
    else:
        source = f" ({item.source})" if item.source else ""
        lines = [f"# Knowledge [1] ~{tokens(content)}tok", "", f"## {item.id}{source}"]
        lines += [f"type: {item.type} | added: {added} | status: {status}"]
        lines += [f"keywords: {keywords}"] if item.keywords else []
        code, knowledge = [f"### Code [{len(links)}]", *_toon_links(links)], f"### Links [{len(item.knowledge_links)}]"
    lines += ["", content]
    if links:
        lines += ["", *code]
    if item.knowledge_links:
        lines += ["", knowledge]
        lines += [
            f"- sage://knowledge/{one.target_id} ({one.relation}){_note(one.note)}" for one in item.knowledge_links
        ]
    return "\n".join(lines) + "\n"


def _note(note: str) -> str:
    return f" — {note}" if note else ""


def _link_line(resolved: ResolvedLink) -> str:
    line = f":{resolved.line}" if resolved.line else ""
    is_found = resolved.status in ("ok", "modified")
    place = f"{resolved.file}{line}, " if is_found else ""
    link = resolved.link
    return f"- `{link.chunk_id}` ({link.relation}): {place}{resolved.status}{_note(link.note)}"


def _toon_links(links: Sequence[ResolvedLink]) -> list[str]:
    marked = [(one.link.chunk_id, str(one.line or ""), LINK_MARKS[one.status]) for one in links]
    if len(links) >= 3:
        return [
            f"links[{len(links)}]{{chunk,line,status}}:",
            *(_row(name, line or "-", mark) for name, line, mark in marked),
        ]
    return [f"- [{mark}] `{name}{line and f':{line}'}`" for name, line, mark in marked]


def render_failure(failure: FailureRecord, stem: str, form: Format = "markdown") -> str:
    """Return a failure record's text; `stem` names it if it has no id."""
    return failure_text(failure.id or stem, failure.approach, failure.why_failed, failure.learned, form)


def failure_text(name: str, approach: str, why_failed: str, learned: str, form: Format) -> str:
    """Return the text for a failure: what was tried, why it failed, what was learned."""
    if form == "markdown":
        return f"## {name}\n**Approach:** {approach}\n**Why it failed:** {why_failed}\n**Learned:** {learned}\n"
    return f"## {name}\napproach: {approach}\nfailed: {why_failed}\nlearned: {learned}\n"
