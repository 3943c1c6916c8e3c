"""`doctor`: find faults of the installation, the project and the hosts, and fix them."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

import click

from carrel.cli import exit_codes, output
from carrel.cli.context import CommandOptions, keep_stdout
from carrel.cli.named_objects import with_flags
from carrel.cli.options import with_command_options, with_objects
from carrel.core.errors import CarrelError
from carrel.core.printable import printable_line
from carrel.doctor.checks import Finding, Repair
from carrel.doctor.examination import examine
from carrel.doctor.lines import described, lines_of
from carrel.doctor.setup import Setup


@click.command()
@with_command_options
@with_objects
@click.option("--fix", "is_fixing", is_flag=True, help="Offer to fix what was found; ask before each change.")
@click.option("--yes", "is_sure", is_flag=True, help="With --fix: do not ask. Trust is never given without a question.")
@click.option("--report", "is_report", is_flag=True, help="Print a report for an issue, without private data.")
@click.pass_obj
def doctor(options: CommandOptions, is_fixing: bool, is_sure: bool, is_report: bool) -> int:
    """Check that everything works here. If something does not, show how to fix it, with the exit code 1."""
    _check_usage(options, is_fixing=is_fixing, is_sure=is_sure, is_report=is_report)
    with _examined(options) as (setup, findings):
        if is_report:
            from carrel.doctor.report import render  # only with --report

            output.print_text(render(setup, findings), end="")
        elif not is_fixing or not options.is_json:
            _show(options, findings)
        is_changed = is_fixing and _mend(findings, is_sure=is_sure)
    if is_changed or (is_fixing and options.is_json):
        with _examined(options) as (_, findings):
            if options.is_json:
                _show(options, findings)
            else:
                click.echo("\nAfter the changes:")
                _show(
                    options, [one for one in findings if one.state != "ok"] or [Finding("ok", "no faults", id="doctor")]
                )
    return exit_codes.FAILED if any(one.state == "problem" for one in findings) else exit_codes.DONE


def _check_usage(options: CommandOptions, *, is_fixing: bool, is_sure: bool, is_report: bool) -> None:
    if is_sure and not is_fixing:
        raise click.UsageError("--yes needs --fix")
    if is_report and (is_fixing or options.is_json):
        raise click.UsageError("--report takes neither --fix nor --json")
    if is_fixing and options.is_json and not is_sure:
        raise click.UsageError("--fix with --json asks nothing: add --yes")


@contextlib.contextmanager
def _examined(options: CommandOptions) -> Iterator[tuple[Setup, list[Finding]]]:
    setup = Setup(os.environ, named=options.project, flags=with_flags(options.objects), serve_words=options.words())
    with contextlib.ExitStack() as until_closed:
        until_closed.callback(setup.close)
        if setup.config is not None:
            keep_stdout(setup.config, until_closed)
        if not options.is_debug:  # the findings say what the log would say
            until_closed.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.CRITICAL)
        yield setup, examine(setup)


# Output


def _show(options: CommandOptions, findings: Sequence[Finding]) -> None:
    if options.is_json:
        output.print_json([described(one) for one in findings])
        return
    good, bad = ("✓", "✗") if output.can_show("✓✗") else ("ok", "problem")
    marks = {"ok": f"[green]{good}[/]", "note": "[yellow]![/]", "problem": f"[red]{bad}[/]"}
    dots = "…" if output.can_show("…") else "..."
    for state, name, message in lines_of(findings, dots):
        output.print_lines(f"{marks[state]} [bold]{output.escape(name)}[/]: {output.escape(message)}")


# Repairs


def _mend(findings: Sequence[Finding], *, is_sure: bool) -> bool:
    """Carry out the repairs that are wanted; return whether anything was changed."""
    repairs = {one.repair.what: (one.id, one.repair) for one in findings if one.repair is not None}
    if not repairs:
        click.echo("There is nothing that --fix can repair.", err=True)
        return False
    can_ask = output.is_terminal() and os.isatty(0)
    is_changed = False
    for id_, repair in repairs.values():
        if _is_wanted(id_, repair, is_sure=is_sure, can_ask=can_ask):
            is_changed = _carry_out(id_, repair) or is_changed
    return is_changed


def _is_wanted(id_: str, repair: Repair, *, is_sure: bool, can_ask: bool) -> bool:
    if is_sure and not repair.needs_consent:
        return True
    if not can_ask:
        why = (
            "it needs your answer: run it in a terminal"
            if repair.needs_consent
            else "add --yes, or run it in a terminal"
        )
        click.echo(f"Not done ({id_}): {printable_line(repair.what)}; {why}", err=True)
        return False
    return click.confirm(f"{id_}: {printable_line(repair.what)}?", default=False)


def _carry_out(id_: str, repair: Repair) -> bool:
    try:
        repair.do()
    except (CarrelError, OSError) as error:
        click.echo(f"Failed ({id_}): {printable_line(repair.what)}: {error}", err=True)
        return False
    click.echo(f"Done ({id_}): {printable_line(repair.what)}", err=True)
    return True
