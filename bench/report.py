"""The results as tables for people and as data for programs."""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from bench.contenders import REFERENCE, REFERENCE_TITLE, Contender
from bench.measure import ECHO, RESIDENT, START, Cell, Effort, Results, Summary
from bench.targets import LIMIT, OURS, TARGETS, Target, cpu_ratio, judged, ratio, verdict
from bench.works import WORKS

CORES: Final = {"one": "one core for client and server", "all": "all cores"}
TITLES: Final = {START: "start-up to first answer", RESIDENT: "resident memory after start", ECHO: "echo of 1 KB"}
TRANSPORTS: Final = {"stdio": "stdio", "http": "Streamable HTTP"}


def title(cell: Cell) -> str:
    """Name a row."""
    work = WORKS[cell.work].title if cell.work in WORKS else TITLES[cell.work]
    if cell.depth == 1:
        return work
    return f"{work}, {cell.depth} {'connections' if cell.transport == 'http' else 'waiting'}"


def amount(cell: Cell, value: float) -> str:
    """Spell a median with its unit."""
    if cell.work == RESIDENT:
        return f"{value:.1f} MiB"
    if value < 1_000:
        return f"{value:.1f} µs"
    return f"{value / 1_000:.3g} ms" if value < 1e6 else f"{value / 1e6:.3g} s"


def number(cell: Cell, row: Mapping[str, Summary], name: str, results: Results) -> str:
    """Spell one number of a table: the median, and how it compares."""
    if name not in row:
        return "–"
    compared = ratio(results, cell, name)
    told = amount(cell, row[name].median)
    if name == REFERENCE or compared is None:
        return told
    return f"{told} ({compared:.2g})" if cell.work == RESIDENT else f"{told} ({compared:.3g} ×)"


