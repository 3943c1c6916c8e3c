"""The click application: every command with its options."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar, Final

import click

from carrel.cli import exit_codes
from carrel.cli.context import CommandOptions
from carrel.cli.options import refuse_unused, with_command_options, with_objects, with_server
from carrel.cli.stderr import say, set_up_logging
from carrel.core.version import __version__

_COMPLETION: Final = "_CARREL_COMPLETE"
"""The variable that a shell sets to ask for completions."""


class Commands(click.Group):
    """The top-level commands. Those in `lazy` are imported when they are used."""

    lazy: ClassVar[dict[str, str]] = {
        "run": "carrel.cli.logs:run",
        "sage": "carrel.cli.sage:sage",
        "scopes": "carrel.cli.scopes:scopes",
        "tail": "carrel.cli.logs:tail",
    }
    """Commands and groups by name, as `module:attribute`."""

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


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="carrel")
@with_command_options
@with_objects
@with_server
@click.pass_context
def app(context: click.Context) -> None:
    """Serve a project's files, logs, memory and tasks to AI assistants as MCP resources.

    Without a command, show what is served for this folder.
    """
    options = context.ensure_object(CommandOptions)
    refuse_unused(options, context.invoked_subcommand)
    if context.invoked_subcommand is None:
        from carrel.cli.overview import show  # each command imports what it needs

        show(options)


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.pass_context
def serve(context: click.Context) -> int:
    """Serve MCP on stdin and stdout. Hosts start this command."""
    from carrel.cli.serve import OPTIONS, run  # reached only for --help or with options before `serve`

    if not {"-h", "--help"} & set(context.args):
        return run([*context.ensure_object(CommandOptions).words(), *context.args])
    click.echo("Usage: carrel serve [OPTIONS] [FILE.py|MODULE:NAME]...\n\n  Serve MCP on stdin and stdout.\n\nOptions:")
    width = max(len(f"{option.flag} {option.value}") for option in OPTIONS)
    for option in OPTIONS:
        click.echo(f"  {f'{option.flag} {option.value}'.ljust(width)}  {option.help}")
    return exit_codes.DONE


@app.command()
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of results.")
@with_command_options
@with_objects
@with_server
@click.pass_obj
def ls(options: CommandOptions, prefix: str, limit: int | None) -> None:
    """List resources. With PREFIX, list only URIs that begin with it."""
    from carrel.cli.read import list_resources

    list_resources(options, prefix, limit)


@app.command()
@click.argument("uri")
@click.option("--start", type=click.IntRange(min=0), help="First byte to print, counted from 0.")
@click.option("--length", type=click.IntRange(min=0), help="Number of bytes to print.")
@with_command_options
@with_objects
@with_server
@click.pass_obj
def cat(options: CommandOptions, uri: str, start: int | None, length: int | None) -> None:
    """Print the content of a resource."""
    from carrel.cli.read import read_resource

    read_resource(options, uri, start, length)


@app.command()
@with_command_options
@with_objects
@with_server
@click.pass_obj
def templates(options: CommandOptions) -> None:
    """Show the URI templates."""
    from carrel.cli.read import list_templates

    list_templates(options)


@app.command()
@click.argument("template")
@click.argument("variable")
@click.argument("value", default="")
@click.option(
    "--given", "context", metavar="NAME=VALUE", multiple=True, help="Value of another variable of the template."
)
@with_command_options
@with_objects
@with_server
@click.pass_obj
def complete(options: CommandOptions, template: str, variable: str, value: str, context: tuple[str, ...]) -> None:
    """Print values for a template's VARIABLE that begin with VALUE."""
    from carrel.cli.read import complete_variable

    complete_variable(options, template, variable, value, dict(_pair(one) for one in context))


def _pair(text: str) -> tuple[str, str]:
    name, is_assigned, value = text.partition("=")
    if not is_assigned:
        raise click.BadParameter(f"{text}: write it as NAME=VALUE")
    return name, value


@app.command()
@click.argument("uri")
@with_command_options
@with_objects
@click.pass_obj
def explain(options: CommandOptions, uri: str) -> None:
    """Explain why a URI is served or refused."""
    from carrel.cli.read import explain_uri

    explain_uri(options, uri)


