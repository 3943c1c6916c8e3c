"""Processes behind a real server: configured, trusted, cancelled, and gone when it is gone."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from carrel.app import config as configuration
from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.catalog.catalog import Catalog
from carrel.client.client import Client
from carrel.client.memory import Memory
from carrel.core.errors import ConfigError, ProviderError, RemoteError
from carrel.server.server import Server
from tests.support.logging_project import answer, call, command, logs
from tests.support.memory_provider import Gated
from tests.support.schemas import with_meta
from tests.support.trusting import trust
from tests.support.waiting import until

COMMANDS = """\
[logs]
max_entries = 5

[flutter]
tools = "off"

[processes]
grace_s = 1

[commands.web]
argv = ["sh", "-c", "sleep 60 & echo $! $$; wait"]

[commands.stubborn]
argv = ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done"]
description = "does not want to end"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "carrel.toml").write_text(COMMANDS)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


# Configuration


def test_commands_count_only_from_a_trusted_file(project: Path, environment: dict[str, str]) -> None:
    config = load(str(project), environment)
    assert [str(one) for one in config.withheld] == [
        f"[commands] {name} in carrel.toml is not in effect: it names a program; run `carrel trust` to allow it"
        for name in ("web", "stubborn")
    ]
    desk = open_desk(config)
    assert "process.start" not in [tool.name for tool in desk.catalog.tools()]
    desk.close()

    trust(project / "carrel.toml", environment)
    desk = open_desk(load(str(project), environment))
    [start] = [tool for tool in desk.catalog.tools() if tool.name == "process.start"]
    desk.close()
    assert start.description.endswith("stubborn: does not want to end")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[commands.web]\nargs = ['x']", "[commands] web has no key 'args'; did you mean 'argv'?"),
        ("[commands.web]\ncwd = 'x'", "[commands] web needs the key 'argv'"),
        ("[commands.web]\nargv = 'x'", "[commands] web argv: expected an array of strings, got 'x'"),
        (
            "[commands.web]\nargv = ['x']\nkind = 'job'",
            "[commands] web kind: expected one of run, build, got 'job'",
        ),
        ("[commands]\nweb = 'x'", "[commands] web: expected an object, got 'x'"),
        ("[flutter]\ntool = 'off'", "[flutter] has no key 'tool'; did you mean 'tools'?"),
        ("[flutter]\nmax_runs = 'x'", "[flutter] max_runs: expected an integer, got 'x'"),
        ("[processes]\ngrace = 1", "[processes] has no key 'grace'; did you mean 'grace_s'?"),
        ("[command.web]\nargv = ['x']", "unknown section [command]; did you mean 'commands'?"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(project: Path, environment: dict[str, str], text: str, said: str) -> None:
    (project / "carrel.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(project), environment)

    assert str(caught.value) == f"{project.resolve() / 'carrel.toml'}: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[commands.'a b']\nargv = ['x']", "[commands] 'a b': a name is letters, digits and . _ -, at most 64"),
        ("[commands.web]\nargv = []", "[commands.web] argv: expected a program and its arguments"),
        ("[commands.web]\nargv = ['x']\ncwd = '..'", "[commands.web] cwd: .. is not below the project's root"),
        ("[logs]\nmax_bytes = 1", "[logs]: max_bytes must be at least 64, max_entries at least 1"),
        ("[processes]\ngrace_s = -1", "[processes] grace_s: expected a number, 0 or more, got -1.0"),
    ],
)
def test_a_value_that_cannot_work_is_refused(project: Path, environment: dict[str, str], text: str, said: str) -> None:
    (project / "carrel.toml").write_text(text)
    trust(project / "carrel.toml", environment)
    with pytest.raises(ConfigError) as caught:
        open_desk(load(str(project), environment))

    assert str(caught.value) == f"{project}/carrel.toml: {said}"


def test_remote_tools_and_a_program_need_trust(project: Path, environment: dict[str, str]) -> None:
    (project / "carrel.toml").write_text("[processes]\nremote = true\n[flutter]\nexecutable = './evil'\n")
    config = load(str(project), environment)

    assert [(one.section, one.key, one.why) for one in config.withheld] == [
        ("processes", "remote", "it lets other machines do more"),
        ("flutter", "executable", "it names a program"),
    ]


