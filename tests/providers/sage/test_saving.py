"""Saving to a Sage folder: exact files, private, atomic, safe against other writers and hostile folders."""

import errno
import fcntl
import os
import re
import stat
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from carrel.catalog.catalog import Catalog
from carrel.core.model import ResourceLink, ToolResult
from carrel.providers.sage import Sage, folder_files, saving, yaml_text
from carrel.providers.sage.file_writes import WriteFailed, reasons
from carrel.providers.sage.record_files import compose_checkpoint, parse_checkpoint
from carrel.providers.sage.records import Checkpoint
from tests.support import sage_folder as folder
from tests.support.sage_folder import FILES, git, lay_out, open_sage, put, read


class NoCall:
    """A call that is never cancelled."""

    client = ""
    cancelled = False

    def on_cancel(self, stop: object) -> None:
        """Do nothing."""

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Do nothing."""


def call(sage: Sage, tool: str, **arguments: Any) -> ToolResult:
    """Call a tool."""
    return sage.call(tool, arguments, NoCall())


def data_of(sage: Sage, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; return its data."""
    result = call(sage, tool, **arguments)
    assert not result.is_error, result.blocks
    assert isinstance(result.structured, dict)
    return result.structured


def error_of(sage: Sage, tool: str, **arguments: Any) -> tuple[object, object]:
    """Call a tool that must fail; return the message and its kind."""
    result = call(sage, tool, **arguments)
    assert result.is_error
    assert result.structured is None
    return result.blocks[0], (result.meta or {})["dev.carrel/error"]


@pytest.fixture
def sage(tmp_path: Path) -> Sage:
    """Return a provider that may write, in a project without a Sage folder."""
    return open_sage(tmp_path, tools="write")


def test_write_tools_exist_only_where_writing_is_allowed(tmp_path: Path) -> None:
    lay_out(tmp_path)
    reading = [tool.name for tool in open_sage(tmp_path).tools()]

    assert reading == [
        "sage_search_checkpoints",
        "sage_list_checkpoints",
        "sage_load_checkpoint",
        "sage_recall_knowledge",
        "sage_list_failures",
    ]
    assert [tool.name for tool in open_sage(tmp_path, tools="off").tools()] == []
    assert [tool.name for tool in open_sage(tmp_path, tools="write").tools()] == [
        *reading,
        "sage_save_checkpoint",
        "sage_save_knowledge",
        "sage_record_failure",
        "sage_write_system",
    ]


def test_a_saved_checkpoint_has_the_page_s_form(sage: Sage, tmp_path: Path) -> None:
    result = call(
        sage,
        "sage_save_checkpoint",
        core_question="Where should the web client keep its JWT?",
        thesis="JWT research: keep tokens in httpOnly cookies",
        confidence=0.85,
        sources=[
            {"id": "owasp-note", "type": "document", "take": "scripts can read localStorage", "relation": "supports"}
        ],
    )

    structured = result.structured
    assert isinstance(structured, dict)
    stem = structured["id"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_jwt-research-keep-tokens-in-httponly-coo", stem)
    assert structured == {
        "id": stem,
        "uri": f"sage://checkpoint/{stem}",
        "path": f".sage/checkpoints/{stem}.md",
    }
    link = ResourceLink(f"sage://checkpoint/{stem}", f"checkpoint/{stem}", None, "text/markdown")
    assert result.blocks == (f"Checkpoint saved: {stem}", link)
    text = (tmp_path / structured["path"]).read_text(encoding="utf-8")
    ts = re.search(r"ts: '([^']+)'", text)
    assert ts is not None
    assert text == folder.CHECKPOINT.replace(folder.STEM, stem).replace("2026-02-15T10:12:00.250000+00:00", ts[1])


def test_files_are_private(sage: Sage, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        data_of(sage, "sage_save_checkpoint", core_question="q", thesis="t", confidence=1)
        data_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"])
        data_of(sage, "sage_record_failure", id="f", approach="a", why_failed="w", learned="l", keywords=["k"])
        data_of(sage, "sage_write_system", filename="pinned/deep/x.md", content="x")
    finally:
        os.umask(umask)

    for path in (tmp_path / ".sage").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / ".sage").stat().st_mode) == 0o700
    assert not list((tmp_path / ".sage").rglob("*.tmp"))


