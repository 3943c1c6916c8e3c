"""`sage://` as it is read: the page's exact texts, its table of bad input, its errors as content."""

import os
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.core.errors import BadArgument, NotFound, ProviderError, RemoteError
from carrel.core.model import Reading, Text
from carrel.server.server import Server
from tests.support import sage_folder as folder
from tests.support.sage_folder import STEM, ask, checkpoint, git, lay_out, open_sage, put, read

pytestmark = pytest.mark.usefixtures("backend")
LOCAL = pytest.mark.parametrize("backend", ["local"], indirect=True)
"""Marks tests about the folder itself."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the Sage folder of the page."""
    return lay_out(tmp_path / "shop")


EXACT = {
    f"sage://checkpoint/{STEM}": folder.CHECKPOINT_TEXT,
    f"sage://checkpoint/{STEM}?format=toon": folder.CHECKPOINT_TOON,
    "sage://checkpoint/jwt-research": folder.CHECKPOINT_TEXT,
    "sage://checkpoint/jwt-2026-02": folder.CHECKPOINT_TEXT,
    "sage://checkpoint/jwt-research-2026-02-15": folder.CHECKPOINT_TEXT,
    "sage://knowledge/auth-patterns": folder.KNOWLEDGE_TEXT,
    "sage://knowledge/auth-patterns?format=toon": folder.KNOWLEDGE_TOON,
    "sage://failure/jwt-localstorage": folder.FAILURE_TEXT,
    "sage://failure/jwt-localstorage?format=toon": folder.FAILURE_TOON,
    "SAGE://Failure/jwt-localstorage?format=markdown&other=1": folder.FAILURE_TEXT,
    "sage://system/objective.md": "# Ship the login page\n\nUse jwt.\n",
    "sage://system/pinned/reference.md": "Reference.\n",
    "sage://system/pinned/reference.md?format=xml": "Reference.\n",
    "sage://system/pinned/reference.md/": "Reference.\n",
    "sage://system/./pinned//reference.md": "Reference.\n",
    "sage://system/pinned%2Freference.md": "Reference.\n",
}


@pytest.mark.parametrize(("uri", "text"), EXACT.items())
def test_the_page_s_examples_are_served_to_the_letter(project: Path, uri: str, text: str) -> None:
    assert read(open_sage(project), uri) == text


