"""`carrel` without a command: what is served for this folder, and how to connect an assistant."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from itertools import islice, starmap
from typing import Final

from carrel.app.app import Choice, Desk
from carrel.cli import output
from carrel.cli.context import CommandOptions
from carrel.core.errors import CarrelError
from carrel.core.faults import attempt
from carrel.core.provider import Provider
from carrel.core.record import replace

COUNT_AT_MOST: Final = 10_000


def show(options: CommandOptions) -> None:
    """Print the overview."""
    with options.desk(prints_notes=True) as desk:
        counted = _counted(desk)
        if options.is_json:
            _print_json(desk, counted)
            return
        output.print_lines(f"[bold]Served for {output.escape(desk.config.root)}[/]", "")
        output.print_table(("provider", "entries", "reason"), starmap(_row, counted), plain_columns=3)
        for note in _notes(desk):
            output.print_lines(f"[yellow]![/] {output.escape(note)}")
        program = [*_program(), *(() if options.project is None else ("--project", options.project))]
        carrel = output.escape(shlex.join(program))
        has_guide = any(mounted.provider.name == "guide" for mounted in desk.catalog.mounted)
        guide = [f"  {carrel} cat carrel://guide"] if has_guide else []
        search = [] if desk.server.search is None else [f"  {carrel} search WORDS"]
        output.print_lines("", "[bold]Read it yourself[/]", *search, f"  {carrel} ls", *guide, "")
        output.print_lines("[bold]Connect an assistant[/]")
        objects = [word for one in options.objects for word in ("--with", one)]
        output.print_lines(
            f"  {carrel} connect  [dim]# shows the hosts of this machine[/]",
            f"  {output.escape(shlex.join([*program, 'connect', 'HOST', *objects]))}",
        )


def _notes(desk: Desk) -> list[str]:
    """Return problems and omissions: those of the configuration, then those of each provider."""
    notes = [*desk.notes, *desk.config.elsewhere(is_from_here=True)]
    for mounted in desk.catalog.mounted:
        try:
            health = attempt(f"the health of {mounted.provider.name}", lambda one: dict(one.health()), mounted.provider)
        except CarrelError as error:
            health = {"problems": [f"its health is unknown: {error}"]}
        for value in (health.get("problems"), health.get("left_out")):
            found = value if isinstance(value, list | tuple) else ()
            notes += [f"{mounted.provider.name}: {note}" for note in found if note not in desk.notes]
    return notes


def _program() -> list[str]:
    """Return the command that starts this Carrel from any folder: `carrel`, or its path if that is another program."""
    ours = os.path.join(os.path.dirname(sys.executable), "carrel")
    found = shutil.which("carrel")
    if found is not None and os.path.realpath(found) == os.path.realpath(ours):
        return ["carrel"]
    return [ours] if os.access(ours, os.X_OK) else [sys.executable, "-P", "-m", "carrel"]


def _counted(desk: Desk) -> list[tuple[Choice, int | None]]:
    """Return each choice and the number of its entries, up to one more than `COUNT_AT_MOST`; None if its list fails."""
    providers = {mounted.chosen: mounted.provider for mounted in desk.catalog.mounted}
    return [_count(choice, providers.get(choice.name)) for choice in desk.choices]


def _count(choice: Choice, provider: Provider | None) -> tuple[Choice, int | None]:
    if provider is None:
        return choice, None
    try:
        return choice, attempt(
            f"the list of {choice.name}", lambda: sum(1 for _ in islice(provider.entries(), COUNT_AT_MOST + 1))
        )
    except CarrelError as error:  # one that fails does not hide the others
        return replace(choice, state="failed", why=f"{choice.why}; its list failed: {error}"), None


def _row(choice: Choice, count: int | None) -> tuple[str, str, str]:
    entries = "" if count is None else f"over {COUNT_AT_MOST}" if count > COUNT_AT_MOST else str(count)
    return choice.name, entries, choice.why if choice.state == "served" else f"{choice.state}: {choice.why}"


def _print_json(desk: Desk, counted: Sequence[tuple[Choice, int | None]]) -> None:
    providers = []
    for choice, count in counted:
        shown = None if count is None else min(count, COUNT_AT_MOST)
        row = {"name": choice.name, "state": choice.state, "reason": choice.why}
        providers.append({**row, "entries": shown, "hasMore": shown != count})
    output.print_json({"root": desk.config.root, "providers": providers, "notes": _notes(desk)})
