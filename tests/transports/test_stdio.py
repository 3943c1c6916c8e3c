"""MCP on real pipes: a child process serves, this one is its client. And the threads for work that waits."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from carrel.catalog.catalog import Catalog
from carrel.core.limits import MAX_PENDING, WORKER_THREADS
from carrel.server.requests import Work
from carrel.server.server import Server
from carrel.server.workers import Workers
from tests.support.memory_provider import Gated, Shelf
from tests.support.schemas import LEGACY, MODERN, Conversation, check, with_meta
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROMPT_S = 1.5
"""A second to end, and half of one for a machine that is busy with other tests."""

SCRIPT = """
import os, resource, subprocess, sys
from carrel.catalog.catalog import Catalog
from carrel.core.errors import NotFound
from carrel.core.model import Text
from carrel.server.server import Server
from carrel.transports import stdio
from tests.support.memory_provider import Counted, Gated, Memory, Shelf

gated = Gated("gated", {"1": "one"})
counted = Counted("counted", {"1": "one"})

class Levers(Shelf):
    def read(self, path):
        if path == "print":
            print("stray print")
            print("stray print to the first stdout", file=sys.__stdout__, flush=True)
            os.write(1, b"stray write\\n")
            subprocess.run([sys.executable, "-c", "print('stray child')"], check=True)
            return Text(repr(sys.stdin.read()))
        if path == "open":
            gated.open_gate()
        elif path == "arrived":
            gated.arrived.acquire()
        elif path == "change":
            counted.put("1", "changed")
        elif path == "memory":
            return Text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
        return Text(path)

