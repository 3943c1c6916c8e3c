"""What differs from the last commit: as `git status` says, and without running anything."""

import random
from pathlib import Path

import pytest

from carrel.core.errors import ProviderError
from carrel.git.folder_history import FolderHistory
from carrel.git.status import Status, read_status
from tests.support.sage_folder import git, put


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    for name in ("a", "b", "d/c", "d/e", "gone", "mode"):
        put(made / name, f"{name}\n")
    put(made / ".gitignore", "*.log\n/out/\n")
    git(made, "add", "-A")
    git(made, "commit", "-qm", "m")
    return made


def status(project: Path) -> Status:
    return FolderHistory(str(project), "", 20.0).ask("git://status", lambda one: read_status(one, ()))


def lines(project: Path) -> list[str]:
    return sorted(f"{one.letters} {one.path}" for one in status(project).files)


def expected(project: Path) -> list[str]:
    """Return what git says, file by file and without quotes."""
    said = git(project, "-c", "core.quotepath=off", "status", "--porcelain", "-uall", "--no-renames", "-z")
    # `git()` strips the leading blank of the first line
    rows = [row for row in said.split("\0") if row]
    return sorted(row if row[2:3] == " " else f" {row}" for row in rows)


def test_a_clean_work_tree_has_nothing_that_differs(project: Path) -> None:
    found = status(project)

    assert (found.branch, found.files, found.unsure) == ("main", (), 0)
    assert found.head is not None
    assert found.head.decode() == git(project, "rev-parse", "HEAD")


def test_every_kind_of_difference_has_the_letters_of_git(project: Path) -> None:
    put(project / "a", "changed\n")
    put(project / "b", "staged\n")
    git(project, "add", "b")
    put(project / "b", "staged and changed\n")
    (project / "gone").unlink()
    git(project, "rm", "-q", "--cached", "d/c")
    put(project / "new", "new\n")
    put(project / "more/deep/new", "new\n")
    put(project / "added", "added\n")
    git(project, "add", "added")
    put(project / "x.log", "ignored\n")
    put(project / "out/x", "ignored\n")
    (project / "mode").chmod(0o755)
    (project / "d/e").unlink()
    (project / "d/e").symlink_to("../a")

    assert lines(project) == expected(project)
    assert {"?? d/c", "D  d/c", " T d/e", "MM b", " M mode"} <= set(lines(project))


def test_a_file_that_became_a_folder_is_deleted_and_new(project: Path) -> None:
    (project / "a").unlink()
    put(project / "a/inner", "x\n")

    assert lines(project) == expected(project) == [" D a", "?? a/inner"]


def test_a_repository_without_a_commit_shows_what_is_staged(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "fresh")
    put(tmp_path / "new", "x\n")
    assert lines(tmp_path) == ["?? new"]
    git(tmp_path, "add", "new")

    assert lines(tmp_path) == expected(tmp_path) == ["A  new"]
    assert (status(tmp_path).branch, status(tmp_path).head) == ("fresh", None)


def test_a_conflict_is_told(project: Path) -> None:
    git(project, "checkout", "-qb", "side")
    put(project / "a", "side\n")
    git(project, "commit", "-qam", "side")
    git(project, "checkout", "-q", "main")
    put(project / "a", "main\n")
    git(project, "commit", "-qam", "main")
    with pytest.raises(Exception, match="merge"):
        git(project, "merge", "-q", "side")

    assert lines(project) == expected(project) == ["UU a"]


def test_a_filter_is_never_run_and_its_files_are_counted(project: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    put(project / ".gitattributes", "a filter=trap\n")
    git(project, "add", ".gitattributes")
    git(project, "commit", "-qm", "filtered")
    git(project, "config", "filter.trap.clean", f"touch {mark}; cat")
    git(project, "config", "core.fsmonitor", f"touch {mark}")
    put(project / "a", "other bytes\n")
    found = status(project)

    assert (found.files, found.unsure) == ((), 1)
    assert not mark.exists()


def test_a_detached_head_is_named(project: Path) -> None:
    git(project, "checkout", "-q", "--detach")

    assert status(project).branch == "HEAD"


def test_another_repository_inside_is_named_and_not_entered(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    put(inner / "secret", "x\n")
    git(inner, "add", "secret")
    git(inner, "commit", "-qm", "m")

    assert lines(project) == expected(project) == ["?? inner/"]


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_are_what_git_says(project: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "d/c", "d/e", "gone", "mode", "n1", "n2", "d/n3", "q/n4"]
    for _ in range(12):
        name, way = chance.choice(names), chance.randrange(4)
        file = project / name
        if way == 0:
            put(file, f"{chance.random()}\n")
        elif way == 1 and file.exists():
            file.unlink()
        elif way == 2:
            git(project, "add", "-A", *([name] if file.exists() else []))
        elif file.exists():
            git(project, "reset", "-q", "--", name)

    assert lines(project) == expected(project)


@pytest.mark.parametrize(
    "content", [b"", b"DIRC", b"DIRC\0\0\0\x02\xff\xff\xff\xff", b"\xff" * 400, b"DIRC\0\0\0\x09" + b"\0" * 40]
)
def test_an_index_that_cannot_be_read_is_an_error_for_people(project: Path, content: bytes) -> None:
    (project / ".git/index").write_bytes(content)

    with pytest.raises(ProviderError, match=r"^Git's data for git://status cannot be read: "):
        status(project)
