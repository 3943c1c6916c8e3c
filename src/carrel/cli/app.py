"""The commands for people, as one click application."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar, Final

import click

from carrel.cli import exit_codes
from carrel.cli.context import Choices
from carrel.cli.options import refuse_unused, with_choices, with_objects, with_server
from carrel.cli.stderr import say, set_up_logging
from carrel.core.version import __version__

_COMPLETION: Final = "_CARREL_COMPLETE"
"""Set by a shell that asks how a command line may go on."""


class Commands(click.Group):
    """The commands, of which whole groups are imported only when they are used."""

    elsewhere: ClassVar[dict[str, str]] = {
        "run": "carrel.cli.logs:run",
        "sage": "carrel.cli.sage:sage",
        "scopes": "carrel.cli.scopes:scopes",
        "tail": "carrel.cli.logs:tail",
    }
    """The name of a group or command, and where it is, as `module:attribute`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, also those not imported yet."""
        return sorted((*super().list_commands(ctx), *self.elsewhere))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a command; a group that is elsewhere is imported now."""
        if cmd_name not in self.elsewhere:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.elsewhere[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="carrel")
@with_choices
@with_objects
@with_server
@click.pass_context
def app(context: click.Context) -> None:
    """Put a project's knowledge on the desk of an AI assistant.

    Without a command: an overview of this folder's desk.
    """
    choices = context.ensure_object(Choices)
    refuse_unused(choices, context.invoked_subcommand)
    if context.invoked_subcommand is None:
        from carrel.cli.overview import show  # each command imports what it needs

        show(choices)


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.pass_context
def serve(context: click.Context) -> int:
    """Serve MCP on stdin and stdout (this is what a host starts)."""
    from carrel.cli.serve import OPTIONS, run  # without options before it, `serve` never comes here

    if not {"-h", "--help"} & set(context.args):
        return run([*context.ensure_object(Choices).words(), *context.args])
    click.echo(
        "Usage: carrel serve [OPTIONS] [FILE.py|MODULE:THING]...\n\n  Serve MCP on stdin and stdout.\n\nOptions:"
    )
    width = max(len(f"{option.flag} {option.value}") for option in OPTIONS)
    for option in OPTIONS:
        click.echo(f"  {f'{option.flag} {option.value}'.ljust(width)}  {option.told}")
    return exit_codes.DONE


@app.command()
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@with_choices
@with_objects
@with_server
@click.pass_obj
def ls(choices: Choices, prefix: str, limit: int | None) -> None:
    """List the resources, all or those whose URI begins with PREFIX."""
    from carrel.cli.read import list_resources

    list_resources(choices, prefix, limit)


@app.command()
@click.argument("uri")
@click.option("--start", type=click.IntRange(min=0), help="First byte to give.")
@click.option("--length", type=click.IntRange(min=0), help="How many bytes to give.")
@with_choices
@with_objects
@with_server
@click.pass_obj
def cat(choices: Choices, uri: str, start: int | None, length: int | None) -> None:
    """Read a resource and print what it holds."""
    from carrel.cli.read import read_resource

    read_resource(choices, uri, start, length)


@app.command()
@with_choices
@with_objects
@with_server
@click.pass_obj
def templates(choices: Choices) -> None:
    """Show how the URIs look that are not all listed."""
    from carrel.cli.read import list_templates

    list_templates(choices)


@app.command()
@click.argument("template")
@click.argument("variable")
@click.argument("value", default="")
@click.option("--given", "context", metavar="NAME=VALUE", multiple=True, help="A variable already chosen.")
@with_choices
@with_objects
@with_server
@click.pass_obj
def complete(choices: Choices, template: str, variable: str, value: str, context: tuple[str, ...]) -> None:
    """Offer values for a template's VARIABLE that begin with VALUE."""
    from carrel.cli.read import complete_variable

    complete_variable(choices, template, variable, value, dict(_pair(one) for one in context))


def _pair(text: str) -> tuple[str, str]:
    name, is_assigned, value = text.partition("=")
    if not is_assigned:
        raise click.BadParameter(f"{text}: write it as NAME=VALUE")
    return name, value


@app.command()
@click.argument("uri")
@with_choices
@with_objects
@click.pass_obj
def explain(choices: Choices, uri: str) -> None:
    """Say why a URI is, or is not, served."""
    from carrel.cli.read import explain_uri

    explain_uri(choices, uri)