TYPES = {
    "sage://system/objective.md": "text/markdown",
    "sage://system/notes": "text/plain",
    "sage://system/data.json": "application/json",
    "sage://checkpoint/jwt": "text/markdown",
    "sage://knowledge/auth": "text/markdown",
    "sage://failure/jwt": "text/markdown",
    "sage://checkpoint/jwt?format=toon": "text/plain",
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_every_kind_has_its_template_and_its_type(project: Path, era: str) -> None:
    put(project / ".sage/system/notes", "Plain.\n")
    put(project / ".sage/system/data.json", "{}\n")
    sage = open_sage(project)
    templates = ask(sage, "resources/templates/list", era)["resourceTemplates"]
    read = {uri: ask(sage, "resources/read", era, uri=uri)["contents"][0] for uri in TYPES}

    assert [one["uriTemplate"] for one in templates] == [
        "sage://system/{+filename}",
        "sage://checkpoint/{id}",
        "sage://knowledge/{id}",
        "sage://failure/{id}",
    ]
    assert {uri: item["mimeType"] for uri, item in read.items()} == TYPES


BAD = {
    "sage://system/../etc/passwd": "Invalid filename: ../etc/passwd",
    "sage://system/%2e%2e%2fetc/passwd": "Invalid filename: ../etc/passwd",
    "sage://system//etc/passwd": "Invalid filename: /etc/passwd",
    "sage://system/": "Invalid filename: ",
    "sage://system/%252e%252e/a": "Invalid filename: %2e%2e/a",
    "sage://system/objective.md%0A": "Invalid filename: objective.md\\x0a",
    "sage://system/a;b": "Invalid filename: a;b",
    "sage://system/a b": "Invalid filename: a b",
    "sage://system/a$(b)": "Invalid filename: a$(b)",
    "sage://system/a|b": "Invalid filename: a|b",
    "sage://system/é.md": "Invalid filename: é.md",
    "sage://system/a..b": "Invalid filename: a..b",
    "sage://system/%5Cetc": "Invalid filename: \\etc",
    "sage://system/objective.md#x": "Invalid filename: objective.md#x",
    "sage://system/%ff": "Invalid filename: \ufffd",
    "sage://system/%zz": "Invalid filename: %zz",
    "sage://system/%00": "Invalid filename: \\x00",
    "sage://checkpoint/../b": "Invalid checkpoint ID: ../b",
    "sage://knowledge/../b": "Invalid knowledge ID: ../b",
    "sage://failure/": "Invalid failure ID: ",
    f"sage://checkpoint/{STEM}?format=xml": "Invalid format: xml",
    "sage://system/.": "File not in system folder: .",
    "sage://system/../config.yaml": "Invalid filename: ../config.yaml",
    f"sage://system/{'!' * 300}": f"Invalid filename: {'!' * 200}…",
}
MISSING = {
    "sage://system/missing.md": "File not found: missing.md",
    f"sage://system/{'a' * 300}": f"File not found: {'a' * 200}…",
    "sage://system/objective.md/x": "File not found: objective.md/x",
    "sage://checkpoint/a/b": "Checkpoint not found: a/b",
    "sage://checkpoint/nonexistent": "Checkpoint not found: nonexistent",
    "sage://checkpoint/localStorage": "Checkpoint not found: localStorage",  # a word of its text, not of its id
    "sage://checkpoint/---": "Checkpoint not found: ---",
    f"sage://checkpoint/{'a' * 300}": f"Checkpoint not found: {'a' * 200}…",
    "sage://knowledge/nothing": "Knowledge not found: nothing",
    "sage://failure/nothing": "Failure not found: nothing",
}
KINDS = {**dict.fromkeys(BAD.values(), "invalid"), **dict.fromkeys(MISSING.values(), "not_found")}


@pytest.mark.parametrize(("uri", "message"), {**BAD, **MISSING}.items())
def test_bad_input_is_answered_as_content(project: Path, uri: str, message: str) -> None:
    reading = Catalog([open_sage(project)]).read(uri)

    expected = Reading((Text(message, "text/plain"),), etag=reading.etag, error=KINDS[message])
    assert reading == expected


def test_an_error_as_content_is_marked_on_the_result_and_the_content(project: Path) -> None:
    result = ask(open_sage(project), "resources/read", uri="sage://checkpoint/none")

    del result["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert result == {
        "contents": [
            {
                "uri": "sage://checkpoint/none",
                "mimeType": "text/plain",
                "text": "Checkpoint not found: none",
                "_meta": {"dev.carrel/error": "not_found"},
            }
        ],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"dev.carrel/error": "not_found"},
    }


@pytest.mark.parametrize("uri", ["sage://notes/a", "sage://system", "sage:system/objective.md", "sage:///objective.md"])
def test_a_uri_of_an_unknown_kind_is_an_unknown_resource(project: Path, uri: str) -> None:
    with pytest.raises(NotFound) as caught:
        Catalog([open_sage(project)]).read(uri)

    assert caught.value.message == f"Resource not found: {uri}"


