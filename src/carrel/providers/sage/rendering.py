"""A record as the text that is served, in Markdown or in TOON."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from carrel.providers.sage.code_links import Resolved
from carrel.providers.sage.records import Checkpoint, Failure, Knowledge, Tension

Format = Literal["markdown", "toon"]
FORMATS: Final[tuple[Format, ...]] = ("markdown", "toon")
MIME_TYPES: Final[dict[Format, str]] = {"markdown": "text/markdown", "toon": "text/plain"}

SOURCE_MARKS: Final = {"supports": "+", "contradicts": "-", "nuances": "~"}
LINK_MARKS: Final = {"ok": "+", "modified": "~", "not found": "!", "not checked": "?"}
MAX_EXPLORED: Final = 10
MAX_UNCOMMITTED: Final = 5

Section = tuple[str, Sequence[str]]


def saved(ts: str) -> str:
    """Give the minute of a time, as people write it."""
    return ts[:16].replace("T", " ")


def percent(confidence: float) -> str:
    """Give a confidence in whole percent."""
    return f"{int(confidence * 100 + 0.5)}%"


def tokens(text: str) -> int:
    """Estimate a text's tokens."""
    return len(text) // 4


def _put_together(sections: Iterator[Section]) -> str:
    return "".join("\n".join((heading, *lines)) + "\n\n" for heading, lines in sections)


def _row(*cells: str) -> str:
    return "  " + ",".join(" ".join(cell.split("\n")).replace(",", ";") for cell in cells)


# Checkpoints


def render_checkpoint(checkpoint: Checkpoint, stem: str, form: Format = "markdown") -> str:
    """Give a checkpoint's text; `stem` stands where it has no id of its own."""
    name = checkpoint.id or stem
    sections = _markdown(checkpoint, name) if form == "markdown" else _toon(checkpoint, name)
    return _put_together(sections)


def _markdown(one: Checkpoint, name: str) -> Iterator[Section]:
    continues = f" | Continues: {one.continues_from}" if one.continues_from else ""
    told = f"*Saved: {saved(one.ts)} | Confidence: {percent(one.confidence)}{continues}*"
    yield "# Research Context (Restored from Checkpoint)", (f"*Checkpoint: {name}*", told)
    yield "## Core Question", (one.question,)
    yield "## Current Thesis", (one.thesis,)
    if one.key_evidence:
        yield "## Key Evidence", _bullets(one.key_evidence)
    if one.reasoning_trace:
        yield "## Reasoning Trace", (one.reasoning_trace,)
    if one.open_questions:
        yield "## Open Questions", _bullets(one.open_questions)
    if one.sources:
        yield "## Key Sources", _source_lines(one)
    if unresolved(one):
        yield "## Unresolved Tensions", _tension_lines(one)
    if one.contributions:
        yield "## Unique Discoveries", [f"- *{part.type}*: {part.content}" for part in one.contributions]
    yield from _markdown_work(one)
    if one.related_knowledge:
        yield "## Related Knowledge", [f"- sage://knowledge/{known}" for known in one.related_knowledge]
    yield from ((f"## {heading}", (text,) if text else ()) for heading, text in one.others)


def _markdown_work(one: Checkpoint) -> Iterator[Section]:
    """Give what was done and where: goal, code, files, git."""
    if one.action_goal:
        kind = [f"**Type**: {one.action_type}"] if one.action_type else []
        yield "## Action Context", [f"**Goal**: {one.action_goal}", *kind]
    if one.code_refs:
        yield "## Code References", [ref.bullet for ref in one.code_refs]
    if one.files_changed:
        yield "## Files Changed", _file_lines(one.files_changed)
    elif one.files_explored:
        shown, left = one.files_explored[:MAX_EXPLORED], len(one.files_explored) - MAX_EXPLORED
        yield "## Files Explored", [*_file_lines(shown), *([f"- _...and {left} more_"] if left > 0 else [])]
    git = one.git_context
    if git is not None:
        commits = ["Recent commits:", *_bullets(git.recent_commits)] if git.recent_commits else []
        yield "## Git Context", [f"Branch: `{git.branch}` @ `{git.commit}`{' (dirty)' if git.dirty else ''}", *commits]
    diff = one.diff_summary
    if diff is not None:
        files = list(dict.fromkeys((*diff.files_changed, *diff.staged_files)))
        shown_files = [f"- {'●' if name in diff.staged_files else '○'} `{name}`" for name in files[:MAX_UNCOMMITTED]]
        left = len(files) - MAX_UNCOMMITTED
        more = [f"- _...and {left} more files_"] if left > 0 else []
        counts = f"+{diff.insertions} -{diff.deletions} lines"
        yield "## Uncommitted Changes (at save time)", [counts, *shown_files, *more]


