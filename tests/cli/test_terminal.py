"""What a person sees at a terminal: tables that fit, colour unless unwanted, a line where there is nothing."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.cli import main

NARROW = """\
URI
carrel://guide
carrel://catalog
carrel://health
workspace:///a-name-that-is-rather-long.md
"""


@pytest.fixture(name="project", autouse=True)
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "a-name-that-is-rather-long.md").write_text("# A\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(name="show")
def shower(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that returns what a terminal with a number of columns shows, without colours."""
    monkeypatch.setattr("carrel.cli.output.is_terminal", lambda: True)

    def show(*words: str, columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(words) == 0
        return capsys.readouterr().out

    return show


def headings(shown: str) -> list[str]:
    return next(line.split() for line in shown.splitlines() if line.strip())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (120, ["URI", "size", "modified", "description"]),
        (80, ["URI", "size", "description"]),
        (66, ["URI", "description"]),
        (50, ["URI"]),
    ],
)
def test_a_narrow_terminal_loses_time_size_and_words_in_this_order(
    show: Any, columns: int, expected: list[str]
) -> None:
    shown = show("ls", columns=columns)

    assert headings(shown) == expected
    assert max(map(len, shown.splitlines())) <= columns


def test_a_uri_is_never_folded(show: Any) -> None:
    assert show("ls", columns=20) == NARROW


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("sage", "ls"),
            "The memory is empty. Add something: carrel sage save-knowledge ID --keyword K --content TEXT\n",
        ),
        (("sage", "search", "x"), "Nothing found. To list all items: carrel sage ls\n"),
        (("sage", "ls", "--check"), "Everything is listed.\n"),
        (
            ("trust", "--list"),
            "No file is trusted yet. To trust a project's configuration, run carrel trust in the project.\n",
        ),
        (("ls", "logs:"), "No resources yet.\n"),
        (("token", "list"), "No tokens yet. To create one: carrel token add NAME\n"),
    ],
)
def test_an_empty_list_says_so(project: Path, show: Any, words: tuple[str, ...], expected: str) -> None:
    (project / "carrel.toml").write_text("[sage]\nsearch = 'bm25'\n", encoding="utf-8")  # a model takes long to load
    assert show(*words, columns=80) == expected
    assert show(*words, "--json", columns=80) == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(("no_color", "has_colour"), [("", True), ("1", False)])
def test_no_color_takes_the_colour_and_leaves_the_table(project: Path, no_color: str, has_colour: bool) -> None:
    outer, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": no_color}
    ran = subprocess.run([sys.executable, "-m", "carrel", "ls"], stdout=inner, env=environment, check=False)
    os.close(inner)
    shown = os.read(outer, 65_536).decode()
    os.close(outer)

    assert ran.returncode == 0
    assert ("\x1b[36m" in shown, "modified" in shown) == (has_colour, True)
