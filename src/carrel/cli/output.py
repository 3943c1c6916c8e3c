"""What a person sees: tables and colour on a terminal, plain text in a pipe, JSON when asked."""

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
"""Between two columns of a table."""

_FOLDED: Final = 16
"""The least that a column of words needs to be readable."""


def is_terminal() -> bool:
    """Tell whether a person is looking. Whether there is colour, as NO_COLOR says, is left to rich."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def can_show(text: str) -> bool:
    """Tell whether the output's encoding has these characters."""
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True


def print_json(value: object) -> None:
    """Print one JSON value; control characters in its texts are escaped as JSON has it."""
    spelled = json.dumps(value, ensure_ascii=False, indent=2)
    print(spelled if printable(spelled) == spelled else json.dumps(value, indent=2))


def print_text(text: str, end: str = "\n") -> None:
    """Print a text that somebody else wrote: as it is in a pipe, made printable on a terminal."""
    sys.stdout.write(f"{printable(text) if is_terminal() else text}{end}")


def print_table(
    headings: Row, rows: Iterable[Row], *, plain_columns: int = 1, spare: Sequence[str] = (), empty: str = ""
) -> None:
    """Print a table on a terminal; in a pipe, the first columns, separated by tabs.

    On a terminal that is too narrow, `spare` columns are left out, the first named first. If there
    are any the first column is never folded: it can be copied. Without rows, `empty` is shown.
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
        print_lines(f"[bold]{headings[0]}[/]", *(f"[cyan]{_unmarked(row[0])}[/]" for row in shown))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number in columns:
        is_whole = number == 0 and bool(spare)
        table.add_column(headings[number], overflow="fold", style="" if number else "cyan", no_wrap=is_whole)
    for row in shown:
        table.add_row(*(_unmarked(row[number]) for number in columns))
    console.print(table)


def _fitting(headings: Row, rows: Sequence[Row], spare: Sequence[str], width: int) -> list[int]:
    """Give the numbers of the columns that are shown."""
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
    """Print what is listed."""
    rows = map(describe, entries)
    print_table(("URI", "size", "modified", "what"), rows, spare=("modified", "size", "what"), empty=empty)


def print_lines(*lines: str) -> None:
    """Print lines in which `[bold]…[/]` and the like mark what stands out on a terminal."""
    if is_terminal():
        from rich.console import Console  # only for a terminal

        console = Console(highlight=False, soft_wrap=True)
        for line in lines:
            console.print(printable(line))
        return
    from rich.text import Text  # takes the marks out

    for line in lines:
        print(Text.from_markup(printable(line)).plain)


def escape(text: str) -> str:
    """Make a text safe to stand in a marked line, of which it makes no second one."""
    from rich.markup import escape as escape_markup  # only with marked lines

    return escape_markup(printable_line(text))


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
    return escape(cell)