levers = Levers("levers")
catalog = Catalog([Memory(), gated, counted, levers], max_bytes=int(sys.argv[1]))
stdio.serve(Server(catalog))
"""


class Child:
    """A server in another process, and its three pipes. Every line it writes must be a valid message."""

    def __init__(self, max_bytes: int = 2_097_152, *, stdin: int = subprocess.PIPE) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(max_bytes)],
            cwd=ROOT,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._asked: dict[int | str, tuple[str, str]] = {}

    def listen(self) -> "Child":
        """Begin to take what it writes."""
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._heard.put(line)
        self._heard.put(b"")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def request(
        self, request_id: int | str, method: str, params: dict[str, Any] | None = None, version: str = MODERN
    ) -> bytes:
        """Spell a request, and remember what its answer must look like."""
        self._asked[request_id] = (method, version)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": with_meta(params, version)}
        return json.dumps(message).encode() + b"\n"

    def read(self, request_id: int | str, uri: str) -> bytes:
        """Spell a read."""
        return self.request(request_id, "resources/read", {"uri": uri})

    def ask(self, *question: Any) -> Any:
        self.write(self.request(*question))
        return self.hear()

    def hear(self) -> Any:
        """Wait for the next message; None at the end of output."""
        line = self._heard.get(timeout=PATIENCE_S)
        if not line:
            return None
        value = json.loads(line)
        method, version = self._asked.get(value.get("id"), (None, MODERN))
        return check(line.rstrip(b"\n"), version, method)

    def skip(self) -> bytes:
        """Wait for the next line, and leave it unchecked."""
        return self._heard.get(timeout=PATIENCE_S)

    def text(self) -> tuple[int | str, str]:
        """Wait for an answer to a read: its id and its text."""
        message = self.hear()
        return message["id"], message["result"]["contents"][0]["text"]

    def finish(self) -> tuple[int, float, list[Any], str]:
        """End its input; return its exit code, how long that took, what it said last, and its stderr."""
        assert self.process.stdin is not None
        began = monotonic()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.ended(began)

    def ended(self, began: float) -> tuple[int, float, list[Any], str]:
        code = self.process.wait(PATIENCE_S)
        took = monotonic() - began
        last = []
        while self._reader.is_alive() or not self._heard.empty():
            message = self.hear()
            if message is None:
                break
            last.append(message)
        assert self.process.stderr is not None
        return code, took, last, self.process.stderr.read().decode()

    def kill(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child().listen()
    yield made
    made.kill()


@pytest.fixture
def deaf() -> Iterator[Child]:
    """A server whose output is not read."""
    made = Child()
    yield made
    made.kill()


# Speaking


def test_discover_then_initialize_on_one_pipe(child: Child) -> None:
    assert child.ask(1, "server/discover")["result"]["supportedVersions"] == [MODERN]
    assert child.ask(2, "initialize", {"protocolVersion": LEGACY}, LEGACY)["result"]["protocolVersion"] == LEGACY
    child.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    assert child.ask(3, "ping", {}, LEGACY)["result"] == {}
    assert child.finish()[::2] == (0, [])


def test_initialize_then_discover_on_one_pipe(child: Child) -> None:
    assert child.ask(1, "initialize", {"protocolVersion": LEGACY}, LEGACY)["result"]["protocolVersion"] == LEGACY
    assert child.ask(2, "server/discover")["result"]["supportedVersions"] == [MODERN]
    assert child.ask(3, "resources/read", {"uri": "test:///none"})["error"]["code"] == -32602
    assert child.ask(4, "resources/read", {"uri": "test:///none"}, LEGACY)["error"]["code"] == -32002
    assert child.finish()[::2] == (0, [])


def test_lines_may_come_in_any_pieces_with_any_ends(child: Child) -> None:
    lines = [child.read(number, f"test:///note/00{number}").rstrip(b"\n") for number in range(5)]
    stream = b"\r\n".join(lines[:3]) + b"\n\n \r\n" + lines[3] + b"\r\n" + lines[4]
    for at in range(0, len(stream), 7):
        child.write(stream[at : at + 7])
    code, _, last, _ = child.finish()

    assert code == 0
    assert [message["result"]["contents"][0]["text"] for message in last] == [f"Note {number}\n" for number in range(5)]


def test_stray_prints_go_to_stderr(child: Child) -> None:
    child.write(child.read(1, "levers:///print") + child.read(2, "levers:///after"))

    assert {child.text(), child.text()} == {(1, "''"), (2, "after")}  # in any order: the first starts a process
    code, _, last, stderr = child.finish()
    assert (code, last) == (0, [])
    assert sorted(stderr.splitlines()) == [
        "stray child",
        "stray print",
        "stray print to the first stdout",
        "stray write",
    ]


@pytest.fixture
def small() -> Iterator[Child]:
    """A server whose messages are short."""
    made = Child(10_000).listen()
    yield made
    made.kill()


def test_an_over_long_line_is_refused_with_its_id_and_the_stream_goes_on(small: Child) -> None:
    child = small
    padding = b" " * 50_000
    child.write(b'{"jsonrpc":"2.0","params":{"id":3},"id":7,"method":"ping"' + padding + b"}\n")
    child.write(b'{"jsonrpc":"2.0",' + padding + b'"id":8,"method":"ping"}\n')
    child.write(child.request(9, "resources/read", {"uri": "test:///note/000"}))
    error = {
        "code": -32802,
        "message": "Message too large: one message holds 10000 bytes",
        "data": {"name": "MCP_TOO_LARGE", "limit": 10_000, "dev.carrel/error": "too_large"},
    }

    assert child.hear() == {"jsonrpc": "2.0", "id": 7, "error": error}
    assert child.hear() == {"jsonrpc": "2.0", "error": error}
    assert child.text() == (9, "Note 0\n")
    assert child.finish()[0] == 0


def test_garbage_is_answered_and_the_server_lives_on(child: Child) -> None:
    for garbage in (b"\0", b"\xff\xfe", b"[" * 100_000, b"nonsense", b'{"id":true}', b"[]", b'{"jsonrpc":"2.0"}'):
        child.write(garbage + b"\n")
        assert child.hear()["error"]["code"] in (-32700, -32600)
    child.write(child.read(1, "test:///note/000"))

    assert child.text() == (1, "Note 0\n")


# Waiting


def test_a_slow_read_does_not_hold_up_others(child: Child) -> None:
    child.write(child.read(1, "gated:///gate/1") + child.read(2, "test:///note/002") + child.read(3, "gated:///1"))
    heard = {child.text(), child.text()}
    child.write(child.read(4, "levers:///open"))

    assert heard == {(2, "Note 2\n"), (3, "one")}
    assert {child.text(), child.text()} == {(4, "open"), (1, "through gate/1")}


def test_a_slow_read_does_not_hold_up_others_of_its_kind_when_a_thread_is_idle(child: Child) -> None:
    for turn in range(20):
        child.write(child.read(f"warm {turn}", "gated:///1"))
        assert child.text() == (f"warm {turn}", "one")
    slow = b"".join(child.read(f"slow {number}", f"gated:///gate/{number}") for number in range(WORKER_THREADS - 1))
    child.write(slow + child.read("fast", "gated:///1"))

    assert child.text() == ("fast", "one")


def test_a_cancelled_request_is_not_answered(child: Child) -> None:
    child.write(child.request(1, "tools/call", {"name": "wait"}) + child.read(2, "gated:///gate/1"))
    child.write(child.read(3, "levers:///arrived"))
    assert child.text() == (3, "arrived")
    for number in (1, 2):
        child.write(
            json.dumps(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            ).encode()
        )
        child.write(b"\n")
    child.write(child.read(4, "levers:///open") + child.read(5, "test:///note/005"))

    assert (child.text(), child.text()) == ((4, "open"), (5, "Note 5\n"))
    assert child.finish()[::2] == (0, [])


def test_progress_comes_before_its_answer(child: Child) -> None:
    call = {"name": "count", "arguments": {"to": 50}, "_meta": {"progressToken": "p"}}
    child.write(child.request(1, "tools/call", call))
    heard = [child.hear() for _ in range(51)]

    assert [message["params"]["progress"] for message in heard[:-1]] == list(range(1, 51))
    assert heard[-1]["id"] == 1


def test_notifications_interleave_with_answers(child: Child) -> None:
    wanted = {"notifications": {"resourceSubscriptions": ["counted:///1"]}}
    child.write(child.request("s", "subscriptions/listen", wanted))
    assert child.hear()["params"]["notifications"] == wanted["notifications"]
    child.write(child.read(1, "levers:///change"))
    heard = [child.hear(), child.hear()]
    code, took, last, _ = child.finish()

    assert [message["id"] for message in heard if "id" in message] == [1]
    assert [message["params"] for message in heard if "id" not in message] == [
        {"uri": "counted:///1", "_meta": {"io.modelcontextprotocol/subscriptionId": "s"}}
    ]
    assert (code, took < PROMPT_S, [message["id"] for message in last]) == (0, True, ["s"])


def test_many_large_answers_to_one_small_chunk_are_not_held_in_memory(child: Child) -> None:
    count = 120
    child.write(child.read("before", "levers:///memory"))
    before = int(child.text()[1])
    child.write(b"".join(child.read(number, "test:///big/1000000") for number in range(count)))
    # In any order: on a busy machine another thread may read on.
    answered = {child.skip().partition(b":{")[0] for _ in range(count)}
    assert answered == {f'{{"id":{number},"result"'.encode() for number in range(count)}
    child.write(child.read("after", "levers:///memory"))

    assert int(child.text()[1]) - before < 60_000


# Ending


def test_the_end_of_input_ends_the_server_at_once(child: Child) -> None:
    child.write(child.read(1, "test:///note/001"))
    assert child.text() == (1, "Note 1\n")
    code, took, last, stderr = child.finish()

    assert (code, took < PROMPT_S, last, stderr) == (0, True, [], "")


def test_the_end_of_input_lets_running_work_finish(child: Child) -> None:
    child.ask(0, "server/discover")
    child.write(child.read(1, "gated:///gate/1") + child.read(2, "levers:///open"))
    code, took, last, _ = child.finish()

    assert (code, took < PROMPT_S, sorted(message["id"] for message in last)) == (0, True, [1, 2])


@pytest.mark.parametrize("way", ["end", signal.SIGTERM, signal.SIGINT])
def test_work_that_does_not_end_is_given_up(child: Child, way: str | signal.Signals) -> None:
    child.write(child.read(1, "gated:///gate/1") + child.request(2, "tools/call", {"name": "wait"}))
    child.write(child.read(3, "levers:///arrived"))
    assert child.text() == (3, "arrived")
    began = monotonic()
    if isinstance(way, signal.Signals):
        child.process.send_signal(way)
        code, took, last, stderr = child.ended(began)
    else:
        code, took, last, stderr = child.finish()

    assert (code, took < PROMPT_S, last, stderr) == (0, True, [], "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_like_the_end_of_input(child: Child, number: signal.Signals) -> None:
    child.write(child.request("s", "subscriptions/listen", {"notifications": {}}))
    child.hear()
    began = monotonic()
    child.process.send_signal(number)
    code, took, last, stderr = child.ended(began)

    assert (code, took < PROMPT_S, [message["id"] for message in last], stderr) == (0, True, ["s"], "")


def test_a_reader_that_left_ends_the_server(deaf: Child) -> None:
    assert deaf.process.stdout is not None
    deaf.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        while deaf.process.poll() is None:
            deaf.write(deaf.read(1, "test:///note/001"))

    assert deaf.process.wait(PATIENCE_S) == 0
    assert deaf.process.stderr is not None
    assert deaf.process.stderr.read() == b""


def test_a_reader_that_stopped_reading_does_not_keep_a_signal_from_ending_the_server(deaf: Child) -> None:
    assert deaf.process.stdout is not None
    deaf.write(deaf.request("s", "subscriptions/listen", {"notifications": {}}))
    assert deaf.process.stdout.readline().startswith(b'{"method":"notifications/subscriptions/acknowledged"')
    deaf.write(b"".join(deaf.read(number, "test:///big/1000000") for number in range(4)))
    assert deaf.process.stdout.read(10) == b'{"id":0,"r'
    began = monotonic()
    deaf.process.send_signal(signal.SIGTERM)

    assert deaf.process.wait(PATIENCE_S) == 0
    assert monotonic() - began < PROMPT_S


@pytest.fixture
def unblocking() -> Iterator[tuple[Child, int]]:
    """A server whose input does not block, and the other end of its input."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    made = Child(stdin=read_end).listen()
    os.close(read_end)
    yield made, write_end
    made.kill()
    os.close(write_end)


