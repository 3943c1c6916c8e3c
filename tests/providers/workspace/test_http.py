"""Folders over plain HTTP: however few children one has, it is told as a folder."""

import json
from pathlib import Path

import pytest

from carrel.core.blocking import Hurrying, TakesAWhile
from carrel.core.provider import Project
from carrel.providers.workspace import Workspace
from tests.support.http_asking import application, get
from tests.support.workspaces import fill


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"lib/": ""}, ["workspace:///lib"]),
        ({"lib/a.md": "a"}, ["workspace:///lib/a.md"]),
        ({"lib/a.md": "a", "lib/b/c.md": "c"}, ["workspace:///lib/a.md", "workspace:///lib/b"]),
    ],
    ids=["empty", "one child", "two children"],
)
def test_a_folder_is_told_as_its_children(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    app = application(Workspace(Project(str(fill(tmp_path, files)), {})))

    reply = get(app, "/workspace/lib")

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert [item["uri"] for item in json.loads(reply.body)["contents"]] == expected


def test_in_a_hurry_there_are_files_and_small_folders(tmp_path: Path) -> None:
    small = {"lib/a.md": "a"}
    large = {f"large/{number:03}.md": "x" for number in range(100)}
    workspace = Workspace(Project(str(fill(tmp_path, small | large)), {}))

    with Hurrying():
        assert workspace.read("workspace:///lib/a.md").etag
        assert len(workspace.read("workspace:///lib").items) == 1
        with pytest.raises(TakesAWhile):
            workspace.read("workspace:///large")
    assert len(workspace.read("workspace:///large").items) == 100
