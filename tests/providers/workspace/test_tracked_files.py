"""Hidden files that git tracks are served; the index is git's own, or hostile."""

import contextlib
import os
import queue
import random
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from carrel.catalog.watcher import LIST
from carrel.git.index import IndexFile, UnreadableIndex
from carrel.providers.workspace import file_events, tracked_files
from carrel.providers.workspace.tracked_files import Hidden, read_hidden
from tests.support.waiting import PATIENCE_S, until
from tests.support.workspaces import Served, fill

FILES = {
    ".github/workflows/ci.yml": "on: push\n",
    ".github/dependabot.yml": "version: 2\n",
    ".gitlab-ci.yml": "stages: []\n",
    ".vscode/settings.json": "{}",
    ".env": "SECRET=1",
    ".ssh/id_rsa": "SECRET",
    "docs/.hidden/é.md": "x",
    "readme.md": "x",
}
UNTRACKED = {".github/local.yml": "x", ".github/workflows/new.yml": "x", ".idea/x.xml": "x", ".notes.md": "x"}
SHOWN = [
    ".github/dependabot.yml",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".vscode/settings.json",
    "docs/.hidden/%C3%A9.md",
    "readme.md",
]


def git(folder: Path, *words: str) -> None:
    nowhere = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(folder)}
    who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "core.quotepath=off"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, env=os.environ | nowhere)


def commit(folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *options)
    fill(folder, FILES)
    git(folder, "add", "-f", ".")
    fill(folder, UNTRACKED)
    return folder


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
def test_hidden_files_that_git_tracks_are_served(tmp_path: Path, version: str, options: tuple[str, ...]) -> None:
    root = commit(tmp_path / "root", *options)
    git(root, "update-index", "--index-version", version)
    if version == "3":
        git(root, "update-index", "--skip-worktree", "readme.md")
    with Served(root, preset="code") as served:
        assert served.uris() == SHOWN
        assert served.outcome("workspace:///.github/workflows/ci.yml") == "on: push\n"
        assert served.children("workspace:///.github") == [
            f"workspace:///.github/{name}" for name in ("dependabot.yml", "workflows/")
        ]
        for uri in (".github/local.yml", ".github/workflows/new.yml", ".notes.md", ".idea/x.xml", ".idea", ".nope"):
            assert served.outcome(f"workspace:///{uri}") == "DENIED hidden", uri
        for uri in (".env", ".ssh/id_rsa", ".git/config", ".git"):
            assert served.outcome(f"workspace:///{uri}") == "DENIED deny", uri


@pytest.mark.parametrize("settings", [{"hidden": "refuse"}, {"preset": "none", "allow": ["*.yml"]}])
def test_what_the_user_says_of_hidden_files_comes_first(tmp_path: Path, settings: dict[str, object]) -> None:
    root = commit(tmp_path / "root")
    with Served(root, **{"preset": "code", **settings}) as served:  # type: ignore[arg-type]
        assert served.outcome("workspace:///.vscode/settings.json") == "DENIED hidden"


def test_a_file_is_served_a_second_after_it_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked_files, "FRESH_S", 0.0)
    root = commit(tmp_path / "root")
    with Served(root, preset="code") as served:
        before = served.uris()
        git(root, "add", ".notes.md")
        added = served.uris()
        git(root, "rm", "-q", "--cached", "-r", ".github")
        removed = served.uris()

    assert before == SHOWN
    assert added == sorted([*SHOWN, ".notes.md"])
    assert removed == sorted([".notes.md", *(one for one in SHOWN if not one.startswith(".github"))])


def test_a_file_is_refused_a_second_after_git_stopped_tracking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = commit(tmp_path / "root")
    now = [1_000.0]
    for module in ("policy", "tree", "tracked_files"):
        monkeypatch.setattr(f"carrel.providers.workspace.{module}.monotonic", lambda: now[0])
    with Served(root, preset="code") as served:
        served.outcome("workspace:///.github/local.yml")
        now[0] += 0.5
        served.outcome("workspace:///.github/workflows/ci.yml")
        git(root, "rm", "-q", "--cached", "-r", ".github")
        now[0] += 0.4
        first = served.outcome("workspace:///.github/workflows/ci.yml")
        now[0] += 0.2

        assert first == "on: push\n"
        assert served.outcome("workspace:///.github/workflows/ci.yml") == "DENIED hidden"


