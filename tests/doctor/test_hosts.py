"""Faults of hosts: each is written into a settings file as people have it, found, and fixed where that is offered."""

import json
import socket
import stat
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from carrel.connect.hosts import HOSTS, TOKEN_VARIABLE, by_name
from carrel.core.version import __version__
from carrel.doctor import hosts
from carrel.doctor.checks import Check
from tests.support.doctor import Ward

OURS = str(Path(sys.executable).parent / "carrel")
GONE = "/opt/gone/bin/carrel"
SOUND = {"type": "stdio", "command": OURS, "args": ["serve"]}


@pytest.fixture(autouse=True)
def no_folder_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the entry of this Carrel one that lasts, wherever the tests run."""
    monkeypatch.setattr("carrel.connect.program._passing_folders", lambda _: ())


def claude(ward: Ward, mode: int = 0o600, **servers: object) -> Path:
    """Write the user's settings of Claude Code."""
    return ward.write(ward.home / ".claude.json", json.dumps({"theme": "dark", "mcpServers": servers}, indent=2), mode)


def servers_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))["mcpServers"]


@pytest.mark.slow
@pytest.mark.parametrize("check", hosts.CHECKS, ids=lambda one: one.id)
def test_a_sound_entry_has_no_faults(ward: Ward, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.doctor.hosts.passing_folder", lambda *_: None)
    claude(ward, carrel=SOUND, other={"command": "npx", "args": ["something"]})

    assert ward.find(check) == []


@pytest.mark.parametrize("check", hosts.CHECKS, ids=lambda one: one.id)
def test_a_machine_without_hosts_has_no_faults(ward: Ward, check: Check) -> None:
    assert ward.find(check) == []


def test_connected_hosts_and_others_are_reported(ward: Ward) -> None:
    claude(ward, carrel=SOUND)
    (ward.home / ".cursor").mkdir()
    setup = ward.setup()

    told = [(one.host, one.message) for one in hosts.host.find(setup)]

    assert told[0] == ("claude-code", f"Claude Code: user settings, {OURS}")
    assert told[1][0] is None
    assert told[1][1].startswith("not connected: ")
    assert "Cursor" in told[1][1]


def test_it_is_noted_that_hosts_are_here_and_none_is_connected(ward: Ward) -> None:
    (ward.home / ".cursor").mkdir()

    found = ward.one(hosts.host)

    assert (found.state, found.message) == ("note", "no assistant is connected; found here: Cursor")
    assert found.fix == "carrel connect shows how"


# A broken file


@pytest.mark.parametrize(
    ("host", "path", "text"),
    [
        ("claude-code", ".claude.json", '{"mcpServers": {'),
        ("codex", ".codex/config.toml", "[mcp_servers.carrel\n"),
        ("cursor", ".cursor/mcp.json", "{'mcpServers': {}}"),
        ("gemini-cli", ".gemini/settings.json", "not json"),
        ("goose", ".config/goose/config.yaml", "extensions: [\n"),
    ],
)
def test_a_broken_file_is_a_problem_of_its_host(ward: Ward, host: str, path: str, text: str) -> None:
    file = ward.write(ward.home / path, text)

    found = ward.one(hosts.host_file)

    facts = by_name(host)
    assert facts is not None
    assert (found.state, found.host) == ("problem", host)
    assert found.message.startswith(f"{facts.title}: ~/{path}: ")
    assert file.read_text() == text


def test_a_broken_file_that_was_kept_before_is_named(ward: Ward) -> None:
    ward.write(ward.home / ".claude.json", "{")
    ward.write(ward.home / ".claude.json.before-carrel", "{}")

    assert "~/.claude.json.before-carrel is the file as it was" in (ward.one(hosts.host_file).fix or "")


def test_a_file_that_is_not_utf8_is_a_problem(ward: Ward) -> None:
    (ward.home / ".claude.json").write_bytes(b'{"a": "\xff"}')

    assert "not UTF-8" in ward.one(hosts.host_file).message


# A command that is gone


ENTRIES: dict[str, tuple[str, str]] = {
    "claude-code": (
        ".claude.json",
        '{"mcpServers": {"carrel": {"type": "stdio", "command": "%s", "args": ["serve"]}}}',
    ),
    "codex": (".codex/config.toml", '# mine\n[mcp_servers.carrel]\ncommand = "%s"\nargs = ["serve"]\n'),
    "cursor": (".cursor/mcp.json", '{\n  // mine\n  "mcpServers": {"carrel": {"command": "%s", "args": ["serve"]}}\n}'),
    "opencode": (
        ".config/opencode/opencode.json",
        '{"mcp": {"carrel": {"type": "local", "command": ["%s", "serve"], "enabled": true}}}',
    ),
    "goose": (
        ".config/goose/config.yaml",
        "extensions:\n  carrel:\n    enabled: true\n    type: stdio\n    cmd: %s\n    args: [serve]\n",
    ),
    "continue": (
        ".continue/config.yaml",
        "name: x\nmcpServers:\n  - name: carrel\n    command: %s\n    args: [serve]\n",
    ),
    "zed": (".config/zed/settings.json", '{"context_servers": {"carrel": {"command": "%s", "args": ["serve"]}}}'),
}


@pytest.mark.parametrize(
    "host", [one if one in ("claude-code", "codex") else pytest.param(one, marks=pytest.mark.slow) for one in ENTRIES]
)
def test_a_command_that_was_removed_is_a_problem_and_written_again(ward: Ward, host: str) -> None:
    path, text = ENTRIES[host]
    file = ward.write(ward.home / path, text % GONE)

    found = ward.one(hosts.host_command)

    assert (found.state, found.host) == ("problem", host)
    assert found.message == f"the entry carrel in ~/{path} starts {GONE}, which is not there"
    assert found.fix == f"carrel connect {host} --user"
    assert ward.fix(hosts.host_command) == []
    assert OURS in file.read_text()
    assert GONE not in file.read_text()
    assert file.with_name(f"{file.name}.before-carrel").read_text() == text % GONE


def test_a_file_of_the_project_is_looked_at_too(ward: Ward) -> None:
    file = ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": {**SOUND, "command": GONE}}}))

    assert ward.one(hosts.host_command).fix == "carrel connect claude-code --project"
    assert ward.fix(hosts.host_command) == []
    assert servers_of(file)["carrel"]["command"] == OURS


def test_a_command_whose_python_is_gone_is_a_problem(ward: Ward) -> None:
    program = ward.write(ward.bin / "carrel", "#!/opt/gone/python\n", 0o755)
    claude(ward, carrel={**SOUND, "command": str(program)})

    assert ward.one(hosts.host_command).message.endswith("which needs /opt/gone/python: it is not there")


def test_an_entry_without_a_command_is_a_problem(ward: Ward) -> None:
    claude(ward, carrel={"args": ["serve"]})

    found = ward.one(hosts.host_command)
    assert found.message == "the entry carrel in ~/.claude.json names no command that can be started"
    assert ward.fix(hosts.host_command) == []


def test_a_name_that_only_a_shell_finds_is_noted(ward: Ward) -> None:
    ward.write(ward.bin / "carrel-here", "#!/bin/sh\n", 0o755)
    claude(ward, carrel={**SOUND, "command": "carrel-here"})
    assert ward.one(hosts.host_command).state == "note"

    claude(ward, carrel={**SOUND, "command": "no-such-carrel"})
    found = ward.one(hosts.host_command)
    assert (found.state, found.message.endswith("starts no-such-carrel, which is not on PATH")) == ("problem", True)


def test_an_entry_under_another_name_is_found_and_not_written(ward: Ward) -> None:
    claude(ward, desk={"command": GONE, "args": ["serve"]})

    found = ward.one(hosts.host_command)
    assert found.message == f"the entry desk in ~/.claude.json starts {GONE}, which is not there"
    assert found.repair is None


def test_entries_of_other_servers_are_none_of_ours(ward: Ward) -> None:
    claude(ward, files={"command": "/opt/gone/server", "args": ["serve"]}, web={"url": "http://127.0.0.1:9/mcp"})

    assert [one.message for check in hosts.CHECKS for one in ward.find(check)] == [
        "no assistant is connected; found here: Claude Code"
    ]


# Where it leads


def test_a_command_in_a_cache_is_noted(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(ward.project)
    program = ward.write(ward.home / ".cache/uv/env/bin/carrel", "#!/bin/sh\n", 0o755)
    claude(ward, carrel={**SOUND, "command": str(program)})

    found = ward.one(hosts.host_temporary)
    assert (found.state, found.host) == ("note", "claude-code")
    assert found.message.endswith("starts ~/.cache/uv/env/bin/carrel, in a folder that is emptied")


def test_an_entry_of_another_version_is_noted_and_written_again(ward: Ward) -> None:
    program = ward.write(ward.bin / "carrel", "#!/bin/sh\necho carrel, version 0.0.1\n", 0o755)
    ward.environment["PATH"] = f"{Path(OURS).parent}:/usr/bin:/bin"
    file = claude(ward, carrel={**SOUND, "command": str(program)})

    found = ward.one(hosts.host_version)
    assert found.message == f"the entry carrel in ~/.claude.json starts Carrel 0.0.1, and this one is {__version__}"
    assert ward.fix(hosts.host_version) == []
    assert servers_of(file) == {"carrel": SOUND}


def test_a_program_that_tells_no_version_is_not_judged(ward: Ward) -> None:
    program = ward.write(ward.bin / "wrapper", "#!/bin/sh\nexit 1\n", 0o755)
    claude(ward, carrel={**SOUND, "command": str(program), "args": ["carrel", "serve"]})

    assert ward.find(hosts.host_version) == []


def test_a_server_that_does_not_answer_is_a_problem_of_every_host_that_starts_it(ward: Ward) -> None:
    program = ward.write(ward.bin / "carrel", "#!/bin/sh\necho the disk is on fire >&2\nexit 3\n", 0o755)
    claude(ward, carrel={**SOUND, "command": str(program)})
    ward.write(
        ward.home / ".cursor/mcp.json", json.dumps({"mcpServers": {"carrel": {**SOUND, "command": str(program)}}})
    )

    found = ward.find(hosts.host_answer)

    assert [(one.state, one.host) for one in found] == [("problem", "claude-code"), ("problem", "cursor")]
    assert all("does not work: " in one.message and "exit code 3" in one.message for one in found)
    assert all("the disk is on fire" in one.message for one in found)


def test_a_server_that_ends_because_of_the_settings_is_not_fixed_by_another_entry(ward: Ward) -> None:
    ward.write(ward.project / "carrel.toml", "[nonsense]\n")
    claude(ward, carrel={**SOUND, "command": "/bin/false"})

    assert ward.one(hosts.host_answer).fix == "correct the settings first: no server starts with them"


def test_a_server_that_never_answers_is_a_problem(ward: Ward) -> None:
    ward.patience_s = 0.2
    claude(ward, carrel={**SOUND, "command": "/bin/sleep", "args": ["600"]})

    assert ward.one(hosts.host_answer).message.endswith("does not work: no answer within 0.2 s")


def test_an_entry_whose_command_is_gone_is_not_started(ward: Ward) -> None:
    claude(ward, carrel={**SOUND, "command": GONE})

    assert ward.find(hosts.host_answer) == []


@pytest.mark.parametrize("words", [["serve"], ["carrel", "serve"]])
def test_nothing_of_a_strangers_project_is_started(ward: Ward, words: list[str]) -> None:
    ran = ward.home / "ran"
    program = ward.write(ward.project / "carrel", f"#!/bin/sh\ntouch '{ran}'\necho carrel, version 0.0.1\n", 0o755)
    entry = {"command": str(program), "args": words}
    ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": {"type": "stdio", **entry}}}))
    ward.write(ward.project / ".cursor/mcp.json", json.dumps({"mcpServers": {"carrel": entry}}))

    for check in hosts.CHECKS:
        ward.find(check)

    assert not ran.exists()


@pytest.mark.parametrize(
    "change", [{"env": {"PYTHONPATH": "."}}, {"args": ["serve", "evil.py"]}, {"args": ["serve", "--with", "evil.py"]}]
)
def test_our_own_command_of_a_project_is_not_started_with_code_of_the_project(
    ward: Ward, change: dict[str, object]
) -> None:
    ran = ward.home / "ran"
    for name in ("evil.py", "sitecustomize.py"):
        ward.write(ward.project / name, f"open({str(ran)!r}, 'w').close()\n")
    ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": {**SOUND, **change}}}))

    assert ward.find(hosts.host_answer) == []
    assert not ran.exists()


def test_our_own_entry_in_a_project_is_started(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr(hosts, "prove", lambda *given: tried.append(given))
    ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": SOUND}}))

    assert ward.find(hosts.host_answer) == []
    assert len(tried) == 1


def test_a_token_is_not_sent_to_a_url_of_a_project(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr(hosts, "prove", lambda *given: tried.append(given))
    ward.environment[TOKEN_VARIABLE] = "carrel_secret"
    ward.write(
        ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": {**remote(1), "url": "https://evil.example"}}})
    )

    assert ward.find(hosts.host_answer) == []
    assert tried == []


def test_a_project_that_is_gone_is_a_problem(ward: Ward) -> None:
    claude(ward, carrel={**SOUND, "args": ["serve", "--project", str(ward.home / "gone")]})

    found = ward.one(hosts.host_project)
    assert found.message == "the entry carrel in ~/.claude.json serves ~/gone, which does not exist"
    claude(ward, carrel={**SOUND, "args": ["serve", f"--project={ward.project}"]})
    assert ward.find(hosts.host_project) == []


# Twice


def test_two_entries_in_one_file_are_noted_and_the_other_one_removed(ward: Ward) -> None:
    file = claude(ward, desk={"command": OURS, "args": ["serve"]}, carrel=SOUND, other={"command": "npx", "args": []})

    found = ward.one(hosts.host_twice)

    assert found.message == (
        "Claude Code has 2 entries of Carrel: desk in ~/.claude.json (user), carrel in ~/.claude.json (user)"
    )
    assert ward.fix(hosts.host_twice) == []
    assert servers_of(file) == {"carrel": SOUND, "other": {"command": "npx", "args": []}}


def test_an_entry_for_this_project_only_counts_as_well(ward: Ward) -> None:
    projects = {str(ward.project): {"mcpServers": {"carrel": SOUND}}, "/elsewhere": {"mcpServers": {"carrel": SOUND}}}
    ward.write(ward.home / ".claude.json", json.dumps({"mcpServers": {"carrel": SOUND}, "projects": projects}))

    found = ward.one(hosts.host_twice)
    assert found.message.endswith("carrel in ~/.claude.json (user), carrel in ~/.claude.json (local)")
    assert found.repair is None


def test_entries_of_the_user_and_of_the_project_are_noted(ward: Ward) -> None:
    claude(ward, carrel=SOUND)
    shared = ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": SOUND}}))

    assert "(user), carrel in " in ward.one(hosts.host_twice).message
    assert ward.fix(hosts.host_twice) == []
    assert servers_of(shared) == {}


def test_one_entry_in_each_of_two_hosts_is_no_fault(ward: Ward) -> None:
    claude(ward, carrel=SOUND)
    path, text = ENTRIES["codex"]
    ward.write(ward.home / path, text % OURS)

    assert ward.find(hosts.host_twice) == []


# Over HTTP


@pytest.fixture(name="taken")
def other_program() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def remote(port: int, token: str = "${CARREL_TOKEN}") -> dict[str, object]:
    headers = {"Authorization": f"Bearer {token}"}
    return {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": headers}


def test_a_port_that_another_program_holds_is_a_problem(ward: Ward, taken: int) -> None:
    claude(ward, carrel=remote(taken))

    found = ward.one(hosts.host_port)
    assert (found.state, found.host) == ("problem", "claude-code")
    assert found.message == (
        f"the entry carrel in ~/.claude.json connects to port {taken}, which is held by another program"
    )


def test_a_port_where_no_server_runs_is_noted_with_the_command(ward: Ward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    claude(ward, carrel=remote(port))

    found = ward.one(hosts.host_port)
    assert (found.state, found.fix) == ("note", f"carrel serve --http {port}")


def test_a_desk_on_another_machine_is_not_asked(ward: Ward) -> None:
    claude(ward, carrel={**remote(1), "url": "https://desk.example/mcp"})

    assert ward.find(hosts.host_port) == []


def test_a_token_in_a_file_of_the_project_is_a_problem(ward: Ward) -> None:
    ward.write(ward.project / ".mcp.json", json.dumps({"mcpServers": {"carrel": remote(1, "carrel_secret")}}))

    found = ward.one(hosts.host_token)
    assert "a file of the project, holds a token" in found.message
    assert "carrel_secret" not in f"{found.message}{found.fix}"


def test_a_token_that_others_can_read_is_closed(ward: Ward) -> None:
    file = claude(ward, 0o644, carrel=remote(1, "carrel_secret"))

    assert ward.one(hosts.host_token).state == "problem"
    assert ward.fix(hosts.host_token) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_token_that_is_only_named_is_no_fault(ward: Ward) -> None:
    claude(ward, 0o644, carrel=remote(1))

    assert ward.find(hosts.host_token) == []


def test_a_variable_that_is_not_set_is_noted(ward: Ward) -> None:
    claude(ward, carrel=remote(1))

    found = ward.one(hosts.host_variable)
    assert found.message == (
        f"the entry carrel in ~/.claude.json needs the variable {TOKEN_VARIABLE}, which is not set here"
    )
    ward.environment[TOKEN_VARIABLE] = "x"
    assert ward.find(hosts.host_variable) == []


def test_an_entry_that_is_switched_off_is_noted(ward: Ward) -> None:
    claude(ward, carrel={**SOUND, "disabled": True})

    assert ward.one(hosts.host_disabled).message == "the entry carrel in ~/.claude.json is switched off"


def test_every_host_of_the_table_is_looked_at(ward: Ward) -> None:
    for host in HOSTS:
        for pattern in host.user.get("linux", ())[:1]:
            path = pattern.format(home=ward.home, config=ward.home / ".config")
            ward.write(Path(path), "\t:\n- [")

    with_files = {host.name for host in HOSTS if host.user.get("linux")}
    assert {one.host for one in ward.find(hosts.host_file)} == with_files
