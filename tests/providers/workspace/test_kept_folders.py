"""Folders that a list keeps: whatever changes, the very next list shows it; nothing unchanged is looked at again."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.model import Resource
from carrel.core.provider import Project
from carrel.files.sandbox import Opened
from carrel.providers.workspace import Workspace, kept_folders
from carrel.providers.workspace.inotify import Event, Inotify, Lost
from tests.support.workspaces import SECRET, fill, handles, settle

FILES = {
    ".gitignore": "*.tmp\n",
    "readme.md": "x",
    "unknown": "text",
    "x.tmp": "ignored",
    "docs/index.md": "x",
    "lib/.gitignore": "gen/\n",
    "lib/a.py": "a = 1\n",
    "lib/b.py": "b = 12\n",
    "lib/gen/g.py": "ignored",
    "lib/deep/er/c.py": "c = 1\n",
    "lib/deep/er/also": "text",
}
ELSEWHERE = "elsewhere"


@pytest.fixture(autouse=True)
def _every_handle_is_given_back(tmp_path: Path) -> Iterator[None]:
    yield
    assert handles(tmp_path) == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / ELSEWHERE, {"a.py": SECRET})
    folder = fill(tmp_path / "root", FILES)
    settle(*folder.rglob("*"))
    return folder


class Lists:
    """The list of a workspace, as hosts are sent it."""

    def __init__(self, root: Path, **settings: object) -> None:
        self._root = str(root)
        self._catalog = self._open(**settings)

    def _open(self, **settings: object) -> Catalog:
        workspace = Workspace(Project(self._root, {}), preset="code", **settings)  # type: ignore[arg-type]
        return Catalog([workspace], max_listed=1_000)

    def __enter__(self) -> "Lists":
        return self

    def __exit__(self, *_: object) -> None:
        self._catalog.close()

    def now(self) -> tuple[Resource, ...]:
        """Return the list."""
        return self._catalog.page().entries

    def anew(self) -> tuple[Resource, ...]:
        """Return what a server lists that was just started."""
        with Lists(Path(self._root)) as fresh:
            return fresh.now()


def pass_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let folders that were looked at a moment ago be looked at again."""
    later = time.monotonic() + kept_folders.CHECKED_S
    monkeypatch.setattr(kept_folders, "monotonic", lambda: later)


