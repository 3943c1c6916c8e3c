"""A home folder, a project in it, and the Carrel of this environment as the program that is written."""

from pathlib import Path

import pytest

from carrel.connect import program
from carrel.connect.places import Surroundings, surroundings

FORGOTTEN = (
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "TMPDIR",
    "CARREL_TOKEN",
    "ZDOTDIR",
)
FORGOTTEN_BY_HOSTS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CLINE_MCP_SETTINGS_PATH")


@pytest.fixture(name="around")
def home_and_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    home, project = tmp_path / "home", tmp_path / "home/library"
    project.mkdir(parents=True)
    for name in ("README.md", "a.md", "b.md"):
        (project / name).write_text(f"# {name}\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    for name in (*FORGOTTEN, *FORGOTTEN_BY_HOSTS):
        monkeypatch.delenv(name, raising=False)
    # The tests may themselves run from a temporary folder.
    monkeypatch.setattr(program, "_ALWAYS_CLEARED", ())
    monkeypatch.chdir(project)
    return surroundings(str(project))
