"""The tools that start processes: what they take, what they answer, what they never do."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.errors import BadArgument, NotFound
from carrel.core.model import Reading, ResourceLink, Text, ToolResult
from carrel.core.provider import Exposure, Program, Project
from carrel.providers.guide import Guide
from carrel.providers.logs import Logs
from carrel.providers.logs.settings import CommandSettings, FlutterSettings, ProcessSettings
from carrel.providers.workspace import Workspace
from carrel.server.server import Server
from tests.support.logging_project import Caller, answer, call, command, ended, logs, meta, text
from tests.support.schemas import LEGACY, MODERN, Conversation
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

FLUTTER = """\
#!/bin/sh
for word in "$@"; do echo "[$word]"; done
pwd
echo "${CARREL_TOKEN:-none}"
case $1 in
  run) exec sleep 60 ;;
  build) test "$2" = ios && exit 4; mkdir -p build/web; echo done ;;
  doctor) echo "problem" >&2 ;;
esac
"""


FILES = ("lib/main.dart", "pubspec.yaml")
"""What a workspace lists of the project."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pubspec.yaml").write_text("name: app\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/main.dart").write_text("void main() {}\n")
    (tmp_path / ".hidden.dart").write_text("\n")
    program = tmp_path / "tools/flutter"
    program.parent.mkdir()
    program.write_text(FLUTTER)
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def provider(project: Path) -> Iterator[Logs]:
    made = flutter(project)
    yield made
    made.close()


def flutter(project: Path, commands: Mapping[str, Any] | None = None, **settings: Any) -> Logs:
    return logs(project, commands, FlutterSettings(executable=Program("tools/flutter"), **settings))


def words(provider: Logs, result: ToolResult) -> list[str]:
    lines = text(provider, f"{answer(result)['logResourceUri']}?stream=out").splitlines()
    return [line[1:-1] for line in lines if line.startswith("[")]


def told(result: ToolResult) -> list[str]:
    assert result.is_error, result
    assert result.structured is None
    return [str(block) for block in result.blocks]


def names(provider: Logs) -> list[str]:
    return [tool.name for tool in provider.tools()]


# Which tools there are


def test_without_commands_and_flutter_there_are_no_tools(tmp_path: Path) -> None:
    provider = logs(tmp_path)

    assert names(provider) == []
    assert not provider.has_tools
    assert not Catalog([provider]).calls


def test_commands_bring_their_tools(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"web": command("true"), "test": command("true")})

    assert names(provider) == ["process.start", "process.stop", "process.list"]
    schema: Any = provider.tools()[0].input_schema
    assert schema["properties"]["name"]["enum"] == ["web", "test"]


def test_flutter_needs_a_project_and_a_program(project: Path) -> None:
    every = ["flutter.run", "flutter.build", "flutter.doctor", "process.stop", "process.list"]

    assert names(flutter(project)) == every
    assert names(flutter(project, tools="off")) == []
    assert names(logs(project, flutter=FlutterSettings(executable=Program("tools/missing")))) == []
    (project / "pubspec.yaml").unlink()
    assert names(flutter(project)) == []


def test_a_name_is_looked_up_in_the_path_of_folders_that_are_absolute(project: Path) -> None:
    def with_path(path: str) -> Logs:
        return Logs(Project(str(project), {"PATH": path}), flutter=FlutterSettings())

    assert names(with_path(f"/nowhere:{project / 'tools'}")) != []
    assert names(with_path("tools:.")) == []


def test_hints_say_what_reads_and_what_reaches_out(project: Path) -> None:
    provider = flutter(project, {"web": command("true")})
    hints = {tool.name: (tool.read_only, tool.open_world) for tool in provider.tools()}

    assert hints == {
        "flutter.run": (False, True),
        "flutter.build": (False, True),
        "flutter.doctor": (True, False),
        "process.start": (False, True),
        "process.stop": (False, False),
        "process.list": (True, False),
    }
    assert all(tool.local for tool in provider.tools())
    remote = logs(project, {"web": command("true")}, processes=ProcessSettings(remote=Exposure(True)))
    assert not any(tool.local for tool in remote.tools())


