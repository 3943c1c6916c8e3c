"""`carrel scopes export` and `carrel scopes import`."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

import click

from carrel.cli import output
from carrel.cli.scopes_session import Given, Session, find
from carrel.cli.stderr import say
from carrel.providers.scopes import transfer
from carrel.providers.scopes.faults import invalid
from carrel.providers.scopes.original import Original
from carrel.providers.scopes.transfer import Record
from carrel.providers.scopes.values import now_ms


def export(session: Session, given: Given) -> None:
    with session.reading() as connection:
        top = None if given["scope"] is None else find(connection, given["scope"])
        lines = transfer.export(connection, top)
        if given["out"] is None:
            for line in lines:
                output.print_text(line)
            return
        written = f"{given['out']}.{os.getpid()}.tmp"
        try:
            with open(written, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            os.replace(written, given["out"])
        except OSError as error:
            raise invalid(f"{given['out']} cannot be written: {error.strerror}") from None


def import_(session: Session, given: Given) -> None:
    source, original = given["file"], given["from_scopes_db"]
    if (source is None) == (original is None):
        raise click.UsageError("Give FILE or --from-scopes-db, one of them.")
    is_rehearsal = bool(given["dry_run"])
    database = None if original is None else _original(original)
    with (
        _lines(source) if database is None else nullcontext(database.records()) as records,
        session.store.writing(is_rehearsal=is_rehearsal) as connection,
    ):
        outcome = transfer.take_in(connection, now_ms(), records, given["on_conflict"])
    warnings = [] if database is None else database.warnings(outcome.taken)
    counts = {"imported": outcome.imported, "skipped": outcome.skipped, "replaced": outcome.replaced}
    did, left = ("Would import", "skip") if is_rehearsal else ("Imported", "skipped")
    replaced = f", {'replace' if is_rehearsal else 'replaced'} {outcome.replaced}" if outcome.replaced else ""
    session.tell({**counts, "warnings": warnings}, f"{did} {outcome.imported}, {left} {outcome.skipped}{replaced}")
    for warning in [] if session.is_json else warnings:
        say(f"Warning: {warning}")


def _original(path: str) -> Original:
    if not os.path.isfile(path):
        raise invalid(f"{path} cannot be read: no such file")
    return Original(path)


@contextmanager
def _lines(source: str | None) -> Iterator[Iterable[Record]]:
    """Open what an export wrote."""
    if source == "-":
        yield transfer.parse(sys.stdin.buffer)
        return
    try:
        file = open(str(source), "rb")  # noqa: SIM115 - the file is closed below, errors of opening are told
    except OSError as error:
        raise invalid(f"{source} cannot be read: {error.strerror}") from None
    with file:
        yield transfer.parse(file)
