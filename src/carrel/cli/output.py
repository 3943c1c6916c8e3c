"""What a person sees: tables and colour on a terminal, plain text in a pipe, JSON when asked."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from time import gmtime, strftime

from carrel.model import Resource

Row = Sequence[str]


def is_terminal() -> bool:
    """Tell whether a person is looking."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def can_show(text: str) -> bool:
    """Tell whether the output's encoding has these characters."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True


def print_json(value: object) -> None:
    """Print one JSON value."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(headings: Row, rows: Iterable[Row], *, plain_columns: int = 1) -> None:
    """Print a table on a terminal; in a pipe, the first columns, separated by tabs."""
    if not is_terminal():
        for row in rows:
            print("\t".join(row[:plain_columns]))
        return
    from rich.box import SIMPLE_HEAD  # only for a terminal
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", style="cyan" if number == 0 else "")
    for row in rows:
        table.add_row(*(_unmarked(cell) for cell in row))
    Console().print(table)


def print_lines(*lines: str) -> None:
    """Print lines in which `[bold]…[/]` and the like mark what stands out on a terminal."""
    if is_terminal():
        from rich.console import Console  # only for a terminal

        console = Console(highlight=False, soft_wrap=True)
        for line in lines:
            console.print(line)
        return
    from rich.text import Text  # takes the marks out

    for line in lines:
        print(Text.from_markup(line).plain)


def escape(text: str) -> str:
    """Make a text safe to stand in a marked line."""
    from rich.markup import escape as escape_markup  # only with marked lines

    return escape_markup(text)


def describe(entry: Resource) -> Row:
    """Give an entry as a row: URI, size, time, what it is."""
    modified = entry.annotations.last_modified_ms if entry.annotations else None
    return (
        entry.uri,
        "" if entry.size is None else human_size(entry.size),
        "" if modified is None else strftime("%Y-%m-%d %H:%M", gmtime(modified / 1000)),
        entry.description or entry.title or entry.name,
    )


def human_size(size: int) -> str:
    """Give a size in a few characters."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}B"


def _unmarked(cell: str) -> str:
    return escape("".join(character if character.isprintable() else "�" for character in cell))
