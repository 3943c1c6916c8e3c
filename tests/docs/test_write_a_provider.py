"""The code of docs/write-a-provider.md, run as a reader would."""

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
        "garden.py",
        "greenhouse.py",
        "pyproject.toml",
        "serve_greenhouse.py",
        "test_garden.py",
        "test_greenhouse.py",
    ]
    return tmp_path


@pytest.mark.parametrize("test", ["test_garden.py", "test_greenhouse.py"])
def test_the_providers_of_the_guide_pass_the_contract(folder: Path, test: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null", test],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout


def test_the_provider_of_the_guide_is_served(folder: Path) -> None:
    with Client.start([sys.executable, "serve_greenhouse.py"], cwd=folder) as client:
        listed = [entry.uri for entry in client.resources()]
        read = client.read("greenhouse://house/beds/south").items

    assert listed[3:] == [
        "greenhouse://house/beds/north",
        "greenhouse://house/beds/south",
        "greenhouse://house/summary",
    ]
    assert [item.text for item in read if isinstance(item, Text)] == ['{"bed": "south", "moisture": 12.0}']


def serving_lines() -> list[list[str]]:
    """Give the page's `carrel serve` lines that need no installed package, as words."""
    shown = re.findall(r"^carrel serve (--object \w+:\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [line.split() for line in shown]


def test_the_objects_of_the_guide_are_served_by_the_lines_it_shows(folder: Path) -> None:
    listed = {}
    for words in serving_lines():
        command = [sys.executable, "-m", "carrel", "serve", *words, "--quiet", "--without", "workspace"]
        with Client.start(command, cwd=folder) as client:
            listed[words[-1]] = [entry.uri for entry in client.resources()][3:]

    assert listed == {
        "garden:Garden": ["garden://house/summary"],
        "greenhouse:Greenhouse": [
            "greenhouse://house/beds/north",
            "greenhouse://house/beds/south",
            "greenhouse://house/summary",
        ],
    }


def test_the_object_of_the_guide_does_what_the_page_says(folder: Path) -> None:
    command = [sys.executable, "-m", "carrel", "serve", "--quiet", "--object", "garden:Garden"]
    with Client.start(command, cwd=folder) as client:
        read = client.read("garden://house/summary?below=20").items
        driest = client.call("driest").blocks

    assert [item.text for item in read if isinstance(item, Text)] == ["south 12.0"]
    assert driest == ("south",)
