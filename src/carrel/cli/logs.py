"""Logs: `run` keeps the output of a command, `tail` prints a log, `logs push` sends a file to another desk."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from time import sleep, time_ns
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from carrel.cli import exit_codes, output, suggestions
from carrel.cli.completion import complete_uris
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options, with_project, with_server
from carrel.cli.stderr import say
from carrel.core.errors import BadArgument, CarrelError, ConfigError
from carrel.core.model import Reading, Text
from carrel.core.uri import with_query
from carrel.providers.logs.log import Bounds, Kind, State
from carrel.providers.logs.ring import Stream
from carrel.providers.logs.uris import ID

if TYPE_CHECKING:
    from carrel.providers.logs.sender import LogSender
    from carrel.providers.logs.spool import SpoolWriter

FOLLOW_S: Final = 0.2
_NAME_LENGTH: Final = 64
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_CHUNK: Final = 1 << 15


class LogCopy:
    """Writes a command's output to a log on disk. If that fails, prints one warning and stops writing."""

    def __init__(self, options: CommandOptions, kind: Kind, name: str, program: str) -> None:
        from carrel.providers.logs import spool  # not for `tail`

        self._writer: SpoolWriter | None = None
        self._sender: LogSender | None = None
        try:
            config = options.config("logs")
            values = config.values("logs")
            bounds = {key: values[key] for key in ("max_bytes", "max_entries", "redact") if key in values}
            spool.prune(config.root, max(0, int(values.get("spool_logs", 64)) - 1))
            self._writer = spool.SpoolWriter(config.root, kind, name, program, Bounds(**bounds).check())
        except (OSError, CarrelError) as error:
            self._warn(error)
        self._say_uri("logging to")

    @property
    def id(self) -> str | None:
        """The id of the log; None if it cannot be written."""
        return None if self._writer is None else self._writer.uri.rpartition("/")[2]

    def send_to(self, sender: "LogSender") -> None:
        """Send the output to another desk too."""
        self._sender = sender

    def feed(self, stream: Stream, data: bytes) -> None:
        """Write bytes of the command's output."""
        self._try(lambda writer: writer.feed(stream, data))
        if self._sender is not None:
            self._sender.feed(stream, data)

    def flush(self) -> None:
        """Write a line that has no line end yet."""
        self._try(lambda writer: writer.flush())
        if self._sender is not None:
            self._sender.flush()

    def end(self, exit_code: int | None, state: State = "exited") -> None:
        """Write how the command ended."""
        self._try(lambda writer: writer.end(exit_code, state))
        self._say_uri("log:")
        if self._sender is not None and self._sender.end(exit_code, state):
            say(f"carrel: sent: {self._sender.uri} on {self._sender.desk}")

    def _say_uri(self, label: str) -> None:
        """Print the URI of the log on stderr; stdout belongs to the command."""
        if self._writer is not None:
            say(f"carrel: {label} {self._writer.uri}")

    def _try(self, write: Callable[["SpoolWriter"], None]) -> None:
        if self._writer is not None:
            try:
                write(self._writer)
            except OSError as error:
                self._warn(error)
                self._writer.close()
                self._writer = None

    def _warn(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        say(f"carrel: cannot write the log: {reason}")


@click.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option("--name", metavar="NAME", help="Name of the log. Default: the program's name.")
@click.option(
    "--kind",
    type=click.Choice(["run", "build"]),
    help="Kind of log: logs://run/ or logs://build/. Default: run; build for --to in a CI job.",
)
@click.option("--to", "desk", metavar="URL", help="Also send the log to the desk at URL. Its token is in CARREL_TOKEN.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@with_project
@click.pass_obj
def run(
    options: CommandOptions, name: str | None, kind: Kind | None, desk: str | None, command: tuple[str, ...]
) -> int:
    """Run a command and log its output. Assistants can read the log while the command runs."""
    _check_name(name)
    program = os.path.basename(command[0]) or command[0]
    name = name or _as_name(program)
    if desk is None:
        return _run(command, LogCopy(options, kind or "run", name, program))
    sending = Sending(desk, kind, program)
    log = LogCopy(options, sending.kind, name, program)
    log.send_to(sending.begin(log.id or _new_id(name)))
    return _run(command, log)


@click.group()
def logs() -> None:
    """Send logs to another desk."""


@logs.command()
@click.argument("file", type=click.File("rb"))
@click.option("--to", "desk", metavar="URL", required=True, help="The desk. Its token is in CARREL_TOKEN.")
@click.option("--name", metavar="NAME", help="Name of the log. Default: the file's name.")
@click.option("--kind", type=click.Choice(["run", "build"]), default="build", help="Kind of log. Default: build.")
@click.option("--exit-code", type=click.IntRange(0, 255), help="The exit code of the command that wrote the file.")
@with_command_options
@click.pass_obj
def push(
    options: CommandOptions, file: BinaryIO, desk: str, name: str | None, kind: Kind, exit_code: int | None
) -> int:
    """Send a text file as a log to another desk. FILE may be - for standard input."""
    _check_name(name)
    program = os.path.basename(file.name) if isinstance(file.name, str) and file.name != "<stdin>" else "stdin"
    sender = Sending(desk, kind, program).begin(_new_id(name or _as_name(program)))
    while data := file.read(_CHUNK):
        sender.feed("out", data)
        sender.wait_for_room()
    if not sender.end(exit_code, is_patient=True):
        return exit_codes.FAILED
    if options.is_json:
        output.print_json({"uri": sender.uri})
    else:
        say(f"carrel: sent: {sender.uri} on {sender.desk}")
    return exit_codes.DONE


class Sending:
    """A log that is sent to another desk: its address, its kind, and where it comes from."""

    def __init__(self, desk: str, kind: Kind | None, program: str) -> None:
        from carrel.client.desk_address import DeskAddress  # only with --to
        from carrel.providers.logs.sender import find_origin

        self._desk = DeskAddress(desk, os.environ.get("CARREL_TOKEN"))
        self._origin = find_origin(os.environ)
        self._program = program
        self.kind: Kind = kind or ("build" if self._origin.description else "run")

    def begin(self, log_id: str) -> "LogSender":
        """Begin to send a log."""
        from carrel.providers.logs.sender import LogSender  # only with --to

        def warn(problem: str) -> None:
            say(f"carrel: {problem}")

        return LogSender(self._desk, self.kind, log_id, self._program, self._origin, warn).start()


def _check_name(name: str | None) -> None:
    if name is not None and (not ID.fullmatch(name) or len(name) > _NAME_LENGTH):
        raise ConfigError(f"--name {name}: use letters, digits, '.', '_' and '-', at most {_NAME_LENGTH} characters")


def _new_id(name: str) -> str:
    return f"{name}_{time_ns() // 1_000}"


def _run(command: Sequence[str], log: LogCopy) -> int:
    from carrel.cli import terminal  # not for `tail`

    try:
        code = terminal.run(command, os.environ, log)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such program" if missing else "cannot be executed"
        say(f"carrel: {command[0]}: {reason}")
        log.feed("err", f"not started: {reason}\n".encode())
        log.end(None, "not-started")
        return _NOT_FOUND if missing else _NOT_EXECUTABLE
    log.end(code)
    return code


def _as_name(program: str) -> str:
    """Return a program's name with only the characters of an id."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", program)[: _NAME_LENGTH - 1]
    return name if ID.fullmatch(name) else f"_{name}"


@click.command()
@click.argument("uri", shell_complete=complete_uris)
@click.option("-f", "--follow", is_flag=True, help="Wait for more until the process ends.")
@with_project
@with_server
@click.pass_obj
def tail(options: CommandOptions, uri: str, follow: bool) -> int:
    """Print a log. With -f, wait for more until its process ends. `carrel ls logs:` lists all logs."""
    with options.client() as client:
        uri, reading = suggestions.read(options, client, uri)
        meta = _meta(reading)
        if "dev.carrel/cursor" not in meta:
            raise BadArgument(f"{uri} is not a log; read it with carrel cat")
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