def test_a_taken_name_gets_a_number_on_the_stem_and_on_the_id(sage: Sage, monkeypatch: pytest.MonkeyPatch) -> None:
    class Still(datetime):
        """A clock that does not move."""

        @classmethod
        def now(cls, tz: Any = None) -> "Still":
            return cls(2026, 2, 15, 10, 12, 0, 250_000, tzinfo=tz)

    monkeypatch.setattr(saving, "datetime", Still)
    ids = [data_of(sage, "sage_save_checkpoint", core_question="q", thesis="t", confidence=0)["id"] for _ in range(3)]
    paths = [
        data_of(sage, "sage_record_failure", id="f", approach="a", why_failed="w", learned="l", keywords="k")["path"]
        for _ in range(2)
    ]

    assert ids == ["2026-02-15T10-12-00_t", "2026-02-15T10-12-00_t-2", "2026-02-15T10-12-00_t-3"]
    assert [read(sage, f"sage://checkpoint/{one}").split("\n")[1] for one in ids] == [
        f"*Checkpoint: {one}*" for one in ids
    ]
    assert [Path(path).name.partition("_")[2] for path in paths] == ["f.md", "f-2.md"]


def test_a_checkpoint_continues_from_the_newest_that_is_no_recovery(sage: Sage, tmp_path: Path) -> None:
    old = folder.checkpoint("2020-01-01T00-00-00_old")
    put(tmp_path / ".sage/checkpoints/2020-01-01T00-00-00_old.md", old)
    put(tmp_path / ".sage/checkpoints/2021-01-01T00-00-00_recovery-x.md", old.replace('"checkpoint"', "recovery"))
    put(tmp_path / ".sage/checkpoints/2022-01-01T00-00-00_broken.md", "broken")

    first = data_of(sage, "sage_save_checkpoint", core_question="q", thesis="t", confidence=0)
    second = data_of(sage, "sage_save_checkpoint", core_question="q", thesis="u", confidence=0, continues_from="mine")
    third = data_of(sage, "sage_save_checkpoint", core_question="q", thesis="v", confidence=0, continues_from="")

    assert "continues_from: 2020-01-01T00-00-00_old\n" in (tmp_path / first["path"]).read_text()
    assert "continues_from: mine\n" in (tmp_path / second["path"]).read_text()
    assert "continues_from" not in (tmp_path / third["path"]).read_text()


