"""The files that search finds: what changed since the last time is what a look at all files shows."""

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.provider import Place, Project
from carrel.providers.workspace import Workspace, kept_documents
from carrel.providers.workspace.inotify import Event, Inotify, Lost
from carrel.providers.workspace.listing import Listing
from carrel.providers.workspace.policy import FolderRules


class Follower:
    """Follows the documents of a workspace by their changes alone."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.files = Workspace(Project(str(root), {"HOME": str(root)}), **settings)  # type: ignore[arg-type]
        self.token: object = None
        self.known: dict[str, str] = {}
        self.wholes = 0

    def follow(self) -> dict[str, str]:
        """Return the name and fingerprint of every document, as they are known now."""
        changes = self.files.document_changes(self.token)
        if changes.is_whole:
            self.known = {}
            self.wholes += 1
        self.known.update((one.uri, one.fingerprint) for one in changes.documents)
        for uri in changes.gone:
            self.known.pop(uri, None)
        self.token = changes.token
        return self.known

    def look(self) -> dict[str, str]:
        """Return the same by looking at all files."""
        return {one.uri: one.fingerprint for one in self.files.documents()}

    @property
    def names(self) -> set[str]:
        """The names of the documents."""
        return {uri.removeprefix("workspace:///") for uri in self.follow()}


@pytest.fixture(name="follower")
def kept_follower(tmp_path: Path) -> Iterator[Follower]:
    """A follower of a folder of which changes are reported."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("1")
    (tmp_path / "two.txt").write_text("2")
    follower = Follower(tmp_path)
    for _ in range(3):
        follower.follow()
    follower.wholes = 0
    yield follower
    follower.files.close()


def test_a_file_has_its_etag_as_fingerprint(follower: Follower) -> None:
    for uri, fingerprint in follower.follow().items():
        assert Catalog([follower.files]).fingerprint(uri) == fingerprint


def test_what_did_not_change_is_not_looked_at(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_documents, "is_settled", lambda _: True)
    follower.follow()
    follower.follow()
    monkeypatch.setattr(kept_documents, "document_of", None)

    assert follower.names == {"a/one.txt", "two.txt"}
    assert follower.wholes == 0


def test_a_file_that_comes_changes_and_goes_is_reported(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "a" / "three.txt").write_text("3")
    assert "a/three.txt" in follower.names
    before = dict(follower.known)
    (tmp_path / "a" / "three.txt").write_text("33")
    assert follower.follow()["workspace:///a/three.txt"] != before["workspace:///a/three.txt"]
    (tmp_path / "a" / "three.txt").unlink()
    assert "a/three.txt" not in follower.names
    assert follower.wholes == 0


