"""Peers that are no part of the development environment: fetched from the registries by name, into `.bench`.

    python -m bench.install

Each environment has a stamp that is written last and holds its versions, so a broken install is repeated and another
version is a new one. The C floor is compiled with the machine's compiler.
"""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.server import ROOT

PLACE: Final = ROOT / ".bench"
SOURCES: Final = ROOT / "bench/peers"

FASTMCP: Final = "fastmcp==4.1.2"
FASTER_HTTP: Final = ("uvloop==0.23.0", "httptools==0.9.0")
"""What uvicorn uses where it finds it, as in the development environment."""
_MACHINE: Final = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "x64")
NODE_PACKAGES: Final = (
    "node@24",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/node@2.1.2",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    f"@jdxcode/mise-{sys.platform}-{_MACHINE}@2026.9.15",
)
MODULES: Final = PLACE / "node/node_modules"

FASTMCP_PYTHON: Final = PLACE / "fastmcp/bin/python"
NODE: Final = MODULES / ".bin/node"
TYPESCRIPT: Final = PLACE / "node/typescript.mjs"
FILESYSTEM: Final = MODULES / "@modelcontextprotocol/server-filesystem/dist/index.js"
MISE: Final = MODULES / NODE_PACKAGES[-1].rpartition("@")[0] / "bin/mise"
FLOOR: Final = PLACE / "floor"


def pinned(package: str) -> str:
    """Return a package with its version."""
    return next(one for one in NODE_PACKAGES if one.startswith((f"{package}@", f"{package}-{sys.platform}")))


def install() -> None:
    """Fetch and make what is not there yet."""
    PLACE.mkdir(exist_ok=True)
    once("fastmcp", " ".join((FASTMCP, *FASTER_HTTP)), make_fastmcp)
    once("node", " ".join(NODE_PACKAGES), make_node)
    # Node looks for packages where the program lies.
    shutil.copyfile(SOURCES / TYPESCRIPT.name, TYPESCRIPT)
    subprocess.run(("cc", "-O2", "-o", str(FLOOR), str(SOURCES / "floor.c")), check=True)


def once(name: str, versions: str, make: Callable[[Path], None]) -> None:
    """Make an environment unless it is there with these versions."""
    folder = PLACE / name
    stamp = folder / ".ready"
    if stamp.is_file() and stamp.read_text("utf-8") == versions:
        return
    print(f"Setting up {folder.relative_to(ROOT)}: {versions}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make(folder)
    stamp.write_text(versions, "utf-8")


def make_fastmcp(folder: Path) -> None:
    """Make a virtual environment for FastMCP."""
    subprocess.run((sys.executable, "-m", "venv", str(folder)), check=True)
    quiet = ("-qq", "--disable-pip-version-check")
    subprocess.run((str(FASTMCP_PYTHON), "-m", "pip", "install", *quiet, FASTMCP, *FASTER_HTTP), check=True)


def make_node(folder: Path) -> None:
    """Fetch the packages from npm; `allowScripts` lets the node package put its binary in place."""
    (folder / "package.json").write_text(json.dumps({"private": True, "allowScripts": {"node": True}}), "utf-8")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(("npm", "install", "--prefix", str(folder), *quiet, *NODE_PACKAGES), check=True)


if __name__ == "__main__":
    install()