# Flutter


def test_a_run_answers_while_it_runs(provider: Logs, project: Path) -> None:
    result = call(
        provider,
        "flutter.run",
        deviceId="chrome",
        target="lib/main.dart",
        dartDefine={"API": "http://x?a=b c", "B": ""},
    )
    given = answer(result)
    name = given["processId"]

    assert name.startswith("flutter_run_")
    assert given == {
        "success": True,
        "message": f"running; its output is logs://run/{name}",
        "exitCode": None,
        "processId": name,
        "logResourceUri": f"logs://run/{name}",
    }
    assert result.blocks == (
        json.dumps(given),
        ResourceLink(f"logs://run/{name}", name, "Its output", "text/plain"),
    )
    assert not result.is_error
    until(lambda: meta(provider, given["logResourceUri"])["entries"] >= 8)
    assert words(provider, result) == [
        "run",
        "--debug",
        "-d",
        "chrome",
        "--target=lib/main.dart",
        "--dart-define=API=http://x?a=b c",
        "--dart-define=B=",
    ]
    assert text(provider, f"{given['logResourceUri']}?tail=2").splitlines() == [str(project.resolve()), "none"]


def test_a_build_waits_for_the_end_and_says_what_it_made(provider: Logs) -> None:
    result = call(provider, "flutter.build", platform="web", profile=True, target="workspace:///lib/main.dart")
    given = answer(result)

    assert given == {
        "success": True,
        "message": given["message"],
        "exitCode": 0,
        "buildId": given["buildId"],
        "buildPath": "build/web",
        "logResourceUri": f"logs://build/{given['buildId']}",
    }
    assert given["buildId"].startswith("flutter_build_")
    assert words(provider, result) == ["build", "web", "--profile", "--target=lib/main.dart"]


def test_a_build_that_fails_is_an_error_without_a_path(provider: Logs) -> None:
    result = call(provider, "flutter.build", platform="ios")

    assert result.is_error
    assert (answer(result)["success"], answer(result)["exitCode"], "buildPath" in answer(result)) == (False, 4, False)


def test_android_is_an_apk(provider: Logs) -> None:
    assert words(provider, call(provider, "flutter.build", platform="android")) == ["build", "apk", "--release"]


def test_doctor_gives_what_it_says(provider: Logs, project: Path) -> None:
    result = call(provider, "flutter.doctor")
    given = answer(result)

    assert given == {
        "stdout": f"[doctor]\n[-v]\n{project.resolve()}\nnone\n",
        "truncated": False,
        "exitCode": 0,
        "logResourceUri": given["logResourceUri"],
    }
    assert given["logResourceUri"].startswith("logs://run/flutter_doctor_")


def test_a_long_doctor_is_cut(project: Path) -> None:
    (project / "tools/flutter").write_text("#!/bin/sh\nhead -c 9000 /dev/zero | tr '\\0' x\n")
    provider = flutter(project)
    given = answer(call(provider, "flutter.doctor"))
    provider.close()

    assert (given["stdout"], given["truncated"]) == ("x" * 8_000, True)


KNOWN = "debug, profile, release, deviceId, target, dartDefine"
UNKNOWN = f'extra (known: {KNOWN}; for example {{"target": "lib/main.dart"}})'


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_an_assistant_lists_reads_runs_and_reads_the_log(provider: Logs, project: Path, version: str) -> None:
    catalog = Catalog()
    catalog.mount(Guide(catalog, "desk"), Workspace(Project(str(project), {})), provider)
    client = Conversation(Server(catalog))

    listed = client.ask("resources/list", {"pageSize": 20}, version=version)
    read = client.ask("resources/read", {"uri": "workspace://pubspec.yaml"}, version=version)
    ran = client.ask("tools/call", {"name": "flutter.run", "arguments": {"debug": True}}, version=version)
    uri = ran["structuredContent"]["logResourceUri"]
    until(lambda: meta(provider, uri)["entries"] == 4)
    log = client.ask("resources/read", {"uri": uri}, version=version)
    again = client.ask("resources/list", {"pageSize": 20}, version=version)
    every = client.ask("resources/list", {}, version=version)

    files = [{"uri": f"workspace:///{name}", "size": (project / name).stat().st_size} for name in FILES]
    assert listed["items"] == files
    assert read["contents"][0]["text"] == "name: app\n"
    assert log["contents"][0]["text"] == f"[run]\n[--debug]\n{project.resolve()}\nnone\n"
    size = len(log["contents"][0]["text"])
    assert again["items"] == [*files, {"uri": uri, "size": size, "entries": 4}]
    assert {"carrel://guide", uri, *(file["uri"] for file in files)} <= {one["uri"] for one in every["resources"]}


