"""What a preset leaves out: counted, and told with the one line that changes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from carrel.cli import main
from carrel.providers.workspace import listing
from tests.support.workspaces import Served, fill

LINE = "`carrel config set workspace.preset code` serves every text file"
APP = {
    "pubspec.yaml": "name: app\n",
    "README.md": "# App\n",
    "lib/main.dart": "void main() {}\n",
    "lib/l10n/app_en.arb": "{}",
    "pubspec.lock": "x",
    "assets/data.json": "{}",
    "build/out.json": "{}",
    ".gitignore": "build/\n",
    ".metadata": "x",
    ".env": "SECRET=1",
}


@pytest.fixture(name="app")
def flutter_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = fill(tmp_path / "app", {**APP, ".git/": ""})
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(name="told")
def told_by_commands(app: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    def told(*words: str) -> str:
        assert main(words) == 0
        return " ".join(capfd.readouterr().out.split())

    return told


COUNTED = f"4 of 6 files are not served: preset flutter excludes their type; {LINE}"


@pytest.mark.parametrize("words", [(), pytest.param(("doctor",), marks=pytest.mark.slow), ("cat", "carrel://guide")])
def test_a_flutter_project_says_how_many_files_are_left_out_and_what_changes_it(
    told: Any, words: tuple[str, ...]
) -> None:
    assert COUNTED in told(*words)
    told("config", "set", "workspace.preset", "code")
    assert "excludes their type" not in told(*words)


def test_health_is_not_troubled_by_what_a_preset_leaves_out(told: Any) -> None:
    problems = json.loads(told("cat", "carrel://health"))["problems"]

    assert not [one for one in problems if "left out" in one]


@pytest.mark.parametrize(
    ("preset", "uri", "wider"),
    [("flutter", "README.md", "code"), ("none", "README.md", "code"), ("code", "assets/x.bin", "all")],
)
def test_a_refusal_by_type_names_the_line_that_changes_it(app: Path, preset: str, uri: str, wider: str) -> None:
    fill(app, {"assets/x.bin": b"\0\1"})
    line = f"(not an allowed file type; `carrel config set workspace.preset {wider}` serves it)"
    with Served(app, preset=preset) as served:
        assert served.error(f"workspace:///{uri}").message == f"Access denied: workspace:///{uri} {line}"
        if preset != "code":
            assert line in served.error("workspace:///nothing.md").message


def test_counting_is_bounded(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(app, {f"lib/{folder}/{number}.txt": "x" for folder in "abcd" for number in range(100)})
    with Served(app) as served:
        monkeypatch.setattr(listing, "MAX_COUNTED_NAMES", 150)
        [told] = served.workspace.left_out()
    assert " of the first " in told
