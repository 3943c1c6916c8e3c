"""Files and folders at revisions, what changed, whose lines they are: as git says, and never what is refused now."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, Denied, NotFound, RequestError
from carrel.core.model import Range
from carrel.core.provider import Place, Project
from carrel.providers.workspace import Workspace
from tests.support.sage_folder import git, put
from tests.support.workspaces import SECRET, Served

EPOCH = 1_700_000_000


def commit(project: Path, message: str, files: dict[str, str | bytes | None], minutes: int = 0) -> str:
    """Write files, or remove those that are None, and commit everything."""
    for name, content in files.items():
        if content is None:
            (project / name).unlink()
        elif isinstance(content, bytes):
            put(project / name, "")
            (project / name).write_bytes(content)
        else:
            put(project / name, content)
    git(project, "add", "-A", "-f")
    when = f"{EPOCH + minutes * 60} +0200"
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@x.org", "commit", "-qm", message, "--date", when]
    subprocess.run(command, cwd=project, check=True, env={"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": when})
    return git(project, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits: a secret that was committed once, a file that is ignored now, a link, a binary file."""
    made = tmp_path_factory.mktemp("history")
    git(made, "init", "-q", "-b", "main")
    commit(
        made,
        "First\n\nWith a body.",
        {
            "README.md": "# One\n\nText é.\n",
            "src/app.py": "import os\n\n\ndef run():\n    return 1\n",
            "src/old.py": "gone = True\n",
            ".env": f"TOKEN={SECRET}\n",
            "deploy/id_rsa": f"{SECRET}\n",
            "build/out.txt": f"built {SECRET}\n",
            "image.png": b"\x89PNG\0\0\1",
            "utf16.txt": "\ufeffzwölf\nzwei\n".encode("utf-16le"),
        },
    )
    (made / "link.md").symlink_to("README.md")
    commit(
        made,
        "Second",
        {
            "src/app.py": "import os\n\n\ndef run():\n    return 2\n",
            ".env": f"TOKEN={SECRET}-2\n",
            "src/old.py": None,
            ".gitignore": "build/\n",
        },
        10,
    )
    commit(
        made,
        "Third: only secrets",
        {".env": None, "deploy/id_rsa": f"{SECRET}-3\n", "build/out.txt": f"{SECRET} again\n"},
        20,
    )
    commit(made, "Fourth", {"src/app.py": "import os\nimport sys\n\n\ndef run():\n    return 2\n"}, 30)
    git(made, "tag", "v1", "HEAD~3")
    git(made, "branch", "side", "HEAD~2")
    return made


@pytest.fixture
def served(project: Path) -> Iterator[Served]:
    with Served(project) as served:
        yield served


def as_json(served: Served, uri: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.text(uri))
    return found


def ids(project: Path, *arguments: str) -> list[str]:
    return git(project, "log", "--format=%H", *arguments).split()


# At a revision


@pytest.mark.parametrize("revision", ["v1", "HEAD~3", "side", "main", "HEAD~1^", "2023-11-14", "2023-11-15"])
def test_a_file_at_a_revision_is_what_git_shows(served: Served, project: Path, revision: str) -> None:
    named = "HEAD~4" if revision == "2023-11-13" else "HEAD" if revision.startswith("2023") else revision

    shown = git(project, "show", f"{named}:src/app.py")

    assert served.text(f"workspace:///src/app.py?at={revision}").rstrip("\n") == shown


def test_the_etag_of_a_file_at_a_revision_is_its_blob_and_stays(served: Served, project: Path) -> None:
    uri = "workspace:///src/app.py?at=v1"
    blob = git(project, "rev-parse", "v1:src/app.py")

    assert served.catalog.read(uri).etag == blob
    assert served.catalog.read(uri, condition=blob).unchanged
    assert served.meta(uri)["commit"] == git(project, "rev-parse", "v1")
    assert served.catalog.read(f"workspace:///src/app.py?at={git(project, 'rev-parse', 'v1')}").ttl_ms == 3_600_000
    assert served.catalog.read(uri).ttl_ms == 0


def test_a_file_that_is_gone_is_still_read_at_a_revision(served: Served) -> None:
    assert served.text("workspace:///src/old.py?at=v1") == "gone = True\n"
    with pytest.raises(NotFound, match=r"^Resource not found: workspace:///src/old.py at the commit [0-9a-f]{12}$"):
        served.text("workspace:///src/old.py?at=HEAD")


