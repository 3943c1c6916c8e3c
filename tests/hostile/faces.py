"""Every face of Carrel, run over one place as a user would, with everything kept that came out of it."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote

from tests.hostile.attacks import ATTACKS, OTHER, SEARCHES
from tests.hostile.place import CARREL, Place
from tests.hostile.talking import LEGACY, MODERN, Conversation, Http, Late, Stdio
from tests.hostile.tracing import NOTHING_SEEN, Seen, Trace
from tests.support.waiting import patience_s

SILENCE_S: Final = 15.0
"""How long a command may print nothing: `doctor` starts two servers before it prints anything."""

MAX_READS: Final = 120
"""Of what is listed: a terabyte of names is not what is tried here."""


@dataclass
class Evidence:
    """What one face did and said."""

    answers: list[bytes] = field(default_factory=list)
    log: str = ""
    terminal: str = ""
    instructions: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    seen: Seen = NOTHING_SEEN
    peak_kb: int = 0
    ended_s: float = 0.0
    exit_codes: list[int] = field(default_factory=list)


def survey(talk: Conversation, read: Callable[[str], object], *, with_folders: bool = True) -> None:
    """Ask for everything that can be found: lists, templates with completed values, attacks; then the tools."""
    uris: dict[str, None] = {}
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = talk.ask("resources/list", cursor).get("result", {})
        uris.update((entry["uri"], None) for entry in page.get("resources", []))
        if not page.get("nextCursor"):
            break
        cursor = {"cursor": page["nextCursor"]}
    listed = list(uris)[:MAX_READS]
    offered = [uri for template in _templates(talk) for uri in _completed(talk, template)]
    for uri in dict.fromkeys((*listed, *offered, *(one for uris in ATTACKS.values() for one in uris), *OTHER)):
        read(uri)
    for uri in (one for uris in ATTACKS.values() for one in uris if with_folders):
        talk.ask("resources/directory/read", {"uri": uri})
    for skill in talk.ask("skills/list", {}).get("result", {}).get("skills", [])[:MAX_READS]:
        talk.ask("skills/get", {"uri": skill["uri"]})
    talk.ask("tools/list", {})
    for arguments in ({"uri": "sage://system/objective.md"}, {"uri": "workspace:///link/notes.md"}):
        talk.ask("tools/call", {"name": "read_resource", "arguments": arguments})
    for query in ("first", "stranger"):
        talk.ask("tools/call", {"name": "sage_search", "arguments": {"query": query}})
    for query in SEARCHES:
        talk.ask("tools/call", {"name": "search", "arguments": {"query": query}})
        read(f"carrel://search?q={quote(query, safe='')}")


def _templates(talk: Conversation) -> list[str]:
    result = talk.ask("resources/templates/list", {}).get("result", {})
    return [str(one["uriTemplate"]) for one in result.get("resourceTemplates", [])]


def _completed(talk: Conversation, template: str) -> Iterator[str]:
    """Yield the URIs that a template's first variable is offered values for."""
    variable = re.search(r"\{\+?(\w+)\}", template)
    if variable is None:
        return
    for begun in ("", ".", "l"):
        argument = {"name": variable[1], "value": begun}
        answer = talk.ask(
            "completion/complete", {"ref": {"type": "ref/resource", "uri": template}, "argument": argument}
        )
        for value in answer.get("result", {}).get("completion", {}).get("values", [])[:20]:
            bare = re.sub(r"\{\?[^}]*\}", "", template)
            yield bare.replace(variable[0], str(value))


@contextlib.contextmanager
def _served(place: Place, words: Iterable[str], evidence: Evidence) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a server in the project; end it as an init system does, and keep what was seen."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        trace = Trace([CARREL, "serve", *words], Path(folder), place)
        process = subprocess.Popen(
            trace.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=place.root,
            env=place.environment,
        )
        with process:
            try:
                process.log = log  # type: ignore[attr-defined]
                yield process
                evidence.peak_kb = _peak_kb(process.pid)
                process.send_signal(signal.SIGTERM)
                began = monotonic()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    evidence.exit_codes.append(process.wait(patience_s(4)))
                evidence.ended_s = monotonic() - began
            finally:
                process.kill()
        evidence.seen = trace.seen(process.pid)
        log.seek(0)
        evidence.log = log.read().decode(errors="replace")


