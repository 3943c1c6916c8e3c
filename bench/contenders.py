"""Who takes part: how each is started, what it can be asked, and what it cannot do, with the reason."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from bench import install
from bench.messages import Era
from bench.peers.served import FILES, MEMORY
from bench.spelling import Configuration, FileTools, Resources, Spelling
from bench.works import ENTRIES, TREE, WORKS, Setup

Transport = Literal["stdio", "http"]

PEERS: Final = Path(__file__).resolve().parent / "peers"
CARREL: Final = str(Path(sys.executable).parent / "carrel")
REFERENCE: Final = "sdk"
"""The contender that all others are compared with."""

REFERENCE_TITLE: Final = "the official Python SDK's low-level server"


@dataclass(frozen=True, slots=True)
class Start:
    """How a server is to be started; port 0 is stdio."""

    setup: Setup
    folder: Path
    port: int


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that takes part.

    `unable` gives the reason by work, era or transport; what it `needs` must be installed; the answers of one
    `by_the_book` are held to the official schema.
    """

    name: str
    title: str
    command: Callable[[Start], tuple[str, ...]]
    version: str
    spelling: Spelling = field(default_factory=lambda: Resources(MEMORY, FILES))
    unable: Mapping[str, str] = field(default_factory=dict)
    needs: Path | None = None
    by_the_book: bool = False

    @property
    def is_there(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or self.needs.exists()

    def reason(self, transport: Transport, era: Era, work: str) -> str | None:
        """Return why it cannot do a work, or None if it can."""
        return next((self.unable[key] for key in (transport, era, work) if key in self.unable), None)


def here(package: str) -> str:
    """Name a package with its version in this environment."""
    return f"{package}=={metadata.version(package)}"


def carrel(start: Start) -> tuple[str, ...]:
    """Start Carrel: files as its users do, what is in memory through a provider."""
    address = ("--http", str(start.port), "--no-token") if start.port else ()
    if start.setup == "tree":
        return (CARREL, "serve", "--quiet", "--project", str(start.folder / TREE), *address)
    if start.setup != "files":
        return script("carrel_memory.py")(start)
    settings = ("--only", "workspace", "--set", "workspace.preset=all")
    return (CARREL, "serve", "--quiet", *settings, "--project", str(start.folder), *address)


def script(name: str, python: str = sys.executable) -> Callable[[Start], tuple[str, ...]]:
    """Start one of the small servers beside this file."""

    def command(start: Start) -> tuple[str, ...]:
        return python, str(PEERS / name), str(start.folder), str(ENTRIES[start.setup]), str(start.port)

    return command


def floor(start: Start) -> tuple[str, ...]:
    """Start the C floor."""
    return str(install.FLOOR), str(start.folder), str(ENTRIES[start.setup]), str(start.port)


def typescript(start: Start) -> tuple[str, ...]:
    """Start the TypeScript SDK's server."""
    return str(install.NODE), str(install.TYPESCRIPT), str(start.folder), str(ENTRIES[start.setup]), str(start.port)


def filesystem(start: Start) -> tuple[str, ...]:
    """Start npm's file server."""
    return str(install.NODE), str(install.FILESYSTEM), str(start.folder)


def mise(start: Start) -> tuple[str, ...]:
    """Start mise, with the smallest text as a setting."""
    place = start.folder / "mise"
    place.mkdir(exist_ok=True)
    text = (start.folder / "1k.txt").read_text("utf-8")
    (place / "mise.toml").write_text(f"[env]\n{MISE_KEY} = {json.dumps(text)}\n", "utf-8")
    settings = ("MISE_EXPERIMENTAL=1", f"MISE_TRUSTED_CONFIG_PATHS={place}")
    return "/usr/bin/env", *settings, str(install.MISE), "--cd", str(place), "mcp"


MISE_KEY: Final = "TEXT"
NO_CONDITION: Final = {"unchanged": "no conditional read: its contents carry no ETag"}
NO_PAGES: Final = {"list-100000": "no pages: the whole list is one answer"}
SLOW_TO_FILL: Final = {"list-100000": "needs hours to take in 100,000 entries: each is compared with all before it"}
TOOLS_ONLY: Final = {
    **{work.name: "tools only: no lists, nothing in memory" for work in WORKS.values() if work.setup != "files"},
    "unchanged": "no conditional read",
    "range": "no byte ranges, only lines from either end",
    "http": "stdio only",
    "modern": "legacy era only",
}
OWN_SETTINGS: Final = {
    **{
        name: "serves its own settings only, one of which is the 1 KB text"
        for name in WORKS
        if name != "read-1k-memory"
    },
    "http": "stdio only",
}

CONTENDERS: Final[Mapping[str, Contender]] = {
    contender.name: contender
    for contender in (
        Contender("carrel", "Carrel", carrel, here("carrel"), Resources(MEMORY, "workspace:///"), by_the_book=True),
        Contender("sdk", "Python SDK, low-level", script("sdk_lowlevel.py"), here("mcp")),
        Contender(
            "sdk-high",
            "Python SDK, high-level",
            script("sdk_highlevel.py"),
            here("mcp"),
            unable=NO_CONDITION | NO_PAGES,
        ),
        Contender(
            "fastmcp",
            "FastMCP",
            script("fast.py", str(install.FASTMCP_PYTHON)),
            install.FASTMCP,
            unable=NO_CONDITION | SLOW_TO_FILL,
            needs=install.FASTMCP_PYTHON,
        ),
        Contender(
            "typescript",
            "TypeScript SDK v2",
            typescript,
            install.pinned("@modelcontextprotocol/server"),
            needs=install.NODE,
        ),
        Contender(
            "filesystem",
            "npm file server",
            filesystem,
            install.pinned("@modelcontextprotocol/server-filesystem"),
            FileTools(),
            TOOLS_ONLY,
            install.FILESYSTEM,
        ),
        Contender(
            "mise",
            "mise (Rust)",
            mise,
            install.pinned("@jdxcode/mise"),
            Configuration("mise://env", MISE_KEY),
            OWN_SETTINGS,
            install.MISE,
        ),
        Contender("bare", "bare msgspec", script("bare.py"), f"{here('msgspec')}, {here('uvicorn')}"),
        Contender(
            "raw",
            "raw uvloop",
            script("raw.py"),
            f"{here('uvloop')}, {here('httptools')}",
            unable={"stdio": "is the bare loop over HTTP, without uvicorn"},
        ),
        Contender("floor", "C floor", floor, "", needs=install.FLOOR),
    )
}
SMALL: Final = ("carrel", "sdk", "bare")
"""Those that need nothing but the development environment, and of these the ones that matter most."""
