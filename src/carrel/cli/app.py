"""The click application: `carrel`, `carrel serve`, and where the other commands are."""

import os
from collections.abc import Sequence
from typing import Final

import click

from carrel.cli import exit_codes
from carrel.cli.context import CommandOptions
from carrel.cli.options import LazyGroup, refuse_unused, with_source
from carrel.cli.stderr import log_failures, say
from carrel.core.version import __version__

_COMPLETION: Final = "_CARREL_COMPLETE"
"""The variable that a shell sets to ask for completions."""


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="carrel")
@with_source
@click.pass_context
def app(context: click.Context) -> None:
    """Serve a project's files, logs, memory and tasks to AI assistants as MCP resources.

    Without a command, show what is served for this folder.
    """
    options = context.ensure_object(CommandOptions)
    refuse_unused(options, context.invoked_subcommand)
    if context.invoked_subcommand is None:
        from carrel.cli.overview import show  # only without a command

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


app.lazy = {
    "cat": "carrel.cli.read:cat",
    "complete": "carrel.cli.read:complete",
    "completion": "carrel.cli.completion:completion",
    "config": "carrel.cli.config:config",
    "connect": "carrel.cli.connect:connect",
    "doctor": "carrel.cli.doctor:doctor",
    "explain": "carrel.cli.read:explain",
    "logs": "carrel.cli.logs:logs",
    "ls": "carrel.cli.read:ls",
    "open": "carrel.cli.open:open_command",
    "run": "carrel.cli.logs:run",
    "sage": "carrel.cli.sage:sage",
    "scopes": "carrel.cli.scopes:scopes",
    "search": "carrel.cli.search:search",
    "store": "carrel.cli.store:store",
    "tail": "carrel.cli.logs:tail",
    "templates": "carrel.cli.read:templates",
    "token": "carrel.cli.tokens:token",
    "trust": "carrel.cli.config:trust",
}


def run_app(words: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    log_failures()
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
