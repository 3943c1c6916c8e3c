"""`git://`: the laws of every provider, the same answers as git, and nothing that `workspace://` refuses."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from carrel.app import config
from carrel.app.app import Desk, open_desk
from carrel.catalog.access import Access, ActingAs
from carrel.core.errors import BadArgument, Denied, NotFound
from carrel.core.model import Text
from carrel.core.provider import Project, Provider
from carrel.core.tokens import estimate_tokens
from carrel.core.uri import with_query
from carrel.git.objects import TimeUp
from carrel.providers.git import GitHistory, answers
from carrel.testing.contract import ProviderContract
from tests.support import schemas
from tests.support.sage_folder import git, put
from tests.support.workspaces import SECRET


def commit(project: Path, message: str, files: Mapping[str, str | None], minutes: int = 0) -> str:
    for name, content in files.items():
        if content is None:
            (project / name).unlink()
        else:
            put(project / name, content)
    git(project, "add", "-A", "-f")
    when = f"{1_700_000_000 + minutes * 60} +0000"
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@x.org", "commit", "-qm", message, "--date", when]
    subprocess.run(command, cwd=project, check=True, env={"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": when})
    return git(project, "rev-parse", "HEAD")


def fill(project: Path) -> Path:
    """Make a repository with a secret in its history, a merge, branches and tags."""
    project.mkdir(parents=True, exist_ok=True)
    git(project, "init", "-q", "-b", "main")
    commit(project, "First", {"a.py": "one\n", ".env": f"TOKEN={SECRET}\n", "src/b.py": "b\n"})
    commit(project, "Second\n\nThe body.", {"a.py": "one\ntwo\n", ".env": f"TOKEN={SECRET}-2\n"}, 10)
    git(project, "checkout", "-qb", "side")
    commit(project, "On the side", {"src/b.py": "b\nc\n", ".env": None}, 20)
    git(project, "checkout", "-q", "main")
    commit(project, "Third", {"a.py": "one\ntwo\nthree\n"}, 30)
    git(project, "-c", "user.name=Ada", "-c", "user.email=ada@x.org", "merge", "-q", "--no-edit", "side")
    git(project, "tag", "v1", "HEAD~2")
    git(project, "-c", "user.name=Ada", "-c", "user.email=ada@x.org", "tag", "-am", "Released", "v2", "HEAD")
    return project


class TestGit(ProviderContract):
    """The laws, on a small repository."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = fill(tmp_path / "project")
        self.changes = 0

    def provider(self) -> Provider:
        return GitHistory(Project(str(self.place), {}, serves=lambda path: ".env" not in path))

    def missing_uri(self) -> str:
        return "git://commit/nothing"

    def change(self, uri: str) -> None:
        self.changes += 1
        if uri.startswith("git://tags"):
            git(self.place, "tag", f"more-{self.changes}")
        elif uri.startswith("git://branches"):
            git(self.place, "branch", f"more-{self.changes}")
        else:
            commit(self.place, f"Change {self.changes}", {"a.py": f"{self.changes}\n"}, 100 + self.changes)
            put(self.place / "new.py", f"{self.changes}\n")

    def variables(self) -> Mapping[str, str]:
        return {"id": "v1", "range": "v1..main", "at": "v2", "skip": "0", "format": "json"}

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("git") / "project")


@pytest.fixture
def desk(project: Path) -> Iterator[Desk]:
    opened = open_desk(config.load(str(project), {"HOME": str(project.parent)}))
    yield opened
    opened.close()


def text(desk: Desk, uri: str) -> str:
    (item,) = desk.catalog.read(uri).items
    assert isinstance(item, Text)
    return item.text


def as_json(desk: Desk, uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text(desk, uri))
    return found


def test_a_git_project_lists_its_history(desk: Desk) -> None:
    listed = [entry.uri for entry in desk.catalog.entries("git")]

    assert listed == ["git://branches", "git://log", "git://status", "git://tags"]
    assert [(one.name, one.state, one.why) for one in desk.choices if one.name == "git"] == [
        ("git", "served", "there is a git repository")
    ]