BAD = {
    "two modes": ({"debug": True, "release": True}, ["debug, release (at most one of them can be true)"]),
    "an option as device": ({"deviceId": "-x"}, ["deviceId=-x (expected letters, digits and . _ : -)"]),
    "a line end in a device": ({"deviceId": "x\n"}, ["deviceId=x\\x0a (expected letters, digits and . _ : -)"]),
    "outside": ({"target": "../x.dart"}, ["target=../x.dart (not a file of the project that may be read)"]),
    "no Dart": ({"target": "pubspec.yaml"}, ["target=pubspec.yaml (expected a .dart file of the project)"]),
    "missing": ({"target": "lib/no.dart"}, ["target=lib/no.dart (not a file of the project that may be read)"]),
    "hidden": ({"target": ".hidden.dart"}, ["target=.hidden.dart (not a file of the project that may be read)"]),
    "absolute": ({"target": "/etc/x.dart"}, ["target=/etc/x.dart (not a file of the project that may be read)"]),
    "an unknown name": ({"extra": 1}, [UNKNOWN]),
    "a wrong type": ({"debug": 1}, ["debug=1 (expected true or false)"]),
    "a define's name": ({"dartDefine": {"a-b": "c"}}, ["dartDefine a-b (expected a name of letters, digits, _ and .)"]),
    "a define's value": (
        {"dartDefine": {"a": "b\n", "c": 1}},
        [
            "dartDefine a (expected a string of at most 4096 bytes without control characters)",
            "dartDefine c (expected a string of at most 4096 bytes without control characters)",
        ],
    ),
    "too many defines": ({"dartDefine": {f"a{i}": "" for i in range(65)}}, ["dartDefine (at most 64 of them)"]),
    "several problems": (
        {"extra": 1, "debug": True, "profile": True, "deviceId": "-x"},
        [
            UNKNOWN,
            "debug, profile (at most one of them can be true)",
            "deviceId=-x (expected letters, digits and . _ : -)",
        ],
    ),
}


@pytest.mark.parametrize(("arguments", "problems"), BAD.values(), ids=BAD.keys())
def test_bad_arguments_are_named_one_by_one_and_nothing_is_started(
    provider: Logs, arguments: dict[str, Any], problems: list[str]
) -> None:
    result = provider.call("flutter.run", arguments, Caller())

    assert [one.partition(": ")[2] for one in told(result)] == problems
    assert list(provider.entries()) == []


def test_the_desk_is_asked_whether_a_target_may_be_read(project: Path) -> None:
    asked: list[str] = []

    def read(uri: str) -> Reading:
        asked.append(uri)
        if "main" not in uri:
            raise NotFound(uri)
        return Reading((Text("", meta={"dev.carrel/uri": "workspace:///lib/main%20b.dart"}),))

    environment = {"PATH": os.environ["PATH"]}
    settings = FlutterSettings(executable=Program("tools/flutter"))
    provider = Logs(Project(str(project), environment, read=read), flutter=settings)
    result = call(provider, "flutter.build", platform="web", target="lib/main b.dart")
    refused = call(provider, "flutter.build", platform="web", target="lib/other.dart")
    provider.close()

    assert asked == [
        "workspace:///lib/main%20b.dart?start=0&length=0",
        "workspace:///lib/other.dart?start=0&length=0",
    ]
    assert words(provider, result) == ["build", "web", "--release", "--target=lib/main b.dart"]
    assert told(refused) == ["Invalid argument: target=lib/other.dart (not a file of the project that may be read)"]


