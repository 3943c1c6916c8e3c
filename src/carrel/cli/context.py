"""Which project or server a command is about, and how it prints."""

import contextlib
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from carrel.app.app import Desk, open_desk
from carrel.app.config import Config, load
from carrel.cli.named_objects import object_flags
from carrel.client.client import Client
from carrel.core.errors import ConfigError, Unreachable

GUESTS_S: Final = 15.0
"""How long a command waits for objects and mounts that are still starting."""


@dataclass(slots=True)
class Choices:
    """What was said before the command: which project or server, and how to print."""

    project: str | None = None
    server: str | None = None
    is_json: bool = False
    is_debug: bool = False
    objects: list[str] = field(default_factory=list)
    """Python files and objects that are served too."""

    def words(self) -> list[str]:
        """Give what was chosen as `serve` has it after its name."""
        named = [] if self.project is None else ["--project", self.project]
        return [*(["--debug"] if self.is_debug else []), *named, *(f"--with={one}" for one in self.objects)]

    def config(self) -> Config:
        """Gather the settings of the project."""
        return load(self.project, os.environ, object_flags(self.objects))

    @contextmanager
    def desk(self) -> Iterator[Desk]:
        """Open the project's desk in this process."""
        config = self.config()
        with contextlib.ExitStack() as until_closed:
            if any(section.startswith("objects.") for section in config.sections):
                from carrel.providers.objects.stdout_redirect import only_this_thread  # only where there is one

                until_closed.enter_context(only_this_thread())
            # A person waits until everything is there.
            desk = open_desk(config, GUESTS_S, waits_for_all=True)
            until_closed.callback(desk.close)
            yield desk

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Ask the server that was named, or the project's own desk: the same way either way."""
        if self.server is not None and self.objects:
            raise ConfigError("--with adds to the desk of a project, --server asks another server: give one of them")
        if self.server is not None:
            with _reach(self.server) as client:
                yield client
            return
        with self.desk() as desk, Client.to(desk.server) as client:
            yield client


def _reach(named: str) -> Client:
    """Reach a server: at an address, with the token in CARREL_TOKEN if there is one, or by its command."""
    if named.startswith(("http://", "https://")):
        token = os.environ.get("CARREL_TOKEN")
        try:
            return Client.at(named, headers={"Authorization": f"Bearer {token}"} if token else None)
        except Unreachable as error:
            if error.word != "denied":
                raise
            told = "CARREL_TOKEN holds the one that was sent" if token else "put it in CARREL_TOKEN, which is not set"
            raise Unreachable(error.code, f"{error}; {told}", error.data) from None
    words = shlex.split(named)
    if not words:
        raise ConfigError("--server needs a command or an address, as --server 'carrel serve'")
    return Client.start(words)