@app.command()
@with_command_options
@with_objects
@click.pass_obj
def doctor(options: CommandOptions) -> int:
    """Check that everything works here. Problems are shown with their solution."""
    from carrel.cli.doctor import examine

    return examine(options)


@app.group()
def token() -> None:
    """Create, list and revoke tokens for `carrel serve --http`."""


@token.command("add")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    metavar="SCHEME:RIGHT",
    multiple=True,
    help="A permission, such as workspace:read. Without it, the token may do everything.",
)
@with_command_options
@click.pass_obj
def token_add(options: CommandOptions, name: str, scopes: tuple[str, ...]) -> None:
    """Create a token and print it. It is shown only once."""
    from carrel.cli.tokens import add_token

    add_token(options, name, scopes)


@token.command("list")
@with_command_options
@click.pass_obj
def token_list(options: CommandOptions) -> None:
    """List the tokens and their permissions."""
    from carrel.cli.tokens import list_tokens

    list_tokens(options)


@token.command("revoke")
@click.argument("name")
@with_command_options
@click.pass_obj
def token_revoke(options: CommandOptions, name: str) -> None:
    """Revoke a token. A running server refuses it within a second."""
    from carrel.cli.tokens import revoke_token

    revoke_token(options, name)


@app.group()
def config() -> None:
    """Show, check and change the configuration."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@with_command_options
@click.pass_obj
def config_show(options: CommandOptions, origin: bool) -> None:
    """Print all settings in effect."""
    from carrel.cli.config import show_config

    show_config(options, with_origin=origin)


@config.command("get")
@click.argument("name", metavar="SECTION.KEY")
@with_command_options
@click.pass_obj
def config_get(options: CommandOptions, name: str) -> None:
    """Print the value of one setting."""
    from carrel.cli.config_edit import get_value

    get_value(options, name)


@config.command("set")
@click.argument("name", metavar="SECTION.KEY")
@click.argument("value")
@click.option("--user", "is_users", is_flag=True, help="Write to your user file instead of the project's file.")
@with_command_options
@click.pass_obj
def config_set(options: CommandOptions, name: str, value: str, is_users: bool) -> None:
    """Write one setting to the project's file. Comments and order are kept.

    VALUE is checked first. Separate the items of a list with commas: carrel config set workspace.allow '*.sql,docs/'
    """
    from carrel.cli.config_edit import set_value

    set_value(options, name, value, is_users=is_users)


@config.command("unset")
@click.argument("name", metavar="SECTION.KEY")
@click.option("--user", "is_users", is_flag=True, help="Change your user file instead of the project's file.")
@with_command_options
@click.pass_obj
def config_unset(options: CommandOptions, name: str, is_users: bool) -> None:
    """Remove one setting from the project's file."""
    from carrel.cli.config_edit import unset_value

    unset_value(options, name, is_users=is_users)


@config.command("validate")
@with_command_options
@click.pass_obj
def config_validate(options: CommandOptions) -> None:
    """Check the configuration. Settings that are not in effect are shown with the reason."""
    from carrel.cli.config import validate_config

    validate_config(options)


@app.command()
@click.option("--list", "is_list", is_flag=True, help="List the files you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting this project's files.")
@with_command_options
@click.pass_obj
def trust(options: CommandOptions, is_list: bool, revoke: bool) -> None:
    """Trust this project's configuration. It may then start programs and name places outside the project."""
    from carrel.cli.config import change_trust

    change_trust(options, is_list=is_list, is_revoked=revoke)


def run_app(words: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    set_up_logging(is_debug=False)
    if _COMPLETION in os.environ:
        app.main(list(words), prog_name="carrel")
    try:
        # Not `app.main`, which reports a closed pipe as a failure.
        with app.make_context("carrel", list(words)) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as stopped:
        return int(stopped.exit_code)
    except click.ClickException as error:
        _report_usage(error)
        return exit_codes.USAGE
    except click.Abort:
        return exit_codes.INTERRUPTED
    return code if isinstance(code, int) else exit_codes.DONE


def _report_usage(error: click.ClickException) -> None:
    """Print how a command is used, and the error in the form of all other errors."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        click.echo(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", err=True)
    say(f"carrel: {error.format_message()}")