def test_a_folder_that_is_renamed_moves_with_all_it_holds(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir()
    (tmp_path / "a" / "deep" / "four.txt").write_text("4")
    assert "a/deep/four.txt" in follower.names

    (tmp_path / "a").rename(tmp_path / "b")
    assert follower.names == {"b/one.txt", "b/deep/four.txt", "two.txt"}
    (tmp_path / "b" / "deep" / "four.txt").write_text("44")
    assert follower.follow() == follower.look()
    (tmp_path / "b").rename(tmp_path / "a")
    (tmp_path / "a" / "deep" / "five.txt").write_text("5")
    assert follower.names == {"a/one.txt", "a/deep/four.txt", "a/deep/five.txt", "two.txt"}
    assert follower.wholes == 0


def test_a_folder_that_takes_the_place_of_a_file_and_back(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "two.txt").unlink()
    (tmp_path / "two.txt").mkdir()
    (tmp_path / "two.txt" / "in.txt").write_text("in")
    assert follower.names == {"a/one.txt", "two.txt/in.txt"}
    (tmp_path / "two.txt" / "in.txt").unlink()
    (tmp_path / "two.txt").rmdir()
    (tmp_path / "two.txt").write_text("2")
    assert follower.names == {"a/one.txt", "two.txt"}


def test_an_ignore_file_counts_at_once(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "a" / ".gitignore").write_text("one.txt\n")
    assert follower.names == {"two.txt"}
    (tmp_path / ".gitignore").write_text("two.txt\n")
    assert follower.names == set()
    (tmp_path / "a" / ".gitignore").unlink()
    (tmp_path / ".gitignore").unlink()
    assert follower.names == {"a/one.txt", "two.txt"}


def test_an_exclude_file_of_git_counts_at_once(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("two.txt\n")
    assert follower.names == {"a/one.txt"}
    (tmp_path / ".git" / "info" / "exclude").write_text("# two.txt\n")
    assert follower.names == {"a/one.txt", "two.txt"}


def test_a_link_is_what_it_leads_to_now(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to("a/one.txt")
    before = follower.follow()["workspace:///link.txt"]
    (tmp_path / "a" / "one.txt").write_text("other")
    assert follower.follow()["workspace:///link.txt"] != before
    (tmp_path / "link.txt").unlink()
    (tmp_path / "link.txt").symlink_to("nowhere.txt")
    assert "link.txt" not in follower.names
    (tmp_path / "nowhere.txt").write_text("now it is somewhere")
    assert "link.txt" in follower.names
    assert follower.follow() == follower.look()


def test_a_file_that_is_changed_under_its_second_name_is_noticed(follower: Follower, tmp_path: Path) -> None:
    outside = tmp_path / ".hidden"
    outside.mkdir()
    os.link(tmp_path / "two.txt", outside / "second.txt")
    before = follower.follow()["workspace:///two.txt"]
    (outside / "second.txt").write_text("changed from elsewhere")
    assert follower.follow()["workspace:///two.txt"] != before


@pytest.fixture(name="settled")
def times_that_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose times show every change at once, so that no test must wait for them."""
    monkeypatch.setattr("carrel.files.sandbox.SETTLED_NS", -1)


@pytest.mark.usefixtures("settled")
def test_a_link_to_a_file_that_did_not_change_is_followed_once(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link.txt").symlink_to("a/one.txt")
    os.link(tmp_path / "two.txt", tmp_path / "second.txt")
    for _ in range(4):
        follower.follow()
    looked: list[str] = []
    look_at = Listing.look_at

    def noted(self: Listing, rules: FolderRules, prefix: str, names: Iterable[str]) -> object:
        asked = list(names)
        looked.extend(asked)
        return look_at(self, rules, prefix, asked)

    monkeypatch.setattr(Listing, "look_at", noted)
    follower.follow()

    assert looked == []


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("calls", [1, 4])
def test_what_a_link_leads_to_is_noticed_after_any_number_of_quiet_calls(
    follower: Follower, tmp_path: Path, calls: int
) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere.txt"
    elsewhere.write_text("e")
    os.link(elsewhere, tmp_path / "second.txt")
    (tmp_path / "link.txt").symlink_to("second.txt")
    (tmp_path / "outside.txt").symlink_to(elsewhere)
    for _ in range(calls):
        follower.follow()
    elsewhere.write_text("changed where nobody watches")

    assert follower.follow() == follower.look()
    assert "workspace:///outside.txt" not in follower.known
    elsewhere.unlink()
    (tmp_path / "second.txt").unlink()
    assert follower.follow() == follower.look()
    assert "workspace:///link.txt" not in follower.known


def test_a_file_that_gets_a_second_name_and_is_changed_under_it_is_noticed(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_documents, "is_settled", lambda _: True)
    before = follower.follow()["workspace:///two.txt"]
    follower.follow()
    os.link(tmp_path / "two.txt", tmp_path / "a" / "second.txt")
    (tmp_path / "a" / "second.txt").write_text("changed from elsewhere")

    assert follower.follow()["workspace:///two.txt"] != before
    assert follower.follow() == follower.look()


def test_more_events_than_the_system_keeps_have_everything_looked_at(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Inotify, patience_s: float) -> list[Event]:
        raise Lost

    (tmp_path / "new.txt").write_text("new")
    with monkeypatch.context() as patched:
        patched.setattr(Inotify, "read", lost)
        assert "new.txt" in follower.names
    assert follower.wholes == 1
    assert "new.txt" in follower.names


@pytest.mark.parametrize("reason", ["file system", "watches"])
def test_where_changes_are_not_reported_every_call_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    def refuse(self: Inotify, path: str) -> int | None:
        raise OSError(28, "no watches left")

    if reason == "watches":
        monkeypatch.setattr(Inotify, "add", refuse)
    else:
        monkeypatch.setattr(kept_documents, "file_system_of", lambda _: "nfs4")
    follower = Follower(tmp_path)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x")
        assert follower.names == {f"{one}.txt" for one in range(number + 1)}
    assert follower.wholes == 5
    follower.files.close()


def test_folders_that_cannot_be_watched_are_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_documents, "MAX_FOLDERS", 1)
    (tmp_path / "a").mkdir()
    follower = Follower(tmp_path)
    for number in range(5):
        (tmp_path / "a" / f"{number}.txt").write_text("x")
        assert follower.names == {f"a/{one}.txt" for one in range(number + 1)}
    assert follower.wholes <= 2
    follower.files.close()


def test_a_token_of_long_ago_gives_everything(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_documents, "MAX_LOGGED", 4)
    old = follower.token
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("x")
        follower.follow()

    changes = follower.files.document_changes(old)

    assert changes.is_whole
    assert len(changes.documents) == 12


def test_what_nobody_reports_is_found_by_looking_now_and_then(
    follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [kept] = follower.files._documents()
    with monkeypatch.context() as patched:
        patched.setattr(Inotify, "read", lambda self, patience_s: [])
        [system] = [kept._system]
        (tmp_path / "two.txt").write_text("changed, and nobody said so")
        assert system is not None
        Inotify.read(system, 0)
    while system.read(0):  # the reports get lost
        pass

    kept._recheck()

    assert follower.follow() == follower.look()


def test_a_root_that_is_replaced_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one.txt").write_text("1")
    follower = Follower(root)
    for _ in range(3):
        follower.follow()
    (root / "one.txt").unlink()
    root.rmdir()
    root.mkdir()
    (root / "two.txt").write_text("2")

    assert follower.names == {"two.txt"}
    follower.files.close()


def test_several_roots_are_followed_together(tmp_path: Path) -> None:
    for name in ("main", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text("1")
    follower = Follower(tmp_path / "main", roots={"more": Place(str(tmp_path / "more"))})
    for number in range(5):
        (tmp_path / "more" / f"{number}.txt").write_text("x")
        assert follower.follow() == follower.look()
    assert follower.wholes <= 2
    follower.files.close()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_after_any_edits_the_changes_are_what_a_look_shows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    follower = Follower(tmp_path)
    for _ in range(120):
        for _ in range(chance.randrange(4)):
            _edit(tmp_path, chance)
        assert follower.follow() == follower.look()
    follower.files.close()


def _edit(root: Path, chance: random.Random) -> None:
    """Make some change below a folder; one that is not possible there is none."""
    folder = root.joinpath(*chance.choices("abc", k=chance.randrange(4)))
    path = folder / chance.choice(["x.txt", "y.md", ".gitignore", "noending", "z.png"])
    other = root.joinpath(*chance.choices("abc", k=chance.randrange(1, 3)))
    try:
        match chance.randrange(7):
            case 0 | 1 | 2:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_text(chance.choice(["x.txt\n", "words\n", "b/\n", "\0binary"]))
            case 3:
                path.unlink()
            case 4:
                folder.rename(other)
            case 5:
                path.rename(other / path.name)
            case 6:
                (folder / "link.txt").symlink_to(chance.choice(["x.txt", "../x.txt", "a", "none"]))
    except OSError:
        pass
