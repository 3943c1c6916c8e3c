"""`carrel` without a command: what is served for this folder, and how to connect an assistant."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Final

from carrel.app.app import Desk
from carrel.cli import output
from carrel.cli.context import CommandOptions

COUNT_AT_MOST: Final = 10_000


def show(options: CommandOptions) -> None:
    """Print the overview."""
    with options.desk(prints_notes=True) as desk:
        counts = _counts(desk)
        if options.is_json:
            _print_json(desk, counts)
            return
        output.print_lines(f"[bold]Served for {output.escape(desk.config.root)}[/]", "")
        output.print_table(("provider", "entries", "reason"), _rows(desk, counts), plain_columns=3)
        for note in _notes(desk):
            output.print_lines(f"[yellow]![/] {output.escape(note)}")
        program = _program()
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
    notes = [*desk.notes, *desk.config.elsewhere()]
    for mounted in desk.catalog.mounted:
        health = mounted.provider.health()
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


def _counts(desk: Desk) -> dict[str, int]:
    """Return the number of entries of each provider; `COUNT_AT_MOST + 1` means more than `COUNT_AT_MOST`."""
    return {
        mounted.provider.name: sum(1 for _ in islice(mounted.provider.entries(), COUNT_AT_MOST + 1))
        for mounted in desk.catalog.mounted
    }


def _rows(desk: Desk, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    rows = []
    for choice in desk.choices:
        count = counts.get(choice.name)
        entries = "" if count is None else f"over {COUNT_AT_MOST}" if count > COUNT_AT_MOST else str(count)
        state = choice.why if choice.state == "served" else f"{choice.state}: {choice.why}"
        rows.append((choice.name, entries, state))
    return rows


def _print_json(desk: Desk, counts: Mapping[str, int]) -> None:
    providers = []
    for choice in desk.choices:
        count = counts.get(choice.name)
        provider = {"name": choice.name, "state": choice.state, "reason": choice.why}
        shown = None if count is None else min(count, COUNT_AT_MOST)
        providers.append({**provider, "entries": shown, "hasMore": count is not None and count > COUNT_AT_MOST})
    output.print_json({"root": desk.config.root, "providers": providers, "notes": _notes(desk)})
