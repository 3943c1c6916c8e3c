"""A server imports the explorer when the first page is asked for, and not before."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.client.client import Client
from tests.browser.desk import CARREL, serving, surroundings
from tests.support.sage_folder import put
from tests.support.waiting import until

ONLY_FOR_PAGES = ("carrel.explorer", "jinja2", "markupsafe", "markdown_it", "nh3", "pygments")
IMPORTED = re.compile(r"^import time:.*\|\s*(\S+)$", re.MULTILINE)

pytestmark = pytest.mark.slow


def for_pages(said: str) -> list[str]:
    """Return the modules that were imported and serve pages alone."""
    return sorted({name for name in IMPORTED.findall(said) if name.startswith(ONLY_FOR_PAGES)})


def test_a_server_on_stdin_and_stdout_imports_nothing_for_pages(tmp_path: Path) -> None:
    put(tmp_path / "project/README.md", "# Small\n")
    environment = {**surroundings(tmp_path / "home"), "PYTHONPROFILEIMPORTTIME": "1"}
    said: list[str] = []
    command = [CARREL, "serve", "--project", str(tmp_path / "project")]
    with Client.start(command, env=environment, stderr=said.append) as client:
        assert [item.uri for item in client.read("workspace:///README.md").items] == ["workspace:///README.md"]
        assert any(entry.uri == "carrel://guide" for entry in client.resources())
    whole = "\n".join(line.rstrip("\n") for line in said)
    assert "carrel.transports.stdio" in IMPORTED.findall(whole)
    assert for_pages(whole) == []


def test_a_server_on_http_imports_what_pages_need_when_the_first_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "project/README.md", "# Small\n")
    os.environ["PYTHONPROFILEIMPORTTIME"] = "1"
    try:
        with serving(tmp_path / "project", tmp_path / "home", opens=False) as desk:
            assert desk.get("/workspace/README.md").body == b"# Small\n"
            assert desk.read("workspace:///README.md")["result"]
            assert json.loads(desk.get("/-/health").body)
            before = len(desk.said)
            assert for_pages("".join(desk.said)) == []
            page = desk.get("/workspace/README.md", {"Authorization": f"Bearer {desk.token}", "Accept": "text/html"})
            assert page.status == 200
    finally:
        del os.environ["PYTHONPROFILEIMPORTTIME"]
    assert "carrel.explorer" in for_pages("".join(desk.said[before:]))


def test_a_server_that_opens_a_browser_imports_what_pages_need_while_that_starts(tmp_path: Path) -> None:
    put(tmp_path / "project/README.md", "# Small\n")
    os.environ["PYTHONPROFILEIMPORTTIME"] = "1"
    try:
        with serving(tmp_path / "project", tmp_path / "home") as desk:
            until(lambda: {"carrel.explorer.home", "nh3"} <= {*for_pages("".join(desk.said))}, 60)
    finally:
        del os.environ["PYTHONPROFILEIMPORTTIME"]


def test_the_command_line_imports_nothing_for_pages() -> None:
    code = "import sys, carrel, carrel.cli.app; print(sorted(set(sys.modules) & set(sys.argv[1:])))"
    found = subprocess.run([sys.executable, "-c", code, *ONLY_FOR_PAGES], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