def test_a_checkpoint_records_the_state_of_git(sage: Sage, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    put(tmp_path / "a.py", "def a(): ...\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-qm", "First: thing")
    commit = git(tmp_path, "rev-parse", "--short", "HEAD")

    saved = data_of(sage, "sage_save_checkpoint", core_question="q", thesis="t", confidence=0)
    data_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"], code_links=[{"chunk_id": "a.py::a"}])

    lines = f"## Git Context\nBranch: `main` @ `{commit}`\nRecent commits:\n- {commit} First: thing\n"
    assert lines in read(sage, saved["uri"])
    [item] = yaml.safe_load((tmp_path / ".sage/knowledge/index.yaml").read_text())["items"]
    assert item["metadata"]["saved_at_commit"] == commit  # quoted where it happens to be all digits
    assert "- `a.py::a` (related): a.py:1, ok\n" in read(sage, "sage://knowledge/k")


def test_everything_in_a_checkpoint_comes_back(sage: Sage) -> None:
    given = {
        "core_question": "Why?\nReally?",
        "thesis": "# not a heading\n## nor this\n\\# escaped\n```\n## in a fence",
        "confidence": 0.5,
        "key_evidence": ["one\ntwo", "---"],
        "reasoning_trace": "a\n\n```py\n# comment\n```\n\nb",
        "open_questions": ["- what: this?"],
        "sources": [{"id": "s", "type": "t", "take": "a — _b_ c", "relation": "nuances"}],
        "tensions": [{"a": "x", "b": "y", "nature": "n"}],
        "unique_contributions": [{"type": "d", "content": "é — 漢字"}],
        "action_goal": "no",
        "action_type": "007",
        "code_refs": [{"file": "a.py", "lines": "1-4", "relevance": "supports"}, {"file": "b:1.py"}],
        "files_explored": ["b", "a"],
        "related_knowledge": ["k"],
        "skill": "null",
        "template": "default",
    }
    saved = data_of(sage, "sage_save_checkpoint", **given)
    loaded = data_of(sage, "sage_load_checkpoint", id=saved["id"])["checkpoint"]

    expected = {
        **given,
        "core_question": "Why? Really?",
        "key_evidence": ["one two", "---"],
        "tensions": [{"a": "x", "b": "y", "nature": "n", "resolution": "unresolved"}],
        "code_refs": [
            {"file": "a.py", "lines": "1-4", "relevance": "supports"},
            {"file": "b:1.py", "lines": "", "relevance": "other"},
        ],
        "files_explored": ["a", "b"],
        "template": "",
        "trigger": "synthesis",
    }
    assert {key: loaded[key] for key in expected} == expected


def test_ids_that_are_saved_are_cleaned(sage: Sage) -> None:
    for given, saved in {"test@failure!": "test-failure", "": "unnamed", "!!!": "unnamed", "größe": "gr-e"}.items():
        done = data_of(sage, "sage_save_knowledge", id=given, content="c", keywords=["k"])
        assert (done["id"], done["path"]) == (saved, f".sage/knowledge/global/{saved}.md")
    long = data_of(sage, "sage_save_knowledge", knowledge_id="a" * 300, content="c", keywords=["k"], skill="My skill")
    assert long["path"] == f".sage/knowledge/skills/My-skill/{'a' * 100}.md"


def test_an_id_in_other_letters_replaces_no_item_by_chance(sage: Sage) -> None:
    first = data_of(sage, "sage_save_knowledge", id="知識", content="one", keywords=["k"])
    told, _ = error_of(sage, "sage_save_knowledge", id="記憶", content="two", keywords=["k"])

    assert first["id"] == "unnamed"
    assert told == "Invalid id: only A-Z, a-z, 0-9, _ and - are kept, and unnamed exists; to replace it, give that id"
    assert "one" in read(sage, "sage://knowledge/unnamed")
    data_of(sage, "sage_save_knowledge", id="unnamed", content="two", keywords=["k"])
    assert "two" in read(sage, "sage://knowledge/unnamed")


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "confidence too high": (
        "sage_save_checkpoint",
        {"confidence": 1.7},
        "Invalid confidence 1.7: must be between 0.0 and 1.0",
    ),
    "confidence nan": (
        "sage_save_checkpoint",
        {"confidence": float("nan")},
        "Invalid confidence nan: must be between 0.0 and 1.0",
    ),
    "confidence text": (
        "sage_save_checkpoint",
        {"confidence": "high"},
        "Invalid confidence high: must be between 0.0 and 1.0",
    ),
    "no thesis": ("sage_save_checkpoint", {"thesis": None}, "Invalid thesis: must not be empty"),
    "blank thesis": ("sage_save_checkpoint", {"thesis": " \n"}, "Invalid thesis: must not be empty"),
    "a source without a proper id": (
        "sage_save_checkpoint",
        {"sources": [{"id": 5}]},
        "Invalid sources: must be an array of objects; at [0].id: expected a string",
    ),
    "a tension of one side": (
        "sage_save_checkpoint",
        {"tensions": [{"between": ["a"]}]},
        "Invalid tensions: must be an array of objects; at [0]: a is missing",
    ),
    "keywords that are no strings": (
        "sage_save_knowledge",
        {"keywords": [5]},
        "Invalid keywords: must be an array of strings",
    ),
    "no keywords": ("sage_save_knowledge", {"keywords": []}, "Invalid keywords: must not be empty"),
    "large content": (
        "sage_save_knowledge",
        {"content": "x" * 1_048_577},
        "Invalid content: larger than 1048576 bytes",
    ),
    "limit 0": ("sage_search_checkpoints", {"query": "x", "limit": 0}, "Invalid limit: must be between 1 and 50"),
    "bad format": ("sage_load_checkpoint", {"id": "x", "format": "xml"}, "Invalid format: xml"),
    "bad id": ("sage_load_checkpoint", {"checkpoint_id": "../x"}, "Invalid checkpoint ID: ../x"),
    **{
        f"filename {name}": ("sage_write_system", {"filename": name}, f"Invalid filename: {name}")
        for name in ("../a.md", "a.txt", ".a.md", "x/.y/a.md", "", "/a.md", "a.md/../b.md", ".md")
    },
}
GOOD: dict[str, dict[str, Any]] = {
    "sage_save_checkpoint": {"core_question": "q", "thesis": "t", "confidence": 0.5},
    "sage_save_knowledge": {"id": "k", "content": "c", "keywords": ["k"]},
    "sage_write_system": {"filename": "a.md", "content": "c"},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_write_nothing(sage: Sage, tmp_path: Path, name: str) -> None:
    tool, given, message = BAD[name]

    assert error_of(sage, tool, **{**GOOD.get(tool, {}), **given}) == (message, "invalid")
    assert list(tmp_path.rglob("*")) == []


def test_arguments_that_are_not_declared_are_allowed_and_ignored(sage: Sage) -> None:
    given = {"knowledge_id": "one", "content": "c", "keywords": ["k"], "mood": "good"}
    (tool,) = [one for one in sage.tools() if one.name == "sage_save_knowledge"]

    jsonschema.validate(given, tool.input_schema)
    assert data_of(sage, "sage_save_knowledge", **given)["id"] == "one"


def test_a_system_file_is_replaced_unless_that_is_refused(sage: Sage, tmp_path: Path) -> None:
    first = call(sage, "sage_write_system", filename="a.md", content="one")
    data_of(sage, "sage_write_system", filename="a.md", content="two\r\n")

    assert first.structured == {"uri": "sage://system/a.md", "path": ".sage/system/a.md"}
    assert first.blocks[0] == "System file saved: a.md"
    again = error_of(sage, "sage_write_system", filename="a.md", content="three", overwrite=False)
    assert again == ("File exists: a.md", "invalid")
    assert (tmp_path / ".sage/system/a.md").read_bytes() == b"two\r\n"


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the disk is read-only")]
)
def test_a_full_disk_and_a_read_only_disk_have_different_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    sage = open_sage(tmp_path, tools="write")
    data_of(sage, "sage_write_system", filename="a.md", content="x")

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    written = sage.toolset.call("sage_write_system", {"filename": "b.md", "content": "x"})
    monkeypatch.undo()
    sage.close()

    assert written.blocks[0] == f"Error writing b.md: {reason}"
    assert [one.name for one in (tmp_path / ".sage/system").iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the disk is read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "I/O error"),
    ],
)
def test_an_error_of_the_system_becomes_a_clear_reason(number: int, reason: str) -> None:
    with pytest.raises(WriteFailed, match=reason), reasons():
        raise OSError(number, "text")


