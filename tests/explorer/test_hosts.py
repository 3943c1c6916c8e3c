"""The hosts of this machine on home: found and connected or not, without starting anything."""

import json
from pathlib import Path

from carrel.explorer import hosts
from tests.support.explorer_desk import Browsed


def test_a_host_with_an_entry_is_connected_and_others_are_named(tmp_path: Path) -> None:
    project, home = tmp_path / "p", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    environment = {"HOME": str(home), "PATH": ""}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"carrel": {"command": "carrel"}}}), "utf-8")
    (home / ".gemini").mkdir()

    found, others = hosts.states(str(project), environment)

    states = {one.name: one.state for one in found}
    assert states["claude-code"] == "connected (project settings)"
    assert states["gemini-cli"] == "not connected"
    assert "codex" in others


def test_settings_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{", "utf-8")

    found, _ = hosts.states(str(tmp_path), {"HOME": str(tmp_path), "PATH": ""})

    assert {one.name: one.state for one in found}["claude-code"] == "its settings cannot be read"


def test_only_a_caller_who_may_do_everything_sees_the_hosts(guarded: Browsed) -> None:
    assert guarded.get("/index.json", {}, caller="all").json["otherHosts"]
    assert guarded.get("/index.json", {}, caller="logs").json["otherHosts"] == []
