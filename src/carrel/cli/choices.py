"""Which project or server a command is about, and how it prints."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from carrel.client import Client
from carrel.config import Config, load
from carrel.desk import Desk, open_desk
from carrel.errors import ConfigError


@dataclass(slots=True)
class Choices:
    """What was said before the command: which project or server, and how to print."""

    project: str = "."
    server: str | None = None
    is_json: bool = False

    def config(self) -> Config:
        """Gather the settings of the project."""
        return load(self.project, os.environ)

    @contextmanager
    def desk(self) -> Iterator[Desk]:
        """Open the project's desk in this process."""
        desk = open_desk(self.config())
        try:
            yield desk
        finally:
            desk.close()

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Ask the server that was named, or the project's own desk: the same way either way."""
        if self.server is not None:
            with Client.start(_command(self.server)) as client:
                yield client
            return
        with self.desk() as desk, Client.to(desk.server) as client:
            yield client


def _command(named: str) -> list[str]:
    if named.startswith(("http://", "https://")):
        raise ConfigError(f"--server {named}: only a command can be asked so far, as --server 'carrel serve'")
    words = shlex.split(named)
    if not words:
        raise ConfigError("--server needs a command, as --server 'carrel serve'")
    return words