def groups(results: Results) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the rows, by transport, era and cores."""
    cells = [cell for cell in results.cells if cell.work != ECHO]

    def heading(cell: Cell) -> str:
        return f"{TRANSPORTS[cell.transport]}, {cell.era} era, {CORES[cell.cores]}"

    for name, members in groupby(sorted(cells, key=place), key=heading):
        yield name, list(members)


def place(cell: Cell) -> tuple[object, ...]:
    """Return the order of rows."""
    works = [START, RESIDENT, *WORKS]
    return cell.transport == "http", cell.cores == "all", cell.era == "legacy", works.index(cell.work), cell.depth


def tables(results: Results, table: Mapping[str, Contender]) -> Iterator[str]:
    """Write a table for each transport, era and number of cores."""
    for heading, cells in groups(results):
        present = [name for name in table if any(name in results.cells[cell] for cell in cells)]
        yield f"### {heading}\n"
        yield f"| work | {' | '.join(table[name].title for name in present)} |"
        yield f"| --- |{' --: |' * len(present)}"
        for cell in cells:
            row = results.cells[cell]
            yield f"| {title(cell)} | {' | '.join(number(cell, row, name, results) for name in present)} |"
        yield ""


def spreads(results: Results, table: Mapping[str, Contender]) -> Iterator[str]:
    """Write the spread of the numbers that are judged, and what of them was server and client."""
    yield "All others' are in [the data](results.json).\n"
    for heading, cells in groups(results):
        yield f"### {heading}: the numbers that are judged\n"
        yield "| work | | median | quartiles | server CPU | client CPU |"
        yield "| --- | --- | --: | --: | --: | --: |"
        for cell in cells:
            for name in (name for name in (OURS, REFERENCE, LIMIT) if name in results.cells[cell]):
                yield f"| {title(cell)} | {table[name].title} | {spread(cell, results.cells[cell][name])} |"
        yield ""


def spread(cell: Cell, summary: Summary) -> str:
    """Spell one number with all that is known of it."""
    low, high = summary.quartiles
    parts = [amount(cell, summary.median), f"{amount(cell, low)} … {amount(cell, high)}"]
    cpu = (summary.server_us, summary.client_us) if cell.work in WORKS else ()
    return " | ".join([*parts, *(amount(cell, part) for part in cpu)] if cpu else [*parts, "", ""])


def notes(results: Results, table: Mapping[str, Contender]) -> Iterator[str]:
    """Yield why there is a dash."""
    reasons: dict[str, dict[str, None]] = {}
    for row in results.missing.values():
        for name, reason in row.items():
            reasons.setdefault(name, {})[reason] = None
    for name, told in reasons.items():
        yield f"- **{table[name].title}**: {'; '.join(told)}."


def client_share(results: Results) -> Iterator[str]:
    """Yield how much of a small read is the load client."""
    for cell, row in results.cells.items():
        if cell.work == ECHO:
            taken = row["cat"]
            core = CORES[cell.cores]
            yield (
                f"- Echo of 1 KB through `cat`, {core}, depth {cell.depth}: {taken.median:.1f} µs, "
                f"of which the client takes {taken.client_us:.1f} µs of processor time."
            )
    for cell, row in sorted(results.cells.items(), key=lambda found: place(found[0]) if found[0].work != ECHO else ()):
        if cell.work == "read-1k-memory" and cell.era == "modern":
            shares = ", ".join(f"{name} {summary.client_us / summary.median:.0%}" for name, summary in row.items())
            yield (
                f"- {TRANSPORTS[cell.transport]}, {CORES[cell.cores]}, depth {cell.depth}: "
                f"the client's part of a 1 KB read: {shares}."
            )


def target_lines(results: Results, targets: tuple[Target, ...]) -> Iterator[str]:
    """Write how the targets stand."""
    yield "| work | at least | stretch | time | server CPU | bare msgspec, time | bare msgspec, CPU | |"
    yield f"| --- |{' --: |' * 6} --- |"
    for target, reached in judged(results, targets):
        compared = [measure(results, target.cell, name) for name in (OURS, LIMIT) for measure in (ratio, cpu_ratio)]
        unit = "" if target.is_share else " ×"
        numbers = [target.wanted, target.stretch, *compared]
        told = " | ".join("–" if number is None else f"{number:.3g}{unit}" for number in numbers)
        yield f"| {target.title} | {told} | {verdict(target, reached)} |"


def summary(results: Results, table: Mapping[str, Contender], targets: tuple[Target, ...]) -> Iterator[str]:
    """Write what a run found."""
    yield from tables(results, table)
    if REFERENCE in table:
        yield from target_lines(results, targets)
        yield ""
    yield from client_share(results)
    yield from notes(results, table)


def page(results: Results, table: Mapping[str, Contender], effort: Effort) -> Iterator[str]:
    """Write everything as a page."""
    yield "# Results\n"
    yield "Written by `make bench`; how it is measured stands in [performance](../performance.md). Numbers are medians"
    yield f"of {effort.rounds} rounds of {effort.seconds:g} s ({effort.starts} starts); in brackets, how many times"
    yield f"faster than {REFERENCE_TITLE} it is, or of memory, its share. {machine()}.\n"
    yield f"Versions: {', '.join(dict.fromkeys(one.version for one in table.values() if one.version))}.\n"
    yield "![How many times faster everyone is](plot.svg)\n"
    yield "## Targets\n"
    yield from target_lines(results, TARGETS)
    yield "\n## Everyone\n"
    yield from tables(results, table)
    yield "A dash is something that cannot be done:\n"
    yield from notes(results, table)
    yield "\n## The load client\n"
    yield from client_share(results)
    yield "\n## Spread\n"
    yield from spreads(results, table)
    yield ""


def machine() -> str:
    """Describe the machine, as far as it matters."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def data(results: Results, effort: Effort, table: Mapping[str, Contender]) -> str:
    """Return everything as JSON, a row a line, with what is needed to compare it with another run."""
    run: dict[str, Any] = {
        "machine": machine(),
        "versions": {contender.title: contender.version for contender in table.values() if contender.version},
        "rounds": effort.rounds,
        "seconds": effort.seconds,
        "starts": effort.starts,
    }
    parts = {
        "run": [run],
        "rows": [
            fields(cell)
            | {
                "contender": name,
                "unit": "MiB" if cell.work == RESIDENT else "µs",
                "median": round(summary.median, 2),
                "quartiles": [round(part, 2) for part in summary.quartiles],
                "server_cpu_us": round(summary.server_us, 2),
                "client_cpu_us": round(summary.client_us, 2),
                "samples": [round(sample, 2) for sample in summary.samples],
            }
            for cell, row in results.cells.items()
            for name, summary in row.items()
        ],
        "missing": [
            fields(cell) | {"contender": name, "reason": reason}
            for cell, row in results.missing.items()
            for name, reason in row.items()
        ],
    }
    spelled = {key: ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) for key, rows in parts.items()}
    return "{\n" + ",\n".join(f'"{key}": [\n{rows}\n]' for key, rows in spelled.items()) + "\n}\n"


def fields(cell: Cell) -> dict[str, Any]:
    """Return a cell as data."""
    return {key: getattr(cell, key) for key in cell.__slots__}
