"""A project whose logs can be looked at: real children, a real spool, and calls as a server makes them."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from carrel.catalog.catalog import Catalog
from carrel.core.model import Reading, Text, ToolResult
from carrel.core.provider import Program, Project
from carrel.core.store_address import StoreAddress
from carrel.providers.logs import Logs
from carrel.providers.logs.log import Bounds, Kind
from carrel.providers.logs.settings import CommandSettings, FlutterSettings, ProcessSettings
from carrel.providers.logs.spool import SpoolWriter
from carrel.stores.shared import acquire, release
from tests.support.waiting import until


class Caller:
    """A tool call that keeps what it is told, and can be given up."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str | None]] = []
        self._stops: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.client = ""
        self.cancelled = False

    def on_cancel(self, stop: Callable[[], None]) -> None:
        with self._lock:
            self._stops.append(stop)
        if self.cancelled:
            stop()

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        self.told.append((value, total, message))

    def cancel(self) -> None:
        self.cancelled = True
        with self._lock:
            stops = tuple(self._stops)
        for stop in stops:
            stop()


def command(script: str, **settings: Any) -> CommandSettings:
    """Return a command that runs a shell script."""
    return CommandSettings([Program("sh"), Program("-c"), Program(script)], **settings)


def logs(
    root: Path,
    commands: Mapping[str, CommandSettings] | None = None,
    flutter: FlutterSettings | None = None,
    processes: ProcessSettings | None = None,
    **settings: Any,
) -> Logs:
    """Return the provider of a project."""
    environment = {"PATH": os.environ["PATH"], "CARREL_TOKEN": "secret", "HOME": str(root)}
    given = processes or ProcessSettings(grace_s=0.3)
    project = Project(str(root), environment, store=_team[0] if _team else None)
    provider = Logs(project, flutter=flutter, processes=given, commands=dict(commands or {}), **settings)
    if _team:
        _made.append(provider)
    return provider


def spool_root(root: Path) -> Path:
    """Return the folder in which the last provider of a project has the logs of other machines."""
    team = vars(_made[-1])["_team"] if _made else None
    return root if team is None else Path(team[0].root)


_team: list[StoreAddress] = []
"""The address of the store that is used in place of the project's folder for logs of other machines, if any."""
_made: list[Logs] = []


@contextmanager
def in_team(address: StoreAddress, *, is_emptied: bool = True) -> Iterator[None]:
    """Make all projects keep logs of other machines in a team's store meanwhile."""
    database = acquire(address)
    if is_emptied:
        with database.writing("logs", 20.0) as session:
            session.execute("DELETE FROM carrel_logs")
    _team.append(address)
    try:
        yield
    finally:
        _team.clear()
        for provider in _made:
            provider.close()
        _made.clear()
        release(database)


def call(provider: Logs, tool: str, /, caller: Caller | None = None, **arguments: Any) -> ToolResult:
    """Call a tool."""
    return provider.call(tool, arguments, caller or Caller())


def answer(result: ToolResult) -> dict[str, Any]:
    """Return the structured part of a result."""
    assert isinstance(result.structured, dict), result
    return result.structured


def read(provider: Logs, uri: str) -> Reading:
    """Return what the reader of a URI gives, before a range is cut."""
    given = Catalog([provider]).find(uri).read()
    assert isinstance(given, Reading)
    return given


def text(provider: Logs, uri: str) -> str:
    """Return what a read gives."""
    [item] = read(provider, uri).items
    assert isinstance(item, Text)
    return item.text


def meta(provider: Logs, uri: str) -> dict[str, Any]:
    """Return what a read tells beside the text, without the keys' prefix."""
    [item] = read(provider, uri).items
    return {key.removeprefix("dev.carrel/"): value for key, value in (item.meta or {}).items()}


def ended(provider: Logs, uri: str) -> dict[str, Any]:
    """Wait until a log has ended; return what is told of it."""
    until(lambda: meta(provider, uri)["state"] != "running")
    return meta(provider, uri)


def writer(root: Path, name: str = "make", kind: Kind = "run", **bounds: Any) -> SpoolWriter:
    """Begin a log as `carrel run` does."""
    return SpoolWriter(str(root), kind, name, name, Bounds(**bounds))