def test_a_flag_sets_a_section_of_a_provider(project: Path, environment: dict[str, str]) -> None:
    config = load(str(project), environment, [("processes", "max_running", "3")])

    assert config.values("processes") == {"grace_s": 1.0, "max_running": 3}
    assert "flutter" not in configuration.section_schema("logs", "")
    assert list(configuration.section_schema("flutter", ""))[:2] == ["tools", "executable"]


# Calls that take their time


@pytest.mark.slow
def test_a_build_outlives_the_deadline_of_requests_and_takes_no_thread_from_others(tmp_path: Path) -> None:
    builds = {f"b{number}": command("while ! test -e go; do sleep 0.02; done", kind="build") for number in range(9)}
    provider = logs(tmp_path, builds)
    gated = Gated()
    memory = Memory(Server(Catalog([provider, gated])), deadline_s=0.3)
    with Client(memory, timeout_s=20) as client:
        results: list[Any] = []
        threads = [
            threading.Thread(target=lambda name=name: results.append(client.call("process.start", {"name": name})))
            for name in builds
        ]
        for thread in threads:
            thread.start()
        until(lambda: sum(1 for _ in provider.entries()) == 9)
        listed = client.call("process.list", {})
        assert {one["state"] for one in answer(listed)["processes"]} == {"running"}
        with pytest.raises(RemoteError, match="timed out"):  # then what was asked for before would be late, too
            client.read("gated:///gate/shut")
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(20)
        gated.open_gate()
    provider.close()

    assert [answer(result)["exitCode"] for result in results] == [0] * 9


@pytest.mark.slow
def test_a_client_that_gives_up_ends_the_build(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"make": command("echo $$; exec sleep 60", kind="build")})
    with Client(Memory(Server(Catalog([provider]))), timeout_s=1) as client, pytest.raises(ProviderError):
        client.call("process.start", {"name": "make"})
    [uri] = [entry.uri for entry in provider.entries()]
    until(lambda: (next(iter(provider.entries())).meta or {})["dev.carrel/state"] == "cancelled")
    [listed] = answer(call(provider, "process.list"))["processes"]
    provider.close()

    assert (listed["logResourceUri"], listed["exitCode"]) == (uri, 143)


# The server as a process


class Served:
    """`carrel serve` as a host starts it."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "carrel", "serve", "--quiet", "--project", str(project)]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ids = iter(range(1, 1_000))

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": with_meta(params, "2026-07-28")}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        given = json.loads(self.process.stdout.readline())
        assert given["id"] == number, given
        return given["result"]

    def start(self, name: str) -> list[int]:
        """Start a command; return the process numbers it wrote."""
        uri = self.ask("tools/call", name="process.start", arguments={"name": name})["structuredContent"][
            "logResourceUri"
        ]
        found: list[int] = []

        def has_told() -> bool:
            found[:] = map(int, self.ask("resources/read", uri=uri)["contents"][0]["text"].split())
            return bool(found)

        until(has_told)
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def served(project: Path, environment: dict[str, str]) -> Iterator[Served]:
    trust(project / "carrel.toml", environment)
    server = Served(project, environment)
    yield server
    server.close()


@pytest.mark.slow
def test_a_killed_server_leaves_no_process_behind(served: Served) -> None:
    pids = served.start("web") + served.start("stubborn")
    assert [is_alive(pid) for pid in pids] == [True] * 3

    served.process.send_signal(signal.SIGKILL)
    killed = monotonic()

    until(lambda: not any(is_alive(pid) for pid in pids))
    assert monotonic() - killed < 3.0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGINT"])
def test_a_server_that_ends_takes_everybody_along_in_time(served: Served, how: str) -> None:
    pids = served.start("web") + served.start("stubborn")
    began = monotonic()

    if how == "end of input":
        assert served.process.stdin is not None
        served.process.stdin.close()
    else:
        served.process.send_signal(signal.Signals[how])

    assert served.process.wait(10) == 0
    assert monotonic() - began < 2.0
    assert [is_alive(pid) for pid in pids] == [False] * 3


@pytest.mark.slow
def test_a_call_just_before_the_end_of_input_is_answered(project: Path, environment: dict[str, str]) -> None:
    trust(project / "carrel.toml", environment)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": with_meta({"name": "process.list", "arguments": {}}, "2026-07-28"),
    }
    command = [sys.executable, "-m", "carrel", "serve", "--quiet", "--project", str(project)]
    ran = subprocess.run(
        command, env=environment, input=json.dumps(message).encode(), capture_output=True, timeout=20, check=False
    )

    assert json.loads(ran.stdout)["result"]["structuredContent"] == {"processes": []}
