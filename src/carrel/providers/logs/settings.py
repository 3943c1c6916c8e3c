"""The sections beside `[logs]`: `[flutter]`, `[processes]` and `[commands.<name>]`."""

import os
from collections.abc import Mapping
from math import inf
from typing import Final, Literal

from carrel.core.errors import ConfigError
from carrel.core.provider import Exposure, Program, Section
from carrel.files.sandbox import is_inside
from carrel.providers.logs.log import Kind
from carrel.providers.logs.uris import ID

_NAME_LENGTH: Final = 64


class FlutterSettings(Section, frozen=True):
    """The section `[flutter]`: whether its tools are offered, and their limits."""

    tools: Literal["auto", "off"] = "auto"
    executable: Program = Program("flutter")
    run_timeout_s: float = 3_600
    build_timeout_s: float = 1_800
    doctor_timeout_s: float = 300
    max_runs: int = 2
    max_builds: int = 3

    def __post_init__(self) -> None:
        self.check(0, inf, "run_timeout_s", "build_timeout_s", "doctor_timeout_s", "max_runs", "max_builds")
        if not self.executable or "\0" in self.executable:
            raise ConfigError("executable: expected the name of a program or its path")


class ProcessSettings(Section, frozen=True):
    """The section `[processes]`: limits for all children, and how long a call waits for an early exit."""

    max_running: int = 10
    start_wait_ms: int = 500
    grace_s: float = 5
    remote: Exposure = Exposure(False)

    def __post_init__(self) -> None:
        self.check(0, inf, "max_running", "start_wait_ms", "grace_s")


class CommandSettings(Section, frozen=True):
    """A section `[commands.<name>]`: a program that an assistant may start by this name."""

    argv: list[Program]
    cwd: str = "."
    env: dict[str, str] | None = None
    kind: Kind = "run"
    wait: bool | None = None
    timeout_s: float | None = None
    max_running: int = 1
    description: str = ""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ConfigError("argv: expected a program and its arguments")
        given = self.env or {}
        words = (*self.argv, self.cwd, *given, *given.values())
        if any("\0" in word for word in words) or any("=" in name for name in given):
            raise ConfigError("argv and env must not contain NUL, nor the name of a variable =")
        self.check(0, inf, "max_running", *(() if self.timeout_s is None else ("timeout_s",)))

    @property
    def is_waited_for(self) -> bool:
        """Whether a call waits for the end: for a build, unless `wait` says otherwise."""
        return self.kind == "build" if self.wait is None else self.wait

    @property
    def time_s(self) -> float:
        """The time limit."""
        return self.timeout_s if self.timeout_s is not None else 3_600 if self.kind == "run" else 1_800


def check_commands(root: str, commands: Mapping[str, CommandSettings]) -> None:
    """Refuse names that are not valid in ids, and working folders outside the root."""
    for name, command in commands.items():
        if not ID.fullmatch(name) or len(name) > _NAME_LENGTH:
            raise ConfigError(f"[commands] {name!r}: a name is letters, digits and . _ -, at most {_NAME_LENGTH}")
        if not is_inside(os.path.join(root, command.cwd), root):
            raise ConfigError(f"[commands.{name}] cwd: {command.cwd} is not below the project's root")


def is_flutter_project(root: str) -> bool:
    """Return whether the root holds a Flutter project."""
    return os.path.isfile(os.path.join(root, "pubspec.yaml"))
