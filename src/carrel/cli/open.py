"""`carrel open`: serve this folder to the browser of this machine, and open it there."""

import os

import click

from carrel.cli.context import CommandOptions
from carrel.cli.options import with_objects, with_project


@click.command(name="open")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen on this port (default: [http] port, or any free one)."
)
@click.option("--no-browser", is_flag=True, help="Print the link instead of opening a browser.")
@with_objects
@with_project
@click.pass_obj
def open_command(options: CommandOptions, port: int | None, no_browser: bool) -> int:
    """Open the explorer: what is served, in a browser, as a model sees it.

    It serves on this machine only, until Ctrl-C. The link lets one browser in, once, within a minute.
    """
    from carrel.cli.browser import opener
    from carrel.cli.serve import run_open  # imports an event loop

    return run_open(options.words(), port, opener(os.environ, wanted=not no_browser))
