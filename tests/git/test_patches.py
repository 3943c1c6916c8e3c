"""Patches of every kind of change, as git spells them, and as `git apply` takes them."""

import subprocess
from pathlib import Path

import pytest

from carrel.git.comparison import Comparison, compare_files, compare_trees
from carrel.git.folder_history import FolderHistory
from carrel.git.objects import Id
from carrel.git.patches import FileChange, make_patch, spelled
from carrel.git.repository import Repository
from carrel.git.revisions import resolve
from tests.support.sage_folder import git, put

FILE = (0o100644, b"1" * 40)
PROGRAM = (0o100755, b"2" * 40)
LINK = (0o120000, b"3" * 40)


def nothing() -> None:
    """Never stop."""


def patch(old: bytes | None, new: bytes | None) -> str:
    change = FileChange((b"d", b"f.txt"), None if old is None else FILE, None if new is None else FILE)
    return make_patch(change, old, new, nothing).text


def test_an_added_and_a_deleted_file_are_compared_with_nothing() -> None:
    assert patch(None, b"a\nb\n") == (
        "diff --git a/d/f.txt b/d/f.txt\nnew file mode 100644\n--- /dev/null\n+++ b/d/f.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    )
    assert patch(b"a\n", None) == (
        "diff --git a/d/f.txt b/d/f.txt\ndeleted file mode 100644\n--- a/d/f.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    )
    assert patch(None, b"") == "diff --git a/d/f.txt b/d/f.txt\nnew file mode 100644\n"


def test_a_missing_line_end_is_told() -> None:
    assert patch(b"a\nb", b"a\nb\n").endswith("@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n")


def test_changes_that_are_close_share_a_hunk() -> None:
    old = [b"%d\n" % number for number in range(30)]
    near, far = old.copy(), old.copy()
    near[5], near[12] = b"x\n", b"y\n"
    far[5], far[13] = b"x\n", b"y\n"

    assert patch(b"".join(old), b"".join(near)).count("@@ -") == 1
    assert patch(b"".join(old), b"".join(far)).count("@@ -") == 2


def test_another_mode_is_told() -> None:
    made = make_patch(FileChange((b"f",), FILE, PROGRAM), b"a\n", b"a\n", nothing)

    assert made.text == "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"


@pytest.mark.parametrize(
    ("old", "new", "letter"),
    [(None, FILE, "A"), (FILE, None, "D"), (FILE, PROGRAM, "M"), (FILE, LINK, "T")],
)
def test_a_change_has_the_letter_that_git_shows(
    old: tuple[int, bytes] | None, new: tuple[int, bytes] | None, letter: str
) -> None:
    assert FileChange((b"f",), old, new).letter == letter


def test_binary_and_huge_files_are_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Binary files differ" in patch(None, b"a" * 9_000 + b"\0")  # no text for a read either
    assert patch(b"a\0", b"b\0").endswith("\nBinary files differ: a/d/f.txt and b/d/f.txt\n")
    monkeypatch.setattr("carrel.git.patches.MAX_TEXT_BYTES", 3)
    assert patch(b"a\n", b"long\n").endswith("\nFiles too large to compare differ: a/d/f.txt and b/d/f.txt\n")


def test_a_name_is_one_printable_line() -> None:
    assert spelled(b"a\nb\x1b\xff") == "a\N{REPLACEMENT CHARACTER}b" + "\N{REPLACEMENT CHARACTER}" * 2


# Whole trees


def commit(project: Path) -> str:
    git(project, "add", "-A")
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "m"], cwd=project, check=True)
    return git(project, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two commits with every kind of change between them."""
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    for name in ("same", "changed", "gone", "turned/into/folder", "program"):
        put(made / name, f"{name}\n")
    put(made / "becomes-folder", "file\n")
    (made / "becomes-file").mkdir()
    put(made / "becomes-file/x", "x\n")
    (made / "link").symlink_to("same")
    commit(made)
    put(made / "changed", "other\n")
    (made / "gone").unlink()
    put(made / "new", "new\n")
    (made / "becomes-folder").unlink()
    put(made / "becomes-folder/x", "x\n")
    (made / "becomes-file/x").unlink()
    (made / "becomes-file").rmdir()
    put(made / "becomes-file", "file\n")
    (made / "link").unlink()
    (made / "link").symlink_to("new")
    (made / "program").chmod(0o755)
    commit(made)
    return made


def compared(project: Path, old: str | None, new: str, within: tuple[bytes, ...] = (), skip: int = 0) -> Comparison:
    def ask(one: Repository) -> Comparison:
        trees: list[Id | None] = [
            None if name is None else one.history.commit(resolve(one, name)).tree for name in (old, new)
        ]
        return compare_trees(one, (trees[0], trees[1]), within, lambda path: "secret" not in path, skip)

    return FolderHistory(str(project), "", 20.0).ask("git://diff", ask)


def test_every_kind_of_change_is_found_as_git_finds_it(project: Path) -> None:
    found = compared(project, "HEAD~1", "HEAD")
    expected = git(project, "diff-tree", "-r", "--no-renames", "--name-status", "HEAD~1", "HEAD").split("\n")

    assert [f"{one.change.letter}\t{b'/'.join(one.change.path).decode()}" for one in found.patches] == expected


def test_the_whole_patch_leads_from_one_commit_to_the_other(project: Path) -> None:
    git(project, "checkout", "-q", "HEAD~1")
    text = compared(project, "main~1", "main").text()
    subprocess.run(["git", "apply", "--index", "-"], cwd=project, input=text.encode(), check=True)

    assert git(project, "write-tree") == git(project, "rev-parse", "main^{tree}")


def test_the_first_commit_is_compared_with_nothing(project: Path) -> None:
    found = compared(project, None, "HEAD~1")

    assert {one.change.letter for one in found.patches} == {"A"}
    assert found.total == len(git(project, "ls-tree", "-r", "--name-only", "HEAD~1").split("\n"))


def test_a_comparison_of_one_folder_has_only_that(project: Path) -> None:
    assert [one.change.path for one in compared(project, "HEAD~1", "HEAD", (b"becomes-file",)).patches] == [
        (b"becomes-file", b"x")
    ]
    assert compared(project, "HEAD~1", "HEAD", (b"turned",)).text() == "No differences.\n"


def test_pages_of_a_comparison_join_to_the_whole(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compared(project, "HEAD~1", "HEAD")
    monkeypatch.setattr("carrel.git.comparison.MAX_CHARACTERS", 1)
    found, skip = list(compared(project, "HEAD~1", "HEAD").patches), 0
    assert len(found) == 1
    while (following := compared(project, "HEAD~1", "HEAD", (), skip).following) is not None:
        skip = following
        found += compared(project, "HEAD~1", "HEAD", (), skip).patches

    assert tuple(found) == whole.patches


def test_what_may_not_be_shown_is_counted(project: Path) -> None:
    put(project / "secret", "x\n")
    put(project / "also/secret", "x\n")
    commit(project)
    found = compared(project, "HEAD~1", "HEAD")

    assert (found.total, found.left_out) == (0, 2)
    assert found.text() == "2 files are left out: not served here.\nNo differences.\n"


def test_a_file_that_is_missing_or_of_another_type_is_no_crash(project: Path) -> None:
    tree = git(project, "rev-parse", "HEAD^{tree}").encode()

    def ask(one: Repository) -> Comparison:
        return compare_files(one, [FileChange((b"x",), None, (0o100644, tree))], lambda path: True, 0)

    with pytest.raises(Exception, match="cannot be read"):
        FolderHistory(str(project), "", 20.0).ask("git://diff", ask)


def test_no_answer_touches_the_repository(project: Path) -> None:
    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (project / ".git").rglob("*")}

    before = state()
    compared(project, "HEAD~1", "HEAD")
    assert state() == before


def test_a_page_after_the_last_file_says_so() -> None:
    assert Comparison((), 1, 0, 999, None).text() == "Nothing after the first 999 files: 1 in all.\n"
