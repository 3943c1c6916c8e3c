"""A server imports the explorer when the first page is asked for, and not before."""

import json
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


@pytest.fixture(name="project")
def small_project(tmp_path: Path) -> Path:
    """Lay out a project with a folder, code, Markdown and a log."""
    put(tmp_path / "project/README.md", "# Small\n")
    put(tmp_path / "project/src/main.py", "print('small')\n")
    put(tmp_path / "project/server.log", "INFO small\n")
    return tmp_path / "project"


@pytest.fixture(name="home")
def home_of_a_server_that_prints_its_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have servers print what they import on stderr; return their home."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    return tmp_path / "home"


def test_a_server_on_stdin_and_stdout_imports_nothing_for_pages(project: Path, home: Path) -> None:
    said: list[str] = []
    command = [CARREL, "serve", "--project", str(project)]
    with Client.start(command, env=surroundings(home), stderr=said.append) as client:
        for uri in ("workspace:///README.md", "workspace:///src/main.py", "workspace:///", "carrel://guide"):
            assert client.read(uri).items, uri
        assert any(entry.uri == "carrel://guide" for entry in client.resources())
        assert client.templates()
        assert client.read("carrel://search?q=small").items
    whole = "\n".join(line.rstrip("\n") for line in said)
    assert "carrel.transports.stdio" in IMPORTED.findall(whole)
    assert for_pages(whole) == []


def test_a_server_on_http_imports_nothing_for_pages_before_the_first(project: Path, home: Path) -> None:
    with serving(project, home, opens=False) as desk:
        assert desk.get("/workspace/README.md").body == b"# Small\n"
        assert desk.get("/workspace/").status == 200
        assert desk.get("/-/search?q=small").status == 200
        assert desk.read("workspace:///src/main.py")["result"]
        assert json.loads(desk.get("/-/health").body)
        assert json.loads(desk.get("/-/providers").body)
    whole = "".join(desk.said)  # to the end: the server has been stopped
    assert "carrel.transports.http.app" in IMPORTED.findall(whole)
    assert for_pages(whole) == []


def test_a_server_on_http_imports_what_pages_need_with_the_first_page(project: Path, home: Path) -> None:
    with serving(project, home, opens=False) as desk:
        headers = {"Authorization": f"Bearer {desk.token}", "Accept": "text/html"}
        assert desk.get("/workspace/README.md", headers).status == 200
    assert {"carrel.explorer", "markdown_it"} <= {*for_pages("".join(desk.said))}


def test_home_and_folders_need_no_lexers_and_no_markdown(tmp_path: Path) -> None:
    code = (
        "import sys, carrel.explorer.explorer;"
        "print(sorted(set(sys.modules) & {'pygments', 'markdown_it', 'nh3', 'carrel.explorer.rendering.code'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.strip() == "[]"


def test_a_server_that_opens_a_browser_imports_what_pages_need_while_that_starts(project: Path, home: Path) -> None:
    with serving(project, home) as desk:
        until(lambda: {"carrel.explorer.home", "nh3"} <= {*for_pages("".join(desk.said))}, 60)


def test_the_command_line_imports_nothing_for_pages() -> None:
    code = "import sys, carrel, carrel.cli.app; print(sorted(set(sys.modules) & set(sys.argv[1:])))"
    found = subprocess.run([sys.executable, "-c", code, *ONLY_FOR_PAGES], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
