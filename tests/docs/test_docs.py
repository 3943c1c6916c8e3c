"""The documents say what is so: links lead somewhere, commands run, generated pages are fresh, settings are told."""

import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from carrel.app import config, registration
from carrel.cli import main
from carrel.connect.hosts import HOSTS
from carrel.core.provider import Project
from examples import sample
from scripts import docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """Return the names by which a page's headings are linked to, as GitHub makes them."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchors.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return anchors


def leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    found = page.parent / target if target else page
    return found.exists() and (not anchor or anchor in anchors_of(found))


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_what_would_be_generated_now(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == docs.PAGES[page]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))

    assert [link for link in links if not leads_somewhere(page, *link)] == []


def test_an_anchor_is_the_heading_as_a_link_spells_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `a://`: It's so\n## Settings, `[x_y]`\n```sh\n# none\n```\n## Who\n## Who\n", encoding="utf-8")

    assert anchors_of(page) == {"a-its-so", "settings-x_y", "who", "who-1"}
    assert [leads_somewhere(page, "", anchor) for anchor in ("who-1", "none")] == [True, False]


@pytest.mark.parametrize("known", registration.BUILT_IN, ids=lambda known: known.name)
def test_every_setting_and_route_of_a_provider_stands_on_its_page(
    known: registration.Registration, tmp_path: Path
) -> None:
    page = (ROOT / f"docs/providers/{known.name}.md").read_text(encoding="utf-8")
    provider = known.load()(Project(str(tmp_path), {"HOME": str(tmp_path)}))
    keys = list(config.section_schema(known.name, "here"))
    templates = [route.template for route in provider.routes() if route.listed]

    assert [word for word in (*keys, *templates) if f"`{word}`" not in page] == []


@pytest.mark.parametrize("table", config.NAMED)
def test_every_setting_of_a_named_section_stands_on_its_page(table: str) -> None:
    page = (ROOT / ("docs/team.md" if table == "groups" else f"docs/providers/{table}.md")).read_text(encoding="utf-8")

    assert [key for key in config.section_schema(f"{table}.x", "here") if f"`{key}`" not in page] == []


def test_every_section_stands_on_the_page_of_configuration() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    sections = {*config.section_names(), *config.NAMED}

    assert [name for name in sorted(sections) if not re.search(rf"`\[{name}(\.<name>)?\]`", page)] == []


def test_every_tool_that_does_more_than_read_stands_on_the_page_of_security() -> None:
    page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    writing = [tool.name for tools in docs.sections().values() for tool in tools if not tool.read_only]

    assert [name for name in writing if f"`{name}`" not in page] == []


def test_every_host_stands_on_the_page_of_connecting() -> None:
    page = (ROOT / "docs/connect.md").read_text(encoding="utf-8")

    for host in HOSTS:
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{host.name}` | {host.title} | ")]
        places = [*host.user.get("linux", ())[:1], *host.project[:1]]
        assert [one for one in places if one.format(home="~", config="~/.config") not in row] == []


# Commands

COMMANDS_OF = ("README.md", "docs/quickstart.md", "docs/http.md", "docs/configuration.md", "docs/search.md")
NOT_RUN = {
    "carrel serve --http 8080": "it listens until it is stopped",
    "carrel serve --http 8000": "it listens until it is stopped",
    "carrel open": "it listens until it is stopped",
    "carrel serve --project FOLDER": "FOLDER is the reader's",
    "carrel serve --set section.key=value": "it shows the form",
    "carrel ls --server 'npx -y @modelcontextprotocol/server-everything'": "it is fetched from the network",
    "carrel ls --server https://desk.example/mcp": "there is no such server",
    "carrel connect claude-code": "it asks before it writes",
    "carrel connect codex --http http://127.0.0.1:8000/mcp": "no server listens there",
    "carrel run": "it is the name of a command that wants another",
    "carrel search": "it is the name of a command that wants a query",
}
"""Command lines that cannot be run here, and why."""


def commands_of(page: str) -> Iterator[str]:
    """Yield a page's command lines that begin with `carrel`, in order, each once."""
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.compile(r"^(carrel\b.*?)(?: +#.*)?$|`(carrel(?: [^`]+)?)`", re.MULTILINE)
    yield from dict.fromkeys(block or inline for block, inline in shown.findall(text))


def test_what_is_not_run_stands_in_the_documents() -> None:
    assert set(NOT_RUN) - {line for page in COMMANDS_OF for line in commands_of(page)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("page", COMMANDS_OF)
def test_every_command_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    sample.lay_out(project)
    (project / "pubspec.yaml").unlink()  # most projects are none of Flutter's, and serve their README
    (project / "src").mkdir()
    (project / "src/main.c").write_text("int main(void);\n", encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    lines = [line for line in commands_of(page) if line not in NOT_RUN]
    told = {}
    for line in lines:
        words = shlex.split(line)[1:]
        if words[:1] == ["serve"]:
            # It takes the process's own streams, and ends with its input.
            command = [sys.executable, "-m", "carrel", *words]
            told[line] = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=30, check=False).returncode
        else:
            told[line] = main(words)

    assert told == dict.fromkeys(lines, 0), capfd.readouterr().err


def test_no_document_puts_a_token_into_a_file_of_the_project() -> None:
    """A token stands in an environment variable, in a host's own settings, or is printed by a helper."""
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for line in path.read_text("utf-8").splitlines():
            if any(name in line for name in (".mcp.json", "opencode.json", ".vscode/", "carrel.toml", '"headers"')):
                assert not re.search(r"Bearer (?![%{$])", line), f"{path.name}: {line}"
