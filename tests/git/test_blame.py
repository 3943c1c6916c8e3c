"""Origins of lines where history is odd: merges, cut clones, commits that form a cycle, too little time."""

import subprocess
import zlib
from pathlib import Path

import pytest

from carrel.core.errors import CarrelError
from carrel.git import blame
from carrel.git.blame import Blame, Origin
from carrel.git.folder_history import FolderHistory, read_log
from carrel.git.objects import Deadline
from carrel.git.patches import split_lines
from carrel.git.repository import Repository
from carrel.git.revisions import resolve
from tests.support.sage_folder import git, put


def commit(project: Path, text: str) -> str:
    put(project / "f", text)
    git(project, "add", "f")
    git(project, "commit", "-qm", "m", "--allow-empty")
    return git(project, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    return made


def blamed(project: Path, revision: str = "HEAD", timeout_s: float = 20.0) -> list[Origin]:
    def ask(one: Repository) -> list[Origin]:
        return Blame(one.history, one.objects, (b"f",)).lines(resolve(one, revision))[1]

    return FolderHistory(str(project), "", timeout_s).ask("workspace:///f?blame", ask)


def put_object(project: Path, name: str, kind: str, data: bytes) -> None:
    """Write an object under a name that is not its hash."""
    place = project / ".git/objects" / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data)))


def test_lines_of_both_sides_of_a_merge_keep_their_commits(project: Path) -> None:
    first = commit(project, "a\nb\nc\nd\ne\n")
    git(project, "checkout", "-qb", "side")
    side = commit(project, "a\nb\nc\nd\nE\n")
    git(project, "checkout", "-q", "main")
    main = commit(project, "A\nb\nc\nd\ne\n")
    git(project, "merge", "-q", "--no-edit", "side")

    assert [one.commit.decode() for one in blamed(project)] == [main, first, first, first, side]


def test_lines_that_are_the_same_twice_each_have_an_origin(project: Path) -> None:
    first = commit(project, "x\nx\n")
    second = commit(project, "x\nx\nx\nx\n")

    assert sorted(one.commit.decode() for one in blamed(project)) == sorted([first, first, second, second])


def test_an_empty_file_and_a_file_without_a_line_end_are_blamed(project: Path) -> None:
    commit(project, "")
    assert blamed(project) == []
    last = commit(project, "no end")
    assert blamed(project) == [Origin(last.encode())]


def test_where_a_clone_is_cut_a_line_may_be_older(project: Path, tmp_path: Path) -> None:
    commit(project, "a\n")
    cut = commit(project, "a\nb\n")
    last = commit(project, "a\nb\nc\n")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "2", f"file://{project}", str(clone)], check=True)

    older = Origin(cut.encode(), is_older=True)
    assert blamed(clone) == [older, older, Origin(last.encode())]


def test_without_time_lines_are_from_where_it_ended_or_before(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        commit(project, "".join(f"{line}\n" for line in range(number + 1)))
    monkeypatch.setattr(Blame, "_settle", lambda self, name: Deadline(-1).check())

    assert {one.is_older for one in blamed(project)} == {True}


def test_lines_are_not_looked_for_in_a_version_with_too_many(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blame, "MAX_LINES", 3)
    commit(project, "a\nb\nc\nd\ne\n")
    short = commit(project, "a\nb\n")
    split: list[bytes] = []

    def count_splits(data: bytes) -> list[bytes]:
        split.append(data)
        return split_lines(data)

    monkeypatch.setattr(blame, "split_lines", count_splits)

    assert blamed(project) == [Origin(short.encode(), is_older=True)] * 2
    assert split == [b"a\nb\n"]
    with pytest.raises(CarrelError):
        blamed(project, "HEAD~1")


@pytest.mark.slow
def test_commits_that_form_a_cycle_end_with_an_answer(project: Path) -> None:
    head = commit(project, "a\n")
    tree = git(project, "rev-parse", "HEAD^{tree}")
    one, two = "a" * 40, "b" * 40
    for name, parent in ((one, two), (two, one)):
        text = f"tree {tree}\nparent {parent}\nparent {head}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"
        put_object(project, name, "commit", text.encode())
    history = FolderHistory(str(project), "", 0.5)

    page = history.ask("workspace:///?log", lambda repository: read_log(repository, one, None, 0))
    assert [found.id.decode() for found in page.commits] == [one, head, two]
    assert {origin.is_older for origin in blamed(project, one, 0.5)} == {True}
    assert history.ask("workspace:///?log", lambda repository: resolve(repository, f"{one}~100000")) == one.encode()


def test_a_tree_that_contains_itself_ends_with_an_error(project: Path) -> None:
    commit(project, "a\n")
    name = "c" * 40
    put_object(project, name, "tree", b"40000 d\0" + bytes.fromhex(name) + b"40000 f\0" + bytes.fromhex(name))
    text = f"tree {name}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"
    put_object(project, "d" * 40, "commit", text.encode())

    with pytest.raises(CarrelError, match="cannot be read"):
        blamed(project, "d" * 40)
