"""Where a provider's data is opened: beneath the project unless the user named the place."""

import os
import stat
from pathlib import Path

import pytest

from carrel.core.provider import Project
from carrel.files import sandbox
from carrel.files.data_folder import DataFolder
from carrel.files.sandbox import Forbidden, Foreign, Missing, Outside, Root, SandboxError
from tests.support.owners import give_away
from tests.support.workspaces import handles


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    (root / ".sage" / "system").mkdir(parents=True)
    (root / ".sage" / "system" / "objective.md").write_text("an objective")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[secret]")
    (root / ".ssh").mkdir()
    (root / "docs").mkdir()
    (root / "docs" / "notes.md").write_text("notes")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes.md").write_text("not of this project")
    return Project(str(root), {})


def sage(project: Project, place: str = ".sage", *, is_named: bool = False) -> DataFolder:
    return DataFolder(project, place, is_named=is_named, own=(".sage",))


def root_of(project: Project) -> Path:
    return Path(project.root)


def text(root: Root, *segments: str) -> str:
    with root, root.open(segments) as opened:
        return opened.read(0, 1_000).decode()


def link(project: Project, name: str, target: str) -> None:
    place = root_of(project) / name
    if place.is_dir() and not place.is_symlink():
        place.rename(place.with_name("moved"))
    place.symlink_to(target)


def test_its_own_folder_is_opened_though_its_name_is_denied_to_others(project: Project) -> None:
    assert text(sage(project).open("system"), "objective.md") == "an objective"
    assert text(sage(project).open(), "system", "objective.md") == "an objective"


def test_the_real_path_is_known(project: Project) -> None:
    with sage(project).open("system") as root:
        assert root.path == f"{project.root}/.sage/system"


def test_a_link_inside_the_project_is_followed(project: Project) -> None:
    link(project, ".sage/system", "../docs")

    assert text(sage(project).open("system"), "notes.md") == "notes"


@pytest.mark.parametrize("target", ["../.git", "../.ssh", "../.carrel", "../docs/../.git"])
def test_a_link_to_a_denied_folder_is_refused_whether_or_not_it_exists(project: Project, target: str) -> None:
    link(project, ".sage/system", target)

    with pytest.raises(Forbidden):
        sage(project).open("system")


def test_a_link_through_a_denied_folder_is_refused(project: Project) -> None:
    link(project, ".sage/system", "../.ssh/../docs")

    with pytest.raises(Forbidden):
        sage(project).open("system")


@pytest.mark.parametrize("target", ["../../outside", "/", "../../nowhere"])
def test_a_link_out_of_the_project_is_refused(project: Project, target: str) -> None:
    link(project, ".sage/system", target)

    with pytest.raises(Outside):
        sage(project).open("system")


def test_its_own_folder_may_not_be_a_link_out_of_the_project(project: Project) -> None:
    link(project, ".sage", "../outside")

    with pytest.raises(Outside):
        sage(project).open()


@pytest.mark.parametrize("place", [".git", ".ssh", ".carrel", "docs/.aws"])
def test_a_place_that_a_stranger_names_may_not_be_denied(project: Project, place: str) -> None:
    with pytest.raises(Forbidden):
        sage(project, place).open()


@pytest.mark.parametrize("place", ["..", "../outside", "/", "docs/../../outside"])
def test_a_place_that_a_stranger_names_lies_in_the_project(project: Project, place: str) -> None:
    with pytest.raises(Outside):
        sage(project, place).open()


def test_the_root_itself_may_be_the_place(project: Project) -> None:
    assert text(sage(project, ".").open("docs"), "notes.md") == "notes"


def test_a_place_may_be_spelled_through_a_link_to_the_project(project: Project, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("project")

    assert text(sage(project, f"{tmp_path}/alias/docs").open(), "notes.md") == "notes"


def test_a_place_that_the_user_named_may_lie_anywhere(project: Project, tmp_path: Path) -> None:
    assert text(sage(project, str(tmp_path / "outside"), is_named=True).open(), "notes.md") == "not of this project"


def test_denied_names_stay_denied_below_a_place_that_the_user_named(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside" / ".env").write_text("SECRET=1")

    with sage(project, str(tmp_path / "outside"), is_named=True).open() as root, pytest.raises(Forbidden):
        root.open((".env",))


def test_what_the_operator_denies_is_refused(project: Project) -> None:
    strict = Project(project.root, {}, deny=("docs/",))
    link(project, ".sage/system", "../docs")

    with pytest.raises(Forbidden):
        sage(strict).open("system")


def test_a_file_is_no_folder(project: Project) -> None:
    with pytest.raises(Missing):
        sage(project).open("system", "objective.md")


@pytest.mark.parametrize("foreign", [".sage", ".sage/system"])
def test_a_folder_of_another_user_is_refused(project: Project, foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(root_of(project) / foreign, monkeypatch)

    with pytest.raises(Foreign):
        sage(project).open("system")


@pytest.mark.parametrize(("owner", "is_ours"), [(0, True), (os.getuid(), True), (777, True), (12_345, False)])
def test_ours_is_what_belongs_to_the_user_the_administrator_or_the_owner_of_the_project(
    owner: int, is_ours: bool
) -> None:
    found = os.stat_result((stat.S_IFDIR | 0o755, 1, 1, 1, owner, 0, 0, 0, 0, 0))

    assert sandbox.belongs_here(found, 777) is is_ours


def test_missing_folders_are_made_for_the_user_alone(project: Project) -> None:
    scopes = DataFolder(project, ".carrel", is_named=False, own=(".carrel",))
    scopes.make("logs", "run").close()

    made = [root_of(project) / ".carrel", root_of(project) / ".carrel" / "logs" / "run"]
    assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700, 0o700]


@pytest.mark.parametrize("target", ["../outside", "nowhere", ".git"])
def test_nothing_is_made_through_a_link_that_may_not_be_followed(project: Project, tmp_path: Path, target: str) -> None:
    link(project, ".carrel", target)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(SandboxError):
        DataFolder(project, ".carrel", is_named=False, own=(".carrel",)).make("logs")
    assert sorted(tmp_path.rglob("*")) == before


def test_every_handle_is_given_back(project: Project, tmp_path: Path) -> None:
    link(project, ".sage/failures", "../.git")
    sage(project).open("system").close()
    sage(project).make("knowledge").close()
    with pytest.raises(Forbidden):
        sage(project).open("failures")

    assert handles(tmp_path) == []


def test_a_denied_folder_is_not_made(project: Project, tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        DataFolder(project, ".aws/data", is_named=False).make()
    assert not (tmp_path / "project" / ".aws").exists()
