"""`doctor`: check the configuration, every provider and the server."""

import platform
import sys
from collections.abc import Iterator
from time import gmtime, perf_counter, strftime
from typing import Literal

import click

from carrel.app.app import Desk
from carrel.cli import exit_codes, output
from carrel.cli.context import CommandOptions
from carrel.cli.options import with_command_options, with_objects
from carrel.client.client import Client
from carrel.core.errors import CarrelError
from carrel.core.record import Value, to_json
from carrel.core.tokens import estimate_tokens


class Finding(Value, frozen=True):
    """The result of one check."""

    check: str
    state: Literal["ok", "note", "problem"]
    message: str


@click.command()
@with_command_options
@with_objects
@click.pass_obj
def doctor(options: CommandOptions) -> int:
    """Check that everything works here. Problems are shown with their solution."""
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
            yield from _search_findings(desk)
            yield _conversation_cost(desk)
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
        # Those of the configuration are among the findings already.
        noted = [one for one in _texts(health.get("problems")) if one not in desk.notes]
        if health.get("state") == "down":
            yield Finding(choice.name, "problem", "; ".join((choice.why, *noted)))
            continue
        listed = "no entries yet" if first is None else f"first entry {first.uri}"
        yield Finding(choice.name, "ok", f"{choice.why}; {listed}")
        for note in (*noted, *_texts(health.get("left_out"))):
            yield Finding(choice.name, "note", note)


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _search_findings(desk: Desk) -> Iterator[Finding]:
    """Yield findings on the size, age and coverage of the search index."""
    if desk.server.search is None:
        yield Finding("search", "note", "turned off by [search] enabled = false, or by --without search")
        return
    facts = desk.server.search.opened().facts(looks=True)
    for problem in _texts(facts.get("problems")):
        yield Finding("search", "note", problem)
    documents, indexed, size, written_ms = (facts.get(key) for key in ("documents", "indexed", "bytes", "written"))
    if not isinstance(size, int) or not isinstance(written_ms, int):
        yield Finding("search", "ok", f"no index yet for {documents} documents: the first search makes one")
        return
    age = f"last written {strftime('%Y-%m-%d %H:%M', gmtime(written_ms / 1_000))} UTC"
    yield Finding("search", "ok", f"{indexed} of {documents} documents indexed, {output.human_size(size)}, {age}")


def _conversation_cost(desk: Desk) -> Finding:
    """Return the finding on the tokens that every conversation starts with: instructions and tools."""
    instructions = estimate_tokens(desk.catalog.instructions())
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
        for tool in desk.catalog.tools()
    ]
    cost = estimate_tokens(to_json(tools).decode()) if tools else 0
    message = (
        f"about {instructions + cost:,} tokens: {cost:,} for {len(tools)} tools, {instructions:,} for instructions"
    )
    return Finding("start of a conversation", "ok", message)


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