def _toon(one: Checkpoint, name: str) -> Iterator[Section]:
    told = f"saved: {saved(one.ts)} | confidence: {percent(one.confidence)}"
    yield "# Research Context", (f"checkpoint: {name}", told)
    yield "## Question", (one.question,)
    yield "## Thesis", (one.thesis,)
    if one.key_evidence:
        yield f"## Evidence [{len(one.key_evidence)}]", _bullets(one.key_evidence)
    if one.reasoning_trace:
        yield "## Reasoning", (one.reasoning_trace,)
    if one.open_questions:
        yield f"## Open [{len(one.open_questions)}]", _bullets(one.open_questions)
    if one.sources:
        count = len(one.sources)
        rows = [_row(each.id, each.type, each.take, _source_mark(each.relation)) for each in one.sources]
        table = [f"sources[{count}]{{id,type,take,rel}}:", *rows]
        yield f"## Sources [{count}]", _source_lines(one) if count < 3 else table
    tense = unresolved(one)
    if tense:
        table = [f"tensions[{len(tense)}]{{a,b,nature}}:", *(_row(each.a, each.b, each.nature) for each in tense)]
        yield f"## Tensions [{len(tense)}]", _tension_lines(one) if len(tense) < 3 else table
    if one.contributions:
        found = [f"- *{part.type}*: {part.content}" for part in one.contributions]
        yield f"## Discoveries [{len(found)}]", found
    yield from _toon_work(one)
    if one.related_knowledge:
        known = [f"- sage://knowledge/{known}" for known in one.related_knowledge]
        yield f"## Related [{len(known)}]", known
    yield from ((f"## {heading}", (text,) if text else ()) for heading, text in one.others)


def _toon_work(one: Checkpoint) -> Iterator[Section]:
    if one.action_goal:
        kind = [f"type: {one.action_type}"] if one.action_type else []
        yield "## Action", [f"goal: {one.action_goal}", *kind]
    if one.code_refs:
        count = len(one.code_refs)
        rows = [_row(ref.file, ref.lines or "-", ref.mark) for ref in one.code_refs]
        lines = [ref.bullet for ref in one.code_refs]
        yield f"## Code [{count}]", lines if count < 3 else [f"refs[{count}]{{file,lines,rel}}:", *rows]
    if one.files_changed:
        count = len(one.files_changed)
        rows = [_row(name) for name in one.files_changed]
        yield f"## Changed [{count}]", _file_lines(one.files_changed) if count < 5 else [f"files[{count}]:", *rows]
    elif one.files_explored:
        count = len(one.files_explored)
        rows = [_row(name) for name in one.files_explored[:MAX_EXPLORED]]
        more = [f"  ...+{count - MAX_EXPLORED} more"] if count > MAX_EXPLORED else []
        table = [f"files[{min(count, MAX_EXPLORED)}]:", *rows, *more]
        yield f"## Explored [{count}]", _file_lines(one.files_explored) if count < 5 else table
    git = one.git_context
    if git is not None:
        yield "## Git", [f"branch: {git.branch} @ {git.commit[:7]}{'*' if git.dirty else ''}"]


def unresolved(one: Checkpoint) -> list[Tension]:
    """Give the tensions that are shown."""
    return [tension for tension in one.tensions if tension.resolution == "unresolved"]


def _bullets(texts: Sequence[str]) -> list[str]:
    return [f"- {text}" for text in texts]


