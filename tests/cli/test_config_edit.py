"""`carrel config set`, `get` and `unset`: one setting changes, and every other byte of the file stays."""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from tests.support.command_line import Run


@pytest.fixture(name="home")
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


FILE = """\
# Ours
[server]   # all of it
page_size = 50 # small

[workspace]
# Why: the app is large
allow = [
    "*.sql",  # the schema
]
preset = "flutter"  # for now
"""


def test_a_file_is_made_where_there_is_none(run: Run, project: Path) -> None:
    ran = run("config", "set", "workspace.preset", "code")

    assert (ran.code, ran.err) == (0, "")
    assert (project / "carrel.toml").read_text(encoding="utf-8") == '[workspace]\npreset = "code"\n'
    assert ran.out == f'Set workspace.preset = "code" in {project / "carrel.toml"}\n'
    assert run("config", "get", "workspace.preset").out == "code\n"


def test_only_the_value_changes_and_comments_and_order_stay(run: Run, project: Path) -> None:
    file = project / "carrel.toml"
    file.write_text(FILE, encoding="utf-8")
    file.chmod(0o640)

    assert run("config", "set", "workspace.preset", "code").code == 0
    assert file.read_text(encoding="utf-8") == FILE.replace('"flutter"', '"code"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [one.name for one in project.iterdir() if one.name != ".git"] == ["carrel.toml"]


def test_a_key_is_added_to_its_section(run: Run, project: Path) -> None:
    file = project / "carrel.toml"
    file.write_text(FILE, encoding="utf-8")

    run("config", "set", "server.mirror", "no")
    run("config", "set", "workspace.deny", "*.bin, private/")
    run("config", "set", "logs.max_entries", "10")

    assert tomllib.loads(file.read_text(encoding="utf-8")) == {
        "server": {"page_size": 50, "mirror": False},
        "workspace": {"allow": ["*.sql"], "preset": "flutter", "deny": ["*.bin", "private/"]},
        "logs": {"max_entries": 10},
    }
    assert all(comment in file.read_text(encoding="utf-8") for comment in ("# Ours", "# small", "# the schema"))


def test_a_setting_is_removed_and_a_section_with_nothing_left(run: Run, project: Path) -> None:
    file = project / "carrel.toml"
    file.write_text("# Ours\n[logs]\nmax_entries = 3\n\n[server]\nmirror = false\n", encoding="utf-8")

    assert run("config", "unset", "logs.max_entries").out == f"Removed logs.max_entries in {file}\n"
    assert tomllib.loads(file.read_text(encoding="utf-8")) == {"server": {"mirror": False}}
    assert run("config", "unset", "logs.max_entries").out == f"There was no logs.max_entries in {file}\n"
    assert run("config", "get", "logs.max_entries").out == "1000\n"


def test_a_section_of_pyproject_is_changed_there(run: Run, project: Path) -> None:
    file = project / "pyproject.toml"
    text = '[project]\nname = "x" # ours\n\n[tool.carrel.workspace]\npreset = "all"\n\n[tool.ruff]\nline-length = 120\n'
    file.write_text(text, encoding="utf-8")

    assert run("config", "set", "workspace.preset", "code").code == 0
    assert file.read_text(encoding="utf-8") == text.replace('"all"', '"code"')
    assert not (project / "carrel.toml").exists()


def test_the_users_own_file_is_changed_on_request(run: Run, project: Path, home: Path) -> None:
    assert run("config", "set", "workspace.hidden", "show", "--user").code == 0

    assert (home / ".config/carrel/config.toml").read_text(encoding="utf-8") == '[workspace]\nhidden = "show"\n'
    assert not (project / "carrel.toml").exists()
    assert json.loads(run("config", "get", "workspace.hidden", "--json").out)["origin"].startswith("user: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "workspace.prest", "code"), "[workspace] has no key 'prest'; did you mean 'preset'?"),
        (("set", "workspce.preset", "code"), "unknown section [workspce]; did you mean 'workspace'?"),
        (("set", "workspace.preset", "cod"), "expected one of auto, flutter, code, all, none, got 'cod'"),
        (("set", "server.page_size", "x"), "expected an integer, got 'x'"),
        (("set", "server.page_size", "0"), "expected a whole number from 1 to 100000, got 0"),
        (("set", "preset", "code"), "write it as SECTION.KEY"),
        (("unset", "workspace.nope"), "[workspace] has no key 'nope'"),
        (("get", "workspace.nope"), "[workspace] has no key 'nope'"),
    ],
)
def test_what_is_no_setting_or_no_value_of_it_is_refused_and_nothing_is_written(
    run: Run, project: Path, words: tuple[str, ...], told: str
) -> None:
    ran = run("config", *words)

    assert ran.code == 2
    assert told in ran.err
    assert not (project / "carrel.toml").exists()


def test_a_file_that_was_trusted_has_to_be_trusted_again(run: Run, project: Path) -> None:
    (project / "carrel.toml").write_text(FILE, encoding="utf-8")
    run("trust")

    assert "run `carrel trust` to trust it again" in run("config", "set", "workspace.preset", "code").out
    run("trust")
    assert "carrel trust" not in run("config", "set", "workspace.preset", "code").out


def test_a_setting_that_is_not_in_effect_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "run `carrel trust` to allow it" in run("config", "set", "workspace.root", "/").out
    run("config", "unset", "workspace.root")
    monkeypatch.setenv("CARREL_WORKSPACE_PRESET", "all")
    assert "CARREL_WORKSPACE_PRESET overrides it" in run("config", "set", "workspace.preset", "code").out


def test_a_home_gets_no_file_of_a_project(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    ran = run("config", "set", "workspace.preset", "code")

    assert (ran.code, list(home.glob("*.toml"))) == (2, [])
    assert "--user" in ran.err


def test_a_link_out_of_the_project_is_neither_read_nor_replaced(run: Run, project: Path) -> None:
    outside = project.parent / "secrets.toml"
    outside.write_text("key = 'secret'\n")
    (project / "carrel.toml").symlink_to(outside)

    ran = run("config", "set", "workspace.preset", "code")

    assert ran.code == 2
    assert "carrel.toml is a link out of its folder" in ran.err
    assert "secret'" not in ran.out + ran.err
    assert (project / "carrel.toml").is_symlink()


def test_a_fifo_in_the_place_of_the_file_blocks_nothing(run: Run, project: Path) -> None:
    os.mkfifo(project / "carrel.toml")

    ran = run("config", "set", "workspace.preset", "code")

    assert (ran.code, "carrel.toml is not a regular file" in ran.err) == (2, True)