@pytest.mark.parametrize(
    "asked",
    ["sage://checkpoint/{}", "@sage://checkpoint/{}", "@carrel:sage://checkpoint/{}", "SAGE://Checkpoint/{}", "{}"],
)
def test_a_checkpoint_is_loaded_by_its_uri_too(sage: Sage, asked: str) -> None:
    saved = data_of(sage, "sage_save_checkpoint", core_question="q", thesis="Cookies", confidence=0)
    loaded = data_of(sage, "sage_load_checkpoint", id=asked.format(saved["id"]))
    assert loaded["uri"] == saved["uri"]


def test_the_format_in_a_uri_counts_unless_another_is_given(sage: Sage) -> None:
    data_of(sage, "sage_save_checkpoint", core_question="q", thesis="Cookies", confidence=0)
    toon = sage.toolset.call("sage_load_checkpoint", {"id": "sage://checkpoint/cookies?format=toon"}).blocks[0]
    plain = sage.toolset.call(
        "sage_load_checkpoint", {"id": "sage://checkpoint/cookies?format=toon", "format": "markdown"}
    )
    assert str(toon).startswith("# Research Context\n")
    assert str(plain.blocks[0]).startswith("# Research Context (Restored")


def test_a_uri_of_another_kind_is_no_checkpoint(sage: Sage) -> None:
    refused = sage.toolset.call("sage_load_checkpoint", {"id": "sage://knowledge/a"})
    assert refused.blocks[0] == "Invalid checkpoint ID: sage://knowledge/a"


def test_nothing_is_written_through_a_link_or_a_special_file(sage: Sage, tmp_path: Path) -> None:
    system = tmp_path / ".sage/system"
    system.mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (system / "a.md").symlink_to(tmp_path / "out/a.md")
    (system / "d").symlink_to(tmp_path / "out")
    os.mkfifo(system / "p.md")
    for name in ("a.md", "d/b.md", "p.md"):
        answer = error_of(sage, "sage_write_system", filename=name, content="x")
        assert answer == (f"Error writing {name}: not a regular file", "unreadable")
    (tmp_path / ".sage/knowledge").symlink_to(tmp_path / "out")
    answer = error_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"])
    assert answer == ("Error writing k: not a regular file", "unreadable")
    assert list((tmp_path / "out").iterdir()) == []


