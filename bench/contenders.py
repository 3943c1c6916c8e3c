"""Who takes part: how each is started, what it can be asked, and what it cannot do, with the reason."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from bench.messages import Era
from bench.peers.served import FILES, MEMORY
from bench.works import ENTRIES, Resources, Setup, Spelling

Transport = Literal["stdio", "http"]

PEERS: Final = Path(__file__).resolve().parent / "peers"
CARREL: Final = str(Path(sys.executable).parent / "carrel")
REFERENCE: Final = "sdk"
"""Whom all others are compared with."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a server is to be started; port 0 is stdio."""

    setup: Setup
    folder: Path
    port: int


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that takes part. `unable` gives the reason by work, era or transport."""

    name: str
    title: str
    command: Callable[[Start], tuple[str, ...]]
    spelling: Spelling = field(default_factory=lambda: Resources(MEMORY, FILES))
    unable: Mapping[str, str] = field(default_factory=dict)
    package: str = ""

    def reason(self, transport: Transport, era: Era, work: str) -> str | None:
        """Say why it cannot do a work, or None if it can."""
        return next((self.unable[key] for key in (transport, era, work) if key in self.unable), None)


def carrel(start: Start) -> tuple[str, ...]:
    """Start Carrel: files as its users do, what is in memory through a provider."""
    if start.setup != "files":
        return script("carrel_memory.py")(start)
    address = ("--http", str(start.port), "--no-token") if start.port else ()
    settings = ("--only", "workspace", "--set", "workspace.preset=all")
    return (CARREL, "serve", "--quiet", *settings, "--project", str(start.folder), *address)


def script(name: str, python: str = sys.executable) -> Callable[[Start], tuple[str, ...]]:
    """Start one of the small servers beside this file."""

    def command(start: Start) -> tuple[str, ...]:
        return python, str(PEERS / name), str(start.folder), str(ENTRIES[start.setup]), str(start.port)

    return command


CONTENDERS: Final[Mapping[str, Contender]] = {
    contender.name: contender
    for contender in (
        Contender("carrel", "Carrel", carrel, Resources(MEMORY, "workspace:///"), package="carrel"),
        Contender("sdk", "Python SDK, low-level", script("sdk_lowlevel.py"), package="mcp"),
        Contender("bare", "bare msgspec", script("bare.py"), package="msgspec"),
    )
}
SMALL: Final = ("carrel", "sdk", "bare")
"""Those that need nothing but the development environment."""
