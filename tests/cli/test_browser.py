"""Which browser is opened, and what is printed where there is none."""

import os
from pathlib import Path

import pytest

from carrel.cli.browser import browser_command, opener, refuse_remote_browser
from carrel.core.errors import ConfigError
from tests.support.waiting import has_thread, until

LINK = "http://127.0.0.1:8000/-/open?key=abc"


def program(folder: Path, name: str, text: str) -> Path:
    """Write a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


def test_browser_is_honoured_with_and_without_a_place_for_the_address(tmp_path: Path) -> None:
    program(tmp_path, "mine", "true")
    path = {"PATH": str(tmp_path)}

    assert browser_command({**path, "BROWSER": "mine"}, LINK) == ["mine", LINK]
    assert browser_command({**path, "BROWSER": "mine --to=%s -x"}, LINK) == ["mine", f"--to={LINK}", "-x"]
    assert browser_command({**path, "BROWSER": f"nosuch{os.pathsep}mine"}, LINK) == ["mine", LINK]
    assert browser_command({**path, "BROWSER": "nosuch", "DISPLAY": ":0"}, LINK) is None


def test_without_a_screen_there_is_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    program(tmp_path, "xdg-open", "true")

    assert browser_command({"PATH": str(tmp_path)}, LINK) is None
    assert browser_command({"PATH": str(tmp_path), "DISPLAY": ":0"}, LINK) == ["xdg-open", LINK]
    assert browser_command({"PATH": "", "DISPLAY": ":0"}, LINK) is None


def test_where_no_browser_is_found_the_link_is_printed_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    opener({"BROWSER": "/nonexistent"}, wanted=True)(LINK)

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.rstrip().endswith(LINK)
    assert "no browser was found" in shown.err


def test_a_browser_that_is_not_wanted_is_not_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = program(tmp_path, "mine", f"touch {tmp_path}/started")
    opener({"BROWSER": str(mine)}, wanted=False)(LINK)

    assert LINK in capsys.readouterr().err
    assert not (tmp_path / "started").exists()


def test_an_opened_link_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = program(tmp_path, "mine", f'echo "$1" > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/got')
    opener({"BROWSER": str(mine), "PATH": "/usr/bin:/bin"}, wanted=True)(LINK)

    until((tmp_path / "got").exists)
    assert (tmp_path / "got").read_text("utf-8").strip() == LINK
    assert "key=" not in capsys.readouterr().err


def test_a_browser_that_fails_at_once_leaves_the_link(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mine = program(tmp_path, "mine", "exit 3")
    said: list[str] = []
    opener({"BROWSER": str(mine), "PATH": "/usr/bin:/bin"}, wanted=True)(LINK)

    def is_said() -> bool:
        said.append(capfd.readouterr().err)
        return LINK in "".join(said)

    until(is_said)
    until(lambda: not has_thread("carrel-browser"))  # it writes to what the test's end closes
    assert "status 3" in "".join(said)


def test_a_browser_is_not_opened_on_an_address_that_other_machines_reach() -> None:
    refuse_remote_browser("127.0.0.1")
    with pytest.raises(ConfigError, match="remove --open"):
        refuse_remote_browser("0.0.0.0")
