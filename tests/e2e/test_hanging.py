"""Providers that hang, in real processes: other calls are answered, deadlines hold, and the server ends when told to.

A provider hangs here in every method it has, in every way a program can: in a loop of Python, in a call that sleeps, in
SQLite, in opening a FIFO, and in a regular expression, which keeps the interpreter's lock and so stops every thread.
"""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from time import monotonic
from typing import Any

import pytest

from tests.support.http_asking import JSON, META, legacy
from tests.support.waiting import PATIENCE_S, patience_s, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
END_S = patience_s(2.0 + 0.5)
"""Two seconds to end, and half of one for starting to; longer where the machine is busy with other tests."""
DEADLINE_S = patience_s(1.0)
"""Of requests, in these servers."""

SCRIPT = """
import os, re, sqlite3, sys, tempfile, threading, time
from carrel.core import limits
from carrel.server import workers
from carrel.transports import stdio
from carrel.transports.http import app as http
from carrel.transports.http import threads as http_threads
from carrel.catalog.catalog import Catalog
from carrel.core.model import Text, Tool, ToolResult
from carrel.core.provider import Provider, Route
from carrel.server.server import Server

way, place, transport, deadline_s = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
arrived = threading.Event()

def in_python():
    while True:
        pass

def in_sqlite():
    sqlite3.connect(":memory:").execute(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    ).fetchall()

def in_a_fifo():
    path = os.path.join(tempfile.mkdtemp(), "fifo")
    os.mkfifo(path)
    while True:
        os.close(os.open(path, os.O_RDONLY))

def hang():
    arrived.set()
    os.write(2, b"hangs\\n")
    {
        "python": in_python,
        "sleep": lambda: time.sleep(1_000),
        "sqlite": in_sqlite,
        "fifo": in_a_fifo,
        "regex": lambda: re.match("(a|a)*b", "a" * 60),
    }[way]()

class Hanging(Provider):
    name = "hanging"
    schemes = ("hanging",)
    def at(self, here):
        if here == place:
            hang()
    def routes(self):
        return (Route("hanging:///{+path}", self.read, "file"),)
    def entries(self, after=""):
        self.at("entries")
        return iter(())
    def read(self, path):
        if path == "hang":
            hang()
        return Text(path)
    def complete(self, template, variable, value, context):
        self.at("complete")
        return ()
    def fingerprint(self, uri):
        self.at("fingerprint")
        return "same"
    def list_fingerprint(self):
        self.at("survey")
        return ""
    def tools(self):
        self.at("tools")
        return (Tool("stall", "Hang.", {"type": "object"}),)
    def call(self, name, arguments, call):
        self.at("call")
        return ToolResult((Text("done"),))
    def instructions(self):
        self.at("instructions")
        return "Read me."
    def close(self):
        self.at("close")

class Steady(Provider):
    name = "steady"
    schemes = ("steady",)
    def routes(self):
        return (Route("steady:///{+path}", self.read, "file"),)
    def read(self, path):
        if path == "arrived":
            return Text(str(arrived.is_set()))
        return Text(path)

if place == "thread":
    threading.Thread(target=time.sleep, args=(1_000,)).start()
workers.Workers.__init__.__defaults__ = (deadline_s,)
server = Server(Catalog([Hanging(), Steady()]))
if transport == "stdio":
    stdio.serve(server)
else:
    from carrel.transports.http.guard import AcceptedNames, Guard
    listening = http.bind("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    http.serve(http.App(server, Guard(AcceptedNames(is_loopback=True)), deadline_s), listening, server.close)
from carrel.transports.shutdown import exit_in_time
exit_in_time(0)
"""


class Hung:
    """A server in another process that may hang."""

    def __init__(self, way: str, place: str, transport: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-c", SCRIPT, way, place, transport, str(DEADLINE_S)]
        self.process = subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        self._number = 0

    def end(self, how: signal.Signals | None) -> float:
        """Ask it to end, by a signal or by the end of its input; return how long that took."""
        assert self.process.stdin is not None
        began = monotonic()
        if how is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(how)
        self.process.wait(PATIENCE_S)
        return monotonic() - began

    def kill(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def until_it_hangs(self) -> None:
        """Ask again and again whether it hangs by now."""
        while self.ask("resources/read", {"uri": "steady:///arrived"})["result"]["contents"][0]["text"] != "True":
            pass

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """Send a request, and return its answer."""
        return self.answer(self.send(method, params))

    def send(self, method: str, params: Mapping[str, object] | None = None) -> int:
        raise NotImplementedError

    def answer(self, number: int) -> Any:
        raise NotImplementedError


class OnPipes(Hung):
    """One that speaks on its standard streams."""

    def __init__(self, way: str, place: str) -> None:
        super().__init__(way, place, "stdio")
        self.unclaimed: dict[int, Any] = {}
        """Answers that nobody waited for."""
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._heard.put(line)

    def send(self, method: str, params: Mapping[str, object] | None = None) -> int:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**(params or {}), "_meta": META}}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._number

    def answer(self, number: int) -> Any:
        while number not in self.unclaimed:
            answer = json.loads(self._heard.get(timeout=PATIENCE_S))
            self.unclaimed[answer.get("id")] = answer
        return self.unclaimed.pop(number)


