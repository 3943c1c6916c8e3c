"""The guide followed to its end: a package of one's own, in an environment of its own, served by its name."""

import os
import re
import subprocess
import sys
from pathlib import Path

from carrel.client.client import Client
from carrel.core.model import Text

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^`(?P<name>[a-z_]+\.(?:py|toml))`:\n\n```\w+\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def run(*words: str | Path, cwd: Path) -> str:
    """Run a command that must succeed."""
    ran = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_package_made_by_the_guide_is_installed_discovered_tested_and_served(tmp_path: Path) -> None:
    package = tmp_path / "carrel-greenhouse"
    package.mkdir()
    page = (ROOT / "docs/write-a-provider.md").read_text(encoding="utf-8")
    for found in FILE.finditer(page):
        if found["name"] in ("greenhouse.py", "test_greenhouse.py", "pyproject.toml"):
            (package / found["name"]).write_text(found["text"], encoding="utf-8")
    bin_folder = tmp_path / "fresh" / "bin"
    run(sys.executable, "-m", "venv", tmp_path / "fresh", cwd=tmp_path)
    run(bin_folder / "pip", "install", "-qq", "--disable-pip-version-check", ROOT, package, "pytest", cwd=tmp_path)
    tests = tmp_path / "tests"
    tests.mkdir()
    (package / "test_greenhouse.py").rename(tests / "test_greenhouse.py")
    told = run(bin_folder / "pytest", "-q", "-p", "no:cacheprovider", "test_greenhouse.py", cwd=tests)
    command = [str(bin_folder / "carrel"), "serve", "--quiet", "--object", "greenhouse", "--without", "workspace"]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with Client.start(command, cwd=tests, env=environment) as client:
        [item] = client.read("greenhouse://beds/south").items
        listed = [entry.uri for entry in client.resources()]

    assert " passed" in told
    assert isinstance(item, Text)
    assert item.text == '{"bed": "south", "moisture": 12.0}'
    assert listed[3:] == [
        "greenhouse://beds/north",
        "greenhouse://beds/south",
        "greenhouse://summary",
    ]
