"""Comma- and tab-separated values as a table; the first row is its head."""

import csv
from io import StringIO
from itertools import islice
from typing import Final

from carrel.explorer.rendering import amounts
from carrel.explorer.rendering.code import render_code
from carrel.explorer.rendering.markup import Content, Html, element, join, note, scrolling, visible

MAX_ROWS: Final = 2_000
MAX_COLUMNS: Final = 60
MAX_CELLS: Final = 20_000
SEPARATORS: Final = {"text/csv": ",", "text/tab-separated-values": "\t"}


def render_table(content: Content) -> Html:
    """Return rows as a table; a text that is not rows of values, or too wide, is shown unchanged."""
    text = visible(content.text or "")
    separator = SEPARATORS.get(content.type, ",")
    if separator == "," and text.partition("\n")[0].count(";") > text.partition("\n")[0].count(","):
        separator = ";"
    try:
        rows = list(islice(csv.reader(StringIO(text), delimiter=separator, strict=True), MAX_ROWS + 1))
    except csv.Error:
        return render_code(content)
    rows = [row for row in rows if row]
    width = max(map(len, rows), default=0)
    if width < 2 or width > MAX_COLUMNS:
        return render_code(content)
    most = min(MAX_ROWS, MAX_CELLS // width)
    return _table(rows[:most], width, is_cut=len(rows) > most, has_head=content.is_first)


def _table(rows: list[list[str]], width: int, *, is_cut: bool, has_head: bool) -> Html:
    head = [element("tr", *(element("th", cell, scope="col") for cell in _padded(rows[0], width)))] if has_head else []
    body = [element("tr", *(_cell(cell) for cell in _padded(row, width))) for row in rows[len(head) :]]
    above = element("thead", *head) if head else Html("")
    table = element("table", above, element("tbody", *body), class_="data")
    more = note(f"Only the first {amounts.count(len(rows))} rows are shown.") if is_cut else Html("")
    return join((scrolling("Table", "sheet", table), more))


def _padded(row: list[str], width: int) -> list[str]:
    return row + [""] * (width - len(row))


def _cell(text: str) -> Html:
    is_number = text.strip().lstrip("-+").replace(".", "", 1).isdecimal()
    return element("td", text, class_="right" if is_number else None)