class OnHttp(Hung):
    """One that speaks HTTP; each request has a connection."""

    def __init__(self, way: str, place: str) -> None:
        super().__init__(way, place, "http")
        assert self.process.stdout is not None
        self._port = int(self.process.stdout.readline())
        self._open: dict[int, socket.socket] = {}

    def send(self, method: str, params: Mapping[str, object] | None = None) -> int:
        self._number += 1
        body = legacy(method, dict(params or {}), request_id=self._number)
        head = [f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"]
        head += [f"{name}: {value}\r\n" for name, value in JSON.items()]
        self._open[self._number] = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
        self._open[self._number].sendall("".join(head).encode() + b"\r\n" + body)
        return self._number

    def answer(self, number: int) -> Any:
        with self._open.pop(number) as connection, connection.makefile("rb") as stream:
            return json.loads(stream.read().partition(b"\r\n\r\n")[2])

    def kill(self) -> None:
        super().kill()
        for connection in self._open.values():
            connection.close()


@contextmanager
def hung(transport: str, way: str, place: str = "read") -> Iterator[Hung]:
    """Start a server that hangs in one place, in one way."""
    server = (OnPipes if transport == "stdio" else OnHttp)(way, place)
    try:
        yield server
    finally:
        server.kill()


CALLS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "read": ("resources/read", {"uri": "hanging:///hang"}),
    "entries": ("resources/list", {}),
    "complete": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "hanging:///{+path}"}, "argument": {"name": "path", "value": ""}},
    ),
    "tools": ("tools/list", {}),
    "call": ("tools/call", {"name": "stall", "arguments": {}}),
}
"""How a client makes a provider hang, by where it does."""


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("place", list(CALLS))
def test_a_call_that_hangs_times_out_at_its_deadline_and_delays_no_other(transport: str, place: str) -> None:
    with hung(transport, "python" if place == "read" else "sleep", place) as server:
        server.ask("resources/read", {"uri": "steady:///warm"})
        slow = server.send(*CALLS[place])
        began = monotonic()
        server.until_it_hangs()
        assert server.ask("ping" if transport == "http" else "server/discover")["result"] is not None
        took = monotonic() - began
        late = server.answer(slow)

        assert took < DEADLINE_S
        assert late["error"]["data"]["dev.carrel/error"] == "timeout", late
        assert server.ask("resources/read", {"uri": "steady:///after"})["result"]["contents"][0]["text"] == "after"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_provider_that_hangs_again_and_again_leaves_room_for_others(transport: str) -> None:
    with hung(transport, "sleep") as server:
        slow = [server.send(*CALLS["read"]) for _ in range(100)]
        assert server.ask("resources/read", {"uri": "steady:///other"})["result"]["contents"][0]["text"] == "other"
        assert {server.answer(one)["error"]["data"]["dev.carrel/error"] for one in slow} == {"timeout"}

        until(lambda: len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) < 40, patience_s(20.0))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_host_can_connect_where_a_provider_hangs_in_its_instructions(transport: str) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with hung(transport, "sleep", "instructions") as server:
        answer = server.ask("initialize", opening)

        assert answer["result"]["protocolVersion"] == "2025-11-25"
        assert "in time" in answer["result"]["instructions"]


def test_a_call_that_hangs_on_the_reading_thread_can_be_cancelled() -> None:
    with hung("stdio", "sleep") as server:
        slow = server.send(*CALLS["read"])
        server.until_it_hangs()
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}}
        assert server.process.stdin is not None
        server.process.stdin.write(json.dumps(note).encode() + b"\n")
        server.process.stdin.flush()
        # The id is free again, and nothing is answered at the deadline.
        other = server.ask("resources/read", {"uri": "hanging:///hang"})

        assert other["error"]["data"]["dev.carrel/error"] == "timeout"
        assert server.ask("server/discover")["result"]
        assert isinstance(server, OnPipes)
        assert slow not in server.unclaimed


# Ending


@pytest.mark.parametrize(
    ("transport", "how"),
    [
        ("stdio", signal.SIGTERM),
        ("stdio", signal.SIGINT),
        ("stdio", None),
        ("http", signal.SIGTERM),
        ("http", signal.SIGINT),
    ],
)
@pytest.mark.parametrize("way", ["python", "sleep", "sqlite", "fifo"])
def test_the_server_ends_while_a_read_hangs(transport: str, way: str, how: signal.Signals | None) -> None:
    with hung(transport, way) as server:
        server.send(*CALLS["read"])
        server.until_it_hangs()

        assert server.end(how) < END_S
        assert server.process.returncode == 0


@pytest.mark.parametrize("place", ["close", "thread"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_server_ends_where_a_provider_does_not(transport: str, place: str) -> None:
    with hung(transport, "sleep", place) as server:
        server.ask("resources/read", {"uri": "steady:///warm"})

        assert server.end(signal.SIGTERM) < END_S
        assert server.process.returncode == 0


def is_prepared(pid: int) -> bool:
    """Return whether the kernel will end a process: whether that handles SIGHUP."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines())
    return bool(int(status["SigCgt"], 16) & 1 << signal.SIGHUP - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the process only on Linux")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_server_ends_while_a_call_keeps_the_interpreters_lock(transport: str) -> None:
    with hung(transport, "regex") as server:
        server.ask("resources/read", {"uri": "steady:///warm"})
        until(lambda: is_prepared(server.process.pid))
        server.send(*CALLS["read"])
        assert server.process.stderr is not None
        assert server.process.stderr.readline() == b"hangs\n"

        assert server.end(signal.SIGTERM) < END_S
