"""Faults of settings files, variables and folders: each is made, found and, where that is offered, fixed."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from carrel.doctor import settings
from carrel.doctor.checks import Check
from tests.support.doctor import Ward


@pytest.mark.parametrize("check", settings.CHECKS, ids=lambda one: one.id)
def test_a_sound_project_has_no_faults(ward: Ward, check: Check) -> None:
    ward.write(ward.file, "[server]\npage_size = 10\n")

    assert ward.find(check) == []


def test_a_file_that_is_not_toml_is_named_with_the_line(ward: Ward) -> None:
    ward.write(ward.file, "[server\n")

    found = ward.one(settings.settings_file)
    assert found.state == "problem"
    assert f"{ward.file}: not valid TOML" in found.message
    assert ward.find(settings.settings_twice) == []


def test_a_file_that_is_not_utf8_is_named(ward: Ward) -> None:
    ward.file.write_bytes(b"[server]\n# \xff\n")

    assert "not UTF-8 at byte 11" in ward.one(settings.settings_file).message


def test_two_files_with_settings_are_named(ward: Ward) -> None:
    ward.write(ward.file, "")
    ward.write(ward.project / "pyproject.toml", "[tool.carrel.server]\n")

    assert ward.one(settings.settings_twice).state == "problem"
    assert ward.find(settings.settings_file) == []


def test_every_unknown_key_is_found_and_renamed_to_what_was_meant(ward: Ward) -> None:
    ward.write(ward.file, "# mine\n[server]  # pages\npagesize = 7 # few\n\n[worksace]\npreset = 'code'\n")

    found = ward.find(settings.settings_keys)

    assert [one.state for one in found] == ["problem", "problem"]
    assert "[server] has no key 'pagesize'; did you mean 'page_size'?" in found[0].message
    assert "unknown section [worksace]; did you mean 'workspace'?" in found[1].message
    assert ward.fix(settings.settings_keys) == []
    assert ward.file.read_text() == "# mine\n[server]  # pages\npage_size = 7 # few\n\n[workspace]\npreset = 'code'\n"


def test_an_unknown_key_that_is_near_to_none_is_commented_out(ward: Ward) -> None:
    ward.write(ward.user_file, "[server]\nxyzzy = [\n  1,\n]\nmirror = false\n")

    assert "xyzzy" in ward.one(settings.settings_keys).message
    assert ward.fix(settings.settings_keys) == []
    assert ward.user_file.read_text() == "[server]\n# xyzzy = [\n#   1,\n# ]\nmirror = false\n"


def test_a_key_in_pyproject_is_renamed_there(ward: Ward) -> None:
    file = ward.write(ward.project / "pyproject.toml", "[project]\nname = 'x'\n[tool.carrel.server]\npagesize = 7\n")

    assert ward.fix(settings.settings_keys) == []
    assert file.read_text() == "[project]\nname = 'x'\n[tool.carrel.server]\npage_size = 7\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\npage_size = 'many'\n", "[server] page_size"),
        ("[server]\npage_size = 0\n", "[server] page_size: expected a whole number from 1 to 100000"),
        ("[http]\nport = 70000\n", "[http] port: expected a whole number from 1 to 65535"),
        ("[search]\nanswer_s = 1e9\n", "[search] answer_s"),
    ],
)
def test_a_value_that_cannot_be_used_is_found_and_commented_out(ward: Ward, text: str, told: str) -> None:
    ward.write(ward.user_file, text)

    found = ward.one(settings.settings_values)
    assert (found.state, told in found.message) == ("problem", True)
    assert ward.fix(settings.settings_values) == []
    assert ward.user_file.read_text() == text.replace("\n", "\n# ", 1)


def test_a_value_that_only_its_provider_refuses_is_found(ward: Ward) -> None:
    ward.write(ward.file, "[alc]\nhome = '.'\npoll_seconds = 0\n")

    found = ward.one(settings.settings_values)
    assert f"{ward.file}: [alc] poll_seconds: expected a number above 0" in found.message


def test_a_variable_with_a_wrong_value_is_found(ward: Ward) -> None:
    ward.environment["CARREL_SERVER_PAGE_SIZE"] = "many"

    assert "CARREL_SERVER_PAGE_SIZE" in ward.one(settings.settings_values).message


def test_a_variable_that_sets_nothing_is_noted(ward: Ward) -> None:
    ward.environment |= {"CARREL_SEVER_PAGE_SIZE": "7", "CARREL_TOKEN": "x"}

    found = ward.one(settings.settings_environment)
    assert found.message == "the variable CARREL_SEVER_PAGE_SIZE sets nothing; did you mean CARREL_SERVER_PAGE_SIZE?"


def test_a_settings_file_that_is_a_link_out_of_the_project_is_noted(ward: Ward, tmp_path: Path) -> None:
    ward.file.symlink_to(ward.write(tmp_path / "elsewhere.toml", "[server]\n"))

    assert ward.one(settings.settings_unused).message == "carrel.toml is not used: it is a link out of its folder"


def test_a_settings_file_that_everybody_may_write_is_found_and_closed(ward: Ward) -> None:
    ward.write(ward.file, "", 0o666)

    assert ward.one(settings.settings_writable).state == "problem"
    assert ward.fix(settings.settings_writable) == []
    assert stat.S_IMODE(ward.file.stat().st_mode) == 0o664


def test_a_project_that_is_not_the_working_folder_is_noted(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.write(ward.project / ".git/HEAD", "ref: refs/heads/main\n")
    (ward.project / "inner").mkdir()
    monkeypatch.chdir(ward.project / "inner")

    found = ward.one(settings.project_root)
    assert found.message.startswith(f"the project is {ward.project}, not the working folder {ward.project}/inner: ")
    ward.named = "."
    assert ward.find(settings.project_root) == []


def test_a_project_that_a_host_named_is_noted(ward: Ward) -> None:
    ward.environment["CLAUDE_PROJECT_DIR"] = str(ward.bin)

    assert "CLAUDE_PROJECT_DIR names it" in ward.one(settings.project_root).message


def test_a_home_folder_is_no_project(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ward.home)

    assert ward.one(settings.project_home).message.startswith("no files are served: ")


def test_a_host_that_names_a_folder_which_is_gone_is_noted(ward: Ward) -> None:
    ward.environment["CLAUDE_PROJECT_DIR"] = str(ward.home / "gone")

    assert "CLAUDE_PROJECT_DIR names ~/gone, which does not exist" in ward.one(settings.project_variable).message


def test_memory_in_a_subfolder_is_noted_with_the_command(ward: Ward) -> None:
    (ward.project / "app/.sage").mkdir(parents=True)

    found = ward.one(settings.data_elsewhere)
    assert (found.message, found.fix) == (
        "app/.sage (memory) is not served here",
        "carrel serve --project app",
    )


def test_a_working_folder_that_was_deleted_is_found(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ward.project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    try:
        assert ward.one(settings.working_folder).state == "problem"
        assert ward.find(settings.settings_file) == []
    finally:
        os.chdir(ward.project)