def _source_mark(relation: str) -> str:
    return SOURCE_MARKS.get(relation, "?")


def _source_lines(one: Checkpoint) -> list[str]:
    return [f"- [{_source_mark(each.relation)}] **{each.id}** ({each.type}): {each.take}" for each in one.sources]


def _tension_lines(one: Checkpoint) -> list[str]:
    return [f"- **{each.a}** vs **{each.b}**: {each.nature}" for each in unresolved(one)]


def _file_lines(names: Sequence[str]) -> list[str]:
    return [f"- `{name}`" for name in names]


# Knowledge and failures


def render_knowledge(item: Knowledge, content: str, links: Sequence[Resolved], form: Format = "markdown") -> str:
    """Give a knowledge item's text, with where its code is now."""
    return _markdown_knowledge(item, content, links) if form == "markdown" else _toon_knowledge(item, content, links)


def _markdown_knowledge(item: Knowledge, content: str, links: Sequence[Resolved]) -> str:
    lines = [f"## {item.id}"]
    lines.append(f"*Type: {item.type} | Added: {item.added or 'unknown'} | Status: {item.status or 'active'}*")
    if item.source:
        lines.append(f"*Source: {item.source}*")
    if item.keywords:
        lines.append(f"*Keywords: {', '.join(item.keywords)}*")
    lines += ["", content]
    if links:
        lines += ["", "### Linked Code", *(_link_line(link) for link in links)]
    if item.knowledge_links:
        lines += ["", "### Linked Knowledge", *_knowledge_lines(item)]
    return "\n".join(lines) + "\n"


def _toon_knowledge(item: Knowledge, content: str, links: Sequence[Resolved]) -> str:
    source = f" ({item.source})" if item.source else ""
    lines = [f"# Knowledge [1] ~{tokens(content)}tok", "", f"## {item.id}{source}"]
    lines.append(f"type: {item.type} | added: {item.added or 'unknown'} | status: {item.status or 'active'}")
    if item.keywords:
        lines.append(f"keywords: {', '.join(item.keywords)}")
    lines += ["", content]
    if links:
        lines += ["", f"### Code [{len(links)}]", *_toon_links(links)]
    if item.knowledge_links:
        lines += ["", f"### Links [{len(item.knowledge_links)}]", *_knowledge_lines(item)]
    return "\n".join(lines) + "\n"


def _link_line(resolved: Resolved) -> str:
    link = resolved.link
    note = f" — {link.note}" if link.note else ""
    if resolved.status in ("not found", "not checked"):
        return f"- `{link.chunk_id}` ({link.relation}): {resolved.status}{note}"
    line = f":{resolved.line}" if resolved.line else ""
    return f"- `{link.chunk_id}` ({link.relation}): {resolved.file}{line}, {resolved.status}{note}"


def _toon_links(links: Sequence[Resolved]) -> list[str]:
    if len(links) >= 3:
        rows = (
            _row(each.link.chunk_id, str(each.line) if each.line else "-", LINK_MARKS[each.status]) for each in links
        )
        return [f"links[{len(links)}]{{chunk,line,status}}:", *rows]
    return [
        f"- [{LINK_MARKS[each.status]}] `{each.link.chunk_id}{f':{each.line}' if each.line else ''}`" for each in links
    ]


def _knowledge_lines(item: Knowledge) -> list[str]:
    return [
        f"- sage://knowledge/{link.target_id} ({link.relation}){f' — {link.note}' if link.note else ''}"
        for link in item.knowledge_links
    ]


def render_failure(failure: Failure, stem: str, form: Format = "markdown") -> str:
    """Give a failure's text."""
    return failure_text(failure.id or stem, failure.approach, failure.why_failed, failure.learned, form)


def failure_text(name: str, approach: str, why_failed: str, learned: str, form: Format) -> str:
    """Give the text of what failed, why, and what was learned."""
    if form == "markdown":
        return f"## {name}\n**Approach:** {approach}\n**Why it failed:** {why_failed}\n**Learned:** {learned}\n"
    return f"## {name}\napproach: {approach}\nfailed: {why_failed}\nlearned: {learned}\n"