def test_pipes_that_do_not_block_are_served_as_well(unblocking: tuple[Child, int]) -> None:
    child, write_end = unblocking
    for number in range(100, 200):
        os.write(write_end, child.read(number, f"test:///note/{number}"))
        assert child.text() == (number, f"Note {number}\n")


# The threads


def work_of(client: Conversation, request_id: int, uri: str) -> Work:
    given = client.begin("resources/read", {"uri": uri}, request_id=request_id)
    assert isinstance(given, Work)
    return given


@pytest.fixture
def gated() -> Iterator[Gated]:
    made = Gated("gated", {"1": "one"})
    yield made
    made.open_gate()


def test_work_past_its_deadline_is_answered_as_late_once(gated: Gated) -> None:
    client = Conversation(Server(Catalog([gated])))
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    workers = Workers(heard.put, deadline_s=0.05)
    workers.submit(work_of(client, 1, "gated:///gate/1"))
    late = check(heard.get(timeout=PATIENCE_S), MODERN, None)
    gated.open_gate()
    workers.submit(work_of(client, 2, "gated:///1"))
    after = check(heard.get(timeout=PATIENCE_S), MODERN, "resources/read")

    assert late["error"] == {
        "code": -32603,
        "message": "Request timed out",
        "data": {"dev.carrel/error": "timeout", "uri": "gated:///gate/1"},
    }
    assert (late["id"], after["id"], heard.empty()) == (1, 2, True)


