"""The options that most commands share, and the project or server that they select."""

import contextlib
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from carrel.app.app import Desk, open_desk
from carrel.app.config import WITH, Config, load
from carrel.cli.named_objects import with_flags
from carrel.cli.withheld import SERVED, say_withheld
from carrel.client.client import Client
from carrel.core.errors import ConfigError, Unreachable

STARTUP_WAIT_S: Final = 15.0
"""How long a command waits for objects and mounts that are still starting."""


@dataclass(slots=True)
class CommandOptions:
    """The project or server that a command works on, and its output format."""

    project: str | None = None
    server: str | None = None
    is_json: bool = False
    is_debug: bool = False
    objects: list[str] = field(default_factory=list)
    """Python files and objects to serve in addition, from --with."""

    def words(self) -> list[str]:
        """Return these options as arguments of `carrel serve`."""
        named = [] if self.project is None else ["--project", self.project]
        return [*(["--debug"] if self.is_debug else []), *named, *(f"--with={one}" for one in self.objects)]

    def config(self, *needed: str, writes: bool = False) -> Config:
        """Return the configuration of the project; print which settings of the sections `needed` are not in effect."""
        flags = with_flags(self.objects)
        config = load(self.project, os.environ, flags, dict.fromkeys((flag[:2] for flag in flags), WITH))
        say_withheld(config, needed, writes=writes)
        return config

    @contextmanager
    def desk(self, *, prints_notes: bool = False) -> Iterator[Desk]:
        """Open the project's desk in this process. A command that `prints_notes` itself gets none on stderr."""
        config = self.config(*(() if prints_notes else SERVED))
        with contextlib.ExitStack() as until_closed:
            keep_stdout(config, until_closed)
            # A person prefers to wait until every object and mount has answered.
            desk = open_desk(config, STARTUP_WAIT_S, waits_for_all=True)
            until_closed.callback(desk.close)
            yield desk

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Open a client of the server in --server, or of the project's desk in this process."""
        if self.server is not None and self.objects:
            raise ConfigError(
                "--with serves more from this project, and --server asks another server: use only one of them"
            )
        if self.server is not None:
            with _reach(self.server) as client:
                yield client
            return
        with self.desk() as desk, Client.to(desk.server) as client:
            yield client


def keep_stdout(config: Config, until_closed: contextlib.ExitStack) -> None:
    """Keep stdout for this command if there are objects, whose code may print."""
    if any(section.startswith("objects.") for section in config.sections):
        from carrel.providers.objects.stdout_redirect import only_this_thread  # only where there is one

        until_closed.enter_context(only_this_thread())


def _reach(named: str) -> Client:
    """Connect to a server: by URL, with the token in CARREL_TOKEN if it is set, or by command."""
    if named.startswith(("http://", "https://")):
        token = os.environ.get("CARREL_TOKEN")
        try:
            return Client.at(named, headers={"Authorization": f"Bearer {token}"} if token else None)
        except Unreachable as error:
            if error.word != "denied":
                raise
            advice = "the token in CARREL_TOKEN was refused" if token else "set CARREL_TOKEN to a token of that server"
            raise Unreachable(error.code, f"{error}; {advice}", error.data) from None
    words = shlex.split(named)
    if not words:
        raise ConfigError("--server needs a command or a URL, such as --server 'carrel serve'")
    return Client.start(words)
