"""The MCP Inspector's command line against the installed `carrel serve`, in both eras."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE_BIN = Path(__file__).resolve().parents[2] / ".node/node_modules/.bin"
ERAS = ("modern", "legacy")


def inspect(carrel: str, project: Path, era: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Inspector on a server started for it."""
    command = [str(NODE_BIN / "mcp-inspector"), "--cli", carrel, "serve", "--quiet", "--project", str(project)]
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(home), "PATH": f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [*command, "--protocol-era", era, *arguments, "--format", "json", "-q"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        cwd=project.parent,
    )


def answer(carrel: str, project: Path, era: str, *arguments: str) -> Any:
    """Return what the Inspector printed."""
    ran = inspect(carrel, project, era, *arguments)
    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    return printed.get("result", printed)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists(carrel: str, project: Path, era: str) -> None:
    listed = answer(carrel, project, era, "--method", "resources/list")

    uris = [entry["uri"] for entry in listed["resources"]]
    assert uris[:3] == ["carrel://guide", "carrel://catalog", "carrel://health"]
    assert {"scopes://scope/project-alpha", "workspace:///analysis_options.yaml"} <= set(uris)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_reads_a_part(carrel: str, project: Path, era: str) -> None:
    uri = "workspace:///lib/main.dart?lines=5"
    read = answer(carrel, project, era, "--method", "resources/read", "--uri", uri)

    assert [(item["uri"], item["text"]) for item in read["contents"]] == [
        (uri, "void main() => runApp(const WeatherDesk());\n")
    ]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_templates(carrel: str, project: Path, era: str) -> None:
    listed = answer(carrel, project, era, "--method", "resources/templates/list")

    assert {"scopes://scope/{alias}", "workspace:///{+path}{?start,length,lines,outline}"} <= {
        one["uriTemplate"] for one in listed["resourceTemplates"]
    }


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_is_told_what_is_refused(carrel: str, project: Path, era: str) -> None:
    ran = inspect(carrel, project, era, "--method", "resources/read", "--uri", "workspace:///.env")

    assert ran.returncode == 1
    assert "Access denied: workspace:///.env (may hold secrets)" in ran.stderr
    assert str(project) not in ran.stderr


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_reads_folders(carrel: str, project: Path, era: str) -> None:
    def children(uri: str) -> list[tuple[str, str]]:
        read = answer(carrel, project, era, "--method", "resources/directory/read", "--uri", uri)
        return [(one["uri"], one["mimeType"]) for one in read["resources"]]

    assert ("workspace:///lib/main.dart", "text/x-dart") in children("workspace:///lib")
    assert ("scopes://scope/project-alpha", "inode/directory") in children("scopes://scope")
    ran = inspect(carrel, project, era, "--method", "resources/directory/read", "--uri", "workspace:///lib/main.dart")
    assert (ran.returncode, "Not a folder: workspace:///lib/main.dart" in ran.stderr) == (1, True)


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_skills(carrel: str, project: Path, era: str) -> None:
    skill = project / ".claude/skills/forecast/SKILL.md"
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("---\nname: forecast\ndescription: Writes forecasts\n---\n", encoding="utf-8")

    [listed] = answer(carrel, project, era, "--method", "skills/list")["skills"]
    got = answer(carrel, project, era, "--method", "skills/get", "--uri", "skill://forecast/SKILL.md")["skill"]

    assert listed == got
    assert got["frontmatter"] == {"name": "forecast", "description": "Writes forecasts"}
    assert got["resources"][0]["size"] == skill.stat().st_size