def test_more_than_can_wait_is_told_that_it_is_too_much(gated: Gated) -> None:
    client = Conversation(Server(Catalog([gated, Shelf()])))
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    workers = Workers(heard.put)
    for number in range(WORKER_THREADS):
        workers.submit(work_of(client, number, "gated:///gate/1"))
    for _ in range(WORKER_THREADS):
        assert gated.arrived.acquire(timeout=PATIENCE_S)
    for number in range(MAX_PENDING):
        workers.submit(work_of(client, 100 + number, "gated:///1"))
    assert heard.empty()
    workers.submit(work_of(client, 99, "gated:///1"))
    refused = check(heard.get(timeout=PATIENCE_S), MODERN, None)
    gated.open_gate()
    answered = {json.loads(heard.get(timeout=PATIENCE_S))["id"] for _ in range(WORKER_THREADS + MAX_PENDING)}

    assert (refused["id"], refused["error"]["data"]["dev.carrel/error"]) == (99, "busy")
    assert answered == {*range(WORKER_THREADS), *range(100, 100 + MAX_PENDING)}


def test_as_many_slow_reads_as_there_are_threads_run_at_once(gated: Gated) -> None:
    client = Conversation(Server(Catalog([gated])))
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    workers = Workers(heard.put)
    for number in range(5):
        workers.submit(work_of(client, number, "gated:///1"))
        heard.get(timeout=PATIENCE_S)
    workers.drain(PATIENCE_S)
    for number in range(WORKER_THREADS):
        workers.submit(work_of(client, number, "gated:///gate/1"))

    for _ in range(WORKER_THREADS):
        assert gated.arrived.acquire(timeout=PATIENCE_S)
    gated.open_gate()
    assert {json.loads(heard.get(timeout=PATIENCE_S))["id"] for _ in range(WORKER_THREADS)} == {*range(WORKER_THREADS)}


def test_draining_waits_for_what_runs_but_not_for_ever(gated: Gated) -> None:
    client = Conversation(Server(Catalog([gated])))
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    workers = Workers(heard.put)
    workers.submit(work_of(client, 1, "gated:///gate/1"))
    workers.drain(0.01)
    assert heard.empty()
    gated.open_gate()
    workers.drain(PATIENCE_S)

    assert json.loads(heard.get(timeout=PATIENCE_S))["id"] == 1