@pytest.mark.parametrize("way", [file_events._follow_folders, file_events._follow_tree])
def test_hidden_files_that_git_tracks_from_now_on_and_no_longer_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[..., None]
) -> None:
    monkeypatch.setattr(file_events, "_follow_folders", way)
    root = commit(tmp_path / "root")
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Served(root, preset="code", list_changed_s=0.0) as served:
        subscription = served.server.watcher.subscribe(heard.put, ["workspace:///readme.md"], list_changes=True)
        subscription.start()
        fill(root, {"readme.md": "now events come"})
        until(lambda: heard.get(timeout=PATIENCE_S) == "workspace:///readme.md")
        git(root, "add", ".notes.md")
        until(lambda: heard.get(timeout=PATIENCE_S) == LIST)
        added = served.uris()
        fill(root, {".notes.md": "changed"})
        git(root, "add", ".notes.md")  # the index is another one, the tracked names are the same
        fill(root, {"readme.md": "the last change"})
        told = list(iter(lambda: heard.get(timeout=PATIENCE_S), "workspace:///readme.md"))
        git(root, "rm", "-q", "--cached", ".notes.md")
        until(lambda: heard.get(timeout=PATIENCE_S) == LIST)
        subscription.close()
        served.server.watcher.close()

        assert (added, served.uris()) == (sorted([*SHOWN, ".notes.md"]), SHOWN)
        assert LIST not in told


def test_a_linked_work_tree_and_a_folder_of_a_repository_have_the_index_of_theirs(tmp_path: Path) -> None:
    main = commit(tmp_path / "main")
    git(main, "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", "../linked")
    fill(tmp_path / "linked", UNTRACKED)
    for root, shown in ((tmp_path / "linked", SHOWN), (main / "docs", [".hidden/%C3%A9.md"])):
        with Served(root, preset="code") as served:
            assert served.uris() == shown


def test_a_split_index_makes_nothing_tracked(tmp_path: Path) -> None:
    root = commit(tmp_path / "root")
    git(root, "update-index", "--split-index")
    with Served(root, preset="code") as served:
        assert served.uris() == ["readme.md"]


@pytest.mark.parametrize("version", ["2", "4"])
def test_no_damaged_index_is_more_than_unreadable(tmp_path: Path, version: str) -> None:
    root = commit(tmp_path / "root")
    git(root, "update-index", "--index-version", version)
    data = (root / ".git/index").read_bytes()
    whole = read_hidden(IndexFile(data, 20))
    dice = random.Random(1)

    assert ".github/workflows" in whole.folders
    for end in range(0, len(data), 7):
        try_read(data[:end])
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try_read(bytes(damaged))
    huge = data[:8] + b"\xff\xff\xff\xff" + data[12:]
    with pytest.raises(UnreadableIndex):
        read_hidden(IndexFile(huge, 20))


def try_read(data: bytes) -> None:
    with contextlib.suppress(UnreadableIndex):
        assert isinstance(read_hidden(IndexFile(data, 20)), Hidden)


def test_the_names_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = commit(tmp_path / "root")
    monkeypatch.setattr(tracked_files, "MAX_NAMES", 2)
    with pytest.raises(UnreadableIndex):
        read_hidden(IndexFile((root / ".git/index").read_bytes(), 20))


def index(*entries: bytes, version: int = 2) -> bytes:
    """Return an index whose names are these; of version 4, each is given with what it drops of the one before."""
    data = b"DIRC" + version.to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    for name in entries:
        entry = bytes(60) + min(len(name), 0xFFF).to_bytes(2, "big") + name
        data += entry + b"\0" * (1 if version == 4 else 8 - len(entry) % 8)
    return data + bytes(20)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(index(b".a/" + b"a/" * 5_000 + b"x"), id="a name without end"),
        pytest.param(index(*(b".%d/" % n + b"a/" * 2_000 + b"x" for n in range(20))), id="many deep names"),
        pytest.param(index(b"\0." + b"a" * 4_000, *(b"\0a" for _ in range(200)), version=4), id="names that grow"),
    ],
)
def test_an_index_costs_no_more_memory_than_honest_ones_do(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableIndex):
            read_hidden(IndexFile(data, 20))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
