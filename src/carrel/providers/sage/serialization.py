"""Records as the files they are kept in."""

from collections.abc import Iterator, Sequence
from typing import Any

from carrel.providers.sage.checkpoint_body import escape, one_line
from carrel.providers.sage.knowledge_index import dump
from carrel.providers.sage.records import Checkpoint, Failure


def _file(fields: dict[str, Any], body: str) -> str:
    return f"---\n{dump(fields)}---\n\n{body}"


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None, [], {})}


def compose_checkpoint(one: Checkpoint) -> str:
    """Write a checkpoint; keys without a value are left out, but for the counts."""
    git, diff = one.git_context, one.diff_summary
    fields: dict[str, Any] = {
        "id": one.id,
        "type": one.type,
        "ts": one.ts,
        "trigger": one.trigger,
        "confidence": one.confidence,
        "skill": one.skill,
        "project": one.project,
        "parent_checkpoint": one.parent_checkpoint,
        "message_count": one.message_count,
        "token_estimate": one.token_estimate,
        "action_goal": one.action_goal,
        "action_type": one.action_type,
        "template": "" if one.template == "default" else one.template,
        "files_explored": sorted(one.files_explored),
        "files_changed": sorted(one.files_changed),
        "git_context": git and {**git_fields(one), "recent_commits": list(git.recent_commits[:3])},
        "diff_summary": diff
        and {
            "files_changed": list(diff.files_changed),
            "staged_files": list(diff.staged_files),
            "insertions": diff.insertions,
            "deletions": diff.deletions,
        },
        "continues_from": one.continues_from,
        "related_knowledge": list(one.related_knowledge),
    }
    return _file(_present(fields), "".join(_sections(one)))


def git_fields(one: Checkpoint) -> dict[str, Any]:
    """Give where the project stood."""
    git = one.git_context
    if git is None:
        return {}
    known = {} if git.dirty is None else {"dirty": git.dirty}
    return {"branch": git.branch, "commit": git.commit, **known}


def _sections(one: Checkpoint) -> Iterator[str]:
    yield f"# {one_line(one.question).strip()}\n\n"
    yield f"## Thesis\n{escape(one.thesis.strip())}\n\n"
    yield from _section("Key Evidence", [f"- {text}" for text in one.key_evidence])
    if one.reasoning_trace.strip():
        yield f"## Reasoning Trace\n{escape(one.reasoning_trace.strip())}\n\n"
    yield from _section("Open Questions", [f"- {text}" for text in one.open_questions])
    sources = [f"- **{each.id}** ({each.type}): {each.take}{_tail(each.relation)}" for each in one.sources]
    yield from _section("Sources", sources)
    tensions = [f"- **{each.a}** vs **{each.b}**: {each.nature}{_tail(each.resolution)}" for each in one.tensions]
    yield from _section("Tensions", tensions)
    yield from _section("Unique Contributions", [f"- **{each.type}**: {each.content}" for each in one.contributions])
    yield from _section("Code References", [ref.bullet for ref in one.code_refs])


def _section(heading: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"## {heading}\n" + "".join(f"{one_line(line)}\n" for line in lines) + "\n"


def _tail(relation: str) -> str:
    return f" — _{relation}_" if relation else ""


def compose_failure(one: Failure) -> str:
    """Write a failure record."""
    fields = {
        "id": one.id,
        "type": "failure",
        "approach": one.approach,
        "keywords": list(one.keywords),
        "related_to": list(one.related_to),
        "added": one.added,
        "project": one.project,
    }
    body = f"## Why it failed\n{escape(one.why_failed.strip())}\n\n## Learned\n{escape(one.learned.strip())}\n"
    return _file(_present(fields), body)


def compose_content(fields: dict[str, Any], content: str) -> str:
    """Write a knowledge item's content file."""
    return _file(_present(fields), f"{content.strip()}\n")
