"""Which item an id means, and how the list is ordered."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.model import Annotations, Text
from carrel.providers.guide import Guide
from carrel.providers.sage import Sage
from carrel.server.server import Server
from tests.support import sage_folder as folder
from tests.support.sage_folder import FAILURE, FAILURE_STEM, STEM, ask, checkpoint, lay_out, open_sage, put, read


def add(project: Path, *stems: str, **fields: object) -> None:
    """Save checkpoints with these stems."""
    for stem in stems:
        put(project / f".sage/checkpoints/{stem}.md", checkpoint(str(fields.get("id", stem)), thesis=f"The {stem}."))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("alpha", "alpha"),
        ("2026-01-02T00-00-00_alpha-beta", "2026-01-02T00-00-00_alpha-beta"),
        ("alpha-b", "2026-01-02T00-00-00_alpha-beta"),
        ("BETA-ALPHA", "2026-01-02T00-00-00_alpha-beta"),
        ("beta-2026-01-02", "2026-01-02T00-00-00_alpha-beta"),
        ("00_02", "2026-01-02T00-00-00_alpha-beta"),
    ],
)
def test_the_first_step_with_a_match_decides(tmp_path: Path, asked: str, found: str) -> None:
    add(tmp_path, "alpha", "2026-01-02T00-00-00_alpha-beta")

    assert f"The {found}." in read(open_sage(tmp_path), f"sage://checkpoint/{asked}")


def test_an_inner_id_is_exact(tmp_path: Path) -> None:
    add(tmp_path, "2026-01-01T00-00-00_a", id="inner")
    add(tmp_path, "2026-01-02T00-00-00_inner-b")

    assert "The 2026-01-01T00-00-00_a." in read(open_sage(tmp_path), "sage://checkpoint/inner")


def test_two_checkpoints_with_one_inner_id_are_ambiguous_and_named_by_their_stems(tmp_path: Path) -> None:
    add(tmp_path, "2026-01-01T00-00-00_a", "2026-01-02T00-00-00_b", id="same")
    sage = open_sage(tmp_path)
    result = ask(sage, "resources/read", uri="sage://checkpoint/same")

    message = "Checkpoint ambiguous: same matches 2: 2026-01-02T00-00-00_b, 2026-01-01T00-00-00_a"
    candidates = ["sage://checkpoint/2026-01-02T00-00-00_b", "sage://checkpoint/2026-01-01T00-00-00_a"]
    assert result["contents"][0]["text"] == message
    assert result["_meta"]["dev.carrel/candidates"] == candidates
    assert result["_meta"]["dev.carrel/error"] == "not_found"
    assert all("Research Context" in read(sage, uri) for uri in candidates)


def test_at_most_five_candidates_are_named_newest_first(tmp_path: Path) -> None:
    add(tmp_path, *(f"2026-01-0{day}T00-00-00_x" for day in range(1, 8)))

    named = ", ".join(f"2026-01-0{day}T00-00-00_x" for day in (7, 6, 5, 4, 3))
    assert read(open_sage(tmp_path), "sage://checkpoint/_x") == f"Checkpoint ambiguous: _x matches 7: {named}, …"


def test_a_broken_file_counts_only_where_nothing_good_matches(tmp_path: Path) -> None:
    add(tmp_path, "2026-01-01T00-00-00_good-one")
    put(tmp_path / ".sage/checkpoints/bad-one.md", "broken")
    put(tmp_path / ".sage/checkpoints/bad-two.md", "broken")
    sage = open_sage(tmp_path)

    assert "good-one." in read(sage, "sage://checkpoint/one")
    assert read(sage, "sage://checkpoint/bad-o") == "Error loading checkpoint bad-o: no front matter"
    assert read(sage, "sage://checkpoint/bad-one") == "Error loading checkpoint bad-one: no front matter"
    assert read(sage, "sage://checkpoint/bad") == "Checkpoint ambiguous: bad matches 2: bad-two, bad-one"


def test_of_one_stem_the_markdown_wins(tmp_path: Path) -> None:
    add(tmp_path, "a")
    put(tmp_path / ".sage/checkpoints/a.yaml", LEGACY)
    put(tmp_path / ".sage/checkpoints/b.yaml", LEGACY)
    sage = open_sage(tmp_path)

    assert "The a." in read(sage, "sage://checkpoint/a")
    assert read(sage, "sage://checkpoint/b") == LEGACY_TEXT


LEGACY = """\
checkpoint:
  id: 007
  ts: 2025-12-01T09:30:00
  trigger: no
  core_question: Old?
  thesis: Yes.
  confidence: '0.5'
  sources: {id: s, type: code, take: t, relation: contradicts}
  tensions:
  - between: [a, b]
    nature: n
    resolution: unresolved
  - {between: [c, d], nature: m, resolution: resolved}
  unique_contributions: [{type: found, content: it}]
  action: {goal: g, type: t}
