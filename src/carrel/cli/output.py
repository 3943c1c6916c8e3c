"""Output: tables and colour on a terminal, plain text in a pipe, JSON with --json."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from time import gmtime, strftime
from typing import Final

from carrel.core.model import Resource
from carrel.core.printable import printable, printable_line

Row = Sequence[str]

_GAP: Final = 3
"""Spaces between two columns of a table."""

_FOLDED: Final = 16
"""Minimum width of a column of wrapped text."""


def is_terminal() -> bool:
    """Return whether stdout is a terminal. rich decides about colour, and obeys NO_COLOR."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def can_show(text: str) -> bool:
    """Return whether the output encoding has these characters."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True


def print_json(value: object) -> None:
    """Print one JSON value; in ASCII if it has control characters that a terminal would interpret."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    print(text if printable(text) == text else json.dumps(value, indent=2))


def print_text(text: str, end: str = "\n") -> None:
    """Print foreign text: unchanged in a pipe, without control characters on a terminal."""
    sys.stdout.write(f"{printable(text) if is_terminal() else text}{end}")


def print_table(
    headings: Row, rows: Iterable[Row], *, plain_columns: int = 1, spare: Sequence[str] = (), empty: str = ""
) -> None:
    """Print a table on a terminal; in a pipe, print its first columns separated by tabs.

    On a narrow terminal, drop the `spare` columns in the order in which they are named. With `spare`
    columns, never wrap the first column, so that it can be copied. Without rows, print `empty`.
    """
    if not is_terminal():
        for row in rows:
            print("\t".join(map(printable_line, row[:plain_columns])))
        return
    shown = list(rows)
    if empty and not shown:
        print(empty)
        return
    from rich.box import SIMPLE_HEAD  # only for a terminal
    from rich.console import Console
    from rich.table import Table

    console = Console()
    columns = _fitting(headings, shown, spare, console.width)
    if columns == [0]:
        print_lines(f"[bold]{headings[0]}[/]", *(f"[cyan]{escape(row[0])}[/]" for row in shown))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number in columns:
        is_whole = number == 0 and bool(spare)
        table.add_column(headings[number], overflow="fold", style="" if number else "cyan", no_wrap=is_whole)
    for row in shown:
        table.add_row(*(escape(row[number]) for number in columns))
    console.print(table)


def _fitting(headings: Row, rows: Sequence[Row], spare: Sequence[str], width: int) -> list[int]:
    """Return the numbers of the columns that fit."""
    columns = list(range(len(headings)))
    for name in spare:
        last = columns[-1]
        needed = sum(_width(number, headings, rows) + _GAP for number in columns if number != last)
        if needed + min(_width(last, headings, rows), _FOLDED) <= width:
            break
        columns.remove(headings.index(name))
    return columns


def _width(number: int, headings: Row, rows: Sequence[Row]) -> int:
    from rich.cells import cell_len  # only for a terminal

    return max(cell_len(printable_line(row[number])) for row in (headings, *rows))


def print_entries(entries: Iterable[Resource], empty: str) -> None:
    """Print the entries of a list."""
    rows = map(describe, entries)
    headings = ("URI", "size", "modified", "description")
    print_table(headings, rows, spare=("modified", "size", "description"), empty=empty)


def print_lines(*lines: str) -> None:
    """Print lines with rich markup, such as `[bold]…[/]`."""
    if is_terminal():
        from rich.console import Console  # only for a terminal

        console = Console(highlight=False, soft_wrap=True)
        for line in lines:
            console.print(printable(line))
        return
    from rich.text import Text  # removes the markup

    for line in lines:
        print(Text.from_markup(printable(line)).plain)


def escape(text: str) -> str:
    """Return a text that is safe inside a line with markup: printable, escaped, on one line."""
    from rich.markup import escape as escape_markup  # only for lines with markup

    return escape_markup(printable_line(text))


def describe(entry: Resource) -> Row:
    """Return an entry as a row: URI, size, time, description."""
    modified = entry.annotations.last_modified_ms if entry.annotations else None
    return (
        entry.uri,
        "" if entry.size is None else human_size(entry.size),
        "" if modified is None else strftime("%Y-%m-%d %H:%M", gmtime(modified / 1000)),
        entry.description or entry.title or entry.name,
    )


def human_size(size: int) -> str:
    """Return a size as a short text, such as `1.5 KB`."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}B"
