"""The tools as clients see them: names, schemas, hints."""

from collections.abc import Mapping
from typing import Any, Final

from carrel.core.model import Tool
from carrel.providers.logs.flutter import PLATFORMS
from carrel.providers.logs.settings import Command

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_CODE: Final = {"type": ["integer", "null"]}
_STARTED: Final[Mapping[str, Any]] = {
    "success": _FLAG,
    "message": _TEXT,
    "exitCode": _CODE,
    "processId": _TEXT,
    "logResourceUri": _TEXT,
}
_MODES: Final = {
    "debug": {"type": "boolean", "description": "Debug mode."},
    "profile": {"type": "boolean", "description": "Profile mode."},
    "release": {"type": "boolean", "description": "Release mode."},
}
_TARGET: Final = {
    "target": {"type": "string", "description": "The entry point: a path below the root, or a workspace URI."},
    "dartDefine": {
        "type": "object",
        "description": "Compile-time variables, name to text.",
        "additionalProperties": {"type": "string"},
    },
}
_DEVICE: Final = {"deviceId": {"type": "string", "description": "The device to run on."}}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _result(properties: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    return _object(properties, *(name for name in properties if name not in optional))


FLUTTER_RUN: Final = Tool(
    "flutter.run",
    "Start the app with `flutter run`. Answers soon; the app runs on and its output is the log resource.",
    _object({**_MODES, **_DEVICE, **_TARGET}),
    title="Run the Flutter app",
    output_schema=_result(_STARTED),
    destructive=False,
)
FLUTTER_BUILD: Final = Tool(
    "flutter.build",
    "Build the app with `flutter build` and wait for the end. Its output is the log resource.",
    _object(
        {
            "platform": {"type": "string", "enum": list(PLATFORMS), "description": "What to build for."},
            **_MODES,
            **_TARGET,
        },
        "platform",
    ),
    title="Build the Flutter app",
    output_schema=_result(
        {
            "success": _FLAG,
            "message": _TEXT,
            "exitCode": _CODE,
            "buildId": _TEXT,
            "buildPath": _TEXT,
            "logResourceUri": _TEXT,
        },
        "buildPath",
    ),
    destructive=False,
)
FLUTTER_DOCTOR: Final = Tool(
    "flutter.doctor",
    "Run `flutter doctor -v` and give what it says.",
    _object({}),
    title="Check the Flutter installation",
    output_schema=_result({"stdout": _TEXT, "truncated": _FLAG, "exitCode": _CODE, "logResourceUri": _TEXT}),
    read_only=True,
    open_world=False,
)
PROCESS_STOP: Final = Tool(
    "process.stop",
    "Stop a process that this server started, with everything in its group.",
    _object({"id": {"type": "string", "description": "The processId or buildId."}}, "id"),
    title="Stop a process",
    output_schema=_result(
        {"success": _FLAG, "message": _TEXT, "exitCode": _CODE, "signal": {"type": ["string", "null"]}}
    ),
    idempotent=True,
    open_world=False,
)
PROCESS_LIST: Final = Tool(
    "process.list",
    "List the processes this server started: those that run, and those whose log is kept, newest first.",
    _object({}),
    title="List processes",
    output_schema=_result(
        {
            "processes": {
                "type": "array",
                "items": _result(
                    {
                        "processId": _TEXT,
                        "name": _TEXT,
                        "state": _TEXT,
                        "startedAt": _TEXT,
                        "durationMs": {"type": "integer"},
                        "exitCode": _CODE,
                        "logResourceUri": _TEXT,
                    }
                ),
            }
        }
    ),
    read_only=True,
    open_world=False,
)


def process_start(commands: Mapping[str, Command]) -> Tool:
    """Give the tool that starts configured commands, which it names."""
    told = [f"{name}: {command.description}" for name, command in commands.items() if command.description]
    return Tool(
        "process.start",
        " ".join(["Start a command of the project's configuration by its name.", *told])[:2_000],
        _object({"name": {"type": "string", "enum": list(commands), "description": "Which command."}}, "name"),
        title="Start a process",
        output_schema=_result({**_STARTED, "buildId": _TEXT}, "buildId"),
        destructive=False,
    )