def test_errors_can_be_protocol_errors(project: Path) -> None:
    put(project / ".sage/checkpoints/broken.md", "no front matter here")
    catalog = Catalog([open_sage(project, errors="protocol")])

    with pytest.raises(NotFound, match=r"^Checkpoint not found: none$"):
        catalog.read("sage://checkpoint/none")
    with pytest.raises(BadArgument, match=r"^Invalid filename: \.\./a$"):
        catalog.read("sage://system/../a")
    with pytest.raises(ProviderError) as caught:
        catalog.read("sage://checkpoint/broken")
    assert (caught.value.message, caught.value.word) == (
        "Error loading checkpoint broken: no front matter",
        "unreadable",
    )


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "none": ("# x\n", "no front matter"),
    "padded": (" ---\na: 1\n---\n", "no front matter"),
    "open": ("---\nid: a\n", "front matter is not closed"),
    "yaml": ("---\nid: a\nb: [1\n---\n", "not valid YAML (line 4)"),
    "list": ("---\n- a\n---\n", "not a mapping"),
    "latin": (b"---\nid: \xe9\n---\n", "not UTF-8 text"),
    "nul": ("---\nid: a\n---\n\0", "not UTF-8 text"),
    "deep": ("---\na: " + "[" * 30_000 + "\n---\n", "not valid YAML (line 2)"),
    "aliases": ("---\na: &a x\nb: [" + "*a, " * 101 + "]\n---\n", "not valid YAML (line 3)"),
    "long": ("---\na: " + "x" * 66_000 + "\n---\n", "too large (66004 bytes, limit 65536)"),
    "tagged": ("---\nid: !!python/object/apply:os.system [echo]\nb: *none\n---\n", "not valid YAML (line 3)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_checkpoint_says_why_and_hides_no_other(project: Path, name: str) -> None:
    content, reason = BROKEN[name]
    put(project / f".sage/checkpoints/{name}.md", content)
    sage = open_sage(project)

    assert read(sage, f"sage://checkpoint/{name}") == f"Error loading checkpoint {name}: {reason}"
    assert read(sage, "sage://checkpoint/jwt-research") == folder.CHECKPOINT_TEXT
    assert [entry.uri for entry in sage.entries() if "checkpoint" in entry.uri] == [f"sage://checkpoint/{STEM}"]


@LOCAL
def test_special_files_and_folders_are_named_and_never_block(project: Path) -> None:
    os.mkfifo(project / ".sage/system/p.md")
    os.mkfifo(project / ".sage/checkpoints/p.md")
    (project / ".sage/checkpoints/d.md").mkdir()
    sage = open_sage(project)

    assert read(sage, "sage://system/p.md") == "Error reading p.md: not a regular file"
    assert read(sage, "sage://system/pinned") == "Error reading pinned: is a directory"
    assert read(sage, "sage://checkpoint/p") == "Error loading checkpoint p: not a regular file"
    assert read(sage, "sage://checkpoint/d") == "Error loading checkpoint d: is a directory"


@LOCAL
def test_links_are_followed_inside_and_refused_outside(project: Path) -> None:
    system = project / ".sage/system"
    put(project / ".sage/config.yaml", "key: secret")
    for name, target in {
        "in.md": "pinned/reference.md",
        "absolute.md": str((system / "pinned/reference.md").resolve()),
        "out.md": "../config.yaml",
        "gone.md": "/nowhere/at/all",
        "dangling.md": "missing.md",
        "loop.md": "loop.md",
        "up": "..",
    }.items():
        (system / name).symlink_to(target)
    (project / ".sage/checkpoints/out.md").symlink_to("../config.yaml")
    sage = open_sage(project)

    assert read(sage, "sage://system/in.md") == "Reference.\n"
    assert read(sage, "sage://system/absolute.md") == "Reference.\n"
    assert read(sage, "sage://system/out.md") == "File not in system folder: out.md"
    assert read(sage, "sage://system/gone.md") == "File not in system folder: gone.md"
    assert read(sage, "sage://system/up/config.yaml") == "File not in system folder: up/config.yaml"
    assert read(sage, "sage://system/dangling.md") == "File not found: dangling.md"
    assert read(sage, "sage://system/loop.md") == "Error reading loop.md: too many links"
    assert read(sage, "sage://checkpoint/out") == "Error loading checkpoint out: link leaves the folder"
    listed = [entry.uri for entry in sage.entries() if "system" in entry.uri]
    assert listed == [
        "sage://system/objective.md",
        "sage://system/pinned/reference.md",
        "sage://system/absolute.md",
        "sage://system/in.md",
    ]


def test_a_file_over_the_limit_is_not_read(project: Path) -> None:
    put(project / ".sage/system/big.md", "x" * 2_001)
    put(project / ".sage/knowledge/global/auth-patterns.md", "x" * 2_002)
    sage = open_sage(project, max_file_bytes=2_000)

    assert read(sage, "sage://system/big.md") == "Error reading big.md: too large (2001 bytes, limit 2000)"
    told = "Error loading knowledge auth-patterns: too large (2002 bytes, limit 2000)"
    assert read(sage, "sage://knowledge/auth-patterns") == told


@LOCAL
def test_a_sage_folder_that_leaves_the_workspace_counts_as_absent(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".sage").rename(tmp_path / "elsewhere/.sage")
    (project / ".sage").symlink_to(tmp_path / "elsewhere/.sage")

    assert read(open_sage(project), "sage://system/objective.md") == "File not found: objective.md"
    named = open_sage(project, dir=str(tmp_path / "elsewhere/.sage"))
    assert read(named, "sage://system/pinned/reference.md") == "Reference.\n"


@LOCAL
def test_a_sub_folder_that_leaves_or_holds_the_sage_folder_counts_as_absent(project: Path, tmp_path: Path) -> None:
    put(tmp_path / "out/a.md", "secret")
    put(project / "notes/b.md", "inside")
    put(project / ".sage/config.yaml", "key: secret")
    system = project / ".sage/system"
    system.rename(project / "old")
    sage = open_sage(project)
    for target, answer in {
        str(tmp_path / "out"): "File not found: a.md",
        "../notes": "File not found: a.md",
        "..": "File not found: a.md",
        ".": "File not found: a.md",
    }.items():
        system.symlink_to(target)
        assert read(sage, "sage://system/a.md") == answer
        assert read(sage, "sage://system/config.yaml") == "File not found: config.yaml"
        system.unlink()
    system.symlink_to("../notes")
    assert read(sage, "sage://system/b.md") == "inside"


def test_a_folder_that_comes_goes_and_is_replaced_is_seen(tmp_path: Path) -> None:
    sage = open_sage(tmp_path)
    assert read(sage, "sage://system/a.md") == "File not found: a.md"

    put(tmp_path / ".sage/system/a.md", "one")
    assert read(sage, "sage://system/a.md") == "one"

    (tmp_path / ".sage").rename(tmp_path / "away")
    assert read(sage, "sage://system/a.md") == "File not found: a.md"

    put(tmp_path / ".sage/system/a.md", "two")
    assert read(sage, "sage://system/a.md") == "two"


def test_system_files_keep_line_ends_and_lose_the_bom(project: Path) -> None:
    put(project / ".sage/system/crlf.md", b"\xef\xbb\xbfa\r\nb\r\n")

    assert read(open_sage(project), "sage://system/crlf.md") == "a\r\nb\r\n"


def test_tuning_sets_the_format_and_the_query_beats_it(project: Path) -> None:
    sage = open_sage(project)
    tuning = put(project / ".sage/tuning.yaml", "output_format: toon\n")
    assert read(sage, "sage://failure/jwt-localstorage") == folder.FAILURE_TOON
    assert read(sage, "sage://failure/jwt-localstorage?format=markdown") == folder.FAILURE_TEXT

    tuning.write_text("output_format: [broken\n", encoding="utf-8")
    assert read(sage, "sage://failure/jwt-localstorage") == folder.FAILURE_TEXT


def test_knowledge_says_where_its_code_is_now(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "web")
    git(project, "commit", "-qm", "one")
    commit = git(project, "rev-parse", "--short", "HEAD")
    index = folder.INDEX.replace("4be19aa", commit)
    put(project / ".sage/knowledge/index.yaml", index)
    sage = open_sage(project)
    assert "web/tokens.py:12, ok — sets" in read(sage, "sage://knowledge/auth-patterns")

    put(project / "web/tokens.py", "def set_token(): ...\n")
    git(project, "commit", "-qam", "two")
    assert "web/tokens.py:1, modified — sets" in read(sage, "sage://knowledge/auth-patterns")

    put(project / "web/tokens.py", "nothing\n")
    assert "(implements): not found — sets the cookie" in read(sage, "sage://knowledge/auth-patterns")


@pytest.mark.parametrize(
    "chunk", [".env::KEY", "web/../.env", "../out.py", "/etc/passwd", ".sage/config.yaml", "a.pem", "web", ""]
)
def test_a_code_link_leads_nowhere_the_workspace_denies(project: Path, chunk: str) -> None:
    for name in (".env", "a.pem", ".sage/config.yaml"):
        put(project / name, "KEY = 1\n")
    put(project / ".sage/knowledge/index.yaml", folder.INDEX.replace("web/tokens.py::set_token", chunk))

    text = read(open_sage(project), "sage://knowledge/auth-patterns")
    assert ("not found" in text) == bool(chunk)


def test_content_outside_the_knowledge_folder_is_refused(project: Path) -> None:
    for file, reason in {
        "../config.yaml": "content file outside the knowledge folder",
        "/etc/passwd": "content file outside the knowledge folder",
        "global/none.md": "content file not found",
    }.items():
        put(project / ".sage/knowledge/index.yaml", folder.INDEX.replace("global/auth-patterns.md", file))
        told = f"Error loading knowledge auth-patterns: {reason}"
        assert read(open_sage(project), "sage://knowledge/auth-patterns") == told


def test_reads_change_nothing(project: Path) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for path in project.rglob("*"))

    before = state()
    sage = open_sage(project)
    for entry in sage.entries():
        read(sage, entry.uri)
    sage.instructions()
    assert state() == before