# Configured commands


def test_a_command_that_ends_soon_gives_its_exit_code(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"fail": command("echo no; exit 9"), "fine": command("true")})
    failed, fine = call(provider, "process.start", name="fail"), call(provider, "process.start", name="fine")
    provider.close()

    assert (failed.is_error, answer(failed)["success"], answer(failed)["exitCode"]) == (True, False, 9)
    assert (fine.is_error, answer(fine)["success"], answer(fine)["exitCode"]) == (False, True, 0)


def test_only_configured_names_are_started_and_the_names_are_listed(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"web": command("true"), "test": command("true")})

    assert told(call(provider, "process.start", name="rm -rf /")) == [
        "Invalid argument: name=rm -rf / (expected one of web, test)"
    ]
    assert told(call(provider, "process.start")) == ["Missing argument: name"]
    assert list(provider.entries()) == []


def test_a_command_has_its_folder_its_environment_and_none_of_our_secrets(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    provider = logs(tmp_path, {"env": command("pwd; echo $A ${CARREL_TOKEN:-none}", cwd="sub", env={"A": "b"})})
    uri = answer(call(provider, "process.start", name="env"))["logResourceUri"]
    ended(provider, uri)
    provider.close()

    assert text(provider, uri) == f"{(tmp_path / 'sub').resolve()}\nb none\n"


def test_a_build_is_waited_for_and_has_a_build_id(tmp_path: Path) -> None:
    processes = ProcessSettings(start_wait_ms=0, grace_s=0.3)
    provider = logs(tmp_path, {"make": command("sleep 0.3; echo done", kind="build")}, processes=processes)
    given = answer(call(provider, "process.start", name="make"))
    provider.close()

    assert given["exitCode"] == 0
    assert given["buildId"] == given["processId"]
    assert given["logResourceUri"] == f"logs://build/{given['buildId']}"


def test_a_program_that_is_not_there_says_so_in_its_log(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"gone": CommandSettings([Program("/no/such/program")])})
    result = call(provider, "process.start", name="gone")
    given = answer(result)
    provider.close()

    assert (result.is_error, given["success"], given["exitCode"]) == (True, False, None)
    assert given["message"] == "not started: program: there is no such program"
    assert text(provider, given["logResourceUri"]) == "not started: program: there is no such program\n"
    assert meta(provider, given["logResourceUri"])["state"] == "not-started"


def test_a_limit_refuses_at_once_and_names_what_runs(tmp_path: Path) -> None:
    stays = {name: command("exec sleep 60", max_running=2) for name in ("a", "b")}
    provider = logs(tmp_path, stays, processes=ProcessSettings(max_running=3, start_wait_ms=0, grace_s=0.3))
    ids = [answer(call(provider, "process.start", name=name))["processId"] for name in ("a", "a")]
    of_name = told(call(provider, "process.start", name="a"))
    ids.append(answer(call(provider, "process.start", name="b"))["processId"])
    of_all = told(call(provider, "process.start", name="b"))
    provider.close()

    assert of_name == [f"Limit reached: [commands.a] max_running = 2; running: {ids[0]}, {ids[1]}"]
    assert of_all == [f"Limit reached: [processes] max_running = 3; running: {', '.join(ids)}"]


def test_flutters_own_limits_hold(project: Path) -> None:
    provider = flutter(project, max_runs=1, max_builds=0)
    running = answer(call(provider, "flutter.run"))["processId"]
    refused = told(call(provider, "flutter.run")), told(call(provider, "flutter.build", platform="web"))
    provider.close()

    assert refused == (
        [f"Limit reached: [flutter] max_runs = 1; running: {running}"],
        ["Limit reached: [flutter] max_builds = 0; running: none"],
    )


def test_a_timeout_is_reported(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"slow": command("exec sleep 60", wait=True, timeout_s=0.2)})
    result = call(provider, "process.start", name="slow")
    provider.close()

    assert result.is_error
    assert (answer(result)["message"], answer(result)["exitCode"]) == ("timed out after 0.2 s", 143)
    assert meta(provider, answer(result)["logResourceUri"])["state"] == "timed-out"


