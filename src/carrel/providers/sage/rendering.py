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
    parts = (*_head(checkpoint, stem, form), *_research(checkpoint, form), *_work(checkpoint, form))
    present = [(heading, lines) for heading, lines in parts if lines]
    others = [(f"## {heading}", (text,) if text else ()) for heading, text in checkpoint.others]
    return "".join("\n".join((heading, *lines)) + "\n\n" for heading, lines in (*present, *others))


def _head(one: Checkpoint, stem: str, form: Format) -> Iterator[Section]:
    name, saved, confidence = one.id or stem, minute_of(one.ts), percent(one.confidence)
    if form == "markdown":
        continues = f" | Continues: {one.continues_from}" if one.continues_from else ""
        about = f"*Saved: {saved} | Confidence: {confidence}{continues}*"
        yield "# Research Context (Restored from Checkpoint)", (f"*Checkpoint: {name}*", about)
    else:
        yield "# Research Context", (f"checkpoint: {name}", f"saved: {saved} | confidence: {confidence}")
    yield _heading(form, "Core Question", "Question"), (one.question,)
    yield _heading(form, "Current Thesis", "Thesis"), (one.thesis,)


def _research(one: Checkpoint, form: Format) -> Iterator[Section]:
    """Yield what was found out, in order; sections without lines are left out by the caller."""
    yield _section(form, "Key Evidence", "Evidence", _bullets(one.key_evidence))
    yield _heading(form, "Reasoning Trace", "Reasoning"), [one.reasoning_trace] if one.reasoning_trace else ()
    yield _section(form, "Open Questions", "Open", _bullets(one.open_questions))
    sources = [(each.id, each.type, each.take, SOURCE_MARKS.get(each.relation, "?")) for each in one.sources]
    lines = [f"- [{mark}] **{name}** ({kind}): {take}" for name, kind, take, mark in sources]
    yield _section(form, "Key Sources", "Sources", lines, "sources[{}]{{id,type,take,rel}}:", sources)
    tensions = [(each.a, each.b, each.nature) for each in one.tensions if each.resolution == "unresolved"]
    lines = [f"- **{a}** vs **{b}**: {nature}" for a, b, nature in tensions]
    yield _section(form, "Unresolved Tensions", "Tensions", lines, "tensions[{}]{{a,b,nature}}:", tensions)
    discoveries = [f"- *{each.type}*: {each.content}" for each in one.contributions]
    yield _section(form, "Unique Discoveries", "Discoveries", discoveries)


def _work(one: Checkpoint, form: Format) -> Iterator[Section]:
    """Yield the state of the work, in order; sections without lines are left out by the caller."""
    is_markdown = form == "markdown"
    if one.action_goal:
        goal, kind = ("**Goal**", "**Type**") if is_markdown else ("goal", "type")
        more = [f"{kind}: {one.action_type}"] if one.action_type else []
        yield _heading(form, "Action Context", "Action"), [f"{goal}: {one.action_goal}", *more]
    refs = [(ref.file, ref.lines or "-", ref.mark) for ref in one.code_refs]
    yield _section(
        form, "Code References", "Code", [ref.bullet for ref in one.code_refs], "refs[{}]{{file,lines,rel}}:", refs
    )
    if one.files_changed:
        rows = [(name,) for name in one.files_changed]
        yield _section(form, "Files Changed", "Changed", _bullets(one.files_changed, "`"), "files[{}]:", rows, 5)
    else:
        yield _explored(one.files_explored, form)
    git, diff = one.git_context, one.diff_summary
    if git is not None and is_markdown:
        commits = ["Recent commits:", *_bullets(git.recent_commits)] if git.recent_commits else []
        yield "## Git Context", [f"Branch: `{git.branch}` @ `{git.commit}`{' (dirty)' if git.dirty else ''}", *commits]
    elif git is not None:
        yield "## Git", [f"branch: {git.branch} @ {git.commit[:7]}{'*' if git.dirty else ''}"]
    if diff is not None and is_markdown:
        files = list(dict.fromkeys((*diff.files_changed, *diff.staged_files)))
        marked = [f"{'●' if name in diff.staged_files else '○'} `{name}`" for name in files[:MAX_UNCOMMITTED]]
        left = len(files) - MAX_UNCOMMITTED
        more = [f"_...and {left} more files_"] if left > 0 else []
        counts = f"+{diff.insertions} -{diff.deletions} lines"
        yield "## Uncommitted Changes (at save time)", [counts, *_bullets((*marked, *more))]
    yield _section(
        form, "Related Knowledge", "Related", [f"- sage://knowledge/{name}" for name in one.related_knowledge]
    )


def _explored(files: Lines, form: Format) -> Section:
    shown, left = files[:MAX_EXPLORED], len(files) - MAX_EXPLORED
    if form == "markdown":
        return "## Files Explored", _bullets(shown, "`") + ([f"- _...and {left} more_"] if left > 0 else [])
    table = [f"files[{len(shown)}]:", *map(_row, shown), *([f"  ...+{left} more"] if left > 0 else [])]
    return f"## Explored [{len(files)}]", _bullets(files, "`") if len(files) < 5 else table


def _heading(form: Format, markdown: str, toon: str) -> str:
    return f"## {markdown if form == 'markdown' else toon}"


def _section(
    form: Format, markdown: str, toon: str, lines: Lines, table: str = "", rows: Sequence[Lines] = (), least: int = 3
) -> Section:
    """Return a section; in TOON it has a count and, if it has at least `least` rows, a table instead of lines."""
    if form == "markdown":
        return f"## {markdown}", lines
    is_table = bool(rows) and len(rows) >= least
    return f"## {toon} [{len(lines)}]", [table.format(len(rows)), *(_row(*row) for row in rows)] if is_table else lines


def _row(*cells: str) -> str:
    return "  " + ",".join(" ".join(cell.split("\n")).replace(",", ";") for cell in cells)


def _bullets(texts: Lines, quote: str = "") -> list[str]:
    return [f"- {quote}{text}{quote}" for text in texts]


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
        rows = [_row(name, line or "-", mark) for name, line, mark in marked]
        return [f"links[{len(links)}]{{chunk,line,status}}:", *rows]
    return [f"- [{mark}] `{name}{line and f':{line}'}`" for name, line, mark in marked]


def render_failure(one: FailureRecord, stem: str, form: Format = "markdown") -> str:
    """Return a failure record's text; `stem` names it if it has no id."""
    approach, failed, learned = "**Approach:**", "**Why it failed:**", "**Learned:**"
    if form == "toon":
        approach, failed, learned = "approach:", "failed:", "learned:"
    return f"## {one.id or stem}\n{approach} {one.approach}\n{failed} {one.why_failed}\n{learned} {one.learned}\n"
