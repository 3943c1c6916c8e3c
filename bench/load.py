"""A load client on raw pipes: starts a server, sends requests that were encoded beforehand, counts the answers.

It is not the bottleneck: between two requests it does one `write`, one `read` and a look for newlines. That this is
so is measured, not claimed: `foundation.py` also runs it against `cat`, which gives back every line as fast as pipes
and the scheduler allow. The first answer, and one more after the run, are parsed, to know that the work was done.
"""

import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Never

Era = Literal["modern", "legacy"]

CHUNK = 1 << 20
NEWLINE = ord("\n")
POOL = 1_000
"""Requests encoded beforehand and sent round and round; their ids are 0 … POOL - 1."""

PATIENCE_S = 60.0
"""A server that hangs is killed after this; the reading end then sees the end of input."""

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class PeerError(Exception):
    """A server gave an answer that no working server gives, or none."""


def message(method: str, params: dict[str, Any], identity: int | None = None) -> bytes:
    """Encode one line: a request, or without identity a notification."""
    head: dict[str, Any] = {"jsonrpc": "2.0"} if identity is None else {"jsonrpc": "2.0", "id": identity}
    return json.dumps(head | {"method": method, "params": params}, separators=(",", ":")).encode() + b"\n"


def discover() -> bytes:
    """Encode the question that opens a modern connection."""
    return message("server/discover", {"_meta": ENVELOPE}, 0)


def reads(uri: str, era: Era) -> tuple[bytes, ...]:
    """Encode a pool of reads of one URI."""
    params: dict[str, Any] = {"uri": uri} if era == "legacy" else {"uri": uri, "_meta": ENVELOPE}
    return tuple(message("resources/read", params, identity) for identity in range(POOL))


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of load gave."""

    answers: int
    seconds: float
    last: bytes
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds

    @property
    def cpu_us(self) -> float:
        """Processor time that the server itself took for one answer, in microseconds."""
        return self.cpu_s / self.answers * 1e6


class Peer:
    """A server as a child process, spoken to over its standard streams."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        environment = os.environ | {"HOME": str(folder)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=folder, env=environment
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise PeerError(f"{command[0]} has no pipes")
        self._input, self._output = self._process.stdin, self._process.stdout
        self._write, self._read = self._input.fileno(), self._output.fileno()

    def send(self, line: bytes) -> None:
        """Send a line that gets no answer."""
        self._write_all(line)

    def ask(self, line: bytes) -> bytes:
        """Send one request and wait for its answer."""
        with self._watched():
            self._write_all(line)
            return self._next_line()

    def ask_result(self, line: bytes) -> dict[str, Any]:
        """Send one request and check that its answer is a result; give that."""
        return check_answer(self.ask(line), identity_of(line))

    def open(self, era: Era) -> None:
        """Do what a client of that era does first."""
        if era == "modern":
            self.ask_result(discover())
            return
        client = {"name": "bench", "version": "0"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.ask_result(message("initialize", params, 0))
        self.send(message("notifications/initialized", {}))

    def resident_kib(self) -> int:
        """Give the resident memory of the process now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def _cpu_s(self) -> float:
        """Give the processor time of all its threads so far; it ticks a hundred times a second."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, pool: Sequence[bytes], seconds: float, depth: int) -> Run:
        """Keep `depth` requests waiting for `seconds`, then let the last ones come in.

        What is under way at once must fit into a pipe (64 KiB): this client writes before it reads.
        """
        with self._watched():
            before = self._cpu_s()
            run = self._one_by_one(pool, seconds) if depth == 1 else self._many(pool, seconds, depth)
            return replace(run, cpu_s=self._cpu_s() - before)

    def _one_by_one(self, pool: Sequence[bytes], seconds: float) -> Run:
        write, readv, clock = os.write, os.readv, time.perf_counter
        requests = itertools.cycle(pool)
        # Read into one buffer: to allocate a large one for each answer would cost more than a small answer does.
        buffer = bytearray(CHUNK)
        buffers = [buffer]
        sent = 0
        started = now = clock()
        ends = started + seconds
        while now < ends:
            write(self._write, next(requests))
            while buffer[(readv(self._read, buffers) or self._gone()) - 1] != NEWLINE:
                pass
            sent += 1
            now = clock()
        last = self.ask(next(requests))
        check_line(last, identity_of(pool[sent % len(pool)]))
        return Run(sent, now - started, last)

    def _many(self, pool: Sequence[bytes], seconds: float, depth: int) -> Run:
        clock = time.perf_counter
        requests = itertools.cycle(pool)
        buffer = bytearray(CHUNK)
        buffers = [buffer]
        sent, answered = depth, 0
        started = clock()
        ends = started + seconds
        self._write_all(b"".join(itertools.islice(requests, depth)))
        while answered < sent:
            size = os.readv(self._read, buffers) or self._gone()
            fresh = buffer.count(b"\n", 0, size)
            answered += fresh
            if fresh and clock() < ends:
                self._write_all(b"".join(itertools.islice(requests, fresh)))
                sent += fresh
        took = clock() - started
        last = self.ask(next(requests))
        check_line(last, identity_of(pool[sent % len(pool)]))
        return Run(answered, took, last)

    def _write_all(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._write, view) :]

    def _next_line(self) -> bytes:
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self._read, CHUNK) or self._gone()
        return answer

    def _gone(self) -> Never:
        raise PeerError(f"the server ended, or was ended after {PATIENCE_S:.0f} s without an answer")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()

    def close(self) -> None:
        """End the input, wait, and kill what does not go."""
        self._input.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identity_of(line: bytes) -> int:
    """Give the id of a request."""
    return int(json.loads(line)["id"])


def check_line(line: bytes, *identities: int) -> dict[str, Any]:
    """Check that a line is one message with one of these ids; give it."""
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise PeerError(f"not one message: {line[:200]!r}") from error
    if answer.get("id") not in identities:
        raise PeerError(f"an answer to another request: {line[:200]!r}")
    return dict(answer)


def check_answer(line: bytes, identity: int) -> dict[str, Any]:
    """Check that a line is the result of that request; give the result."""
    answer = check_line(line, identity)
    if not isinstance(answer.get("result"), dict):
        raise PeerError(f"no result: {line[:200]!r}")
    return dict(answer["result"])
