"""Search: the results and their quality, an index that is always current, and one that was lost."""

import logging
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.core.model import ResourceLink
from carrel.providers.sage import Sage
from carrel.search import index_file, semantic
from tests.providers.sage.test_saving import call, data_of, error_of
from tests.support import sage_folder as folder
from tests.support.sage_folder import FAILURE, STEM, ask, checkpoint, lay_out, open_sage, put

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the folder itself."""

CHECKPOINTS = {
    "jwt-storage": ("Where should the web client keep its JWT?", "Tokens belong in httpOnly cookies"),
    "sqlite-locks": ("Why does SQLite say it is locked?", "Two threads write through one connection"),
    "cache-stampede": ("Why is the site slow after a deploy?", "All workers fill the empty cache at once"),
    "rate-limit": ("How do we protect the public API?", "A token bucket per customer"),
    "payments-retry": ("Can a payment be sent twice?", "Retries need an idempotency key"),
    "image-upload": ("How are pictures stored?", "Photographs go straight to the object store"),
    "migrations": ("How do we change the schema without downtime?", "Add columns first, drop them a release later"),
    "search-index": ("Which engine ranks documents best?", "BM25 with stemming is good enough"),
    "timezones": ("Which clock do reports use?", "Store UTC and convert at the edge"),
    "emails": ("Why are messages in the spam folder?", "The sending domain has no DKIM record"),
}
LABELLED = {
    "jwt cookies": "jwt-storage",
    "database is locked": "sqlite-locks",
    "caching after deployment": "cache-stampede",
    "limiting requests per customer": "rate-limit",
    "retrying payments": "payments-retry",
    "storing images": "image-upload",
    "changing schemas": "migrations",
    "ranking documents": "search-index",
    "UTC conversion": "timezones",
    "spam": "emails",
}
PARAPHRASED = {
    "session credentials in the browser": "jwt-storage",
    "throttling abusive clients": "rate-limit",
    "customers billed two times": "payments-retry",
    "uploading photos": "image-upload",
    "altering tables while users are online": "migrations",
    "hours shown in reports": "timezones",
    "mail delivery trouble": "emails",
    "where to save login secrets in a web app": "jwt-storage",
    "concurrent writers block each other": "sqlite-locks",
    "website sluggish following a release": "cache-stampede",
    "stop too many calls to our endpoints": "rate-limit",
    "charging a card more than once": "payments-retry",
    "which retrieval algorithm gives relevant results": "search-index",
    "local versus universal time": "timezones",
    "our newsletters land in junk": "emails",
}


def memory(project: Path, search: str) -> Sage:
    """Return a provider with the labelled checkpoints."""
    for number, (name, (question, thesis)) in enumerate(CHECKPOINTS.items()):
        stem = f"2026-01-{number + 1:02}T00-00-00_{name}"
        put(project / f".sage/checkpoints/{stem}.md", checkpoint(stem, question, thesis))
    return open_sage(project, search=search)


def found(sage: Sage, query: str, limit: int = 3) -> list[str]:
    """Return the names that a search finds."""
    results = data_of(sage, "sage_search_checkpoints", query=query, limit=limit)["results"]
    return [one["id"].partition("_")[2] for one in results]


def recall_at_3(sage: Sage, labelled: dict[str, str]) -> float:
    """Return the share of queries whose answer is among the first three."""
    return sum(name in found(sage, query) for query, name in labelled.items()) / len(labelled)


@pytest.mark.slow
def test_the_model_finds_paraphrases_that_words_do_not_find(tmp_path: Path) -> None:
    plain, hybrid = memory(tmp_path / "a", "bm25"), memory(tmp_path / "b", "auto")

    assert data_of(plain, "sage_search_checkpoints", query="jwt")["engine"] == "bm25"
    assert data_of(hybrid, "sage_search_checkpoints", query="jwt")["engine"] == "hybrid"
    assert recall_at_3(plain, LABELLED) == 1.0
    assert recall_at_3(hybrid, LABELLED) == 1.0
    assert number_first(plain, PARAPHRASED) == 6
    assert number_first(hybrid, PARAPHRASED) >= 11


@pytest.mark.slow
@pytest.mark.parametrize("query", ["zzz", "qqqqq", "asdf"])
def test_the_model_finds_nothing_for_a_query_without_meaning(tmp_path: Path, query: str) -> None:
    assert found(memory(tmp_path, "auto"), query, limit=10) == []


def number_first(sage: Sage, labelled: dict[str, str]) -> int:
    """Return the number of queries whose answer is the first result."""
    return sum(found(sage, query)[:1] == [name] for query, name in labelled.items())


def test_the_time_of_a_checkpoint_is_not_searched(tmp_path: Path) -> None:
    sage = memory(tmp_path, "bm25")

    assert found(sage, "2026") == []
    assert found(sage, "rate limit") == ["rate-limit"]


def test_a_search_result_has_the_text_of_the_page_and_links(tmp_path: Path) -> None:
    sage = open_sage(lay_out(tmp_path), search="bm25")
    result = call(sage, "sage_search_checkpoints", query="jwt auth")

    assert isinstance(result.structured, dict)
    [one] = result.structured["results"]
    assert result.structured == {"engine": "bm25", "total": 1, "results": [one]}
    assert one == {
        "id": STEM,
        "uri": f"sage://checkpoint/{STEM}",
        "score": one["score"],
        "question": "Where should the web client keep its JWT?",
        "thesis": "JWT research: keep tokens in httpOnly cookies",
        "confidence": 0.85,
        "trigger": "synthesis",
        "ts": "2026-02-15T10:12:00.250000+00:00",
    }
    text = (
        f"Found 1 checkpoints (search: bm25). Top 1:\n1. {STEM} [{one['score']:.3f}]\n"
        "   JWT research: keep tokens in httpOnly cookies\n   85% | synthesis | 2026-02-15 10:12"
    )
    assert result.blocks == (
        text,
        ResourceLink(f"sage://checkpoint/{STEM}", f"checkpoint/{STEM}", None, "text/markdown"),
    )


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_what_a_search_found_is_read_by_its_uri_without_another_call(tmp_path: Path, era: str) -> None:
    sage = open_sage(lay_out(tmp_path), search="bm25")
    found = ask(sage, "tools/call", era, name="sage_search_checkpoints", arguments={"query": "jwt auth"})
    [link] = [block["uri"] for block in found["content"] if block["type"] == "resource_link"]

    assert link == f"sage://checkpoint/{STEM}"
    assert ask(sage, "resources/read", era, uri=link)["contents"][0]["text"] == folder.CHECKPOINT_TEXT


@pytest.mark.parametrize(
    "query", ['"', "AND", "jwt NEAR(", "*", "thesis:jwt", "a" * 5_000, "-", "'; DROP TABLE x", "\0"]
)
def test_operators_mean_nothing(tmp_path: Path, query: str) -> None:
    result = call(open_sage(lay_out(tmp_path), search="bm25"), "sage_search_checkpoints", query=query)

    assert not result.is_error or result.blocks == ("Invalid query: must not be empty",)


def test_stemming_and_diacritics_do_not_matter_and_fields_have_weights(tmp_path: Path) -> None:
    sage = open_sage(tmp_path, search="bm25")
    put(tmp_path / ".sage/checkpoints/a.md", checkpoint("a", "Où?", "Les réunions déplacées"))
    put(tmp_path / ".sage/checkpoints/b.md", checkpoint("b", "q", "t") + "## Reasoning Trace\nmeetings elsewhere\n")
    put(tmp_path / ".sage/checkpoints/c.md", checkpoint("c", "q", "A meeting elsewhere"))

    assert [one["id"] for one in data_of(sage, "sage_search_checkpoints", query="reunion")["results"]] == ["a"]
    assert [one["id"] for one in data_of(sage, "sage_search_checkpoints", query="meets")["results"]] == ["c", "b"]


def test_words_inside_unspaced_scripts_are_found(tmp_path: Path) -> None:
    put(tmp_path / ".sage/checkpoints/a.md", checkpoint("a", "質問", "認証トークンはクッキーに保存する"))
    data = data_of(open_sage(tmp_path, search="bm25"), "sage_search_checkpoints", query="クッキー")

    assert (data["engine"], [one["id"] for one in data["results"]]) == ("substring", ["a"])


def test_the_index_follows_the_files(tmp_path: Path) -> None:
    sage = open_sage(tmp_path, search="bm25")
    path = put(tmp_path / ".sage/checkpoints/a.md", checkpoint("a", "q", "zebra"))
    assert data_of(sage, "sage_search_checkpoints", query="zebra")["total"] == 1

    put(path, checkpoint("a", "q", "giraffe"))
    assert data_of(sage, "sage_search_checkpoints", query="zebra")["total"] == 0
    assert data_of(sage, "sage_search_checkpoints", query="giraffe")["total"] == 1

    put(path, "broken")
    assert data_of(sage, "sage_search_checkpoints", query="giraffe")["total"] == 0

    put(path, checkpoint("a", "q", "giraffe"))
    other = open_sage(tmp_path, search="bm25")
    assert data_of(other, "sage_search_checkpoints", query="giraffe")["total"] == 1
    path.unlink()
    assert data_of(sage, "sage_search_checkpoints", query="giraffe")["total"] == 0


@LOCAL
def test_the_index_is_private_and_can_be_lost_or_broken(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "shop")
    sage = open_sage(project, search="bm25")
    assert data_of(sage, "sage_search_checkpoints", query="jwt")["total"] == 1
    sage.close()
    [file] = (project / "home/.cache/carrel/sage").glob("*.db")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    for damage in (b"not a database at all" * 400, file.read_bytes()[:5_000], b""):
        file.write_bytes(damage)
        again = open_sage(project, search="bm25")
        assert data_of(again, "sage_search_checkpoints", query="jwt")["total"] == 1
        again.close()
    file.unlink()
    assert data_of(open_sage(project, search="bm25"), "sage_search_checkpoints", query="jwt")["total"] == 1


def test_without_a_cache_folder_the_index_is_in_memory(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "shop")
    put(project / "home", "a file where the home folder should be")

    assert data_of(open_sage(project, search="bm25"), "sage_search_checkpoints", query="jwt")["total"] == 1


def test_without_fts5_text_search_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "_LAYOUT", index_file._LAYOUT.replace("fts5", "missing"))
    data = data_of(open_sage(lay_out(tmp_path), search="bm25"), "sage_search_checkpoints", query="httponly")

    assert (data["engine"], data["total"]) == ("substring", 1)


def test_without_a_model_that_loads_search_goes_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("no weights")

    monkeypatch.setattr(semantic, "_load", fail)
    assert data_of(open_sage(lay_out(tmp_path)), "sage_search_checkpoints", query="jwt")["engine"] == "bm25"


def test_loading_the_model_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = "import logging\nlogging.basicConfig(level=logging.INFO)\nclass WordLlama:\n    load = dict"
    put(tmp_path / "wordllama/__init__.py", loud)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    root = logging.getLogger()
    mine = logging.NullHandler()
    for handlers in ([], [mine]):
        monkeypatch.setattr(root, "handlers", handlers)
        semantic._load()
        del sys.modules["wordllama"]  # not with `monkeypatch`, which would put it back for the tests to come

        assert (root.level, root.handlers) == (logging.WARNING, handlers)


def test_checkpoints_are_listed_and_loaded(tmp_path: Path) -> None:
    sage = open_sage(lay_out(tmp_path))
    put(tmp_path / ".sage/checkpoints/2026-03-01T00-00-00_b.md", checkpoint("b", "q", "t" * 99, skill="web"))
    listed = call(sage, "sage_list_checkpoints", limit=1)

    assert listed.blocks[0] == f"## Checkpoints [1]\n- 2026-03-01T00-00-00_b: {'t' * 60} (50%, )"
    assert data_of(sage, "sage_list_checkpoints", skill="web")["total"] == 1
    assert data_of(sage, "sage_list_checkpoints")["total"] == 2
    loaded = call(sage, "sage_load_checkpoint", checkpoint_id="jwt-research", format="toon")
    assert loaded.blocks[0] == folder.CHECKPOINT_TOON
    assert call(open_sage(tmp_path / "none"), "sage_list_checkpoints").blocks == ("No checkpoints found.",)
    assert error_of(sage, "sage_load_checkpoint", id="none") == ("Checkpoint not found: none", "not_found")


def test_knowledge_is_recalled_with_its_text_and_links(tmp_path: Path) -> None:
    sage = open_sage(lay_out(tmp_path), search="bm25")
    result = call(sage, "sage_recall_knowledge", query="cookies")

    assert result.blocks[0] == f"📚 Recalled Knowledge (1 items, ~9 tokens):\n\n{folder.KNOWLEDGE_TEXT}"
    assert isinstance(result.structured, dict)
    [one] = result.structured["results"]
    assert one["code_links"] == [
        {
            "chunk_id": "web/tokens.py::set_token",
            "relation": "implements",
            "note": "sets the cookie",
            "file": "web/tokens.py",
            "line": 12,
            "status": "ok",
        }
    ]
    assert call(sage, "sage_recall_knowledge", query="nothing at all").blocks == ("No knowledge found.",)


def knowledge(project: Path, **contents: str) -> Path:
    """Write knowledge items whose keyword is walrus."""
    items = ""
    for name, content in contents.items():
        put(project / f".sage/knowledge/global/{name}.md", f"---\nid: {name}\n---\n{content}\n")
        items += f"- {{id: {name}, file: global/{name}.md, triggers: {{keywords: [walrus]}}}}\n"
    put(project / ".sage/knowledge/index.yaml", f"version: 1\nitems:\n{items}")
    return project


def test_recall_passes_over_what_does_not_fit_and_names_it(tmp_path: Path) -> None:
    project = knowledge(tmp_path, a="first walrus", b="walrus " * 2_000, c="third walrus")
    [text, *links] = call(open_sage(project), "sage_recall_knowledge", query="walrus", limit=3).blocks
    assert isinstance(text, str)
    assert "(2 items" in text
    assert "first walrus" in text
    assert "third walrus" in text
    assert text.endswith("\nNot shown in full: sage://knowledge/b\n")
    assert len(links) == 3


def test_recall_cuts_the_best_where_none_fits_and_says_so(tmp_path: Path) -> None:
    project = knowledge(tmp_path, a="walrus " * 2_000)
    [text, _] = call(open_sage(project), "sage_recall_knowledge", query="walrus").blocks
    assert isinstance(text, str)
    assert "walrus walrus" in text
    assert text.endswith("…\n\nNot shown in full: sage://knowledge/a\n")


def test_recall_leaves_out_what_is_deprecated_or_of_another_skill(tmp_path: Path) -> None:
    entries = {
        "old": "metadata: {status: deprecated}",
        "gone": "metadata: {status: archived}",
        "web": "scope: {skills: [web]}",
        "go": "scope: {skills: [go]}",
        "any": "scope: {always: true}",
        "plain": "type: knowledge",
    }
    items = "".join(f"- {{id: {name}, file: global/{name}.md, {more}}}\n" for name, more in entries.items())
    put(tmp_path / ".sage/knowledge/index.yaml", f"items:\n{items}")
    for name in entries:
        put(tmp_path / f".sage/knowledge/global/{name}.md", "walrus " * 3 if name == "any" else "walrus " * 9)
    sage = open_sage(tmp_path, search="bm25")

    recalled = data_of(sage, "sage_recall_knowledge", query="walrus", limit=20, skill="web")["results"]
    assert recalled[0]["id"] == "any"
    assert {one["id"] for one in recalled} == {"any", "web", "plain"}


def test_failures_are_listed_and_found(tmp_path: Path) -> None:
    sage = open_sage(lay_out(tmp_path), search="bm25")
    put(tmp_path / ".sage/failures/2026-03-01T00-00-00_z.md", FAILURE.replace("jwt-localstorage", "zeta"))
    listed = call(sage, "sage_list_failures")

    assert str(listed.blocks[0]).startswith("## Failures [2]\n\n## zeta\n**Approach:**")
    assert [link.uri for link in listed.blocks[1:] if isinstance(link, ResourceLink)] == [
        "sage://failure/zeta",
        "sage://failure/jwt-localstorage",
    ]
    data = data_of(sage, "sage_list_failures", query="zeta")
    assert (data["engine"], [one["id"] for one in data["failures"]]) == ("bm25", ["zeta"])
    assert call(open_sage(tmp_path / "none"), "sage_list_failures").blocks == ("No failures recorded.",)


def test_a_big_memory_in_a_read_only_cache_is_no_trouble(tmp_path: Path) -> None:
    project = lay_out(tmp_path)
    cache = project / "home/.cache"
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    try:
        assert data_of(open_sage(project, search="bm25"), "sage_search_checkpoints", query="jwt")["total"] == 1
    finally:
        cache.chmod(0o700)