NEVER = {
    "sage://system/../x": "Invalid filename: ../x",
    "sage://system/.": "File not in system folder: .",
    "sage://checkpoint/a;b": "Invalid checkpoint ID: a;b",
    "sage://knowledge/auth-patterns?format=xml": "Invalid format: xml",
    "sage://knowledge/none?format=xml": "Invalid format: xml",
}


@pytest.mark.parametrize(("uri", "told"), NEVER.items())
def test_an_invalid_uri_cannot_be_subscribed_to(project: Path, uri: str, told: str) -> None:
    sage = open_sage(project)

    with pytest.raises(RemoteError) as raised:
        ask(sage, "resources/subscribe", "legacy", uri=uri)
    with Client.to(Server(Catalog([sage]))) as client, client.listen([uri, "sage://system/yet-to-come.md"]) as heard:
        honoured = heard.honoured

    assert (raised.value.code, raised.value.message) == (-32602, told)
    assert honoured == ("sage://system/yet-to-come.md",)


@pytest.mark.parametrize("uri", [f"sage://{kind}/none" for kind in ("system", "checkpoint", "knowledge", "failure")])
def test_a_missing_item_can_be_subscribed_to(project: Path, uri: str) -> None:
    assert ask(open_sage(project), "resources/subscribe", "legacy", uri=uri) == {}


def test_knowledge_whose_content_is_gone_can_be_subscribed_to(project: Path) -> None:
    sage = open_sage(project)
    before = Catalog([sage]).fingerprint("sage://knowledge/auth-patterns")
    (project / ".sage/knowledge/global/auth-patterns.md").unlink()

    after = Catalog([sage]).fingerprint("sage://knowledge/auth-patterns")
    assert before != after == "error Error loading knowledge auth-patterns: content file not found"


def test_newer_files_are_read_at_once(project: Path) -> None:
    sage = open_sage(project)
    read(sage, "sage://checkpoint/research")
    put(project / ".sage/checkpoints/2026-03-01T00-00-00_other-research.md", checkpoint("x"))

    told = f"Checkpoint ambiguous: research matches 2: 2026-03-01T00-00-00_other-research, {STEM}"
    assert read(sage, "sage://checkpoint/research") == told
