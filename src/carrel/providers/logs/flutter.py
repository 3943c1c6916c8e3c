"""The Flutter tools: their arguments, and command lines made only of checked values, one word each."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from carrel.core.arguments import Argument, ArgumentProblem, Arguments, InvalidArguments
from carrel.core.errors import CarrelError, echo
from carrel.core.model import Reading
from carrel.core.provider import Project
from carrel.core.record import Value
from carrel.core.uri import decode, quote
from carrel.files.sandbox import Root, SandboxError

Platform = Literal["android", "ios", "web", "macos", "windows", "linux"]

MODES: Final = ("debug", "profile", "release")
MAX_DEFINES: Final = 64
MAX_DEFINE_BYTES: Final = 4_096

_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DEFINE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_WORKSPACE: Final = "workspace:///"
_UNREADABLE: Final = "not a file of the project that may be read"
_NOT_DART: Final = "expected a .dart file of the project"
_BUILT: Final = {
    "android": ("build/app/outputs/flutter-apk/app-{mode}.apk",),
    "ios": ("build/ios/iphoneos/Runner.app", "build/ios/iphoneos"),
    "web": ("build/web",),
    "macos": ("build/macos/Build/Products/{Mode}",),
    "windows": ("build/windows/x64/runner/{Mode}", "build/windows/runner/{Mode}"),
    "linux": ("build/linux/x64/{mode}/bundle", "build/linux/arm64/{mode}/bundle"),
}
"""The place of a build's result."""

Debug = Annotated[bool, Argument(description="Debug mode.")]
Profile = Annotated[bool, Argument(description="Profile mode.")]
Release = Annotated[bool, Argument(description="Release mode.")]
Target = Annotated[
    str, Argument(description="The entry point: a path below the root, or a workspace URI.", examples=["lib/main.dart"])
]
DartDefine = Annotated[
    dict[str, Any],
    Argument(
        description="Compile-time variables, name to text.",
        extra_json_schema={"additionalProperties": {"type": "string"}},
    ),
]


class RunApp(Value, frozen=True, rename="camel"):
    """The arguments of `flutter.run`."""

    debug: Debug | None = None
    profile: Profile | None = None
    release: Release | None = None
    device_id: Annotated[str, Argument(description="The device to run on.")] | None = None
    target: Target | None = None
    dart_define: DartDefine | None = None


class BuildApp(Value, frozen=True, rename="camel"):
    """The arguments of `flutter.build`."""

    platform: Annotated[Platform, Argument(description="The platform to build for.")]
    debug: Debug | None = None
    profile: Profile | None = None
    release: Release | None = None
    target: Target | None = None
    dart_define: DartDefine | None = None


RUN: Final = Arguments(RunApp)
BUILD: Final = Arguments(BuildApp)


class FlutterOptions(Value, frozen=True):
    """The checked choices of a caller, and the words they become on the command line."""

    mode: str
    words: tuple[str, ...]
    platform: str = ""


def check(
    project: Project, arguments: Arguments[RunApp] | Arguments[BuildApp], given: Mapping[str, object]
) -> FlutterOptions:
    """Return the options of a run or a build; raise `InvalidArguments` with every problem."""
    values, problems = arguments.examine(given)

    def refuse(name: str, value: str, why: str) -> None:
        problems.append(ArgumentProblem(name, "invalid", f"Invalid argument: {value} ({why})"))

    modes = [mode for mode in MODES if values.get(mode)]
    if len(modes) > 1:
        refuse(modes[1], ", ".join(modes), "at most one of them can be true")
    mode = modes[0] if modes else "debug" if arguments is RUN else "release"
    words = [f"--{mode}"]
    device, target, defines = values.get("device_id"), values.get("target"), values.get("dart_define", {})
    if isinstance(device, str):
        words += ["-d", device]
        if not _DEVICE.fullmatch(device):
            refuse("deviceId", f"deviceId={echo(device)}", "expected letters, digits and . _ : -")
    if isinstance(target, str):
        try:
            words.append(f"--target={_find_target(project, target)}")
        except ValueError as error:
            refuse("target", f"target={echo(target)}", str(error))
    assert isinstance(defines, dict)
    for shown, why in _define_problems(defines):
        refuse("dartDefine", shown, why)
    if problems:
        raise InvalidArguments(problems)
    words += [f"--dart-define={name}={value}" for name, value in defines.items()]
    return FlutterOptions(mode, tuple(words), str(values.get("platform", "")))