def test_who_gives_up_a_build_ends_it(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"make": command("echo started; exec sleep 60", kind="build")})
    caller = Caller()
    thread = threading.Thread(target=call, args=(provider, "process.start", caller), kwargs={"name": "make"})
    thread.start()
    until(lambda: any(entry.size for entry in provider.entries()))

    caller.cancel()
    thread.join(PATIENCE_S)

    [entry] = provider.entries()
    assert (entry.meta or {})["dev.carrel/state"] == "cancelled"
    assert meta(provider, entry.uri)["exit-code"] == 143
    provider.close()


def test_progress_rises_and_tells_the_last_line(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"make": command(f"echo {'x' * 200}; sleep 1.3; echo; exec sleep 0.2", kind="build")})
    caller = Caller()
    call(provider, "process.start", caller, name="make")
    provider.close()

    values = [value for value, _, _ in caller.told]
    assert caller.told[:2] == [(10, 100, "starting"), (30, 100, "started")]
    assert caller.told[2][1:] == (100, "x" * 120)
    assert values == sorted(set(values))
    assert max(values) <= 95


# All processes


def test_stopping_ends_a_process_and_an_ended_one_is_fine(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"web": command("exec sleep 60"), "done": command("true")})
    web, done = (answer(call(provider, "process.start", name=name))["processId"] for name in ("web", "done"))
    stopped = answer(call(provider, "process.stop", id=web))
    again = answer(call(provider, "process.stop", id=done))
    unknown = told(call(provider, "process.stop", id="web_1"))
    provider.close()

    assert stopped == {
        "success": True,
        "message": stopped["message"],
        "exitCode": 143,
        "signal": "SIGTERM",
    }
    assert stopped["message"].startswith("stopped 143 after ")
    assert (again["success"], again["exitCode"], again["signal"]) == (True, 0, None)
    assert unknown == ["Invalid argument: id=web_1 (not a process of this server)"]


def test_the_list_has_the_newest_first(tmp_path: Path) -> None:
    provider = logs(tmp_path, {"web": command("exec sleep 60"), "done": command("exit 2")})
    ids = [answer(call(provider, "process.start", name=name))["processId"] for name in ("web", "done")]
    listed = answer(call(provider, "process.list"))["processes"]
    provider.close()

    assert [(one["processId"], one["name"], one["state"], one["exitCode"]) for one in listed] == [
        (ids[1], "done", "exited", 2),
        (ids[0], "web", "running", None),
    ]
    assert list(listed[0]) == ["processId", "name", "state", "startedAt", "durationMs", "exitCode", "logResourceUri"]


def test_every_answer_fits_its_schema(project: Path) -> None:
    provider = flutter(project, {"web": command("exec sleep 60"), "gone": command("exit 1", kind="build")})
    schemas = {tool.name: tool.output_schema for tool in provider.tools()}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("flutter.run", {}),
        ("flutter.build", {"platform": "web"}),
        ("flutter.build", {"platform": "ios"}),
        ("flutter.doctor", {}),
        ("process.start", {"name": "web"}),
        ("process.start", {"name": "gone"}),
        ("process.list", {}),
    ]
    for name, arguments in calls:
        result = provider.call(name, arguments, Caller())
        schema = schemas[name]
        assert isinstance(schema, dict)
        jsonschema.validate(result.structured, schema)
        assert json.loads(str(result.blocks[0])) == result.structured
    provider.close()


def test_tools_that_start_things_are_not_for_callers_on_the_network(tmp_path: Path) -> None:
    catalog = Catalog([logs(tmp_path, {"web": command("true")})])
    assert len(catalog.tools()) == 3

    catalog.is_remote = True

    assert catalog.tools() == ()
    with pytest.raises(BadArgument, match="Unknown tool"):
        catalog.call("process.start", {"name": "web"}, Caller())
    trusted = Catalog([logs(tmp_path, {"web": command("true")}, processes=ProcessSettings(remote=Exposure(True)))])
    trusted.is_remote = True
    assert len(trusted.tools()) == 3
