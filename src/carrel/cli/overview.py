"""`carrel` alone: what is on this folder's desk, and how to connect an assistant to it."""

from itertools import islice
from typing import Final

from carrel.cli import output
from carrel.cli.choices import Choices
from carrel.desk import Desk

COUNT_AT_MOST: Final = 10_000
CONNECT: Final = (
    ("Claude Code", "claude mcp add --scope user carrel -- carrel serve"),
    ("Codex", "codex mcp add carrel -- carrel serve"),
    ("VS Code", """.vscode/mcp.json: {"servers":{"carrel":{"type":"stdio","command":"carrel","args":["serve"]}}}"""),
)


def show(choices: Choices) -> None:
    """Print the overview."""
    with choices.desk() as desk:
        rows = _rows(desk)
        if choices.is_json:
            _print_json(desk, rows)
            return
        output.print_lines(f"[bold]The desk of {output.escape(desk.config.root)}[/]", "")
        output.print_table(("provider", "entries", "why"), rows, plain_columns=3)
        for note in desk.notes:
            output.print_lines(f"[yellow]![/] {output.escape(note)}")
        output.print_lines("", "[bold]Read it yourself[/]", "  carrel ls", "  carrel cat carrel://guide", "")
        output.print_lines("[bold]Give it to an assistant[/]")
        for host, line in CONNECT:
            output.print_lines(f"  {host + ':':<13}{output.escape(line)}")


def _rows(desk: Desk) -> list[tuple[str, str, str]]:
    counts = {
        mounted.provider.name: sum(1 for _ in islice(mounted.provider.entries(), COUNT_AT_MOST + 1))
        for mounted in desk.catalog.mounted
    }
    rows = []
    for choice in desk.choices:
        count = counts.get(choice.name)
        told = "" if count is None else f"over {COUNT_AT_MOST}" if count > COUNT_AT_MOST else str(count)
        state = choice.why if choice.state == "served" else f"{choice.state}: {choice.why}"
        rows.append((choice.name, told, state))
    return rows


def _print_json(desk: Desk, rows: list[tuple[str, str, str]]) -> None:
    output.print_json(
        {
            "root": desk.config.root,
            "providers": [
                {"name": choice.name, "state": choice.state, "why": choice.why, "entries": row[1] or None}
                for choice, row in zip(desk.choices, rows, strict=True)
            ],
            "notes": list(desk.notes),
        }
    )