def _define_problems(defines: Mapping[str, object]) -> list[tuple[str, str]]:
    problems = []
    if len(defines) > MAX_DEFINES:
        problems.append(("dartDefine", f"at most {MAX_DEFINES} of them"))
    for name, value in defines.items():
        if not _DEFINE.fullmatch(name):
            problems.append((f"dartDefine {echo(name)}", "expected a name of letters, digits, _ and ."))
        elif not isinstance(value, str) or _CONTROL.search(value) or len(value.encode()) > MAX_DEFINE_BYTES:
            expected = f"expected a string of at most {MAX_DEFINE_BYTES} bytes without control characters"
            problems.append((f"dartDefine {name}", expected))
    return problems


def _find_target(project: Project, given: str) -> str:
    """Return the path, relative to the root, of a file that may be read; raise ValueError with the reason."""
    if _CONTROL.search(given) or not given.endswith(".dart"):
        raise ValueError(_NOT_DART)
    is_uri = given.lower().startswith("workspace:")
    uri = given if is_uri else _WORKSPACE + "/".join([quote(part) for part in given.split("/")])
    path = _find_served(project.read, uri) if project.read is not None else None
    if path is None:
        path = _find_on_disk(project, given.partition(":")[2].lstrip("/") if is_uri else given)
    if not path.endswith(".dart"):
        raise ValueError(_NOT_DART)
    return path


def _find_served(read: Callable[[str], Reading], uri: str) -> str | None:
    """Return the path of a file that the catalog serves; None if it serves no files."""
    try:
        reading = read(f"{uri}?start=0&length=0")
    except CarrelError as error:
        if getattr(error, "data", {}).get("name") == "MCP_NOT_FOUND":
            return None
        raise ValueError(_UNREADABLE) from None
    canonical = str((reading.items[0].meta or {}).get("dev.carrel/uri", "")) if len(reading.items) == 1 else ""
    if not canonical.startswith(_WORKSPACE):
        raise ValueError("not in the project's own root")
    return decode(canonical.removeprefix(_WORKSPACE))


def _find_on_disk(project: Project, path: str) -> str:
    """Return the path of a file below the root that is not hidden, for a catalog that serves no files."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or any(name.startswith(".") or "\\" in name for name in names):
        raise ValueError(_UNREADABLE)
    try:
        with Root(project.root) as root, root.open(names) as opened:
            if opened.is_folder:
                raise ValueError("expected a file")
    except (SandboxError, OSError):
        raise ValueError(_UNREADABLE) from None
    return "/".join(names)


def find_executable(project: Project, executable: str) -> str | None:
    """Return the path of the program: a name is looked up in PATH, a path is relative to the root."""
    if os.sep in executable:
        places = [os.path.join(project.root, executable)]
    else:
        folders = project.environment.get("PATH", os.defpath).split(os.pathsep)
        # A relative folder in PATH would depend on the working folder of the server, so it is not used.
        places = [os.path.join(folder, executable) for folder in folders if os.path.isabs(folder)]
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)


def build_path(project: Project, options: FlutterOptions) -> str | None:
    """Return the path of a build's result, relative to the root, if it exists."""
    paths = (path.format(mode=options.mode, Mode=options.mode.capitalize()) for path in _BUILT[options.platform])
    return next((path for path in paths if os.path.exists(os.path.join(project.root, path))), None)
