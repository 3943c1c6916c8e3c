"""Options that have the same effect before and after a command, and groups of lazily imported commands."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from carrel.cli.context import CommandOptions

Command = Callable[..., object]

WITH_OBJECTS = ("cat", "complete", "connect", "doctor", "explain", "ls", "open", "search", "serve", "templates")
"""The commands that take --with."""

WITH_SERVER = ("cat", "complete", "ls", "tail", "templates")
"""The commands that take --server."""

WITHOUT_JSON = ("completion", "open", "run", "serve", "tail")


class LazyGroup(click.Group):
    """A group whose commands in `lazy` are imported when they are used: by name, as `module:attribute`."""

    lazy: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, also of those that are not imported yet."""
        return sorted((*super().list_commands(ctx), *self.lazy))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; import it if it is lazy."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


def _shared(name: str, flag: str, **settings: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds an option; its value is kept in the field `name` of `CommandOptions`."""

    def keep(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        options = context.ensure_object(CommandOptions)
        if isinstance(value, tuple):
            options.objects.extend(value)
        elif value not in (None, False):
            setattr(options, name, value)

    return click.option(flag, expose_value=False, callback=keep, **settings)


with_debug = _shared("is_debug", "--debug", is_flag=True, help="Print tracebacks of failures.")
_with_folder = _shared(
    "project",
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Use the folder DIR instead of the project that contains the working folder.",
)
with_json = _shared("is_json", "--json", is_flag=True, help="Print JSON.")

with_server = _shared(
    "server", "--server", metavar="COMMAND|URL", help="Use another MCP server instead of this project's."
)
with_objects = _shared(
    "objects",
    "--with",
    metavar="FILE.py|MODULE:NAME",
    multiple=True,
    help="Also serve a Python file or object. May be repeated.",
)


def with_project(command: Command) -> Command:
    """Add --project and --debug to a command."""
    return _with_folder(with_debug(command))


def with_command_options(command: Command) -> Command:
    """Add --project, --debug and --json to a command."""
    return with_project(with_json(command))


def with_source(command: Command) -> Command:
    """Add the options of a command that reads what is served: those of all commands, --with and --server."""
    return with_command_options(with_objects(with_server(command)))


def refuse_unused(options: CommandOptions, command: str | None) -> None:
    """Raise UsageError for an option before a command that the command does not take."""
    if options.server is not None and command not in WITH_SERVER:
        name = "carrel without a command" if command is None else command
        raise click.UsageError(f"{name} does not take --server; these commands do: {', '.join(WITH_SERVER)}")
    if options.objects and command is not None and command not in WITH_OBJECTS:
        raise click.UsageError(f"{command} does not take --with; these commands do: {', '.join(WITH_OBJECTS)}")
    if options.is_json and command in WITHOUT_JSON:
        raise click.UsageError(f"{command} does not take --json")
