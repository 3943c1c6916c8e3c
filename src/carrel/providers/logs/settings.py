"""The sections beside `[logs]`: `[flutter]`, `[processes]` and `[commands.<name>]`."""

import os
from collections.abc import Mapping
from typing import Final, Literal

from carrel.errors import ConfigError
from carrel.provider import Exposure, Program, Section
from carrel.providers.logs.log import Kind
from carrel.providers.logs.uris import ID

_NAME_LENGTH: Final = 64


class FlutterSettings(Section):
    """The section `[flutter]`: whether its tools are offered, and what they may take."""

    def __init__(
        self,
        tools: Literal["auto", "off"] = "auto",
        executable: Program = Program("flutter"),
        run_timeout_s: float = 3_600,
        build_timeout_s: float = 1_800,
        doctor_timeout_s: float = 300,
        max_runs: int = 2,
        max_builds: int = 3,
    ) -> None:
        for name, seconds in (
            ("run_timeout_s", run_timeout_s),
            ("build_timeout_s", build_timeout_s),
            ("doctor_timeout_s", doctor_timeout_s),
        ):
            _check_least(f"[flutter] {name}", seconds, 0)
        _check_least("[flutter] max_runs", max_runs, 0)
        _check_least("[flutter] max_builds", max_builds, 0)
        if not executable or "\0" in executable:
            raise ConfigError("[flutter] executable: expected the name of a program or its path")
        self.tools = tools
        self.executable = executable
        self.run_timeout_s = run_timeout_s
        self.build_timeout_s = build_timeout_s
        self.doctor_timeout_s = doctor_timeout_s
        self.max_runs = max_runs
        self.max_builds = max_builds


class ProcessSettings(Section):
    """The section `[processes]`: what holds for all children."""

    def __init__(
        self,
        max_running: int = 10,
        start_wait_ms: int = 500,
        grace_s: float = 5,
        remote: Exposure = Exposure(False),
    ) -> None:
        _check_least("[processes] max_running", max_running, 0)
        _check_least("[processes] start_wait_ms", start_wait_ms, 0)
        _check_least("[processes] grace_s", grace_s, 0)
        self.max_running = max_running
        self.start_wait_s = start_wait_ms / 1_000
        self.grace_s = grace_s
        self.remote = remote


class Command(Section):
    """A section `[commands.<name>]`: a program an assistant may start by that name, and nothing else."""

    def __init__(
        self,
        argv: list[Program],
        cwd: str = ".",
        env: dict[str, str] | None = None,
        kind: Kind = "run",
        wait: bool | None = None,
        timeout_s: float | None = None,
        max_running: int = 1,
        description: str = "",
    ) -> None:
        if not argv or not argv[0]:
            raise ConfigError("[commands] argv: expected a program and its arguments")
        given = env or {}
        if any("\0" in word for word in (*argv, cwd, *given, *given.values())) or any("=" in name for name in given):
            raise ConfigError("[commands]: a NUL, or = in a variable's name, cannot be given to a program")
        _check_least("[commands] timeout_s", timeout_s or 0, 0)
        _check_least("[commands] max_running", max_running, 0)
        self.argv = tuple(argv)
        self.cwd = cwd
        self.env = given
        self.kind: Kind = kind
        self.wait = kind == "build" if wait is None else wait
        self.timeout_s = timeout_s if timeout_s is not None else 3_600 if kind == "run" else 1_800
        self.max_running = max_running
        self.description = description


def check_commands(root: str, commands: Mapping[str, Command]) -> None:
    """Refuse names that make no ids, and working folders outside the root."""
    real = os.path.realpath(root)
    for name, command in commands.items():
        if not ID.fullmatch(name) or len(name) > _NAME_LENGTH:
            raise ConfigError(f"[commands] {name!r}: a name is letters, digits and . _ -, at most {_NAME_LENGTH}")
        place = os.path.realpath(os.path.join(real, command.cwd))
        if os.path.commonpath((place, real)) != real:
            raise ConfigError(f"[commands.{name}] cwd: {command.cwd} is not below the project's root")


def _check_least(key: str, value: float, least: float) -> None:
    if not least <= value < float("inf"):
        raise ConfigError(f"{key}: expected a number, {least} or more, got {value}")
