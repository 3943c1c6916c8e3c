"""`carrel sage` on the command line, and when the provider is on the desk."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from carrel.app import config
from carrel.app.app import open_desk
from carrel.cli import main
from carrel.client.client import Client
from carrel.core.errors import RemoteError
from tests.support.sage_folder import CHECKPOINT_TEXT, FAILURE_TOON, STEM, lay_out, put

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new project, with a separate home folder."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line."""

    def run_words(*words: str) -> tuple[int, str, str]:
        code = main(["sage", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_words


def test_init_makes_the_folders_once(run: Run, project: Path) -> None:
    made = [".sage", ".sage/system", ".sage/system/pinned", ".sage/checkpoints", ".sage/knowledge"]
    made += [".sage/knowledge/global", ".sage/knowledge/skills", ".sage/failures"]

    assert run("init") == (0, "".join(f"{path}\n" for path in made), "")
    assert run("init") == (0, "", "")


def test_items_are_shown_by_uri_or_kind_and_id(run: Run, project: Path) -> None:
    lay_out(project)

    assert run("show", "@sage://checkpoint/jwt-research") == (0, CHECKPOINT_TEXT, "")
    assert run("show", "@carrel:sage://checkpoint/jwt-research") == (0, CHECKPOINT_TEXT, "")
    assert run("show", "failure/jwt-localstorage", "--format", "toon") == (0, FAILURE_TOON, "")
    assert run("show", "knowledge/none") == (1, "", "carrel: Knowledge not found: none\n")
    assert run("show", "system/../x") == (2, "", "carrel: Invalid filename: ../x\n")
    assert run("show", "failure/jwt-localstorage", "--format", "xml") == (2, "", "carrel: Invalid format: xml\n")
    assert run("show", "notes/a") == (1, "", "carrel: Resource not found: sage://notes/a\n")


def test_items_are_listed_and_files_that_are_not_are_named(run: Run, project: Path) -> None:
    lay_out(project)
    put(project / ".sage/checkpoints/broken.md", "broken")
    put(project / ".sage/failures/.hidden.md", "hidden")

    assert run("ls", "--kind", "checkpoint") == (0, f"sage://checkpoint/{STEM}\n", "")
    told = "checkpoints/broken.md\tno front matter\nfailures/.hidden.md\tname begins with a dot\n"
    assert run("ls", "--check") == (1, told, "")
    assert json.loads(run("ls", "--check", "--json")[1])[0] == {
        "path": "checkpoints/broken.md",
        "reason": "no front matter",
    }


def test_saving_works_at_every_level_of_tools(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(project / "carrel.toml", '[sage]\ntools = "off"\n')
    code, uri, _ = run("save-checkpoint", "--question", "q", "--thesis", "The thesis", "--confidence", "0.5")
    assert (code, uri.endswith("_the-thesis\n")) == (0, True)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"core_question": "q", "thesis": "Piped", "confidence": 1}'))
    assert run("save-checkpoint", "--from-json", "-")[1].endswith("_piped\n")
    assert run("save-knowledge", "k", "--keyword", "a", "--keyword", "b", "--content", "c")[1] == "sage://knowledge/k\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe"))
    assert run("save-knowledge", "piped", "--keyword", "a", "-")[1] == "sage://knowledge/piped\n"
    recorded = run("record-failure", "f", "--approach", "a", "--why", "w", "--learned", "l", "--keyword", "k")
    assert recorded == (0, "sage://failure/f\n", "")
    assert run("show", "knowledge/piped")[1].endswith("\n\nfrom a pipe\n")

    wrong = run("save-checkpoint", "--question", "q", "--thesis", "t", "--confidence", "nan")
    assert wrong == (2, "", "carrel: Invalid confidence nan: must be between 0.0 and 1.0\n")
    assert run("save-knowledge", "k", "--content", "c") == (2, "", "carrel: Invalid keywords: must not be empty\n")