INDEX_TO_KEEP = """\
# A comment
version: 1
owner: no
since: 2026-02-15
items:
- 17
- {id: other, file: global/other.md, weight: 007, flag: yes}
- id: k
  type: knowledge
  file: global/k.md
  triggers: {keywords: [old], patterns: ['^a']}
  scope: {skills: [], always: true}
  metadata: {added: '2020-01-01', source: s, tokens: 1, status: deprecated, saved_at_commit: abcd, mine: 1.50}
  code_links: [{chunk_id: a.py, relation: related}]
  knowledge_links: [{target_id: other, relation: related}]
  extra: {a: [1, null]}
- name: nothing we know
tail: |
  kept
"""


def test_saving_knowledge_again_keeps_what_is_not_understood(sage: Sage, tmp_path: Path) -> None:
    index = put(tmp_path / ".sage/knowledge/index.yaml", INDEX_TO_KEEP)
    data_of(sage, "sage_save_knowledge", id="k", content="new content", keywords=["new"])

    text = re.sub(r"added: '20[^']+'", "added: 'D'", index.read_text(encoding="utf-8"))
    assert (
        text
        == """\
version: 1
owner: no
since: 2026-02-15
items:
- 17
- id: other
  file: global/other.md
  weight: 007
  flag: yes
- name: nothing we know
- id: k
  type: knowledge
  file: global/k.md
  triggers:
    keywords:
    - new
    patterns:
    - '^a'
  scope:
    skills: []
    always: true
  metadata:
    added: 'D'
    source: ''
    tokens: 2
    status: ''
    saved_at_commit: abcd
    mine: 1.50
  code_links:
  - chunk_id: a.py
    relation: related
  knowledge_links:
  - target_id: other
    relation: related
  extra:
    a:
    - 1
    - null
tail: |
  kept
"""
    )


def test_an_alias_to_a_replaced_item_keeps_its_value(sage: Sage, tmp_path: Path) -> None:
    entries = "items:\n- {id: k, file: global/k.md, metadata: &shared {source: s}}\n- {id: other, metadata: *shared}\n"
    index = put(tmp_path / ".sage/knowledge/index.yaml", entries)
    data_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"], source="new")

    other, saved = yaml.safe_load(index.read_text(encoding="utf-8"))["items"]
    assert other == {"id": "other", "metadata": {"source": "s"}}
    assert saved["metadata"]["source"] == "new"


def test_a_first_item_has_the_page_s_form(sage: Sage, tmp_path: Path) -> None:
    put(tmp_path / "a.py", "x = 1\n")
    links = [{"chunk_id": "a.py::x", "relation": "implements", "note": "sets it"}]
    given = {
        "content": " Set the token. \n",
        "keywords": ["auth", "cookie"],
        "source": "team wiki",
        "code_links": links,
    }
    data_of(sage, "sage_save_knowledge", id="auth-patterns", type="todo", **given)

    index = (tmp_path / ".sage/knowledge/index.yaml").read_text(encoding="utf-8")
    content = (tmp_path / ".sage/knowledge/global/auth-patterns.md").read_text(encoding="utf-8")
    added = re.findall(r"added: '(\d{4}-\d\d-\d\d)'", index)[0]
    assert (
        index
        == f"""\
version: 1
items:
- id: auth-patterns
  type: todo
  file: global/auth-patterns.md
  triggers:
    keywords:
    - auth
    - cookie
    patterns: []
  scope:
    skills: []
    always: false
  metadata:
    added: '{added}'
    source: team wiki
    tokens: 3
    status: pending
  code_links:
  - chunk_id: a.py::x
    relation: implements
    note: sets it
"""
    )
    assert (
        content
        == f"""\
---
id: auth-patterns
type: todo
keywords:
- auth
- cookie
source: team wiki
added: '{added}'
status: pending
---

Set the token.
"""
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [("items: [1\n", "index.yaml is not valid YAML (line 2)"), ("- a\n", "index.yaml is not a mapping")],
)
def test_an_index_that_does_not_parse_is_never_replaced(sage: Sage, tmp_path: Path, text: str, reason: str) -> None:
    index = put(tmp_path / ".sage/knowledge/index.yaml", text)

    answer = error_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"])
    assert answer == (f"Error writing k: {reason}", "unreadable")
    assert index.read_text() == text
    assert not (tmp_path / ".sage/knowledge/global").exists()


