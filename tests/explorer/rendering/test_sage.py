"""Records of an assistant's memory, as the provider writes them, laid out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.explorer.rendering.markup import Content
from carrel.explorer.rendering.sage import record_kind, render_record
from carrel.providers.sage.records import Checkpoint, CheckpointSource, FailureRecord, KnowledgeItem
from carrel.providers.sage.rendering import render_checkpoint, render_failure, render_knowledge
from tests.support.html_law import HOSTILE, LINKS, Parsed, read, text_of


def show(text: str, kind: str, *, strict: bool = True) -> Parsed:
    """Return a record as a browser reads it."""
    given_record = Content(f"sage://{kind}/x", "text/markdown", text)
    return read(render_record(given_record, LINKS), strict=strict)


CHECKPOINT = """\
# Research Context (Restored from Checkpoint)
*Checkpoint: 2026-02-15_jwt*
*Saved: 2026-02-15 10:12 | Confidence: 85% | Continues: 2026-02-14_a*

## Core Question
Where should the app keep its JWT?

## Related Knowledge
- sage://knowledge/auth-patterns

"""
KNOWLEDGE = """\
## auth-patterns
*Type: knowledge | Added: 2026-02-16 | Status: active*
*Source: team wiki*
*Keywords: auth, login*

Refresh the *token* before it expires.
"""
FAILURE = (
    "## jwt\n**Approach:** Tokens in `local`\n**Why it failed:** Any script\nreads them\n**Learned:** Use storage\n"
)


def test_a_checkpoint_has_its_facts_sections_and_links() -> None:
    parsed = show(CHECKPOINT, "checkpoint")

    assert [text_of(one) for one in parsed.all("dt")] == ["Checkpoint", "Saved", "Confidence", "Continues"]
    assert [text_of(one) for one in parsed.all("dd")] == ["2026-02-15_jwt", "2026-02-15 10:12", "85%", "2026-02-14_a"]
    assert [text_of(one) for one in parsed.all("h3")] == ["Core Question", "Related Knowledge"]
    assert parsed.addresses() == ["/sage/knowledge/auth-patterns"]


def test_a_knowledge_item_has_its_facts_and_its_content() -> None:
    parsed = show(KNOWLEDGE, "knowledge")

    assert [text_of(one) for one in parsed.all("dt")] == ["Type", "Added", "Status", "Source", "Keywords"]
    assert text_of(parsed.all("em")[0]) == "token"


def test_headings_follow_each_other_without_a_gap() -> None:
    linked = f"{KNOWLEDGE}\n# Own\n\n### Linked Code\n- `a`\n"

    assert [str(one.tag) for one in show(linked, "knowledge").elements if str(one.tag)[0] == "h"] == ["h2", "h2", "h3"]
    assert {str(one.tag) for one in show(CHECKPOINT, "checkpoint").elements if str(one.tag)[0] == "h"} == {"h2", "h3"}


def test_a_failure_says_what_was_tried_why_it_failed_and_what_was_learned() -> None:
    parsed = show(FAILURE, "failure")

    assert [text_of(one) for one in parsed.all("dt")] == ["Approach", "Why it failed", "Learned"]
    assert [text_of(one).strip() for one in parsed.all("dd")] == [
        "Tokens in local",
        "Any script\nreads them",
        "Use storage",
    ]


def test_records_as_the_provider_writes_them_are_understood() -> None:
    source = CheckpointSource("owasp", "document", "tokens belong there", "supports")
    checkpoint = Checkpoint(
        id="c", ts="2026-02-15T10:12:00", confidence=0.5, question="Q", thesis="T", sources=(source,)
    )
    written = {
        "checkpoint": render_checkpoint(checkpoint, "c"),
        "knowledge": render_knowledge(KnowledgeItem(id="k", file="k.md", keywords=("a",)), "Words.", ()),
        "failure": render_failure(FailureRecord(id="f", approach="A", why_failed="W", learned="L"), "f"),
    }

    for kind, text in written.items():
        assert show(text, kind).all("dl", "facts"), kind


@pytest.mark.parametrize("kind", ["checkpoint", "knowledge", "failure"])
@pytest.mark.parametrize(
    "text", ["", "No checkpoint of this name.", "# Only a heading", "*Type: x*\n", "## a\n**Approach:** b\n"]
)
def test_a_text_that_is_no_record_is_shown_as_a_document(kind: str, text: str) -> None:
    parsed = show(text, kind)

    assert parsed.all("dl") == []
    assert parsed.all("div", "prose")


def test_which_uris_name_records() -> None:
    kinds = {
        "sage://checkpoint/a": "checkpoint",
        "sage://KNOWLEDGE/a": "knowledge",
        "sage://failure/a": "failure",
        "sage://system/objective.md": "",
        "workspace:///checkpoint/a": "",
    }

    assert {uri: record_kind(Content(uri, "text/markdown", "")) for uri in kinds} == kinds
    assert record_kind(Content("sage://failure/a?format=toon", "text/plain", "")) == ""


def test_a_part_of_a_record_is_shown_as_a_document() -> None:
    part = Content("sage://failure/x", "text/markdown", FAILURE, is_whole=False)

    assert "<dl" not in render_record(part, LINKS)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_records_keep_the_law(text: str) -> None:
    show(CHECKPOINT.replace("85%", text).replace("Where", text).replace("Research", text), "checkpoint", strict=False)
    show(KNOWLEDGE.replace("team wiki", text).replace("auth-patterns", text), "knowledge", strict=False)
    show(f"## {text}\n**Approach:** {text}\n**Why it failed:** {text}\n**Learned:** {text}\n", "failure", strict=False)


@given(text=st.text(st.sampled_from("#*: |\n<>&ABab[]()")))
def test_no_record_breaks_the_law(text: str) -> None:
    for kind in ("checkpoint", "knowledge", "failure"):
        show(f"## a\n*Type: {text}*\n{text}", kind, strict=False)
