"""The tools that start, stop and list processes.

No text of a request reaches the command line of a configured command; Flutter's command lines take checked values only.
After its call was answered, a process keeps running until it ends, is stopped or times out.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Annotated, Final, Literal

from carrel.core.arguments import Argument, Arguments, InvalidArguments, object_schema
from carrel.core.errors import echo
from carrel.core.isotime import iso
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.provider import Call, Project
from carrel.core.record import Value, replace
from carrel.providers.logs import flutter
from carrel.providers.logs.log import Kind
from carrel.providers.logs.log_index import LogIndex
from carrel.providers.logs.process import Launch, Processes
from carrel.providers.logs.process_table import Limit, LimitReached, ProcessTable, Run
from carrel.providers.logs.settings import CommandSettings, FlutterSettings, ProcessSettings, is_flutter_project

DOCTOR_CHARACTERS: Final = 8_000
MESSAGE_CHARACTERS: Final = 120
_PROGRESS_S: Final = 1.0
_HALF_WAY_S: Final = 60.0
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_CODE: Final = {"type": ["integer", "null"]}
_STARTED: Final = {"success": _FLAG, "message": _TEXT, "exitCode": _CODE}


class NoArguments(Value, frozen=True):
    """The arguments of a tool that takes none."""


class StartCommand(Value, frozen=True):
    """The arguments of `process.start`."""

    name: Annotated[str, Argument(description="The name of the command.")]


class StopProcess(Value, frozen=True):
    """The arguments of `process.stop`."""

    id: Annotated[str, Argument(description="The processId or buildId.", examples=["web_1763370000000000"])]


NOTHING: Final = Arguments(NoArguments)
STOP: Final = Arguments(StopProcess)


def _result(*optional: str, **properties: object) -> dict[str, object]:
    return object_schema(properties, [name for name in properties if name not in optional])


class ProcessTools:
    """The tools of one server, and the processes they started."""

    def __init__(
        self,
        project: Project,
        index: LogIndex,
        flutter_settings: FlutterSettings,
        processes: ProcessSettings,
        commands: Mapping[str, CommandSettings],
    ) -> None:
        self._project = project
        self._flutter = flutter_settings
        self._settings = processes
        self._commands = dict(commands)
        self._table = ProcessTable(index, Processes(processes.grace_s), processes.max_running)
        self._calls: Mapping[str, Callable[[Mapping[str, object], Call], ToolResult]] = {
            "flutter.run": self._flutter_run,
            "flutter.build": self._flutter_build,
            "flutter.doctor": self._flutter_doctor,
            "process.start": self._process_start,
            "process.stop": self._process_stop,
            "process.list": self._process_list,
        }

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools that can be used now."""
        tools = list(flutter_tools()) if self._executable() is not None else []
        if self._commands:
            tools.append(start_tool(self._commands))
        if tools:
            tools += process_tools()
        return tuple(tools if self._settings.remote else [replace(tool, local=True) for tool in tools])

    def call(self, name: str, given: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool. Bad arguments and a limit that is reached are failed results, and nothing is started."""
        try:
            return self._calls[name](given, call)
        except InvalidArguments as error:
            return error.result()
        except LimitReached as error:
            return ToolResult((str(error),), is_error=True)

    def close(self) -> None:
        """End every process with its group."""
        self._table.close()

    # Flutter

    def _executable(self) -> str | None:
        if self._flutter.tools == "off" or not is_flutter_project(self._project.root):
            return None
        return flutter.find_executable(self._project, self._flutter.executable)

    def _flutter_run(self, given: Mapping[str, object], call: Call) -> ToolResult:
        options = flutter.check(self._project, flutter.RUN, given)
        limit = Limit("[flutter] max_runs", self._flutter.max_runs, "flutter_run")
        run = self._start_flutter("run", limit, ("run", *options.words), self._flutter.run_timeout_s, call, waits=False)
        return _started(run, processId=run.id)

    def _flutter_build(self, given: Mapping[str, object], call: Call) -> ToolResult:
        options = flutter.check(self._project, flutter.BUILD, given)
        limit = Limit("[flutter] max_builds", self._flutter.max_builds, "flutter_build")
        words = ("build", "apk" if options.platform == "android" else options.platform, *options.words)
        run = self._start_flutter("build", limit, words, self._flutter.build_timeout_s, call)
        path = flutter.build_path(self._project, options) if run.is_success else None
        return _started(run, buildId=run.id, **({} if path is None else {"buildPath": path}))

    def _flutter_doctor(self, given: Mapping[str, object], call: Call) -> ToolResult:
        NOTHING.check(given)
        limit = Limit("", 0, "flutter_doctor")
        run = self._start_flutter("run", limit, ("doctor", "-v"), self._flutter.doctor_timeout_s, call)
        facts, entries = run.log.snapshot()
        text = "".join([f"{entry.line.text}\n" for entry in entries if entry.stream == "out"])
        structured = {
            "stdout": text[:DOCTOR_CHARACTERS],
            "truncated": len(text) > DOCTOR_CHARACTERS or facts.dropped_entries > 0,
            "exitCode": facts.exit_code,
            "logResourceUri": facts.uri,
        }
        return _answer(structured, run, is_error=facts.state != "exited")

    def _start_flutter(
        self, kind: Kind, limit: Limit, words: Sequence[str], timeout_s: float, call: Call, *, waits: bool = True
    ) -> Run:
        executable = self._executable()
        assert executable is not None
        launch = Launch((executable, *words), self._project.root, self._environment(), timeout_s)
        return self._run(kind, limit, launch, call, waits=waits)

    # Configured commands

    def _process_start(self, given: Mapping[str, object], call: Call) -> ToolResult:
        name = _start_arguments(self._commands).check(given).name
        command = self._commands[name]
        environment = {**self._environment(), **(command.env or {})}
        cwd = os.path.join(self._project.root, command.cwd)
        launch = Launch(tuple(command.argv), cwd, environment, command.time_s)
        limit = Limit(f"[commands.{name}] max_running", command.max_running, name)
        run = self._run(command.kind, limit, launch, call, waits=command.is_waited_for)
        return _started(run, processId=run.id, **({"buildId": run.id} if command.kind == "build" else {}))

    def _environment(self) -> dict[str, str]:
        """Return the environment of children, without Carrel's own variables."""
        return {name: value for name, value in self._project.environment.items() if not name.startswith("CARREL_")}

    def _run(self, kind: Kind, limit: Limit, launch: Launch, call: Call, *, waits: bool) -> Run:
        """Start a process, and wait for its end or only for an early exit; it ends when its call is cancelled."""
        call.progress(10, 100, "starting")
        run = self._table.start(kind, limit, launch)
        call.on_cancel(lambda: self._table.cancel(run))
        run.process.wait_until_started(_HALF_WAY_S)
        if run.process.group is not None:
            call.progress(30, 100, "started")
        if waits:
            _wait(run, call)
        else:
            run.process.wait(self._settings.start_wait_ms / 1_000)
        return run

    # All processes

    def _process_stop(self, given: Mapping[str, object], _call: Call) -> ToolResult:
        name = STOP.check(given).id
        run = self._table.find(name)
        if run is None:
            return ToolResult((f"Invalid argument: id={echo(name)} (not a process of this server)",), is_error=True)
        self._table.stop(run)
        facts = run.log.facts
        structured = {
            "success": not facts.is_running,
            "message": facts.ending,
            "exitCode": facts.exit_code,
            "signal": run.process.signal,
        }
        return _answer(structured, run, is_error=facts.is_running)

    def _process_list(self, given: Mapping[str, object], _call: Call) -> ToolResult:
        NOTHING.check(given)
        listed = []
        for run in self._table.kept():
            facts = run.log.facts
            listed.append(
                {
                    "processId": run.id,
                    "name": run.name,
                    "state": facts.state,
                    "startedAt": iso(facts.started_ms),
                    "durationMs": facts.duration_ms,
                    "exitCode": facts.exit_code,
                    "logResourceUri": facts.uri,
                }
            )
        return _answer({"processes": listed})


def _start_arguments(commands: Mapping[str, CommandSettings]) -> Arguments[StartCommand]:
    choices = Literal.__getitem__(tuple(commands))
    return Arguments(StartCommand, name=Annotated[choices, Argument(description="The name of the command.")])


def start_tool(commands: Mapping[str, CommandSettings]) -> Tool:
    """Return the tool that starts the configured commands, whose names it lists."""
    described = [f"{name}: {command.description}" for name, command in commands.items() if command.description]
    return Tool(
        "process.start",
        " ".join(["Start a command of the project's configuration by its name.", *described])[:2_000],
        _start_arguments(commands).schema,
        title="Start a process",
        output_schema=_result("buildId", **_STARTED, processId=_TEXT, logResourceUri=_TEXT, buildId=_TEXT),
        destructive=False,
    )


def flutter_tools() -> tuple[Tool, ...]:
    """Return the tools of a Flutter project."""
    return (
        Tool(
            "flutter.run",
            "Start the app with `flutter run`. Returns soon; the app keeps running. Its output is the log resource.",
            flutter.RUN.schema,
            title="Run the Flutter app",
            output_schema=_result(**_STARTED, processId=_TEXT, logResourceUri=_TEXT),
            destructive=False,
        ),
        Tool(
            "flutter.build",
            "Build the app with `flutter build` and wait for the end. Its output is the log resource.",
            flutter.BUILD.schema,
            title="Build the Flutter app",
            output_schema=_result("buildPath", **_STARTED, buildId=_TEXT, buildPath=_TEXT, logResourceUri=_TEXT),
            destructive=False,
        ),
        Tool(
            "flutter.doctor",
            "Run `flutter doctor -v` and return its output.",
            NOTHING.schema,
            title="Check the Flutter installation",
            output_schema=_result(stdout=_TEXT, truncated=_FLAG, exitCode=_CODE, logResourceUri=_TEXT),
            read_only=True,
            open_world=False,
        ),
    )


def process_tools() -> tuple[Tool, ...]:
    """Return the tools for processes that were started."""
    listed = _result(
        processId=_TEXT,
        name=_TEXT,
        state=_TEXT,
        startedAt=_TEXT,
        durationMs={"type": "integer"},
        exitCode=_CODE,
        logResourceUri=_TEXT,
    )
    return (
        Tool(
            "process.stop",
            "Stop a process that this server started, and its whole process group.",
            STOP.schema,
            title="Stop a process",
            output_schema=_result(**_STARTED, signal={"type": ["string", "null"]}),
            idempotent=True,
            open_world=False,
        ),
        Tool(
            "process.list",
            "List the processes that this server started, newest first: "
            "the running ones, and the ended ones whose log is kept.",
            NOTHING.schema,
            title="List processes",
            output_schema=_result(processes={"type": "array", "items": listed}),
            read_only=True,
            open_world=False,
        ),
    )


def _wait(run: Run, call: Call) -> None:
    """Wait for the end, and report the last line as progress; the value rises but never reaches the total."""
    began = monotonic()
    reported = 0
    while not run.process.wait(_PROGRESS_S):
        newest, line = run.log.last_line()
        if newest > reported:
            reported = newest
            passed = monotonic() - began
            call.progress(round(30 + 65 * passed / (passed + _HALF_WAY_S), 4), 100, line[:MESSAGE_CHARACTERS])


def _started(run: Run, **ids: str) -> ToolResult:
    """Return the state of a process that was started."""
    facts = run.log.facts
    structured = {
        "success": run.is_success,
        "message": run.message(),
        "exitCode": facts.exit_code,
        **ids,
        "logResourceUri": facts.uri,
    }
    return _answer(structured, run, is_error=not run.is_success)


def _answer(structured: Mapping[str, object], run: Run | None = None, *, is_error: bool = False) -> ToolResult:
    blocks: list[str | ResourceLink] = [json.dumps(structured, ensure_ascii=False)]
    if run is not None:
        blocks.append(ResourceLink(run.log.facts.uri, run.id, "Its output", "text/plain"))
    return ToolResult(tuple(blocks), structured, is_error=is_error)