def test_an_item_that_lost_its_index_is_not_hidden_by_a_new_one(sage: Sage, tmp_path: Path) -> None:
    put(tmp_path / ".sage/knowledge/global/auth-patterns.md", FILES[".sage/knowledge/global/auth-patterns.md"])
    data_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"])

    uris = [entry.uri for entry in sage.entries()]
    assert sorted(uris) == ["sage://knowledge/auth-patterns", "sage://knowledge/k"]


def test_a_locked_index_is_waited_for_and_then_given_up(
    sage: Sage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_of(sage, "sage_save_knowledge", id="k", content="c", keywords=["k"])
    monkeypatch.setattr(folder_files, "LOCK_S", 0.1)
    with (tmp_path / ".sage/knowledge/.index.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = error_of(sage, "sage_save_knowledge", id="other", content="c", keywords=["k"])
    assert answer == ("Error writing other: index is locked", "unreadable")


@pytest.mark.slow
def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def save(number: int) -> None:
        sage = open_sage(tmp_path, tools="write")
        for each in range(5):
            name = f"k-{number}-{each}"
            data_of(sage, "sage_save_knowledge", id=name, content=f"content of {name}", keywords=[name])
            data_of(sage, "sage_save_checkpoint", core_question="q", thesis="the same", confidence=0.5)
        sage.close()

    threads = [threading.Thread(target=save, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    sage = open_sage(tmp_path)
    uris = [entry.uri for entry in sage.entries()]
    assert len([uri for uri in uris if "checkpoint" in uri]) == 20
    assert {uri for uri in uris if "knowledge" in uri} == {
        f"sage://knowledge/k-{number}-{each}" for number in range(4) for each in range(5)
    }


def test_a_writer_that_takes_no_lock_is_noticed_before_the_rename(
    sage: Sage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = put(tmp_path / ".sage/knowledge/index.yaml", "version: 1\nitems: []\n")
    compose = yaml_text.put_item
    stranger = ["- {id: theirs, file: global/theirs.md}\n"]

    def late(text: str, *rest: Any) -> str:
        made = compose(text, *rest)
        if stranger:
            index.write_text(f"version: 1\nitems:\n{stranger.pop()}", encoding="utf-8")
        return made

    monkeypatch.setattr(yaml_text, "put_item", late)
    data_of(sage, "sage_save_knowledge", id="ours", content="c", keywords=["k"])

    assert re.findall(r"^- id: (\w+)", index.read_text(), re.MULTILINE) == ["theirs", "ours"]


def test_a_new_index_keeps_the_items_that_were_served_without_one(sage: Sage, tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / f".sage/knowledge/global/{name}.md", f"---\nid: {name}\n---\ntext\n")
    data_of(sage, "sage_save_knowledge", id="new", content="c", keywords=["k"])

    text = (tmp_path / ".sage/knowledge/index.yaml").read_text(encoding="utf-8")
    assert [item["id"] for item in yaml.safe_load(text)["items"]] == ["a", "b", "new"]
    assert "&" not in text  # no aliases, of which a reader accepts only a few


def test_writing_and_reading_a_checkpoint_are_inverse() -> None:
    record = Checkpoint(id="a", ts="2026", trigger="t", thesis="# x\n\\\\# y\n~~~\n```", question="q")

    again = parse_checkpoint(compose_checkpoint(record))
    assert again == record


def test_a_link_out_of_the_project_tells_nothing_of_what_is_there(sage: Sage, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.py"
    names = ["a.py::x", f"../{outside.name}::x", f"{outside}::x"]
    for path in (tmp_path / "a.py", outside):
        put(path, "x = 1\n")
    for number, name in enumerate(names):
        data_of(sage, "sage_save_knowledge", id=f"k{number}", content="c", keywords=["k"])
        index = tmp_path / ".sage/knowledge/index.yaml"
        items = yaml.safe_load(index.read_text())
        items["items"][number]["code_links"] = [{"chunk_id": name, "relation": "related"}]
        index.write_text(yaml.safe_dump(items))

    def tokens() -> list[str | None]:
        return [Catalog([sage]).fingerprint(f"sage://knowledge/k{number}") for number in range(len(names))]

    before = tokens()
    for path in (tmp_path / "a.py", outside):
        put(path, "x = 12\n")

    assert [old == new for old, new in zip(before, tokens(), strict=True)] == [False, True, True]
