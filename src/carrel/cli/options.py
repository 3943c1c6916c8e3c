"""Options that stand before and after a command alike: what one says holds for the whole line."""

from collections.abc import Callable
from typing import Any

import click

from carrel.cli.context import Choices

Command = Callable[..., Any]

WITH_OBJECTS = ("cat", "complete", "doctor", "explain", "ls", "serve", "templates")
"""The commands that serve Python files and objects too, if they are named."""

ASKING = ("cat", "complete", "ls", "tail", "templates")
"""The commands that can ask another server; the others are about the project itself."""

WITHOUT_JSON = ("run", "serve", "tail")


def with_project(command: Command) -> Command:
    """Take --project and --debug."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_keep_debug, help="Show where a failure comes from."
    )(command)
    return click.option(
        "--project",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        expose_value=False,
        callback=_keep_project,
        help="The folder DIR, instead of the project around the working folder.",
    )(command)


def with_server(command: Command) -> Command:
    """Take --server."""
    told = "Ask another MCP server."
    return click.option("--server", metavar="COMMAND|URL", expose_value=False, callback=_keep_server, help=told)(
        command
    )


def with_objects(command: Command) -> Command:
    """Take --with."""
    return click.option(
        "--with",
        metavar="FILE.py|MODULE:THING",
        multiple=True,
        expose_value=False,
        callback=_keep_objects,
        help="Serve a Python file or object too; may be repeated.",
    )(command)


def with_json(command: Command) -> Command:
    """Take --json."""
    return click.option("--json", is_flag=True, expose_value=False, callback=_keep_json, help="Print JSON.")(command)


def with_choices(command: Command) -> Command:
    """Take what every command has that prints something about the project."""
    return with_project(with_json(command))


def refuse_unused(choices: Choices, command: str | None) -> None:
    """Say of an option before a command that the command has no use for it."""
    if choices.server is not None and command not in ASKING:
        who = "carrel alone" if command is None else command
        raise click.UsageError(f"{who} has no --server; these have: {', '.join(ASKING)}")
    if choices.objects and command is not None and command not in WITH_OBJECTS:
        raise click.UsageError(f"{command} has no --with; these have: {', '.join(WITH_OBJECTS)}")
    if choices.is_json and command in WITHOUT_JSON:
        raise click.UsageError(f"{command} has no --json")


def _keep_project(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Choices).project = value


def _keep_server(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Choices).server = value


def _keep_objects(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> None:
    context.ensure_object(Choices).objects.extend(value)


def _keep_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Choices).is_json = True


def _keep_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Choices).is_debug = True
