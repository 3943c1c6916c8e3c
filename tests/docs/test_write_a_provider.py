"""The code of docs/write-a-provider.md, run as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.client.client import Client
from carrel.core.model import Text

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write-a-provider.md"
FILE = re.compile(r"^`(?P<name>[a-z_]+\.(?:py|toml))`:\n\n```\w+\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(name="folder")
def followed_guide(tmp_path: Path) -> Path:
    for found in FILE.finditer(PAGE.read_text(encoding="utf-8")):
        (tmp_path / found["name"]).write_text(found["text"], encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "beds.py",
        "greenhouse.py",
        "history.py",
        "pyproject.toml",
        "test_greenhouse.py",
    ]
    return tmp_path


def run_contract(folder: Path, test: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null", test],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout


def test_the_provider_of_the_guide_passes_the_contract(folder: Path) -> None:
    run_contract(folder, "test_greenhouse.py")


def test_the_smallest_provider_has_at_most_twelve_lines_and_passes_the_contract(folder: Path) -> None:
    lines = [line for line in (folder / "beds.py").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 12
    (folder / "test_beds.py").write_text(
        "from beds import Beds\nfrom carrel.testing import ProviderContract\n\n\n"
        "class TestBeds(ProviderContract):\n    def provider(self) -> Beds:\n        return Beds()\n",
        encoding="utf-8",
    )
    run_contract(folder, "test_beds.py")


def test_a_declared_query_is_checked_as_the_guide_says(folder: Path) -> None:
    ran = {}
    for uri in ("history://north", "history://north?days=3", "history://north?days=99"):
        command = [sys.executable, "-m", "carrel", "cat", uri, "--with", "history.py:History"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        ran[uri] = done.stdout + done.stderr.removeprefix("carrel: ")

    [refusal] = re.findall(r"`history://north\?days=99` is answered with `(.+)`", PAGE.read_text(encoding="utf-8"))
    assert ran == {
        "history://north": "north: 7 days",
        "history://north?days=3": "north: 3 days",
        "history://north?days=99": f"{refusal}\n",
    }


def serving_lines() -> list[str]:
    """Return what the page's `carrel serve` lines name, where that needs no installed package."""
    return re.findall(r"carrel serve (\w+\.py:\w+)", PAGE.read_text(encoding="utf-8"))


def test_the_providers_of_the_guide_are_served_by_the_lines_it_shows(folder: Path) -> None:
    served = {}
    for named in serving_lines():
        command = [sys.executable, "-m", "carrel", "serve", named, "--quiet", "--without", "workspace"]
        with Client.start(command, cwd=folder) as client:
            listed = [entry.uri for entry in client.resources()][3:]
            templates = [(one.uri_template, one.name) for one in client.templates()]
            [item] = client.read("beds://north" if "beds" in named else "greenhouse://beds/south").items
            assert isinstance(item, Text)
            served[named] = listed, [one for one in templates if "bed" in one[0]], item.text

    assert served == {
        "beds.py:Beds": ([], [("beds://{bed}", "bed")], "41.5 %"),
        "greenhouse.py:Greenhouse": (
            ["greenhouse://beds/north", "greenhouse://beds/south", "greenhouse://summary"],
            [("greenhouse://beds/{bed}", "bed")],
            '{"bed": "south", "moisture": 12.0}',
        ),
    }


def test_the_settings_of_the_guide_are_the_parameters_of_the_constructor(folder: Path) -> None:
    [section] = re.findall(r"^\[objects\.greenhouse\]\n.*?(?=^```)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    home = folder / "home"
    (home / ".config" / "carrel").mkdir(parents=True)
    (home / ".config" / "carrel" / "config.toml").write_text(section, encoding="utf-8")
    command = [sys.executable, "-m", "carrel", "serve", "--quiet", "--without", "workspace"]
    with Client.start(command, cwd=folder, env={**os.environ, "HOME": str(home), "PYTHONPATH": str(folder)}) as client:
        [item] = client.read("greenhouse://summary").items

    assert isinstance(item, Text)
    assert item.text == "east 20.5"