"""
LEGACY_TEXT = """\
# Research Context (Restored from Checkpoint)
*Checkpoint: 007*
*Saved: 2025-12-01 09:30 | Confidence: 50%*

## Core Question
Old?

## Current Thesis
Yes.

## Key Sources
- [-] **s** (code): t

## Unresolved Tensions
- **a** vs **b**: n

## Unique Discoveries
- *found*: it

## Action Context
**Goal**: g
**Type**: t

"""


@pytest.mark.parametrize("key", ["id", "ts", "trigger", "core_question", "thesis", "confidence"])
def test_a_legacy_checkpoint_says_which_key_it_lacks(tmp_path: Path, key: str) -> None:
    text = LEGACY.replace(f"  {key}: ", "  other: ")
    put(tmp_path / ".sage/checkpoints/b.yaml", text)

    assert read(open_sage(tmp_path), "sage://checkpoint/b") == f"Error loading checkpoint b: missing {key}"


def test_of_failures_with_one_id_the_newest_is_served_and_older_ones_by_stem(tmp_path: Path) -> None:
    for stem, why in {"2026-01-09T08-00-00_f": "old", "2026-03-09T08-00-00_f": "new"}.items():
        text = FAILURE.replace("jwt-localstorage", "cache-stampede").replace(
            "Any script on the page can read them", why
        )
        put(tmp_path / f".sage/failures/{stem}.md", text)
    sage = open_sage(tmp_path)

    assert "**Why it failed:** new\n" in read(sage, "sage://failure/cache-stampede")
    assert "**Why it failed:** new\n" in read(sage, "sage://failure/stampede")
    assert "**Why it failed:** old\n" in read(sage, "sage://failure/2026-01-09T08-00-00_f")
    assert [entry.uri for entry in sage.entries()] == [
        "sage://failure/cache-stampede",
        "sage://failure/2026-01-09T08-00-00_f",
    ]


def test_a_knowledge_id_twice_counts_once_and_bad_entries_are_skipped(tmp_path: Path) -> None:
    index = """\