def test_a_part_of_a_file_at_a_revision_is_read_by_lines_and_bytes(served: Served) -> None:
    assert served.text("workspace:///src/app.py?at=v1&lines=4-5") == "def run():\n    return 1\n"
    assert served.meta("workspace:///src/app.py?at=v1&lines=4-5")["lines"] == "4-5"
    assert served.text("workspace:///src/app.py?at=v1&start=7&length=2") == "os"
    assert served.text("workspace:///src/app.py?at=v1", Range(0, 6)) == "import"
    assert served.text("workspace:///README.md?at=v1&start=12&length=1") == "é"
    assert "def run" in served.text("workspace:///src/app.py?at=v1&outline")


def test_a_file_in_another_encoding_is_text_at_a_revision_too(served: Served) -> None:
    assert served.text("workspace:///utf16.txt?at=v1") == "zwölf\nzwei\n"
    assert served.text("workspace:///utf16.txt?at=v1&lines=2") == "zwei\n"


def test_a_link_at_a_revision_is_the_path_it_holds(served: Served) -> None:
    assert served.text("workspace:///link.md?at=HEAD") == "README.md"


def test_a_folder_at_a_revision_shows_what_it_had_and_what_may_be_shown(served: Served) -> None:
    children = [item.uri for item in served.catalog.read("workspace:///?at=v1").items]

    assert children == [
        "workspace:///README.md?at=v1",
        "workspace:///deploy?at=v1",
        "workspace:///image.png?at=v1",
        "workspace:///src?at=v1",
        "workspace:///utf16.txt?at=v1",
    ]
    assert served.catalog.read("workspace:///deploy?at=v1").items[0].uri is None
    inner = served.catalog.read("workspace:///src/?at=v1").items
    assert [item.uri for item in inner] == ["workspace:///src/app.py?at=v1", "workspace:///src/old.py?at=v1"]


def test_a_large_folder_at_a_revision_has_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.providers.workspace.file_history.MAX_CHILDREN", 1)
    first = served.catalog.read("workspace:///src?at=v1").items
    assert [item.uri for item in first] == ["workspace:///src/app.py?at=v1"]
    following = (first[0].meta or {})["dev.carrel/next"]
    assert following == "workspace:///src?at=v1&skip=1"
    second = served.catalog.read(str(following)).items
    assert [item.uri for item in second] == ["workspace:///src/old.py?at=v1"]
    assert "dev.carrel/next" not in (second[0].meta or {})


def test_a_submodule_is_named_and_not_entered(tmp_path: Path, project: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    head = git(project, "rev-parse", "HEAD")
    put(tmp_path / "a.md", "a\n")
    git(tmp_path, "add", "a.md")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{head},lib")
    subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "with a submodule"],
        cwd=tmp_path,
        check=True,
    )
    with Served(tmp_path) as served:
        assert served.text("workspace:///lib?at=HEAD").startswith(f"A submodule at commit {head}.")
        with pytest.raises(NotFound):
            served.text("workspace:///lib/README.md?at=HEAD")
        assert [item.uri for item in served.catalog.read("workspace:///?at=HEAD").items] == [
            "workspace:///a.md?at=HEAD",
            "workspace:///lib?at=HEAD",
        ]


# What is refused


REFUSED = [".env", "deploy/id_rsa", "build/out.txt", "build", ".git/config", "src/.env"]


@pytest.mark.parametrize("path", REFUSED)
@pytest.mark.parametrize("query", ["at=v1", "at=HEAD", "diff=v1", "diff=v1..HEAD", "blame", "blame&at=v1", "log"])
def test_what_is_refused_now_is_refused_at_every_revision(served: Served, path: str, query: str) -> None:
    with pytest.raises(Denied) as refused:
        served.text(f"workspace:///{path}?{query}")
    assert SECRET not in refused.value.message


def test_a_refusal_does_not_depend_on_what_was_ever_committed(served: Served) -> None:
    def refusal(uri: str) -> str:
        with pytest.raises(Denied) as refused:
            served.text(uri)
        return refused.value.message.replace(uri, "")

    for query in ("at=v1", "at=HEAD", "log", "diff=v1..HEAD"):
        assert refusal(f"workspace:///.env?{query}") == refusal(f"workspace:///never/.env?{query}")
        assert refusal(f"workspace:///deploy/id_rsa?{query}") == refusal(f"workspace:///never/id_rsa?{query}")


