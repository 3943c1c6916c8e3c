"""Which command is written: one that a bare PATH finds, and that is still there tomorrow."""

import sys
from pathlib import Path

import pytest

from carrel.connect import program
from carrel.connect.errors import NotWritten


@pytest.fixture(name="home")
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a Carrel in a home folder, as pipx does: an environment, and a launcher on PATH that links to it."""
    home = tmp_path / "home"
    place(home / "venvs/carrel/bin/carrel")
    launchers = home / ".local/bin"
    launchers.mkdir(parents=True)
    (launchers / "carrel").symlink_to(home / "venvs/carrel/bin/carrel")
    monkeypatch.setattr(sys, "executable", str(home / "venvs/carrel/bin/python"))
    monkeypatch.setattr(sys, "prefix", str(home / "venvs/carrel"))
    monkeypatch.setattr(program, "_ALWAYS_CLEARED", ())
    monkeypatch.setattr(program, "BARE_PATH", str(tmp_path / "usr/bin"))
    return home


def place(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{home}/.local/bin", **more}


def test_the_launcher_on_path_is_written_and_not_the_environment_behind_it(home: Path) -> None:
    assert program.lasting_program(environment(home)) == [f"{home}/.local/bin/carrel"]


def test_without_a_launcher_on_path_the_program_of_the_environment_is_written(home: Path) -> None:
    assert program.lasting_program({"HOME": str(home)}) == [f"{home}/venvs/carrel/bin/carrel"]


def test_the_launcher_of_another_carrel_is_not_written(home: Path) -> None:
    place(home / "other/carrel")

    written = program.lasting_program({"HOME": str(home), "PATH": f"{home}/other"})

    assert written == [f"{home}/venvs/carrel/bin/carrel"]


def test_a_name_that_a_bare_path_finds_is_enough(home: Path, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/carrel").symlink_to(home / "venvs/carrel/bin/carrel")

    assert program.lasting_program(environment(home)) == ["carrel"]


def test_without_a_launcher_python_starts_the_module(home: Path) -> None:
    (home / "venvs/carrel/bin/carrel").unlink()

    written = program.lasting_program(environment(home))

    assert written == [f"{home}/venvs/carrel/bin/python", "-P", "-m", "carrel"]


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("TMPDIR", ""), ("XDG_CACHE_HOME", ""), ("UV_CACHE_DIR", "venvs"), ("PIPX_HOME", "pipx")],
)
def test_a_program_in_a_temporary_or_cache_folder_is_refused(
    home: Path, variable: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable == "PIPX_HOME":
        place(home / "pipx/.cache/x/bin/carrel")
        monkeypatch.setattr(sys, "executable", str(home / "pipx/.cache/x/bin/python"))

    with pytest.raises(NotWritten, match=r"install it with `pipx install .` or `uv tool install .` in a checkout"):
        program.lasting_program(environment(home, **{variable: str(home / folder)}))


@pytest.mark.parametrize("below", [".cache/uv/archive/bin", ".npm/_npx/1/bin", "Library/Caches/x/bin"])
def test_a_program_in_a_cache_of_the_home_folder_is_refused(
    home: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(home / below / "carrel")
    monkeypatch.setattr(sys, "executable", str(home / below / "python"))

    with pytest.raises(NotWritten, match="temporary or cache folder"):
        program.lasting_program(environment(home))


def test_a_launcher_that_links_into_a_cache_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(home / ".cache/uv/x/bin/carrel")
    (home / ".local/bin/carrel").unlink()
    (home / ".local/bin/carrel").symlink_to(home / ".cache/uv/x/bin/carrel")
    monkeypatch.setattr(sys, "executable", str(home / ".cache/uv/x/bin/python"))

    with pytest.raises(NotWritten, match=r"\.cache"):
        program.lasting_program(environment(home))


@pytest.mark.parametrize("path", ["/tmp/x/carrel", "/var/tmp/carrel", "/private/var/folders/ab/carrel"])
def test_the_temporary_folders_of_every_system_are_known(path: str) -> None:
    assert program.passing_folder(path, {"HOME": "/home/ada"}) is not None


@pytest.mark.parametrize("path", ["/tmpfiles/carrel", "/home/ada/.cached/carrel", "carrel", "/usr/bin/carrel"])
def test_a_folder_with_a_similar_name_is_no_temporary_one(path: str) -> None:
    assert program.passing_folder(path, {"HOME": "/home/ada"}) is None
