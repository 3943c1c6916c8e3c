"""`carrel open`: serve this folder to the browser of this machine, and open it there."""

import os
from collections.abc import Callable, Sequence

import click

from carrel.cli.context import CommandOptions
from carrel.cli.options import with_objects, with_project
from carrel.core.errors import ConfigError


@click.command(name="open")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen on this port (default: [http] port, or any free one)."
)
@click.option("--no-browser", is_flag=True, help="Print the link instead of opening a browser.")
@with_objects
@with_project
@click.pass_obj
def open_command(options: CommandOptions, port: int | None, no_browser: bool) -> int:
    """Open the explorer in a browser. It shows what is served, as a model sees it.

    It serves on this machine only, until Ctrl-C. The link works once, within a minute.
    """
    from carrel.cli.browser import opener

    return run_open(options.words(), port, opener(os.environ, wanted=not no_browser))


def run_open(words: Sequence[str], port: int | None, opens: Callable[[str], None]) -> int:
    """Serve on this machine for a browser, on this port or any; return the exit code."""
    from carrel.app.app import open_desk
    from carrel.app.config import load
    from carrel.cli.serve import announcement, collect_from_now_on, parse
    from carrel.cli.serve_http import run_http  # imports an event loop
    from carrel.cli.stderr import log_everything, printable_stderr, say
    from carrel.transports import stdio

    parsed = parse(words)
    with printable_stderr(), stdio.taken_stdout():
        if parsed.is_debug:
            log_everything()
        config = load(parsed.project, os.environ, parsed.flags, parsed.origins)
        address = _free_address(config.http().port) if port is None else str(port)
        desk = open_desk(config)
        say("\n".join(announcement(desk)))
        collect_from_now_on()
        return run_http(desk, address, None, has_token=True, opens=opens)


def _free_address(port: int) -> str:
    """Return this port if it is free, else 0 for any free one."""
    from carrel.cli.serve_http import DEFAULT_HOST
    from carrel.transports.http.app import bind

    try:
        bind(DEFAULT_HOST, port).close()
    except ConfigError:
        return "0"
    return str(port)
