"""A stranger's `.sage` must not show denied names, files outside, other users' folders or special files."""

import os
from pathlib import Path

import pytest

from carrel.core.provider import Project
from carrel.providers.sage import Sage, code_links
from carrel.providers.sage.file_writes import FolderWriter, WriteFailed
from carrel.providers.sage.folders import SageFolders
from tests.support.owners import give_away
from tests.support.sage_folder import open_sage, put, read

SECRET = "the secret itself"


def unnamed(project: Path, **settings: object) -> Sage:
    """Return the provider with settings from a project file that is not trusted."""
    environment = {"HOME": str(project / "home")}
    return Sage(Project(str(project), environment, given=frozenset(settings), deny=("*.private",)), **settings)  # type: ignore[arg-type]


def everything(sage: Sage) -> str:
    """Return everything that Sage shows without a request for a name."""
    listed = list(sage.entries())
    texts = [str(listed), sage.instructions(), str(sage.health())]
    return "".join([*texts, *(read(sage, entry.uri) for entry in listed)])


@pytest.mark.parametrize("place", [".git", ".ssh", ".aws", "sub/.git", "keys.private"])
@pytest.mark.parametrize("kind", ["system", "checkpoints", "knowledge", "failures"])
def test_a_link_to_a_denied_folder_shows_nothing_of_it(tmp_path: Path, kind: str, place: str) -> None:
    put(tmp_path / place / "config", SECRET)
    put(tmp_path / place / "a.md", f"---\nid: a\n---\n{SECRET}")
    put(tmp_path / place / "global/a.md", f"---\nid: a\n---\n{SECRET}")
    (tmp_path / ".sage").mkdir()
    (tmp_path / ".sage" / kind).symlink_to(f"../{place}")
    sage = unnamed(tmp_path)

    assert SECRET not in everything(sage)
    assert read(sage, "sage://system/config") == "File not found: config"
    for uri in ("sage://system/a.md", "sage://checkpoint/a", "sage://knowledge/a", "sage://failure/a"):
        assert SECRET not in read(sage, uri)


def test_the_sage_folder_cannot_be_a_link_to_a_denied_folder(tmp_path: Path) -> None:
    put(tmp_path / ".git/system/a.md", SECRET)
    (tmp_path / ".sage").symlink_to(".git")
    assert SECRET not in everything(unnamed(tmp_path))
    assert SECRET not in everything(unnamed(tmp_path, dir=".git"))
    assert SECRET not in everything(unnamed(tmp_path, dir=".git/.sage/.."))
    assert read(unnamed(tmp_path, dir=".git"), "sage://system/a.md") == "File not found: a.md"


@pytest.mark.parametrize("name", ["server.pem", "id_rsa", ".env", "x.private", "deep/key.pem"])
def test_a_denied_name_is_refused_whether_or_not_the_file_exists(tmp_path: Path, name: str) -> None:
    put(tmp_path / ".sage/system/objective.md", "Ship it.")
    sage = unnamed(tmp_path)
    before = read(sage, f"sage://system/{name}")

    put(tmp_path / ".sage/system" / name, SECRET)

    assert read(sage, f"sage://system/{name}") == before == f"Error reading {name}: its name is on the deny-list"
    assert SECRET not in everything(sage)
    assert name not in str(list(sage.entries()))


def test_a_sage_folder_elsewhere_in_the_project_is_served(tmp_path: Path) -> None:
    put(tmp_path / "team/.sage/system/a.md", "plain")
    assert read(unnamed(tmp_path, dir="team/.sage"), "sage://system/a.md") == "plain"


def test_a_folder_that_a_project_s_own_file_names_stays_in_the_project(tmp_path: Path) -> None:
    put(tmp_path / "outside/system/a.md", SECRET)
    project = tmp_path / "project"
    project.mkdir()
    (project / "memory").symlink_to("../outside")
    assert SECRET not in read(unnamed(project, dir="memory"), "sage://system/a.md")
    assert SECRET not in read(unnamed(project, dir="../outside"), "sage://system/a.md")
    assert read(open_sage(project, dir="../outside"), "sage://system/a.md") == SECRET


