"""Which hosts are found, and by which sign."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.connect.detection import found_hosts, running_programs
from carrel.connect.places import Surroundings


def signs(around: Surroundings) -> dict[str, tuple[str, ...]]:
    return {found.host.name: found.signs for found in found_hosts(around)}


@pytest.fixture(name="alone")
def nothing_runs(around: Surroundings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Surroundings:
    """Hide the programs of this machine."""
    monkeypatch.setattr("carrel.connect.detection.running_programs", lambda _: frozenset())
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return around


def test_nothing_is_found_on_an_empty_machine(alone: Surroundings) -> None:
    assert signs(alone) == {}


def test_a_host_is_found_by_its_program(alone: Surroundings, tmp_path: Path) -> None:
    for name in ("claude", "zeditor"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)

    assert signs(alone) == {"claude-code": ("program claude",), "zed": ("program zeditor",)}


def test_a_host_is_found_by_its_settings_or_their_folder(alone: Surroundings) -> None:
    home, project = Path(alone.home), Path(alone.folder)
    (home / ".cursor").mkdir()
    (home / ".claude.json").write_text("{}", encoding="utf-8")
    (project / ".kiro/settings").mkdir(parents=True)
    (project / ".kiro/settings/mcp.json").write_text("{}", encoding="utf-8")

    assert signs(alone) == {
        "claude-code": (f"settings {home}/.claude.json",),
        "cursor": (f"folder {home}/.cursor",),
        "kiro": (f"settings {project}/.kiro/settings/mcp.json",),
    }


def test_a_file_that_two_hosts_read_is_a_sign_of_the_first_only(alone: Surroundings) -> None:
    path = Path(alone.folder) / ".vscode/mcp.json"
    path.parent.mkdir()
    path.write_text("{}", encoding="utf-8")

    assert signs(alone) == {"vscode": (f"settings {path}",)}


def test_a_folder_that_everybody_has_is_no_sign(alone: Surroundings) -> None:
    (Path(alone.home) / ".config").mkdir()

    assert signs(alone) == {}


def test_a_running_editor_is_found(around: Surroundings, tmp_path: Path) -> None:
    (tmp_path / "windsurf").symlink_to(os.path.realpath(sys.executable))
    command = [str(tmp_path / "windsurf"), "-S", "-c", "input('ready\\n')"]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as editor:
        assert editor.stdout is not None
        editor.stdout.readline()  # the kernel names a process a moment after it was started
        running = running_programs(around)
        editor.communicate(b"\n")

    assert "windsurf" in running