@app.command()
@with_choices
@with_objects
@click.pass_obj
def doctor(choices: Choices) -> int:
    """Check that everything works here, and say what to do where it does not."""
    from carrel.cli.doctor import examine

    return examine(choices)


@app.group()
def token() -> None:
    """Make and revoke tokens for `carrel serve --http`."""


@token.command("add")
@click.argument("name")
@click.option("--scope", "scopes", metavar="SCHEME:RIGHT", multiple=True, help="As workspace:read; without: all.")
@with_choices
@click.pass_obj
def token_add(choices: Choices, name: str, scopes: tuple[str, ...]) -> None:
    """Make a token and print it, once."""
    from carrel.cli.tokens import add_token

    add_token(choices, name, scopes)


@token.command("list")
@with_choices
@click.pass_obj
def token_list(choices: Choices) -> None:
    """Show which tokens there are, and what each may do."""
    from carrel.cli.tokens import list_tokens

    list_tokens(choices)


@token.command("revoke")
@click.argument("name")
@with_choices
@click.pass_obj
def token_revoke(choices: Choices, name: str) -> None:
    """Let a token count no longer; a running server notices within a second."""
    from carrel.cli.tokens import revoke_token

    revoke_token(choices, name)


@app.group()
def config() -> None:
    """Look at the configuration, and change it."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@with_choices
@click.pass_obj
def config_show(choices: Choices, origin: bool) -> None:
    """Print every setting in effect."""
    from carrel.cli.config import show_config

    show_config(choices, with_origin=origin)


@config.command("get")
@click.argument("name", metavar="SECTION.KEY")
@with_choices
@click.pass_obj
def config_get(choices: Choices, name: str) -> None:
    """Print one setting that is in effect."""
    from carrel.cli.config_edit import get_value

    get_value(choices, name)


@config.command("set")
@click.argument("name", metavar="SECTION.KEY")
@click.argument("value")
@click.option("--user", "is_users", is_flag=True, help="Write your own file instead of the project's.")
@with_choices
@click.pass_obj
def config_set(choices: Choices, name: str, value: str, is_users: bool) -> None:
    """Write one setting into the project's file; comments and order stay as they are.

    VALUE is checked first. A list is written with commas: carrel config set workspace.allow '*.sql,docs/'
    """
    from carrel.cli.config_edit import set_value

    set_value(choices, name, value, is_users=is_users)


@config.command("unset")
@click.argument("name", metavar="SECTION.KEY")
@click.option("--user", "is_users", is_flag=True, help="Change your own file instead of the project's.")
@with_choices
@click.pass_obj
def config_unset(choices: Choices, name: str, is_users: bool) -> None:
    """Remove one setting from the project's file."""
    from carrel.cli.config_edit import unset_value

    unset_value(choices, name, is_users=is_users)


@config.command("validate")
@with_choices
@click.pass_obj
def config_validate(choices: Choices) -> None:
    """Check the configuration and say what is not in effect."""
    from carrel.cli.config import validate_config

    validate_config(choices)


@app.command()
@click.option("--list", "is_list", is_flag=True, help="Show what you trust.")
@click.option("--revoke", is_flag=True, help="Trust this project's file no longer.")
@with_choices
@click.pass_obj
def trust(choices: Choices, is_list: bool, revoke: bool) -> None:
    """Allow this project's configuration to start programs and reach outside the project."""
    from carrel.cli.config import change_trust

    change_trust(choices, is_list=is_list, is_revoked=revoke)


def run_app(words: Sequence[str]) -> int:
    """Run a command line; give the exit code."""
    set_up_logging(is_debug=False)
    if _COMPLETION in os.environ:
        app.main(list(words), prog_name="carrel")
    try:
        # Not `app.main`, which takes a reader that left early for a failure.
        with app.make_context("carrel", list(words)) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as stopped:
        return int(stopped.exit_code)
    except click.ClickException as error:
        _tell(error)
        return exit_codes.USAGE
    except click.Abort:
        return exit_codes.INTERRUPTED
    return code if isinstance(code, int) else exit_codes.DONE


def _tell(error: click.ClickException) -> None:
    """Say how a command is used and what was wrong, as all other errors are said."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        click.echo(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", err=True)
    say(f"carrel: {error.format_message()}")
