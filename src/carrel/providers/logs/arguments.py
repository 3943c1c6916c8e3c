"""What callers give to the tools, checked: every problem is named, and nothing unknown is taken."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from carrel.core.errors import CarrelError, echo
from carrel.core.model import Reading, Tool
from carrel.core.provider import Project
from carrel.core.uri import decode, quote
from carrel.files.sandbox import Root, SandboxError
from carrel.providers.logs.flutter import MODES, Options

DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
DEFINE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
MAX_DEFINES: Final = 64
MAX_DEFINE_BYTES: Final = 4_096

_WORKSPACE: Final = "workspace:///"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "object": (dict, "an object"),
}


def check(tool: Tool, arguments: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Give the arguments that fit the tool's schema, and say what is wrong with the others."""
    schema: Mapping[str, Any] = tool.input_schema
    known: Mapping[str, Any] = schema["properties"]
    told = []
    sound: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in known:
            takes = f"known: {', '.join(known)}" if known else "it takes none"
            told.append(f"Unknown argument: {echo(name)} ({takes})")
            continue
        kind, words = _KINDS[known[name]["type"]]
        choices = known[name].get("enum")
        if not isinstance(value, kind):
            told.append(f"Invalid argument: {name} (expected {words})")
        elif choices is not None and value not in choices:
            told.append(f"Invalid argument: {name}={echo(str(value))} (expected one of {', '.join(choices)})")
        else:
            sound[name] = value
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    return sound, told + [f"Missing argument: {name}" for name in missing]


def options(project: Project, given: Mapping[str, Any], default_mode: str) -> tuple[Options, list[str]]:
    """Read what may be chosen of a run or a build, and say what is wrong with it."""
    told: list[str] = []
    modes = [mode for mode in MODES if given.get(mode)]
    if len(modes) > 1:
        told.append(f"Invalid argument: {', '.join(modes)} (at most one of them can be true)")
    device = given.get("deviceId")
    if device is not None and not DEVICE.fullmatch(device):
        told.append(f"Invalid argument: deviceId={echo(device)} (expected letters, digits and . _ : -)")
    target = None
    if "target" in given:
        try:
            target = _target(project, given["target"])
        except ValueError as error:
            told.append(f"Invalid argument: target={echo(given['target'])} ({error})")
    defines = given.get("dartDefine", {})
    told += _define_problems(defines)
    mode = modes[0] if modes else default_mode
    return Options(mode, device, target, defines), told


def _define_problems(defines: Mapping[str, object]) -> list[str]:
    told = []
    if len(defines) > MAX_DEFINES:
        told.append(f"Invalid argument: dartDefine (at most {MAX_DEFINES} of them)")
    for name, value in defines.items():
        if not DEFINE.fullmatch(name):
            told.append(f"Invalid argument: dartDefine {echo(name)} (expected a name of letters, digits, _ and .)")
        elif not isinstance(value, str) or _CONTROL.search(value) or len(value.encode()) > MAX_DEFINE_BYTES:
            expected = f"a text of at most {MAX_DEFINE_BYTES} bytes without control characters"
            told.append(f"Invalid argument: dartDefine {name} (expected {expected})")
    return told


def _target(project: Project, given: str) -> str:
    """Give the path, relative to the root, of a file that may be read; raise ValueError with what is wrong."""
    if _CONTROL.search(given) or not given.endswith(".dart"):
        raise ValueError("expected a .dart file of the project")
    is_uri = given.lower().startswith("workspace:")
    uri = given if is_uri else _WORKSPACE + "/".join([quote(part) for part in given.split("/")])
    path = _found(project.read, uri) if project.read is not None else None
    if path is None:
        path = _found_alone(project, given.partition(":")[2].lstrip("/") if is_uri else given)
    if not path.endswith(".dart"):
        raise ValueError("expected a .dart file of the project")
    return path


def _found(read: Callable[[str], Reading], uri: str) -> str | None:
    """Ask the desk whether the file may be read; None where it serves no files."""
    try:
        reading = read(f"{uri}?start=0&length=0")
    except CarrelError as error:
        if getattr(error, "data", {}).get("name") == "MCP_NOT_FOUND":
            return None
        raise ValueError("no file of the project that may be read") from None
    canonical = str((reading.items[0].meta or {}).get("dev.carrel/uri", "")) if len(reading.items) == 1 else ""
    if not canonical.startswith(_WORKSPACE):
        raise ValueError("not in the project's own root")
    return decode(canonical.removeprefix(_WORKSPACE))


def _found_alone(project: Project, path: str) -> str:
    """Look for the file where no provider serves files: beneath the root, and nothing hidden."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or any(name.startswith(".") or "\\" in name for name in names):
        raise ValueError("no file of the project that may be read")
    try:
        with Root(project.root) as root, root.open(names) as opened:
            if opened.is_folder:
                raise ValueError("expected a file")
    except (SandboxError, OSError):
        raise ValueError("no file of the project that may be read") from None
    return "/".join(names)