@pytest.fixture
def lists(root: Path) -> Iterator[Lists]:
    """A list that was asked for often enough that all its folders are kept."""
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        yield lists


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are looked at from now on."""
    looked: list[str] = []
    really = Opened.stat_child

    def recording(opened: Opened, name: str) -> os.stat_result:
        looked.append("/".join((*opened.real, name)))
        return really(opened, name)

    monkeypatch.setattr(Opened, "stat_child", recording)
    return looked


def test_a_list_looks_at_files_once_more_and_then_at_none_while_nothing_changes(root: Path, looks: list[str]) -> None:
    with Lists(root) as lists:
        first = lists.now()
        of_first = len(looks)
        second = lists.now()
        looks.clear()
        third = lists.now()

    assert first == second == third
    assert of_first >= 7
    assert [name for name in looks if name not in ("readme.md", "docs/index.md")] == []  # front documents are


def test_a_changed_file_has_only_its_folder_looked_at_again(root: Path, lists: Lists, looks: list[str]) -> None:
    (root / "lib/a.py").write_text("a = 1_000\n")

    assert lists.now() == lists.anew()
    looks.clear()
    (root / "lib/a.py").write_text("a = 2\n")
    lists.now()
    assert {name.rpartition("/")[0] for name in looks} - {"", "docs"} == {"lib"}


def write(path: str, text: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return change


def replace_by_link(path: str, target: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / "fresh").symlink_to(target)
        if (root / path).is_dir():
            shutil.rmtree(root / path)
        (root / "fresh").rename(root / path)

    return change


def git(root: Path, *words: str) -> None:
    nowhere = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(root)}
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, env=os.environ | nowhere)


def rewrite_keeping_time(root: Path) -> None:
    """Change a size, and set the time back."""
    place = root / "lib/deep/er/c.py"
    before = place.stat()
    place.write_text("c = 1234567\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def become_folder(root: Path) -> None:
    (root / "lib/a.py").unlink()
    fill(root, {"lib/a.py/x.py": "x"})


def track_hidden(root: Path) -> None:
    fill(root, {".github/ci.yml": "on: push\n"})
    git(root, "init", "-q")
    git(root, "add", "-f", ".")


def replace_root(root: Path) -> None:
    shutil.rmtree(root)
    fill(root, {"other/x.md": "x"})


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file comes": write("lib/new.py", "new"),
    "a file comes deep": write("lib/deep/er/new.py", "new"),
    "a file goes": lambda root: (root / "lib/a.py").unlink(),
    "a file gets another name": lambda root: (root / "lib/a.py").rename(root / "lib/z.py"),
    "a file moves": lambda root: (root / "lib/a.py").rename(root / "docs/a.py"),
    "a file moves over another": lambda root: (root / "lib/a.py").replace(root / "lib/b.py"),
    "a file grows": write("lib/b.py", "b = 12345\n"),
    "a file grows, its time does not": rewrite_keeping_time,
    "a file is cut": lambda root: os.truncate(root / "lib/b.py", 1),
    "a time changes": lambda root: os.utime(root / "lib/b.py"),
    "a text becomes binary": lambda root: (root / "lib/deep/er/also").write_bytes(b"\0\1\2"),
    "a file becomes a link to a file": replace_by_link("lib/a.py", "b.py"),
    "a file becomes a link out": replace_by_link("lib/a.py", f"../../{ELSEWHERE}/a.py"),
    "a folder becomes a link": replace_by_link("lib/deep", "../docs"),
    "a folder becomes a link out": replace_by_link("lib/deep", f"../../{ELSEWHERE}"),
    "a file becomes a folder": become_folder,
    "a folder comes": write("lib/deep/more/d.py", "d"),
    "a folder goes": lambda root: shutil.rmtree(root / "lib/deep"),
    "a folder gets another name": lambda root: (root / "lib/deep").rename(root / "lib/low"),
    "folders change places": lambda root: (
        (root / "docs").rename(root / "kept"),
        (root / "lib").rename(root / "docs"),
        (root / "kept").rename(root / "lib"),
    ),
    "the root's rules change": write(".gitignore", "*.tmp\ndocs/\n"),
    "the root's rules go": lambda root: (root / ".gitignore").unlink(),
    "rules change": write("lib/.gitignore", "gen/\ndeep/\n"),
    "rules go": lambda root: (root / "lib/.gitignore").unlink(),
    "rules come": write("lib/deep/.gitignore", "*.py\n"),
    "rules become a link": replace_by_link("lib/.gitignore", "../.gitignore"),
    "git's own rules come": write(".git/info/exclude", "lib/\n"),
    "git tracks a hidden file": track_hidden,
    "the root is another folder": replace_root,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_list_shows_what_changed(root: Path, lists: Lists, change: Callable[[Path], object]) -> None:
    before = lists.now()

    change(root)
    after = lists.now()

    assert after == lists.anew()
    assert after != before
    assert [lists.now() for _ in range(3)] == [after] * 3


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_list_shows_what_changed_where_nothing_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    def refuse(_: Inotify) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Inotify, "__init__", refuse)
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()

        change(root)

        assert lists.now() == lists.anew()


@pytest.mark.slow
def test_changes_right_after_one_another_all_show(root: Path, lists: Lists) -> None:
    for number in range(50):
        name = root / f"lib/file{number}.py"
        name.write_text("x" * number)
        assert lists.now() == lists.anew()
        if number % 2:
            name.unlink()
            assert lists.now() == lists.anew()


def test_what_is_tracked_by_git_changes_with_its_index(root: Path) -> None:
    fill(root, {".github/ci.yml": "on: push\n", ".github/more.yml": "x"})
    git(root, "init", "-q")
    git(root, "add", "-f", ".github/ci.yml")
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        git(root, "add", "-f", ".github/more.yml")
        more = lists.now()
        git(root, "rm", "-q", "--cached", ".github/ci.yml")
        less = lists.now()

    names = [[entry.name for entry in one if entry.name.startswith(".github")] for one in (more, less)]
    assert names == [[".github/ci.yml", ".github/more.yml"], [".github/more.yml"]]


def test_the_size_of_a_file_with_a_second_name_is_that_of_now(root: Path, tmp_path: Path) -> None:
    os.link(root / "lib/a.py", tmp_path / "second")
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        (tmp_path / "second").write_text("changed under its other name")

        assert lists.now() == lists.anew()


def test_a_file_that_is_too_large_may_become_smaller_under_its_second_name(root: Path, tmp_path: Path) -> None:
    (root / "lib/large.py").write_text("x" * 100)
    os.link(root / "lib/large.py", tmp_path / "second")
    with Lists(root, max_listed_bytes=50) as lists:
        for _ in range(3):
            lists.now()
        (tmp_path / "second").write_text("small")

        assert lists.now() == lists.anew()


def test_rules_that_change_under_a_second_name_hold_after_a_second(
    root: Path, tmp_path: Path, lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(root / "lib/.gitignore", tmp_path / "second")
    (tmp_path / "second").write_text("gen/\ndeep/\na.py\n")
    pass_a_second(monkeypatch)

    assert lists.now() == lists.anew()


def test_a_folder_that_changed_unreported_is_never_listed_as_it_was_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report_nothing(_: Inotify, __: float) -> list[Event]:
        return []

    monkeypatch.setattr(Inotify, "read", report_nothing)  # as where something is mounted
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        fill(root, {"docs/new.md": "x"})
        (root / "docs/link.md").symlink_to("index.md")  # so that it cannot be kept
        pass_a_second(monkeypatch)

        assert [lists.now() for _ in range(3)] == [lists.anew()] * 3


def test_a_folder_that_lies_in_two_places_is_kept_in_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = Inotify.add

    def add(system: Inotify, path: str) -> int | None:
        """Return `lib` the number of `docs`: only the administrator can mount a folder a second time."""
        is_second = os.path.realpath(path) == str(root / "lib")
        return really(system, str(root / "docs") if is_second else path)

    monkeypatch.setattr(Inotify, "add", add)
    fill(root, {"docs/more.md": "x"})
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        for name in ("docs/more.md", "lib/a.py"):
            (root / name).write_text("changed to something longer\n")

            assert lists.now() == lists.anew()


def test_what_a_link_leads_to_is_that_of_now(root: Path) -> None:
    fill(root, {".far/x.py": "x"})
    (root / "lib/link.py").symlink_to("a.py")
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        (root / "lib/a.py").write_text("longer than before\n")

        assert lists.now() == lists.anew()


def test_where_more_happened_than_was_reported_everything_is_looked_at(
    root: Path, lists: Lists, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: Inotify, __: float) -> list[Event]:
        raise Lost

    monkeypatch.setattr(Inotify, "read", lose)
    assert lists.now() == lists.anew()
    assert "lib/deep/er/c.py" in looks


def test_nothing_is_kept_on_a_file_system_that_others_may_change(
    root: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_folders, "file_system_of", lambda _: "nfs4")
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        looks.clear()
        lists.now()

    assert "lib/deep/er/c.py" in looks


@pytest.mark.parametrize(("name", "most"), [("MAX_ENTRIES", 3), ("MAX_FOLDERS", 2)])
def test_what_is_kept_is_bounded(
    root: Path, monkeypatch: pytest.MonkeyPatch, looks: list[str], name: str, most: int
) -> None:
    monkeypatch.setattr(kept_folders, name, most)
    with Lists(root) as lists:
        for _ in range(3):
            lists.now()
        looks.clear()

        assert lists.now() == lists.anew()
        assert "lib/deep/er/c.py" in looks


def test_what_is_kept_is_looked_at_again_after_a_while(
    root: Path, lists: Lists, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = time.monotonic() + kept_folders.KEPT_S + 1
    monkeypatch.setattr(kept_folders, "monotonic", lambda: later)

    lists.now()

    assert "lib/deep/er/c.py" in looks


@pytest.mark.slow
def test_lists_on_many_threads_are_right_when_what_changes_them_has_ended(root: Path, lists: Lists) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            while not stop.is_set():
                lists.now()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(60):
        write(f"lib/deep/n{number % 7}.py", "x" * number)(root)
        write("lib/.gitignore", f"gen/\nn{number % 5}.py\n")(root)
        if number % 10 == 0:
            shutil.rmtree(root / "lib/deep")
        assert lists.now() == lists.anew()
    stop.set()
    for thread in threads:
        thread.join()

    assert not failures


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "ext4"), ("/home/x", "xfs"), ("/home/my disk/x", "nfs"), ("/home2", "ext4")]
)
def test_thefile_system_of_a_path_is_that_of_its_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n"
        "2 1 8:2 / /home rw shared:2 - btrfs /dev/b rw\n"
        "3 1 8:3 / /home rw shared:3 - xfs /dev/c rw\n"
        "4 1 8:4 / /home/my\\040disk rw - nfs host:/x rw\n"
    )
    monkeypatch.setattr(kept_folders, "_MOUNTS", str(mounts))

    assert kept_folders.file_system_of(path) == kind