items:
- {id: k, file: global/one.md}
- {id: k, file: global/two.md, type: odd, metadata: {status: deprecated}}
- {id: no-file}
- 3
- {id: kk, file: global/none.md}
"""
    put(tmp_path / ".sage/knowledge/index.yaml", index)
    put(tmp_path / ".sage/knowledge/global/one.md", "one")
    put(tmp_path / ".sage/knowledge/global/two.md", "---\nunclosed")
    sage = open_sage(tmp_path)

    text = "## k\n*Type: knowledge | Added: unknown | Status: deprecated*\n\n---\nunclosed\n"
    assert read(sage, "sage://knowledge/k") == text
    assert [entry.uri for entry in sage.entries()] == ["sage://knowledge/k"]
    assert list(sage.listing.unlisted()) == [("knowledge/kk", "content file not found")]


def test_without_an_index_items_come_from_the_content_files(tmp_path: Path) -> None:
    lay_out(tmp_path)
    put(tmp_path / ".sage/knowledge/index.yaml", "items: [broken\n")
    put(tmp_path / ".sage/knowledge/skills/web/plain.md", "Just text.\n")
    sage = open_sage(tmp_path)

    expected = folder.KNOWLEDGE_TEXT.partition("\n\n### Linked Code")[0] + "\n"
    assert read(sage, "sage://knowledge/auth-patterns") == expected
    assert read(sage, "sage://knowledge/plain").endswith("\n\nJust text.\n")
    assert ("knowledge/index.yaml", "not valid YAML (line 2)") in sage.listing.unlisted()


def test_the_list_has_the_page_s_order_and_words(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "shop")
    put(project / ".sage/system/constraints.md", "\n## None yet\n")
    put(project / ".sage/system/zeta/deep.txt", "deep\n")
    put(project / ".sage/system/.hidden.md", "no\n")
    add(project, "2026-03-01T00-00-00_newer")
    recovery = "---\ntype: recovery\nextracted_at: 2026-01-01T00:00:00\nthesis: Saved.\nconfidence: 0.3\n---\n"
    put(project / ".sage/checkpoints/2026-01-01T00-00-00_recovery-x.md", recovery)
    for path in project.rglob("*"):
        os.utime(path, (1_771_150_320, 1_771_150_320))
    entries = list(Catalog([open_sage(project)]).entries())

    assert [(entry.uri, entry.title, entry.description, _priority(entry.annotations)) for entry in entries] == [
        ("sage://system/objective.md", "System: objective.md", "Ship the login page", 1.0),
        ("sage://system/constraints.md", "System: constraints.md", "None yet", 1.0),
        ("sage://system/pinned/reference.md", "System: pinned/reference.md", "Reference.", 0.9),
        ("sage://system/zeta/deep.txt", "System: zeta/deep.txt", "deep", 0.7),
        ("sage://checkpoint/2026-03-01T00-00-00_newer", "What?", "50%: The 2026-03-01T00-00-00_newer.", 0.4),
        (
            f"sage://checkpoint/{STEM}",
            "Where should the web client keep its JWT?",
            "85% 2026-02-15 10:12: JWT research: keep tokens in httpOnly cookies",
            0.4,
        ),
        (
            "sage://checkpoint/2026-01-01T00-00-00_recovery-x",
            "2026-01-01T00-00-00_recovery-x",
            "30% 2026-01-01 00:00: Saved.",
            0.3,
        ),
        ("sage://knowledge/auth-patterns", "auth-patterns", "knowledge: auth, cookie", 0.5),
        ("sage://failure/jwt-localstorage", "jwt-localstorage", "Tokens in localStorage", 0.5),
    ]
    assert [entry.name for entry in entries] == [entry.uri.removeprefix("sage://") for entry in entries]
    failure = entries[-1]
    assert failure.size == (project / f".sage/failures/{FAILURE_STEM}.md").stat().st_size
    assert failure.annotations == Annotations(priority=0.5, last_modified_ms=1_771_150_320_000)
    listed = ask(open_sage(project), "resources/list")["resources"][0]["annotations"]
    assert listed == {"priority": 1.0, "lastModified": "2026-02-15T10:12:00Z"}


def _priority(annotations: Annotations | None) -> float | None:
    return annotations.priority if annotations else None


def test_pages_of_one_are_the_whole_list(tmp_path: Path) -> None:
    project = lay_out(tmp_path)
    add(project, "a", "b", "2026-01-01T00-00-00_c", "2026-01-01T00-00-00_d")
    catalog = Catalog([open_sage(project)])
    whole = [entry.uri for entry in catalog.entries()]
    paged, cursor = [], None
    while True:
        page = catalog.page(cursor, 1)
        paged += [entry.uri for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert paged == whole
    assert len(whole) == 9


@pytest.mark.parametrize("stem", ["2026-13-45T99-99-99_odd", "0000-01-01T00-00-00_odd"])
def test_an_impossible_time_in_a_stem_is_ignored(tmp_path: Path, stem: str) -> None:
    add(tmp_path, "2026-01-01T00-00-00_a", stem)
    os.utime(tmp_path / f".sage/checkpoints/{stem}.md", (0, 0))
    sage = open_sage(tmp_path)

    assert [entry.name for entry in sage.entries()] == ["checkpoint/2026-01-01T00-00-00_a", f"checkpoint/{stem}"]
    assert f"The {stem}." in read(sage, "sage://checkpoint/odd")


@pytest.mark.parametrize("name", ["\udcff", "a\nb", "a b", "a\\b"])
def test_a_name_that_cannot_be_requested_appears_only_among_the_problems(tmp_path: Path, name: str) -> None:
    """Also if its id matches: every name in an answer must work."""
    add(tmp_path, "2026-01-01T00-00-00_good")
    put(tmp_path / f".sage/failures/{FAILURE_STEM}.md", FAILURE)
    for place, text in (("checkpoints", checkpoint("good-too")), ("failures", FAILURE), ("system", "# Odd\n")):
        put(tmp_path / f".sage/{place}/{name}.md", text)
    put(tmp_path / f".sage/knowledge/global/{name}.md", "# Odd\n")
    sage = open_sage(tmp_path, tools="write", search="bm25")
    told = name.replace("\udcff", "\ufffd").replace("\n", "\\x0a")
    found = [call(sage, tool, query="jwt good") for tool in ("sage_search_checkpoints", "sage_list_failures")]
    every = [call(sage, tool) for tool in ("sage_list_checkpoints", "sage_list_failures")]

    assert "The 2026-01-01T00-00-00_good." in read(sage, "sage://checkpoint/good")
    assert "Tokens in localStorage" in read(sage, "sage://failure/jwt")
    assert [result["structuredContent"]["total"] for result in (*found, *every)] == [1, 1, 1, 1]
    assert "isError" not in call(sage, "sage_save_knowledge", id="new", content="c", keywords=["k"])
    assert json.loads(read_health(sage))["problems"][:3] == [
        f"sage: .sage/{place}/{told}.md: no URI can have this name" for place in ("system", "checkpoints", "failures")
    ]


def test_a_knowledge_id_that_cannot_be_requested_is_no_candidate(tmp_path: Path) -> None:
    index = "items:\n- {id: auth one, file: global/a.md}\n- {id: auth-two, file: global/b.md}\n"
    put(tmp_path / ".sage/knowledge/index.yaml", index)
    put(tmp_path / ".sage/knowledge/global/a.md", "one\n")
    put(tmp_path / ".sage/knowledge/global/b.md", "two\n")

    assert "## auth-two" in read(open_sage(tmp_path), "sage://knowledge/auth")


def call(sage: Sage, tool: str, **arguments: object) -> Any:
    return ask(sage, "tools/call", name=tool, arguments=arguments)


def read_health(sage: Sage) -> str:
    """Return the health of a desk with this memory, as it is sent."""
    catalog = Catalog([sage])
    catalog.mount(Guide(catalog))
    with Client.to(Server(catalog)) as client:
        [item] = client.read("carrel://health").items
    assert isinstance(item, Text)
    return item.text


def test_completion_offers_prefixes_then_parts_newest_first(tmp_path: Path) -> None:
    add(tmp_path, "2026-01-01T00-00-00_jwt", "2026-01-02T00-00-00_jwt", "jwt-old")
    put(tmp_path / ".sage/checkpoints/jwt-bad.md", "broken")
    sage = open_sage(tmp_path)

    offered = sage.complete("sage://checkpoint/{id}", "id", "jwt", {})
    assert list(offered) == ["jwt-old", "2026-01-02T00-00-00_jwt", "2026-01-01T00-00-00_jwt"]
    assert list(sage.complete("sage://system/{+filename}", "filename", "", {})) == []
