"""`carrel` alone: what is on this folder's desk, and how to connect an assistant to it."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from carrel.app.app import Desk
from carrel.cli import output
from carrel.cli.context import Choices

COUNT_AT_MOST: Final = 10_000


def show(choices: Choices) -> None:
    """Print the overview."""
    with choices.desk() as desk:
        counts = _counts(desk)
        if choices.is_json:
            _print_json(desk, counts)
            return
        output.print_lines(f"[bold]The desk of {output.escape(desk.config.root)}[/]", "")
        output.print_table(("provider", "entries", "why"), _rows(desk, counts), plain_columns=3)
        for note in _notes(desk):
            output.print_lines(f"[yellow]![/] {output.escape(note)}")
        program = _program()
        spelled = output.escape(shlex.join(program))
        has_guide = any("carrel" in mounted.provider.schemes for mounted in desk.catalog.mounted)
        guide = [f"  {spelled} cat carrel://guide"] if has_guide else []
        output.print_lines("", "[bold]Read it yourself[/]", f"  {spelled} ls", *guide, "")
        output.print_lines("[bold]Give it to an assistant[/]")
        for host, line in connect_lines(program, choices.objects).items():
            output.print_lines(f"  {host + ':':<13}{output.escape(line)}")


def _notes(desk: Desk) -> list[str]:
    """Return what is not as it should be, or is left out: of the configuration, and of each provider."""
    notes = [*desk.notes, *desk.config.elsewhere()]
    for mounted in desk.catalog.mounted:
        health = mounted.provider.health()
        for told in (health.get("problems"), health.get("left_out")):
            found = told if isinstance(told, list | tuple) else ()
            notes += [f"{mounted.provider.name}: {note}" for note in found if note not in desk.notes]
    return notes


def connect_lines(program: list[str], objects: Sequence[str] = ()) -> dict[str, str]:
    """Return, for each host, what connects it to Carrel; `objects` are served too."""
    files = [os.path.abspath(one) if os.path.exists(one) else one for one in objects]
    words = [*program, "serve", *files]
    server = {"type": "stdio", "command": words[0], "args": words[1:]}
    spelled = json.dumps({"servers": {"carrel": server}}, separators=(",", ":"))
    return {
        "Claude Code": f"claude mcp add --scope user carrel -- {shlex.join(words)}",
        "Codex": f"codex mcp add carrel -- {shlex.join(words)}",
        "VS Code": f".vscode/mcp.json: {spelled}",
    }


def _program() -> list[str]:
    """Give what starts this Carrel from anywhere: its name, or the whole path where that name is not ours."""
    ours = os.path.join(os.path.dirname(sys.executable), "carrel")
    found = shutil.which("carrel")
    if found is not None and os.path.realpath(found) == os.path.realpath(ours):
        return ["carrel"]
    return [ours] if os.access(ours, os.X_OK) else [sys.executable, "-P", "-m", "carrel"]


def _counts(desk: Desk) -> dict[str, int]:
    """Count the entries of each provider; one more than `COUNT_AT_MOST` means any number above it."""
    return {
        mounted.provider.name: sum(1 for _ in islice(mounted.provider.entries(), COUNT_AT_MOST + 1))
        for mounted in desk.catalog.mounted
    }


def _rows(desk: Desk, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    rows = []
    for choice in desk.choices:
        count = counts.get(choice.name)
        told = "" if count is None else f"over {COUNT_AT_MOST}" if count > COUNT_AT_MOST else str(count)
        state = choice.why if choice.state == "served" else f"{choice.state}: {choice.why}"
        rows.append((choice.name, told, state))
    return rows


def _print_json(desk: Desk, counts: Mapping[str, int]) -> None:
    providers = []
    for choice in desk.choices:
        count = counts.get(choice.name)
        told = {"name": choice.name, "state": choice.state, "why": choice.why}
        shown = None if count is None else min(count, COUNT_AT_MOST)
        providers.append({**told, "entries": shown, "hasMore": count is not None and count > COUNT_AT_MOST})
    output.print_json({"root": desk.config.root, "providers": providers, "notes": _notes(desk)})
