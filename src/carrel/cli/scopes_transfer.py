"""`carrel scopes export` and `carrel scopes import`."""

import os
import sys

import click

from carrel.cli import output
from carrel.cli.scopes_session import Given, Session, find
from carrel.cli.stderr import say
from carrel.files.atomic import new_private
from carrel.providers.scopes import importer, json_lines
from carrel.providers.scopes.importer import OnConflict, Outcome
from carrel.providers.scopes.json_lines import Record
from carrel.providers.scopes.original_database import Original
from carrel.providers.scopes.scope_errors import invalid
from carrel.providers.scopes.values import now_ms


def export(session: Session, given: Given) -> None:
    with session.reading() as connection:
        top = None if given["scope"] is None else find(connection, given["scope"])
        lines = json_lines.export(connection, top)
        if given["out"] is None:
            for line in lines:
                output.print_text(line)
            return
        try:
            with new_private(given["out"]) as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise invalid(f"cannot write {given['out']}: {error.strerror}") from None


def import_(session: Session, given: Given) -> None:
    source, original = given["file"], given["from_scopes_db"]
    if (source is None) == (original is None):
        raise click.UsageError("Give either FILE or --from-scopes-db.")
    database = None if original is None else _original(original)
    # Read everything before locking the store: input may be slow or never end.
    records = _read(source) if database is None else database.records()
    is_rehearsal = bool(given["dry_run"])
    with session.store.writing(is_rehearsal=is_rehearsal, is_long=True) as connection:
        on_conflict: OnConflict = "exact" if given["exact"] else given["on_conflict"]
        outcome = importer.take_in(connection, now_ms(), records, on_conflict)
    warnings = [] if database is None else database.warnings(outcome.taken)
    counts = {"imported": outcome.imported, "skipped": outcome.skipped, "replaced": outcome.replaced}
    if given["exact"]:
        counts["removed"] = outcome.removed
    session.report({**counts, "warnings": warnings}, _line(outcome, is_rehearsal=is_rehearsal))
    for warning in [] if session.is_json else warnings:
        say(f"Warning: {warning}")


def _line(outcome: Outcome, *, is_rehearsal: bool) -> str:
    words = (
        ("Would import", "skip", "replace", "remove")
        if is_rehearsal
        else ("Imported", "skipped", "replaced", "removed")
    )
    line = f"{words[0]} {outcome.imported}, {words[1]} {outcome.skipped}"
    line += f", {words[2]} {outcome.replaced}" if outcome.replaced else ""
    return line + (f", {words[3]} {outcome.removed}" if outcome.removed else "")


def _original(path: str) -> Original:
    if not os.path.isfile(path):
        raise invalid(f"cannot read {path}: no such file")
    return Original(path)


def _read(source: str) -> list[Record]:
    """Return the records of an exported file."""
    if source == "-":
        return list(json_lines.parse(sys.stdin.buffer))
    try:
        with open(source, "rb") as file:
            return list(json_lines.parse(file))
    except OSError as error:
        raise invalid(f"cannot read {source}: {error.strerror}") from None
