"""`search`: find in everything that is served, as a model would; `--index` completes the index first."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import click

from carrel.app.app import Desk
from carrel.cli import exit_codes, output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options, with_objects
from carrel.core.errors import BadArgument
from carrel.search import rendering, requests
from carrel.search.answers import HitLine, Progress, SearchAnswer
from carrel.search.search import Search

_LOWEST: Final = 19
"""The lowest priority of a process (`nice`)."""


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", metavar="QUERY...", nargs=-1)
@click.option("--in", "scheme", metavar="SCHEME", help="Search only this scheme, such as workspace or logs.")
@click.option(
    "--limit", type=int, default=requests.DEFAULTS["limit"], show_default=True, help="Maximum number of hits."
)
@click.option(
    "--budget", type=int, default=requests.DEFAULTS["budget"], show_default=True, help="Maximum tokens of the answer."
)
@click.option("--after", metavar="PLACE", help="Continue with the value that the previous page returned.")
@click.option("--explain", "explains", is_flag=True, help="Show why each hit has its place.")
@click.option("--index", "is_index", is_flag=True, help="Complete the index. Without QUERY, do nothing else.")
@with_command_options
@with_objects
@click.pass_obj
def search(
    options: CommandOptions,
    *,
    words: tuple[str, ...],
    scheme: str | None,
    limit: int,
    budget: int,
    after: str | None,
    explains: bool,
    is_index: bool,
) -> int:
    """Search everything that is served.

    QUERY is words, a name in any spelling, "an exact phrase" or /a regular expression/, with filters such as
    path:src/ -path:test lang:python scheme:logs.
    """
    if words == ("-h",):  # not an option: click would find it in `-path:x` too
        click.echo(click.get_current_context().get_help())
        return 0
    for word in words:
        if word.startswith("--"):
            raise click.NoSuchOption(word)
    given = {"query": " ".join(words), "limit": limit, "budget": budget}
    given |= {name: value for name, value in (("in", scheme), ("after", after)) if value is not None}
    arguments = requests.ARGUMENTS.check(given)
    with options.desk() as desk:
        engine = _engine(desk)
        if is_index:
            _build(engine, options)
            if not words:
                return exit_codes.DONE
        answer = engine.search_patiently(arguments.request())
    # The desk is closed, so that it completes nothing itself any more.
    if answer.coverage.is_behind and not options.objects and not engine.is_built_elsewhere():
        _complete_behind(desk)
    if options.is_json:
        output.print_json(rendering.as_json(answer, arguments, explains=explains))
    elif output.is_terminal():
        _show(answer, arguments, explains=explains)
    else:
        output.print_text(rendering.as_text(answer, arguments, explains=explains)[0])
    return exit_codes.DONE


def _engine(desk: Desk) -> Search:
    if desk.server.search is None:
        raise BadArgument("search is turned off; `carrel config unset search.enabled` turns it on")
    return desk.server.search.opened()


def _complete_behind(desk: Desk) -> None:
    """Complete the index in a background process, as `git` collects garbage: the next search finds everything."""
    if desk.config.values("search").get("build_s") == 0:
        return
    words = [sys.executable, "-P", "-m", "carrel", "search", "--index", "--project", desk.config.root]
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    with suppress(OSError, NotImplementedError):
        behind = os.posix_spawn(sys.executable, words, os.environ, file_actions=silent, setsid=True)
        os.setpriority(os.PRIO_PROCESS, behind, _LOWEST)


def _show(answer: SearchAnswer, arguments: requests.SearchArguments, *, explains: bool) -> None:
    """Print an answer on a terminal: URIs that can be copied, and what matched in colour."""
    page = rendering.shown_as_text(answer, arguments, explains=explains)
    for note in page.remarks:
        output.print_lines(f"[yellow]{output.escape(note)}[/]")
    if not page.hits:
        output.print_lines(output.escape(page.head))
        return
    for hit in page.hits:
        about = output.escape(rendering.about(hit))
        output.print_lines(f"[cyan]{output.escape(hit.uri)}[/]{f'  [bold]{about}[/]' if about else ''}")
        for line in hit.lines:
            output.print_lines(f"[dim]{line.number:>6}[/] {_coloured(rendering.clipped(line))}")
        if explains and hit.reasons:
            output.print_lines(f"       [dim]{output.escape('; '.join(hit.reasons))}[/]")
    following = f"; the next ones: carrel search … --after {page.after}" if page.after else ""
    output.print_lines(f"[dim]{output.escape(page.head + following)}[/]")


def _coloured(line: HitLine) -> str:
    """Return a line in rich markup, with its matches in colour."""
    parts, at = [], 0
    for start, end in line.marks:
        parts += [output.escape(line.text[at:start]), f"[bold red]{output.escape(line.text[start:end])}[/]"]
        at = end
    return "".join([*parts, output.escape(line.text[at:])])


def _build(engine: Search, options: CommandOptions) -> None:
    """Complete the index, with a progress bar on a terminal, and print what it covers."""
    began = monotonic()
    with _progress(is_shown=sys.stderr.isatty() and not options.is_json) as progress:
        coverage = engine.build(progress)
    took_s = monotonic() - began
    if options.is_json:
        output.print_json({**engine.facts(), "seconds": round(took_s, 3)})
    else:
        output.print_lines(f"Indexed {coverage.searched:,} of {coverage.total:,} documents in {took_s:.1f} s.")


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Progress | None]:
    """Show a progress bar on stderr while the index is built; yield the callback that updates it."""
    if not is_shown:
        yield None
        return
    from rich.console import Console  # only for a terminal
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    with Bar("Indexing", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("")
        yield lambda value, total, message: bar.update(task, completed=value, total=total)
