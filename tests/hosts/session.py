"""Runs a host once, with a home, a project and a model of its own, and keeps what was seen."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.hosts import project as sample
from tests.hosts.model import Model
from tests.hosts.script import Call, Json, Say, Turn
from tests.hosts.wire import Wire

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".hosts/node_modules"
NODE_BIN = ROOT / ".node/node_modules/.bin"
CARREL = str(Path(__file__).parent / "bin/carrel")
PATIENCE_S = 240
"""For a host on a busy machine: each takes a few seconds on a quiet one."""
PROMPT = f"Look at @carrel:{sample.DOCUMENT_URI} please."
"""What the user says. Hosts that know mentions put the document before the model."""


@dataclass
class Place:
    """Where one host runs: its folders, its environment, and the address of its model."""

    home: Path
    project: Path
    model: str
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, path: str, text: str) -> None:
        """Write a file of the home."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Host:
    """A host: its package, and how it is set up and started for one prompt."""

    name: str
    title: str
    package: str
    program: str
    prepare: Callable[[Place, str], list[str]]
    """Writes the settings and returns the arguments of the program that run a prompt."""

    @property
    def version(self) -> str:
        """The version that is installed."""
        version: str = json.loads((INSTALLED / self.package / "package.json").read_text(encoding="utf-8"))["version"]
        return version

    def command(self, arguments: list[str]) -> list[str]:
        """Return the command line; fail where the host is not installed."""
        program = INSTALLED / ".bin" / self.program
        if not program.exists():
            pytest.fail(f"{self.title} is not installed: `make hosts` fetches {self.package} from npm")
        return [str(program), *arguments]


@dataclass(frozen=True)
class Session:
    """What was seen while a host ran."""

    model: Model
    wire: Wire
    place: Place
    connected: str
    """What `carrel connect` said."""
    returncode: int
    output: str

    @property
    def results(self) -> dict[str, str]:
        """By the name of the step: the answer of the tool, as the model got it."""
        return self.model.results

    @property
    def first(self) -> Turn:
        """The first request of the conversation."""
        assert self.model.turns, f"no request reached the model; the host said: {self.output[-2000:]}"
        return self.model.turns[0]


def make_place(folder: Path, model: Model) -> Place:
    """Make a home and a project. Nothing but loopback can be reached: the proxy is the model, and it refuses."""
    place = Place(folder / "home", folder / "project", model.url)
    place.home.mkdir(parents=True)
    sample.lay_out(place.project)
    local = "127.0.0.1,localhost"
    place.environment |= {
        "HOME": str(place.home),
        "PATH": os.pathsep.join([str(NODE_BIN), "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "NO_PROXY": local,
        "no_proxy": local,
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), model.url),
    }
    return place


def run(host: Host, script: Mapping[str, Call | Callable[[Place], Call]], folder: Path) -> Session:
    """Run a host until it has followed the script."""
    with Model() as model:
        place = make_place(folder, model)
        steps = {name: step if isinstance(step, Call) else step(place) for name, step in script.items()}
        model.follow({**steps, "": Say("The script is done.")})
        command = host.command(host.prepare(place, PROMPT))
        _carrel(place, "search", "--index")  # a first search finds only what was read so far, and says so
        connected = connect(host, place)
        code, output = _run(command, place)
    return Session(model, Wire(place.home), place, connected, code, output)


def connect(host: Host, place: Place) -> str:
    """Run `carrel connect`, which writes and proves the entry; return its output. Its own messages are not recorded."""
    said = _carrel(place, "connect", host.name, "--yes")
    shutil.rmtree(place.home / "wire")
    return said


def _carrel(place: Place, *arguments: str) -> str:
    ran = subprocess.run(
        [CARREL, *arguments],
        env=place.environment,
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, f"carrel {' '.join(arguments)}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def _run(command: list[str], place: Place) -> tuple[int, str]:
    host = subprocess.Popen(
        command,
        env=place.environment,
        cwd=place.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = host.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        end(host, place)
        output, _ = host.communicate()
        output += f"\n[ended after {PATIENCE_S} s]"
    finally:
        end(host, place)
    return host.returncode, output


def end(host: "subprocess.Popen[str] | subprocess.Popen[bytes]", place: Place) -> None:
    """End a host and what it started, also what it left behind in the background: all have its home."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(host.pid, signal.SIGKILL)
    host.wait()
    home = f"HOME={place.home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if home in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def tool_texts(answers: list[Json]) -> list[str]:
    """Return the texts of tools' answers on the wire."""
    return ["\n".join(block["text"] for block in answer["result"]["content"]) for answer in answers]
