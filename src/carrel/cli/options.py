"""Options that may stand before or after a command, with the same effect."""

from collections.abc import Callable
from typing import Any

import click

from carrel.cli.context import CommandOptions

Command = Callable[..., Any]

WITH_OBJECTS = ("cat", "complete", "doctor", "explain", "ls", "serve", "templates")
"""The commands that take --with."""

WITH_SERVER = ("cat", "complete", "ls", "tail", "templates")
"""The commands that take --server."""

WITHOUT_JSON = ("run", "serve", "tail")


def with_project(command: Command) -> Command:
    """Add --project and --debug to a command."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_keep_debug, help="Print tracebacks of failures."
    )(command)
    return click.option(
        "--project",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        expose_value=False,
        callback=_keep_project,
        help="Use the folder DIR instead of the project that contains the working folder.",
    )(command)


def with_server(command: Command) -> Command:
    """Add --server to a command."""
    return click.option(
        "--server", metavar="COMMAND|URL", expose_value=False, callback=_keep_server, help="Ask another MCP server."
    )(command)


def with_objects(command: Command) -> Command:
    """Add --with to a command."""
    return click.option(
        "--with",
        metavar="FILE.py|MODULE:NAME",
        multiple=True,
        expose_value=False,
        callback=_keep_objects,
        help="Also serve a Python file or object. May be repeated.",
    )(command)


def with_json(command: Command) -> Command:
    """Add --json to a command."""
    return click.option("--json", is_flag=True, expose_value=False, callback=_keep_json, help="Print JSON.")(command)


def with_command_options(command: Command) -> Command:
    """Add --project, --debug and --json to a command."""
    return with_project(with_json(command))


def refuse_unused(options: CommandOptions, command: str | None) -> None:
    """Raise UsageError for an option before a command that the command does not take."""
    if options.server is not None and command not in WITH_SERVER:
        name = "carrel without a command" if command is None else command
        raise click.UsageError(f"{name} does not take --server; these commands do: {', '.join(WITH_SERVER)}")
    if options.objects and command is not None and command not in WITH_OBJECTS:
        raise click.UsageError(f"{command} does not take --with; these commands do: {', '.join(WITH_OBJECTS)}")
    if options.is_json and command in WITHOUT_JSON:
        raise click.UsageError(f"{command} does not take --json")


def _keep_project(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(CommandOptions).project = value


def _keep_server(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(CommandOptions).server = value


def _keep_objects(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
    context.ensure_object(CommandOptions).objects.extend(value)


def _keep_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(CommandOptions).is_json = True


def _keep_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(CommandOptions).is_debug = True
