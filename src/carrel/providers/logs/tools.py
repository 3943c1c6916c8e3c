"""Tools that start processes, and what they answer.

Nothing of a request reaches a configured command line; Flutter's take checked values only.
A process that has answered lives on until it ends, is stopped or times out.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from carrel.core.errors import echo
from carrel.core.isotime import iso
from carrel.core.model import ResourceLink, Tool, ToolResult
from carrel.core.provider import Call, Project
from carrel.core.record import Value, replace
from carrel.providers.logs import arguments, flutter, tool_schemas
from carrel.providers.logs.flutter import Options
from carrel.providers.logs.log_index import Shelf
from carrel.providers.logs.process import Processes, Program
from carrel.providers.logs.process_table import Limit, Run, Running
from carrel.providers.logs.settings import Command, FlutterSettings, ProcessSettings

DOCTOR_CHARACTERS: Final = 8_000
MESSAGE_CHARACTERS: Final = 120
_PROGRESS_S: Final = 1.0
_HALF_WAY_S: Final = 60.0

_DEFAULT_MODES: Final = {"flutter.run": "debug", "flutter.build": "release"}


class Asked(Value, frozen=True):
    """A call whose arguments are sound."""

    given: Mapping[str, Any]
    call: Call
    options: Options = Options("debug")


class Tools:
    """The tools of one server, and the processes they started."""

    def __init__(
        self,
        project: Project,
        shelf: Shelf,
        flutter_settings: FlutterSettings,
        processes: ProcessSettings,
        commands: Mapping[str, Command],
    ) -> None:
        self._project = project
        self._flutter = flutter_settings
        self._settings = processes
        self._commands = dict(commands)
        self._running = Running(shelf, Processes(processes.grace_s), processes.max_running)
        self._calls: Mapping[str, Callable[[Asked], ToolResult]] = {
            "flutter.run": self._flutter_run,
            "flutter.build": self._flutter_build,
            "flutter.doctor": self._flutter_doctor,
            "process.start": self._process_start,
            "process.stop": self._process_stop,
            "process.list": self._process_list,
        }

    def offered(self) -> tuple[Tool, ...]:
        """Give the tools that can be used here and now."""
        tools: list[Tool] = []
        if self._executable() is not None:
            tools += (tool_schemas.FLUTTER_RUN, tool_schemas.FLUTTER_BUILD, tool_schemas.FLUTTER_DOCTOR)
        if self._commands:
            tools.append(tool_schemas.process_start(self._commands))
        if tools:
            tools += (tool_schemas.PROCESS_STOP, tool_schemas.PROCESS_LIST)
        return tuple(tools if self._settings.remote else [replace(tool, local=True) for tool in tools])

    def call(self, name: str, given: Mapping[str, object], call: Call) -> ToolResult:
        """Run a tool; what is wrong with its arguments is told, a text each, and nothing is started."""
        tool = next(tool for tool in self.offered() if tool.name == name)
        sound, problems = arguments.check(tool, given)
        asked = Asked(sound, call)
        if name in _DEFAULT_MODES:
            options, more = arguments.options(self._project, sound, _DEFAULT_MODES[name])
            asked = Asked(sound, call, options)
            problems += more
        return _refused(*problems) if problems else self._calls[name](asked)

    def close(self) -> None:
        """End every process with its group."""
        self._running.close()

    # Flutter

    def _executable(self) -> str | None:
        if self._flutter.tools == "off" or not flutter.is_project(self._project):
            return None
        return flutter.find(self._project, self._flutter.executable)

    def _flutter_run(self, asked: Asked) -> ToolResult:
        limit = Limit("[flutter] max_runs", self._flutter.max_runs, "flutter_run")
        words = ("run", *asked.options.words())
        run = self._start_flutter("run", limit, words, self._flutter.run_timeout_s, asked.call)
        if isinstance(run, str):
            return _refused(run)
        run.process.wait(self._settings.start_wait_s)
        return _started(run, {"processId": run.id})

    def _flutter_build(self, asked: Asked) -> ToolResult:
        platform = str(asked.given["platform"])
        limit = Limit("[flutter] max_builds", self._flutter.max_builds, "flutter_build")
        words = ("build", flutter.PLATFORMS[platform], *asked.options.words())
        run = self._start_flutter("build", limit, words, self._flutter.build_timeout_s, asked.call)
        if isinstance(run, str):
            return _refused(run)
        _wait(run, asked.call)
        made = flutter.built(self._project, platform, asked.options.mode) if run.is_success else None
        return _started(run, {"buildId": run.id, **({} if made is None else {"buildPath": made})})

    def _flutter_doctor(self, asked: Asked) -> ToolResult:
        limit = Limit("", 0, "flutter_doctor")
        run = self._start_flutter("run", limit, ("doctor", "-v"), self._flutter.doctor_timeout_s, asked.call)
        if isinstance(run, str):
            return _refused(run)
        _wait(run, asked.call)
        facts, entries = run.log.snapshot()
        text = "".join([f"{entry.line.text}\n" for entry in entries if entry.stream == "out"])
        structured = {
            "stdout": text[:DOCTOR_CHARACTERS],
            "truncated": len(text) > DOCTOR_CHARACTERS or facts.dropped_entries > 0,
            "exitCode": facts.exit_code,
            "logResourceUri": facts.uri,
        }
        return _answer(structured, run, is_error=facts.state != "exited")

    def _start_flutter(self, kind: Any, limit: Limit, words: Sequence[str], timeout_s: float, call: Call) -> Run | str:
        executable = self._executable()
        assert executable is not None
        program = Program((executable, *words), self._project.root, self._environment(), timeout_s)
        return _begin(self._running, kind, limit, program, call)

    # Configured commands

    def _process_start(self, asked: Asked) -> ToolResult:
        name = str(asked.given["name"])
        command = self._commands[name]
        environment = {**self._environment(), **(command.env or {})}
        cwd = os.path.join(self._project.root, command.cwd)
        program = Program(tuple(command.argv), cwd, environment, command.time_s)
        limit = Limit(f"[commands.{name}] max_running", command.max_running, name)
        run = _begin(self._running, command.kind, limit, program, asked.call)
        if isinstance(run, str):
            return _refused(run)
        if command.is_waited_for:
            _wait(run, asked.call)
        else:
            run.process.wait(self._settings.start_wait_s)
        return _started(run, {"processId": run.id, **({"buildId": run.id} if command.kind == "build" else {})})

    def _environment(self) -> dict[str, str]:
        """Give what children get: everything but what is Carrel's own."""
        return {name: value for name, value in self._project.environment.items() if not name.startswith("CARREL_")}

    # All processes

    def _process_stop(self, asked: Asked) -> ToolResult:
        name = str(asked.given["id"])
        run = self._running.find(name)
        if run is None:
            return _refused(f"Invalid argument: id={echo(name)} (no process of this server)")
        self._running.stop(run)
        facts = run.log.facts
        structured = {
            "success": not facts.is_running,
            "message": facts.ending,
            "exitCode": facts.exit_code,
            "signal": run.process.signal,
        }
        return _answer(structured, run, is_error=facts.is_running)

    def _process_list(self, _asked: Asked) -> ToolResult:
        told = []
        for run in self._running.kept():
            facts = run.log.facts
            told.append(
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
        return _answer({"processes": told})


def _begin(running: Running, kind: Any, limit: Limit, program: Program, call: Call) -> Run | str:
    """Start something on behalf of a call: whoever gives the call up ends it."""
    call.progress(10, 100, "starting")
    run = running.start(kind, limit, program)
    if isinstance(run, Run):
        call.on_cancel(lambda: running.cancel(run))
        run.process.wait_until_started(_HALF_WAY_S)
        if run.process.group is not None:
            call.progress(30, 100, "started")
    return run


def _wait(run: Run, call: Call) -> None:
    """Wait for the end; tell the last line now and then, nearer and nearer to the end."""
    began = monotonic()
    told = 0
    while not run.process.wait(_PROGRESS_S):
        newest, line = run.log.last_line()
        if newest > told:
            told = newest
            passed = monotonic() - began
            call.progress(round(30 + 65 * passed / (passed + _HALF_WAY_S), 4), 100, line[:MESSAGE_CHARACTERS])


def _started(run: Run, ids: Mapping[str, str]) -> ToolResult:
    """Answer what became of a process that was started, so far."""
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
        blocks.append(ResourceLink(run.log.facts.uri, run.id, "What it writes", "text/plain"))
    return ToolResult(tuple(blocks), structured, is_error=is_error)


def _refused(*problems: str) -> ToolResult:
    return ToolResult(problems, is_error=True)
