"""`doctor`: check the configuration, every provider and the server."""

import platform
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Literal

from carrel.app.app import Desk
from carrel.cli import exit_codes, output
from carrel.cli.context import CommandOptions
from carrel.client.client import Client
from carrel.core.errors import CarrelError
from carrel.core.record import Value


class Finding(Value, frozen=True):
    """The result of one check."""

    check: str
    state: Literal["ok", "note", "problem"]
    message: str


def examine(options: CommandOptions) -> int:
    """Run all checks, print the findings and return the exit code."""
    findings = list(_findings(options))
    if options.is_json:
        output.print_json([{"check": one.check, "state": one.state, "message": one.message} for one in findings])
    else:
        good, bad = ("✓", "✗") if output.can_show("✓✗") else ("ok", "problem")
        marks = {"ok": f"[green]{good}[/]", "note": "[yellow]![/]", "problem": f"[red]{bad}[/]"}
        for one in findings:
            output.print_lines(f"{marks[one.state]} [bold]{one.check}[/]: {output.escape(one.message)}")
    return exit_codes.FAILED if any(one.state == "problem" for one in findings) else exit_codes.DONE


def _findings(options: CommandOptions) -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")
    try:
        config = options.config()
    except CarrelError as error:
        yield Finding("configuration", "problem", str(error))
        return
    files = ", ".join(config.files) or "no file found; all settings have their defaults"
    yield Finding("configuration", "ok", files)
    yield Finding("project", "ok", config.root)
    for note in (*config.notes, *config.elsewhere()):
        yield Finding("configuration", "note", note)
    try:
        with options.desk() as desk:
            yield from _provider_findings(desk)
    except CarrelError as error:
        yield Finding("providers", "problem", str(error))
        return
    for era in ("modern", "legacy"):
        yield _handshake(era, options.words())


def _provider_findings(desk: Desk) -> Iterator[Finding]:
    by_name = {one.provider.name: one for one in desk.catalog.mounted}
    for choice in desk.choices:
        mounted = by_name.get(choice.name)
        if mounted is None:
            yield Finding(choice.name, "note", f"{choice.state}: {choice.why}")
            continue
        if choice.state == "failed":
            yield Finding(choice.name, "problem", choice.why)
            continue
        if choice.state == "not served":
            yield Finding(choice.name, "ok", f"not served: {choice.why}")
            continue
        try:
            first = next(mounted.provider.entries(), None)
        except CarrelError as error:
            yield Finding(choice.name, "problem", str(error))
            continue
        health = mounted.provider.health()
        problems = health.get("problems")
        noted = [str(one) for one in problems] if isinstance(problems, list | tuple) else []
        noted = [one for one in noted if one not in desk.notes]  # already among the findings on the configuration
        if health.get("state") == "down":
            yield Finding(choice.name, "problem", "; ".join((choice.why, *noted)))
            continue
        listed = "no entries yet" if first is None else f"first entry {first.uri}"
        yield Finding(choice.name, "ok", f"{choice.why}; {listed}")
        left_out = health.get("left_out")
        for note in (*noted, *(map(str, left_out) if isinstance(left_out, list | tuple) else ())):
            yield Finding(choice.name, "note", note)


def _handshake(era: Literal["modern", "legacy"], words: list[str]) -> Finding:
    """Start the server as a host does, and connect to it."""
    command = [sys.executable, "-P", "-m", "carrel", "serve", "--quiet", *words]
    began = perf_counter()
    try:
        with Client.start(command, era=era) as client:
            took_ms = (perf_counter() - began) * 1000
            count = len(client.page().entries)
    except CarrelError as error:
        return Finding(f"handshake, {era}", "problem", str(error))
    return Finding(
        f"handshake, {era}", "ok", f"{client.version} in {took_ms:.0f} ms; {count} entries on the first page"
    )
