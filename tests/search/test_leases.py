"""Two servers of one project with other settings: each keeps its index, and what nobody uses any more goes."""

from pathlib import Path

import pytest

from carrel.app.app import Desk, open_desk
from carrel.app.config import load
from carrel.search.answers import SearchRequest
from carrel.search.leases import Lease, delete_unused


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with two files."""
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / "open.md").write_text("walrus for everybody\n")
    (root / "plan.md").write_text("walrus and rutabaga\n")
    return root


def desk(project: Path, **workspace: str) -> Desk:
    """Open the project as a server with these settings does."""
    given = {f"CARREL_WORKSPACE_{name.upper()}": value for name, value in workspace.items()}
    return open_desk(load(str(project), {"HOME": str(project.parent), **given}))


def found(opened: Desk, query: str = "walrus") -> set[str]:
    """Return what a search finds."""
    assert opened.server.search is not None
    answer = opened.server.search.opened().search(SearchRequest(query, "workspace"), within_s=30.0)
    return {hit.base.rpartition("/")[2] for hit in answer.hits}


def files(project: Path) -> dict[str, int]:
    """Return the numbers of the index files that exist."""
    place = project.parent / ".cache/carrel/search"
    return {one.parent.name: one.stat().st_ino for one in place.glob("*/index.db")}


def test_two_servers_with_other_deny_lists_do_not_rebuild_each_other_s_index(project: Path) -> None:
    one, other = desk(project), desk(project, deny="plan.md")
    assert found(one) == {"open.md", "plan.md"}
    assert found(other) == {"open.md"}
    before = files(project)
    assert len(before) == 2

    for _ in range(5):
        assert found(one) == {"open.md", "plan.md"}
        assert found(other) == {"open.md"}
        assert found(other, "rutabaga") == set()

    assert files(project) == before
    one.close()
    other.close()


def test_servers_with_the_same_settings_share_an_index(project: Path) -> None:
    one, other = desk(project), desk(project)

    assert found(one) == found(other) == {"open.md", "plan.md"}
    assert len(files(project)) == 1
    one.close()
    other.close()


def test_when_settings_change_the_index_of_before_is_deleted(project: Path) -> None:
    before = desk(project)
    assert found(before, "rutabaga") == {"plan.md"}
    before.close()

    after = desk(project, deny="plan.md")
    assert found(after) == {"open.md"}
    after.close()

    place = project.parent / ".cache/carrel/search"
    kept = b"".join(one.read_bytes() for one in place.rglob("*") if one.is_file())
    assert b"walrus" in kept
    assert b"rutabaga" not in kept


def test_only_what_belongs_to_the_project_and_is_not_in_use_is_deleted(tmp_path: Path) -> None:
    for name in ("one-a", "one-b", "one", "two-a", "one-used"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.db").write_text("x")
    lease = Lease(str(tmp_path / "one-used"))

    delete_unused(str(tmp_path / "one-a"))

    assert sorted(one.name for one in tmp_path.iterdir()) == ["one-a", "one-used", "two-a"]
    lease.close()
    lease.close()
    delete_unused(str(tmp_path / "one-a"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["one-a", "two-a"]
