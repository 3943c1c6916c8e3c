"""Folders over plain HTTP: however few children one has, it is told as a folder."""

import json
from pathlib import Path

import pytest

from carrel.catalog.catalog import Catalog, close_given
from carrel.core.model import Reading, Unread
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
def test_a_folder_is_reported_as_its_children(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    app = application(Workspace(Project(str(fill(tmp_path, files)), {})))

    reply = get(app, "/workspace/lib")

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert [item["uri"] for item in json.loads(reply.body)["contents"]] == expected


def test_only_a_file_that_was_read_a_moment_ago_is_opened_at_once(tmp_path: Path) -> None:
    catalog = Catalog([Workspace(Project(str(fill(tmp_path, {"lib/a.md": "a\nb\n"})), {}))])
    for uri in ("workspace:///lib/a.md", "workspace:///lib", "workspace:///lib/a.md?lines=2-"):
        unread = catalog.find(uri).open()
        assert isinstance(unread, Unread)
        close_given(unread.read())

    given = catalog.find("workspace:///lib/a.md").open()
    assert isinstance(given, Reading)
    close_given(given)
    for uri in ("workspace:///lib", "workspace:///lib/a.md?lines=2-"):
        assert isinstance(catalog.find(uri).open(), Unread)