def test_no_answer_has_a_secret_and_a_comparison_counts_what_it_leaves_out(served: Served) -> None:
    for uri in (
        "workspace:///?diff=v1..HEAD",
        "workspace:///?diff=v1..HEAD&format=json",
        "workspace:///?log&format=json",
        "workspace:///src?diff=v1..HEAD",
    ):
        text = served.text(uri)
        assert SECRET not in text
        assert ".env" not in text
        assert "id_rsa" not in text
        assert "build/out" not in text
    shown = served.text("workspace:///?diff=v1..HEAD")
    assert shown.startswith("3 files are left out: not served here.\ndiff --git ")
    assert as_json(served, "workspace:///?diff=v1..HEAD&format=json")["left_out"] == 3
    only = served.text("workspace:///?diff=HEAD~2..HEAD~1")
    assert only == "3 files are left out: not served here.\nNo differences.\n"


def test_a_binary_file_is_refused_as_a_file_and_named_in_a_comparison(served: Served, project: Path) -> None:
    with pytest.raises(Denied, match="not an allowed file type"):
        served.text("workspace:///image.png?at=v1")
    with Served(project, preset="all") as everything:
        assert everything.item("workspace:///image.png?at=v1").mime_type == "image/png"


def test_a_preset_with_types_holds_for_history(project: Path) -> None:
    with Served(project, preset="flutter") as served:
        with pytest.raises(Denied, match="not an allowed file type"):
            served.text("workspace:///README.md?at=v1")
        assert "README" not in served.text("workspace:///?diff=v1..HEAD")


def test_the_operator_s_own_patterns_hold_for_history(project: Path) -> None:
    with Served(project, deny=["src/"]) as served:
        with pytest.raises(Denied):
            served.text("workspace:///src/app.py?at=v1")
        assert "app.py" not in served.text("workspace:///?diff=v1..HEAD")


def test_history_needs_the_permission_of_a_read(served: Served) -> None:
    with ActingAs(Access("other", frozenset({"logs:read"}))), pytest.raises(Denied, match="needs the scope"):
        served.catalog.read("workspace:///README.md?at=v1")


# What changed


def test_a_difference_between_two_revisions_is_that_of_git(served: Served, project: Path) -> None:
    expected = git(project, "diff", "--no-renames", "v1", "HEAD", "--", "src/app.py").split("\n")
    shown = served.text("workspace:///src/app.py?diff=v1..HEAD").rstrip("\n").split("\n")

    assert shown == [line for line in expected if not line.startswith("index ")]
    assert served.item("workspace:///src/app.py?diff=v1..HEAD").mime_type == "text/x-diff"
    old, new = (git(project, "rev-parse", one) for one in ("v1", "HEAD"))
    assert served.catalog.read("workspace:///src/app.py?diff=v1..").etag == f"{old}..{new}"
    assert served.text("workspace:///src/app.py?diff=side..HEAD~1") == "No differences.\n"