def test_search_prints_uris_and_scores(run: Run, project: Path) -> None:
    lay_out(project)
    put(project / "carrel.toml", '[sage]\nsearch = "bm25"\n')

    code, out, _ = run("search", "localStorage")
    assert (code, [line.partition("\t")[0] for line in out.splitlines()]) == (
        0,
        [f"sage://checkpoint/{STEM}", "sage://failure/jwt-localstorage"],
    )
    assert json.loads(run("search", "jwt", "--kind", "failure", "--json")[1])[0]["uri"] == (
        "sage://failure/jwt-localstorage"
    )


def test_a_limit_holds_over_all_kinds_the_best_of_each_first(run: Run, project: Path) -> None:
    lay_out(project)
    put(project / "carrel.toml", '[sage]\nsearch = "bm25"\n')
    for name in ("one", "two"):
        run("save-knowledge", name, "--keyword", "localStorage", "--content", "localStorage")

    def kinds_of(limit: int) -> list[str]:
        rows = json.loads(run("search", "localStorage", "--limit", str(limit), "--json")[1])
        return [row["uri"].split("/")[2] for row in rows]

    assert kinds_of(1) == ["checkpoint"]
    assert kinds_of(3) == ["checkpoint", "knowledge", "failure"]
    assert kinds_of(4) == ["checkpoint", "knowledge", "knowledge", "failure"]


@pytest.mark.parametrize("query", ["", "  "])
def test_a_search_for_nothing_is_refused(run: Run, query: str) -> None:
    assert run("search", query) == (2, "", "carrel: Invalid query: must not be empty\n")


@pytest.mark.parametrize("words", [("--content", "x", "--file", "f"), ("--file", "f", "-"), ("--content", "x", "-")])
def test_content_is_taken_from_one_place(run: Run, project: Path, words: tuple[str, ...]) -> None:
    put(project / "f", "from a file")

    code, out, err = run("save-knowledge", "k", "--keyword", "a", *words)

    assert (code, out) == (2, "")
    assert err.endswith("carrel: give one of --content, --file and -\n")
    assert not (project / ".sage").exists()


def test_unknown_keys_of_a_checkpoint_are_named(run: Run, project: Path) -> None:
    put(project / "one.json", '{"core_question": "q", "thesis": "t", "confidence": 1, "evidence": [], "id": "x"}')

    code, out, err = run("save-checkpoint", "--from-json", "one.json")

    assert (code, out) == (2, "")
    assert err.startswith("carrel: one.json has unknown keys: evidence, id; known keys: core_question, thesis, ")


# On the desk


def answers(project: Path, uri: str) -> tuple[str, list[str]]:
    """Return the text or the error that a client gets, and the tools it sees."""
    desk = open_desk(config.load(str(project), {"HOME": str(project.parent / "home")}))
    try:
        with Client.to(desk.server) as client:
            tools = [tool.name for tool in client.tools() if tool.name.startswith("sage_")]
            try:
                return str(getattr(client.read(uri).items[0], "text", "")), tools
            except RemoteError as error:
                return error.message, tools
    finally:
        desk.close()


def test_reads_are_answered_without_a_folder_and_not_at_all_when_it_is_switched_off(project: Path) -> None:
    uri = "sage://checkpoint/x"

    assert answers(project, uri) == ("Checkpoint not found: x", [])
    put(project / "carrel.toml", "[sage]\nenabled = false\n")
    served = "served here: carrel://, logs://, workspace://; for example carrel://guide"
    assert answers(project, uri) == (f"Unknown scheme: {uri}; {served}", [])
    put(project / "carrel.toml", "[sage]\nenabled = true\n")
    assert len(answers(project, uri)[1]) == 5
    put(project / "carrel.toml", '[sage]\ntools = "write"\n')
    assert len(answers(project, uri)[1]) == 0, "an untrusted project file turns on no tools that write"


def test_a_folder_that_appears_later_is_listed(project: Path) -> None:
    desk = open_desk(config.load(str(project), {"HOME": str(project.parent / "home")}))
    with Client.to(desk.server) as client:
        assert [entry.uri for entry in client.resources() if entry.uri.startswith("sage:")] == []
        lay_out(project)
        assert f"sage://checkpoint/{STEM}" in [entry.uri for entry in client.resources()]
    desk.close()