def _peak_kb(pid: int) -> int:
    """Return the largest memory a process ever had, where the kernel tells."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def stdio(place: Place) -> Evidence:
    """Serve on the standard streams: everything with a handshake, then again in the stateless era."""
    evidence = Evidence()
    with _served(place, (), evidence) as process:
        talk = Stdio(LEGACY, process)
        try:
            for era in (LEGACY, MODERN):
                talk.era = era
                evidence.instructions.append(talk.open())
                # Folders in the modern era are asked for over HTTP.
                is_legacy = era == LEGACY
                survey(talk, lambda uri: talk.ask("resources/read", {"uri": uri}), with_folders=is_legacy)
        except (Late, BrokenPipeError) as error:
            evidence.late.append(str(error))
        evidence.answers = talk.answers
    return evidence


def http(place: Place) -> Evidence:
    """Serve over HTTP: MCP and plain requests."""
    evidence = Evidence()
    with _served(place, ("--http", "0"), evidence) as process:
        address = _address(process)
        if address is None:
            evidence.late.append("the server does not listen")
            return evidence
        talk = Http(*address)

        def read(uri: str) -> None:
            talk.ask("resources/read", {"uri": uri})
            talk.read_plainly(uri)

        try:
            evidence.instructions.append(talk.open())
            for path in ("/-/health", "/-/providers", "/-/limits", "/x%0d%0a/y", "/"):
                talk.get(path)
            survey(talk, read)
            for query in SEARCHES:
                talk.get(f"/-/search?q={quote(query, safe='')}")
        except (Late, OSError) as error:
            evidence.late.append(str(error))
        evidence.answers = talk.answers
    return evidence


def _address(process: "subprocess.Popen[bytes]") -> tuple[int, str] | None:
    """Return the port and the token, once the server says them."""
    until = monotonic() + patience_s(8)
    log = process.log  # type: ignore[attr-defined]
    while monotonic() < until and process.poll() is None:
        said = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
        # With what follows them: a line that crosses a page of the file may be seen in part.
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)\D", said)
        token = re.search(r"CARREL_TOKEN=(carrel_[\w-]+)\s", said)
        if port and token:
            return int(port[1]), token[1]
        select.select([], [], [], 0.02)
    return None


COMMANDS: Final[tuple[list[str], ...]] = (
    [],
    ["ls"],
    ["templates"],
    ["doctor"],
    ["connect"],
    ["connect", "--json"],
    ["config", "show", "--origin"],
    ["config", "validate"],
    ["cat", "carrel://guide"],
    ["cat", "README.md"],
    ["cat", "workspace:///README.md"],
    ["cat", "workspace:///folder/denied.md"],
    ["cat", "sage://system/objective.md"],
    ["cat", "sage://knowledge/first"],
    ["cat", "alc://packages/first/meta"],
    ["cat", "alc://hub/index"],
    ["cat", "logs://run/web_1"],
    ["cat", "--json", "scopes://scope/first"],
    ["ls", "--json"],
    ["ls", "workspace:///nothing\x1b[2J"],
    ["complete", "workspace:///{+path}{?start,length,lines,outline}", "path"],
    ["complete", "alc://packages/{name}/init.lua", "name"],
    ["complete", "sage://system/{+filename}", "filename"],
    ["explain", "workspace:///link/notes.md"],
    ["explain", "workspace:///.env"],
    ["explain", "alc://packages/link/meta"],
    ["scopes", "list"],
    ["scopes", "tree", "first"],
    ["sage", "search", "first"],
    *(["search", query] for query in SEARCHES),
    ["search", "first", "--json", "--explain"],
    ["search", "--index", "--json"],
    ["trust"],
    ["trust", "--list"],
    ["trust", "--revoke"],
)
"""What a person types. `trust` comes late: nothing is read once the file is trusted."""

_DRIVER: Final = """\
import json, sys
from carrel.cli import main
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as stopped:
        code = stopped.code
    sys.stdout.flush()
    sys.stderr.flush()
    print(f"\\n== {code} {words!r}", flush=True)
"""


def command_line(place: Place) -> Evidence:
    """Type commands on a terminal, one after the other."""
    evidence = Evidence()
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace([sys.executable, "-P", "-c", _DRIVER, json.dumps(COMMANDS)], Path(folder), place)
        ours, theirs = pty.openpty()
        with contextlib.closing(os.fdopen(ours, "rb", buffering=0)):
            with subprocess.Popen(
                trace.command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=place.root, env=place.environment
            ) as process:
                os.close(theirs)
                evidence.terminal = _typed(ours, process)
                evidence.peak_kb = _peak_kb(process.pid)
                process.kill()
            evidence.seen = trace.seen(process.pid)
    codes = re.findall(r"^== (\S+) ", evidence.terminal, re.MULTILINE)
    evidence.exit_codes = [int(code) for code in codes if code.isdigit()]
    if len(codes) < len(COMMANDS):
        evidence.late.append(f"carrel {' '.join(COMMANDS[len(codes)])}")
    return evidence


def _typed(terminal: int, process: "subprocess.Popen[bytes]") -> str:
    """Return what appears on the terminal until the process ends or is silent for too long."""
    said = b""
    while select.select([terminal], [], [], patience_s(SILENCE_S))[0]:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # its other end is closed
            break
        if not part:
            break
        said += part
    return said.decode(errors="replace").replace("\r\n", "\n")


def run(place: Place, command: list[str], within_s: float) -> Evidence:
    """Run any program in the project and keep what it did; for trying the laws themselves."""
    evidence = Evidence()
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(command, Path(folder), place)
        with subprocess.Popen(
            trace.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place.root, env=place.environment
        ) as process:
            try:
                evidence.exit_codes.append(process.wait(within_s))
            except subprocess.TimeoutExpired:
                evidence.late.append(command[-1])
                evidence.peak_kb = _peak_kb(process.pid)
                process.kill()
            evidence.terminal = process.communicate()[0].decode(errors="replace")
        evidence.seen = trace.seen(process.pid)
    return evidence


FACES: Final[Mapping[str, Callable[[Place], Evidence]]] = {
    "stdio": stdio,
    "http": http,
    "command_line": command_line,
}