@pytest.mark.parametrize("place", [".sage", ".sage/system"])
def test_a_folder_of_another_user_counts_as_absent(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / ".sage/system/a.md", SECRET)
    give_away(tmp_path / place, monkeypatch)
    sage = open_sage(tmp_path, tools="write")
    assert SECRET not in everything(sage)
    assert read(sage, "sage://system/a.md") == "File not found: a.md"
    result = sage.toolset.call("sage_write_system", {"filename": "b.md", "content": "x"})
    assert result.blocks[0] == "Error writing b.md: the folder belongs to another user"
    assert not (tmp_path / ".sage/system/b.md").exists()


def test_a_file_with_a_denied_name_is_not_in_the_instructions(tmp_path: Path) -> None:
    put(tmp_path / ".sage/system/objective.md", "Ship it.")
    put(tmp_path / ".sage/system/credentials.md", SECRET)
    put(tmp_path / ".sage/system/pinned/id_rsa.md", SECRET)
    assert "Ship it." in unnamed(tmp_path).instructions()
    assert SECRET not in unnamed(tmp_path).instructions()


def test_code_links_that_were_not_resolved_in_time_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a.py", "def a(): ...\n")
    put(tmp_path / ".sage/knowledge/global/k.md", "text")
    links = ", ".join("{chunk_id: 'a.py::a', note: n}" for _ in range(3))
    put(tmp_path / ".sage/knowledge/index.yaml", f"items: [{{id: k, file: global/k.md, code_links: [{links}]}}]\n")
    assert "(related): a.py:1, ok — n\n" in read(unnamed(tmp_path), "sage://knowledge/k")
    monkeypatch.setattr(code_links, "RESOLVE_S", -1.0)
    assert "(related): not checked — n\n" in read(unnamed(tmp_path), "sage://knowledge/k")
    assert "  a.py::a,-,?\n" in read(unnamed(tmp_path), "sage://knowledge/k?format=toon")


def test_a_denied_name_is_not_written(tmp_path: Path) -> None:
    sage = open_sage(tmp_path, tools="write")
    result = sage.toolset.call("sage_write_system", {"filename": "id_rsa.md", "content": "x"})
    assert result.blocks[0] == "Error writing id_rsa.md: its name is on the deny-list"


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        ".sage",
        ".sage/system",
        ".sage/system/a.md",
        ".sage/tuning.yaml",
        ".sage/checkpoints/a.md",
        ".sage/knowledge/index.yaml",
        ".sage/knowledge/global/a.md",
        ".sage/failures/a.md",
        "package.json",
        "pyproject.toml",
        "code.py",
    ],
)
def test_a_fifo_in_any_place_never_blocks(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / place)
    if not place.startswith(".sage"):
        index = "items: [{id: a, file: global/a.md, code_links: [{chunk_id: code.py}]}]\n"
        put(tmp_path / ".sage/knowledge/index.yaml", index)
        put(tmp_path / ".sage/knowledge/global/a.md", "text")
        put(tmp_path / ".sage/failures/f.md", "---\nid: f\napproach: a\nkeywords: [x]\n---\n")
    sage = open_sage(tmp_path)
    everything(sage)
    for uri in ("sage://system/a.md", "sage://checkpoint/a", "sage://knowledge/a", "sage://failure/a"):
        read(sage, uri)
    sage.toolset.call("sage_recall_knowledge", {"query": "text"})
    sage.toolset.call("sage_search_checkpoints", {"query": "text"})


@pytest.mark.parametrize("place", [".git", ".git/hooks", ".ssh", "keys.private"])
def test_nothing_is_written_to_a_denied_folder_that_a_project_names(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    project = Project(str(tmp_path), {}, deny=("*.private",))
    writer = FolderWriter(project, SageFolders(project, place, is_named="dir" in project.named).data)

    with pytest.raises(WriteFailed, match="its name is on the deny-list"):
        writer.make("system")
    assert not [*(tmp_path / place).iterdir()]
