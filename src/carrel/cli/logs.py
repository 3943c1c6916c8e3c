"""`run` and `tail`: keep what a command writes where every server of the project can read it; follow a log."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from time import sleep
from typing import TYPE_CHECKING, Final

import click

from carrel.cli import exit_codes, output, suggestions
from carrel.cli.context import Choices
from carrel.cli.options import with_project, with_server
from carrel.cli.stderr import say
from carrel.core.errors import BadArgument, CarrelError, ConfigError
from carrel.core.model import Reading, Text
from carrel.core.uri import with_query
from carrel.providers.logs.log import Bounds, Kind, State
from carrel.providers.logs.ring import Stream
from carrel.providers.logs.uris import ID

if TYPE_CHECKING:
    from carrel.providers.logs.spool import SpoolWriter

FOLLOW_S: Final = 0.2
_NAME_LENGTH: Final = 64
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class Keeping:
    """Keeps a log on disk as long as that works; the command runs on without it, with one warning."""

    def __init__(self, choices: Choices, kind: Kind, name: str, program: str) -> None:
        from carrel.providers.logs import spool  # not for `tail`

        self._writer: SpoolWriter | None = None
        try:
            config = choices.config()
            values = config.values("logs")
            chosen = {key: values[key] for key in ("max_bytes", "max_entries", "redact") if key in values}
            spool.prune(config.root, max(0, int(values.get("spool_logs", 64)) - 1))
            self._writer = spool.SpoolWriter(config.root, kind, name, program, Bounds(**chosen).check())
        except (OSError, CarrelError) as error:
            self._warn(error)
        self._tell("logged as")

    def feed(self, stream: Stream, data: bytes) -> None:
        """Keep what the command wrote."""
        self._try(lambda writer: writer.feed(stream, data))

    def flush(self) -> None:
        """Keep a line that has not ended."""
        self._try(lambda writer: writer.flush())

    def end(self, exit_code: int | None, state: State = "exited") -> None:
        """Record the end."""
        self._try(lambda writer: writer.end(exit_code, state))
        self._tell("its log is")

    def _tell(self, what: str) -> None:
        """Print the URI of the log, for a person to pass on; not on the output, which is the command's."""
        if self._writer is not None:
            say(f"carrel: {what} {self._writer.uri}")

    def _try(self, write: Callable[["SpoolWriter"], None]) -> None:
        if self._writer is not None:
            try:
                write(self._writer)
            except OSError as error:
                self._warn(error)
                self._writer.close()
                self._writer = None

    def _warn(self, error: Exception) -> None:
        told = error.strerror if isinstance(error, OSError) else str(error)
        say(f"carrel: the log is not kept: {told}")


@click.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option("--name", metavar="NAME", help="How its log is called; the program's name if not given.")
@click.option("--kind", type=click.Choice(["run", "build"]), default="run", help="Which kind of log it is.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@with_project
@click.pass_obj
def run(choices: Choices, name: str | None, kind: Kind, command: tuple[str, ...]) -> int:
    """Run any command as always; its output is a log on every Carrel server of this project."""
    if name is not None and (not ID.fullmatch(name) or len(name) > _NAME_LENGTH):
        raise ConfigError(f"--name {name}: a name is letters, digits and . _ -, at most {_NAME_LENGTH}")
    program = os.path.basename(command[0]) or command[0]
    keeping = Keeping(choices, kind, name or _as_name(program), program)
    return _run(command, keeping)


def _run(command: Sequence[str], keeping: Keeping) -> int:
    from carrel.cli import terminal  # not for `tail`

    try:
        code = terminal.run(command, os.environ, keeping)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        told = "there is no such program" if missing else "it cannot be run"
        say(f"carrel: {command[0]}: {told}")
        keeping.feed("err", f"not started: {told}\n".encode())
        keeping.end(None, "not-started")
        return _NOT_FOUND if missing else _NOT_EXECUTABLE
    keeping.end(code)
    return code


def _as_name(program: str) -> str:
    """Make a program's name fit for an id."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", program)[: _NAME_LENGTH - 1]
    return name if ID.fullmatch(name) else f"_{name}"


@click.command()
@click.argument("uri")
@click.option("-f", "--follow", is_flag=True, help="Go on until the log ends.")
@with_project
@with_server
@click.pass_obj
def tail(choices: Choices, uri: str, follow: bool) -> int:
    """Print a log; with -f, go on printing until its process ends."""
    with choices.client() as client:
        uri, reading = suggestions.read(choices, client, uri)
        meta = _meta(reading)
        if "dev.carrel/cursor" not in meta:
            raise BadArgument(f"{uri} is no log; read it with carrel cat")
        _print(reading, missed=0)
        while follow and meta.get("dev.carrel/state") == "running":
            sleep(FOLLOW_S)
            reading = client.read(with_query(uri, since=int(str(meta["dev.carrel/cursor"]))))
            meta = _meta(reading)
            _print(reading, missed=int(str(meta.get("dev.carrel/missed", 0))))
    return exit_codes.DONE


def _print(reading: Reading, *, missed: int) -> None:
    if missed:
        say(f"carrel: {missed} entries were dropped before they could be read")
    for item in reading.items:
        if isinstance(item, Text):
            output.print_text(item.text, "")
    sys.stdout.flush()


def _meta(reading: Reading) -> dict[str, object]:
    return dict(reading.items[0].meta or {}) if len(reading.items) == 1 else {}
