"""Checks of the server as a host sees it: it starts, shakes hands in both eras, and costs few tokens."""

import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Final, Literal

from carrel.client.client import Client
from carrel.core.errors import CarrelError
from carrel.core.record import to_json
from carrel.core.tokens import estimate_tokens
from carrel.doctor.checks import Check, Finding, check, note, ok, problem
from carrel.doctor.setup import Setup

SLOW_MS: Final = 5_000.0
"""A start that takes longer is noted: some hosts give a server ten seconds."""
MANY_TOKENS: Final = 10_000
"""A conversation that begins with more tokens is noted."""


@check(
    "server", "handshake-modern", "the server does not start, or does not speak version 2026-07-28", "see the message"
)
def handshake_modern(setup: Setup) -> Iterator[Finding]:
    """Start the server as a host does, and connect without a handshake."""
    yield from _handshake(setup, "modern")


@check("server", "handshake-legacy", "the server does not start, or does not take `initialize`", "see the message")
def handshake_legacy(setup: Setup) -> Iterator[Finding]:
    """Start the server as a host does, and connect with the handshake of older versions."""
    yield from _handshake(setup, "legacy")


def _handshake(setup: Setup, era: Literal["modern", "legacy"]) -> Iterator[Finding]:
    if setup.desk is None or setup.mistakes:
        return  # the server does not start, or would change the store, and other findings say why
    command = [sys.executable, "-P", "-m", "carrel", "serve", "--quiet", *setup.serve_words]
    began = perf_counter()
    said: list[str] = []
    try:
        with Client.start(command, env=dict(setup.environment), era=era, stderr=said.append) as client:
            took_ms = (perf_counter() - began) * 1_000
            count = len(client.page().entries)
    except CarrelError as error:
        why = f"{error}; {said[-1]}" if said else str(error)
        yield problem(why, "carrel serve --debug shows more")
        return
    message = f"{client.version} in {took_ms:.0f} ms; {count} entries on the first page"
    if took_ms > SLOW_MS:
        yield note(message, "some hosts do not wait so long: look for a slow disk, or a scanner of files")
    else:
        yield ok(message)


@check("server", "conversation", "every conversation begins with many tokens", "disable tools that you do not need")
def conversation(setup: Setup) -> Iterator[Finding]:
    """Yield the tokens that every conversation starts with: instructions and tools."""
    desk = setup.desk
    if desk is None or not setup.answers:
        return
    instructions = estimate_tokens(desk.catalog.instructions())
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}
        for tool in desk.catalog.tools()
    ]
    cost = estimate_tokens(to_json(tools).decode()) if tools else 0
    parts = f"{cost:,} for {len(tools)} tools, {instructions:,} for instructions"
    message = f"about {instructions + cost:,} tokens at the start: {parts}"
    if instructions + cost > MANY_TOKENS:
        yield note(message, 'serve less: carrel serve --only NAMES; or set tools = "off" where you do not need them')
    else:
        yield ok(message)


CHECKS: Final[tuple[Check, ...]] = (handshake_modern, handshake_legacy, conversation)