def test_a_difference_with_one_revision_is_to_the_file_as_it_is_now(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
    put(clone / "src/app.py", "import os\nchanged = 1\n")
    put(clone / "new.py", "new = 1\n")
    (clone / "README.md").unlink()
    with Served(clone) as served:
        shown = served.text("workspace:///src/app.py?diff=HEAD")
        expected = git(clone, "diff", "HEAD", "--", "src/app.py").split("\n")
        assert shown.rstrip("\n").split("\n") == [line for line in expected if not line.startswith("index ")]
        assert "+new = 1\n" in served.text("workspace:///new.py?diff=HEAD")
        assert "deleted file mode 100644" in served.text("workspace:///README.md?diff=HEAD")
        assert served.text("workspace:///utf16.txt?diff=HEAD") == "No differences.\n"
        with pytest.raises(NotFound):
            served.text("workspace:///never.md?diff=HEAD")
        with pytest.raises(BadArgument, match="for a folder, give two revisions"):
            served.text("workspace:///src?diff=HEAD")


def test_a_difference_as_json_has_the_counts(served: Served) -> None:
    found = as_json(served, "workspace:///src?diff=v1..HEAD&format=json")

    assert [(one["path"], one["status"], one["added"], one["removed"]) for one in found["files"]] == [
        ("src/app.py", "M", 2, 1),
        ("src/old.py", "D", 0, 1),
    ]
    assert found["next"] is None
    assert found["files"][1]["patch"].startswith("diff --git a/src/old.py b/src/old.py\ndeleted file mode 100644\n")


def test_a_difference_of_many_files_has_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.git.comparison.MAX_FILES", 1)
    first = served.item("workspace:///src?diff=v1..HEAD")
    assert (first.meta or {})["dev.carrel/next"] == "workspace:///src?diff=v1..HEAD&skip=1"
    second = served.text("workspace:///src?diff=v1..HEAD&skip=1")
    assert second.startswith("Files 2 to 2 of 2.\ndiff --git a/src/old.py")


# Lines and commits


def test_blame_names_the_commit_of_each_line(served: Served, project: Path) -> None:
    first, second, fourth = (git(project, "rev-parse", name)[:12] for name in ("v1", "side", "HEAD"))

    assert served.text("workspace:///src/app.py?blame").split("\n") == [
        f" {first} 2023-11-14 Ada 1: import os",
        f" {fourth} 2023-11-14 Ada 2: import sys",
        f" {first} 2023-11-14 Ada 3: ",
        f" {first} 2023-11-14 Ada 4: ",
        f" {first} 2023-11-14 Ada 5: def run():",
        f" {second} 2023-11-14 Ada 6:     return 2",
        "",
    ]
    assert served.text("workspace:///src/app.py?blame&lines=6") == f" {second} 2023-11-14 Ada 6:     return 2\n"
    assert fourth not in served.text("workspace:///src/app.py?blame&at=side")


def test_blame_as_json_joins_lines_of_one_commit(served: Served, project: Path) -> None:
    found = as_json(served, "workspace:///src/app.py?blame&format=json")

    assert [(one["from"], one["to"]) for one in found["lines"]] == [(1, 1), (2, 2), (3, 5), (6, 6)]
    assert found["commits"][git(project, "rev-parse", "HEAD")]["subject"] == "Fourth"
    with pytest.raises(BadArgument, match="only a file has lines"):
        served.text("workspace:///src?blame")


def test_the_log_of_a_file_has_the_commits_that_changed_it(served: Served, project: Path) -> None:
    expected = ids(project, "--", "src/app.py")
    lines = served.text("workspace:///src/app.py?log").rstrip("\n").split("\n")

    assert [line.split(" ")[0] for line in lines] == [name[:12] for name in expected]
    assert lines[-1] == f"{expected[-1][:12]} 2023-11-14T22:13Z Ada: First"
    found = as_json(served, "workspace:///src/app.py?log&format=json")
    assert [one["id"] for one in found["commits"]] == expected
    assert found["commits"][-1] == {
        "id": expected[-1],
        "parents": [],
        "author": {"name": "Ada", "email": "ada@x.org", "time": "2023-11-14T22:13:20Z"},
        "committer": {"name": found["commits"][-1]["committer"]["name"], "email": "ada@x.org"}
        | {"time": "2023-11-14T22:13:20Z"},
        "subject": "First",
        "body": "With a body.",
    }
    assert [one["id"] for one in as_json(served, "workspace:///?log&at=side&format=json")["commits"]] == ids(
        project, "side"
    )


def test_a_log_has_pages_of_a_hundred_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    out = []
    for number in range(250):
        parent = f"from :{number}\n" if number else ""
        out.append(f"commit refs/heads/main\nmark :{number + 1}\ncommitter A <a@b> {EPOCH + number} +0000\n")
        out.append(f"data 1\nx\n{parent}M 100644 inline f.txt\ndata {len(str(number))}\n{number}\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=tmp_path, input="".join(out).encode(), check=True)
    with Served(tmp_path) as served:
        uri: str | None = "workspace:///f.txt?log&format=json"
        counts, found = [], []
        while uri is not None:
            page = as_json(served, uri)
            assert (served.item(uri).meta or {}).get("dev.carrel/next") == page["next"]
            counts.append(len(page["commits"]))
            found += [one["id"] for one in page["commits"]]
            uri = page["next"]
        assert counts == [100, 100, 50]
        assert found == ids(tmp_path)


@pytest.mark.parametrize("query", ["log&lines=1-2", "log&start=0&length=60"])
def test_parts_of_a_log_follow_each_other_before_its_next_page(
    served: Served, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    whole = served.text("workspace:///src?log")
    monkeypatch.setattr("carrel.git.folder_history.PAGE", 3)
    uri: object = f"workspace:///src?{query}"
    parts = []
    while isinstance(uri, str):
        parts.append(served.text(uri))
        uri = (served.item(uri).meta or {}).get("dev.carrel/next")

    assert "".join(parts) == whole
    assert len(parts) > 1


def test_a_list_of_commits_has_the_beginning_of_long_messages(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    name = commit(tmp_path, f"Subject\n\n{'x' * 5_000}", {"a.txt": "one\n"})
    with Served(tmp_path) as served:
        [listed] = as_json(served, "workspace:///a.txt?log&format=json")["commits"]
        blamed = as_json(served, "workspace:///a.txt?blame&format=json")["commits"][name]

    assert listed["body"] == "x" * 1_000 + "…"
    assert blamed == {key: value for key, value in listed.items() if key != "body"}


def test_a_file_that_no_commit_has_has_no_log(served: Served) -> None:
    with pytest.raises(NotFound, match=r"no commit has workspace:///never\.md"):
        served.text("workspace:///never.md?log")


def test_a_fingerprint_of_history_changes_with_what_is_shown(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
    git(clone, "tag", "fixed", "HEAD~3")
    with Served(clone) as served:
        uris = [f"workspace:///src/app.py?{query}" for query in ("at=fixed", "at=HEAD", "log", "blame", "diff=HEAD")]
        before = [served.catalog.fingerprint(uri) for uri in uris]
        commit(clone, "Fifth", {"src/app.py": "other = 1\n"}, 40)
        put(clone / "src/app.py", "more = 1\n")
        after = [served.catalog.fingerprint(uri) for uri in uris]

    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, False, False, False]


# Queries


@pytest.mark.parametrize(
    "query",
    [
        "at=",
        "diff=",
        "at=v1&diff=v1",
        "at=v1&format=json",
        "log&lines=1&start=0",
        "at=v1&at=main",
        "at=v1&after=x",
        "log&format=xml",
        "log&skip=-1",
        "log&skip=99999999",
        "diff=v1...HEAD",
        "diff=v1&at=v1",
        "blame&skip=1",
    ],
)
def test_parameters_that_do_not_go_together_are_refused(served: Served, query: str) -> None:
    with pytest.raises(BadArgument, match=r"^Invalid parameter: "):
        served.text(f"workspace:///src/app.py?{query}")


@pytest.mark.parametrize("revision", ["nothing", "HEAD~99", "v1%00", "--help", "%2e%2e%2f%2e%2e", "HEAD:README.md"])
def test_an_unknown_revision_is_named_with_what_is_expected(served: Served, revision: str) -> None:
    with pytest.raises(RequestError):
        served.text(f"workspace:///README.md?at={revision}")


def test_a_folder_without_git_says_so_and_offers_no_history(tmp_path: Path) -> None:
    put(tmp_path / "a.md", "a\n")
    with Served(tmp_path) as served:
        for query in ("at=HEAD", "diff=HEAD", "blame", "log"):
            with pytest.raises(NotFound, match=r"^This folder has no git history: "):
                served.text(f"workspace:///a.md?{query}")
        names = [template.name for template in served.catalog.templates()[0]]
        assert names == ["workspace-file"]


def test_a_project_in_git_offers_its_history(served: Served) -> None:
    assert [template.name for template in served.catalog.templates()[0]] == ["workspace-file", "workspace-history"]


def test_a_project_below_the_top_of_a_repository_has_the_history_of_its_files(project: Path) -> None:
    with Served(project / "src") as served:
        assert "return 1" in served.text("workspace:///app.py?at=v1")
        found = as_json(served, "workspace:///?diff=v1..HEAD&format=json")
        assert [one["path"] for one in found["files"]] == ["app.py", "old.py"]
        assert len(as_json(served, "workspace:///?log&format=json")["commits"]) == 3


def test_a_further_root_has_its_own_history(tmp_path: Path, project: Path) -> None:
    put(tmp_path / "main" / "a.md", "a\n")
    workspace = Workspace(Project(str(tmp_path / "main"), {}), roots={"other": Place(str(project))})
    try:
        reading = Catalog([workspace]).read("workspace://@other/src/app.py?at=v1")
        assert reading.etag == git(project, "rev-parse", "v1:src/app.py")
        with pytest.raises(NotFound, match="no git history"):
            Catalog([workspace]).read("workspace:///a.md?at=HEAD")
    finally:
        workspace.close()