def test_the_log_is_that_of_git(desk: Desk, project: Path) -> None:
    expected = git(project, "log", "--format=%H").split()

    assert [line.split(" ")[0] for line in text(desk, "git://log").splitlines()] == [name[:12] for name in expected]
    found = as_json(desk, "git://log?format=json")
    assert [one["id"] for one in found["commits"]] == expected
    parents = [line[1:].split() for line in git(project, "log", "--format=x%P").split("\n")]
    assert [one["parents"] for one in found["commits"]] == parents
    assert [one["id"] for one in as_json(desk, "git://log?at=side&format=json")["commits"]] == git(
        project, "log", "--format=%H", "side"
    ).split()


def test_pages_of_the_log_join_to_the_whole(desk: Desk, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.git.folder_history.PAGE", 2)
    uri, found = "git://log?format=json", []
    while uri:
        page = as_json(desk, uri)
        assert len(page["commits"]) <= 2
        found += [one["id"] for one in page["commits"]]
        uri = page["next"]

    assert found == git(project, "log", "--format=%H").split()


@pytest.mark.parametrize("part", ["lines=1-2", "start=0&length=70"])
def test_parts_of_the_log_follow_each_other_before_its_next_page(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    whole = text(desk, "git://log")
    monkeypatch.setattr("carrel.git.folder_history.PAGE", 3)
    uri: object = f"git://log?{part}"
    parts = []
    while isinstance(uri, str):
        parts.append(text(desk, uri))
        uri = (desk.catalog.read(uri).items[0].meta or {}).get("dev.carrel/next")

    assert "".join(parts) == whole


def test_a_commit_has_its_message_and_what_it_changed(desk: Desk, project: Path) -> None:
    name = git(project, "rev-parse", "v1")
    first = git(project, "rev-parse", "v1~1")

    assert text(desk, f"git://commit/{name[:9]}") == (
        f"commit {name}\nparents {first}\nauthor Ada <ada@x.org> 2023-11-14T22:23:20Z\n\n"
        "    Second\n\n    The body.\n\n"
        "1 file is left out: not served here.\n"
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n one\n+two\n"
    )
    assert desk.catalog.read("git://commit/v1").etag == name
    assert desk.catalog.read("git://commit/v1", condition=name).unchanged
    found = as_json(desk, "git://commit/v1?format=json")
    assert (found["id"], found["compared_with"], found["left_out"]) == (name, first, 1)
    assert [(one["path"], one["status"], one["added"]) for one in found["files"]] == [("a.py", "M", 1)]


def test_the_first_commit_is_compared_with_nothing_and_a_merge_with_its_first_parent(desk: Desk, project: Path) -> None:
    first = as_json(desk, "git://commit/v1~1?format=json")
    assert [(one["path"], one["status"]) for one in first["files"]] == [("a.py", "A"), ("src/b.py", "A")]
    merge = text(desk, "git://commit/main")
    assert "\nCompared with the first parent.\n" in merge
    assert "+++ b/src/b.py" in merge
    assert as_json(desk, "git://commit/main?format=json")["compared_with"] == git(project, "rev-parse", "main^")


def test_a_difference_is_that_of_git_without_what_is_refused(desk: Desk, project: Path) -> None:
    shown = text(desk, "git://diff/v1~1..main").splitlines()
    expected = git(project, "diff", "--no-renames", "v1~1", "main", "--", "a.py", "src").split("\n")

    assert shown == [
        "1 file is left out: not served here.",
        *(line for line in expected if not line.startswith("index ")),
    ]
    old, new = (git(project, "rev-parse", name) for name in ("v1~1", "main"))
    assert desk.catalog.read("git://diff/v1~1..").etag == f"{old}..{new}"


@pytest.mark.parametrize("uri", ["git://diff/v1", "git://diff/v1...main", "git://log?skip=x", "git://log?format=xml"])
def test_a_wrong_argument_is_refused_with_what_is_expected(desk: Desk, uri: str) -> None:
    with pytest.raises(BadArgument, match=r"^Invalid parameter: .*expected"):
        text(desk, uri)


@pytest.mark.parametrize("uri", ["git://commit/nothing", "git://diff/a..b", "git://log?at=HEAD~99", "git://commit/-h"])
def test_an_unknown_revision_is_not_found(desk: Desk, uri: str) -> None:
    with pytest.raises(NotFound, match=r"^Unknown revision in git://"):
        text(desk, uri)


def test_branches_and_tags_have_their_commits(desk: Desk, project: Path) -> None:
    assert [line[:6] for line in text(desk, "git://branches").splitlines()] == ["* main", "  side"]
    found = as_json(desk, "git://branches?format=json")["branches"]
    assert [(one["name"], one["id"], one["current"], one["commit"]["subject"]) for one in found] == [
        ("main", git(project, "rev-parse", "main"), True, "Merge branch 'side'"),
        ("side", git(project, "rev-parse", "side"), False, "On the side"),
    ]
    tags = as_json(desk, "git://tags?format=json")["tags"]
    assert [(one["name"], one["id"], one["commit"]["id"]) for one in tags] == [
        (name, git(project, "rev-parse", name), git(project, "rev-parse", f"{name}^{{commit}}"))
        for name in ("v1", "v2")
    ]


def test_no_answer_has_a_secret_or_its_name(desk: Desk) -> None:
    uris = ("log", "commit/v1", "commit/v1~1", "commit/side", "diff/v1~1..main", "branches", "tags", "status")
    for uri in uris:
        for query in ("", "?format=json"):
            answer = text(desk, f"git://{uri}{query}")
            assert SECRET not in answer
            assert ".env" not in answer


def test_without_the_files_provider_no_file_is_shown(project: Path) -> None:
    flags = [("server", "without", "workspace")]
    opened = open_desk(config.load(str(project), {"HOME": str(project.parent)}, flags))
    try:
        assert text(opened, "git://diff/v1~1..main") == "3 files are left out: not served here.\nNo differences.\n"
        assert "Third" in text(opened, "git://log")
    finally:
        opened.close()


def test_a_project_below_the_top_shows_only_its_own_files(project: Path) -> None:
    opened = open_desk(config.load(str(project / "src"), {"HOME": str(project.parent)}))
    try:
        found = as_json(opened, "git://diff/v1~1..main?format=json")
        assert ([one["path"] for one in found["files"]], found["left_out"]) == (["b.py"], 2)
    finally:
        opened.close()


def test_files_are_shown_by_the_rules_of_another_root(project: Path) -> None:
    flags = [("workspace", "root", "src"), ("workspace", "deny", "/b.py")]
    opened = open_desk(config.load(str(project), {"HOME": str(project.parent)}, flags))
    try:
        assert as_json(opened, "git://diff/v1~1..main?format=json")["files"] == []
    finally:
        opened.close()


def test_history_needs_the_permission_to_read_files(desk: Desk) -> None:
    with ActingAs(Access("files", frozenset({"workspace:read"}))):
        assert "Third" in text(desk, "git://log")
        assert [entry.uri for entry in desk.catalog.entries("git")]
    for scope in ("git:read", "logs:read"):
        with ActingAs(Access("other", frozenset({scope}))):
            with pytest.raises(Denied, match=r"needs the scope workspace:read"):
                text(desk, "git://log")
            assert [entry.uri for entry in desk.catalog.entries("git")] == []


def test_branches_and_tags_are_completed(desk: Desk) -> None:
    def offered(template: str, variable: str, value: str) -> tuple[str, ...]:
        return desk.catalog.complete(template, variable, value, {}).values

    assert offered("git://commit/{+id}{?skip,format}", "id", "") == ("main", "side", "v1", "v2")
    assert offered("git://log{?at,skip,format}", "at", "v") == ("v1", "v2")
    assert offered("git://diff/{+range}{?skip,format}", "range", "v1..ma") == ("v1..main",)
    assert offered("git://diff/{+range}{?skip,format}", "range", "v") == ("v1..", "v2..")
    assert offered("git://log{?at,skip,format}", "format", "") == ()


def test_a_folder_without_a_repository_says_so(tmp_path: Path) -> None:
    opened = open_desk(config.load(str(tmp_path), {"HOME": str(tmp_path)}))
    try:
        assert [one.state for one in opened.choices if one.name == "git"] == ["not served"]
        with pytest.raises(NotFound, match=r"^This folder has no git history: git://log$"):
            text(opened, "git://log")
        fill(tmp_path)
        assert "git://log" in [entry.uri for entry in opened.catalog.entries()]
        assert "Third" in text(opened, "git://log")
    finally:
        opened.close()


def test_a_shallow_clone_says_that_its_history_goes_no_further_and_how_to_get_the_rest(
    project: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{project}", str(clone))
    third, side = git(clone, "rev-parse", "HEAD^1"), git(clone, "rev-parse", "HEAD^2")

    def note(*ends: str) -> str:
        return (
            "The history goes no further here: this clone is shallow and ends at "
            f"{', '.join(end[:12] for end in ends)}. "
            "What seems to begin there may be older; `git fetch --unshallow` gets the rest.\n"
        )

    uris = ("git://log", "workspace:///a.py?log", "workspace:///a.py?blame", "git://commit/HEAD^1")
    opened = open_desk(config.load(str(clone), {"HOME": str(tmp_path)}))
    try:
        cut = {uri: desk_answers(opened, uri) for uri in uris}
        assert text(opened, "git://log").splitlines(keepends=True)[3:] == [note(third, side)]
        assert text(opened, "workspace:///a.py?log").splitlines(keepends=True)[1:] == [note(third)]
        assert text(opened, "workspace:///a.py?blame").splitlines(keepends=True)[3:] == [note(third)]
        assert "\nThis shallow clone ends here: every file counts as new; `git fetch --unshallow` " in cut[uris[3]][0]
        assert all("`git fetch --unshallow`" in as_json(opened, with_query(uri, format="json"))["note"] for uri in uris)
        for uri in ("workspace:///never.py?log", "git://log?at=2001-01-31", "git://log?at=HEAD~9"):
            with pytest.raises(NotFound, match=r"shallow.*`git fetch --unshallow`"):
                text(opened, uri)

        git(clone, "fetch", "-q", "--unshallow")
        whole = {uri: desk_answers(opened, uri) for uri in uris}
        assert not any("shallow" in shown for shown, _ in whole.values())
        assert not any("note" in as_json(opened, with_query(uri, format="json")) for uri in uris)
        assert all(cut[uri][1] != whole[uri][1] for uri in uris)
    finally:
        opened.close()


def desk_answers(desk: Desk, uri: str) -> tuple[str, str | None]:
    """Return the text of a resource and its ETag."""
    return text(desk, uri), desk.catalog.read(uri).etag


def test_search_finds_nothing_of_history(desk: Desk) -> None:
    provider = next(one.provider for one in desk.catalog.mounted if one.provider.name == "git")

    assert list(provider.documents()) == []
    assert provider.document_changes(None).documents == ()


def test_the_guide_names_history_within_its_bound(desk: Desk) -> None:
    guide = text(desk, "carrel://guide")

    assert "git://log" in guide
    assert estimate_tokens(guide) <= 900


def test_a_submodule_in_a_difference_is_named_by_its_commit(tmp_path: Path, project: Path) -> None:
    made = fill(tmp_path / "outer")
    head = git(project, "rev-parse", "HEAD")
    git(made, "update-index", "--add", "--cacheinfo", f"160000,{head},lib")
    git(made, "commit", "-qm", "With a submodule")
    opened = open_desk(config.load(str(made), {"HOME": str(tmp_path)}))
    try:
        assert f"+Subproject commit {head}\n" in text(opened, "git://commit/HEAD")
    finally:
        opened.close()


def test_a_branch_that_is_not_read_in_time_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: object) -> None:
        raise TimeUp("the time is up")

    monkeypatch.setattr(answers, "details_of", run_out)
    [item] = answers.Answers(Project(str(fill(tmp_path / "project")), {})).branches({}).items

    assert isinstance(item, Text)
    assert item.text.count("(not read: the time was up)") == 2
