"""A load client on raw pipes: starts a server, sends requests that were encoded beforehand, counts the answers.

It is not the bottleneck: between two requests it does one `write`, one `readv` into a buffer that stays, and a look for
newlines. That this is so is measured, not claimed: every run says what processor time the client took, and the
comparison also runs it against `cat`, which gives back every line as fast as pipes and the scheduler allow. One more
answer after each run is parsed, to know that the work was done.
"""

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.messages import (
    Era,
    PeerError,
    check_answer,
    check_line,
    discover,
    identity_of,
    initialize,
    initialized,
    is_notification,
)
from bench.server import Process, Run

CHUNK = 1 << 20
NEWLINE = ord("\n")


class Peer:
    """A server as a child process, spoken to over its standard streams."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.process = Process(command, folder, has_pipes=True)
        child = self.process.child
        if child.stdin is None or child.stdout is None:
            raise PeerError(f"{command[0]} has no pipes")
        self._input, self._output = child.stdin, child.stdout
        self._write, self._read = self._input.fileno(), self._output.fileno()
        # One buffer for all answers: to allocate a large one for each would cost more than a small answer does.
        self._buffer = bytearray(CHUNK)

    def ask(self, line: bytes) -> bytes:
        """Send one request and wait for its answer."""
        with self.process.watched():
            self._write_all(line)
            return self._next_line()

    def ask_result(self, line: bytes) -> dict[str, Any]:
        """Send one request and check that its answer is a result; return that."""
        return check_answer(self.ask(line), identity_of(line))

    def open(self, era: Era) -> None:
        """Do what a client of that era does first."""
        if era == "modern":
            self.ask_result(discover())
        else:
            self.ask_result(initialize())
            self._write_all(initialized())

    def spell(self, pool: Sequence[bytes]) -> Sequence[bytes]:
        """Return requests as they are sent: a line each."""
        return pool

    def load(self, pool: Sequence[bytes], seconds: float, depth: int, *, whole: bool = False) -> Run:
        """Keep `depth` requests waiting for `seconds`, then let the last ones come in.

        With `whole`, which is for depth 1, it ends only where the pool does. What is under way at once must fit into a
        pipe (64 KiB): this client writes before it reads.
        """
        requests = itertools.cycle(pool)
        with self.process.watched():
            server, client = self.process.cpu_s(), time.process_time()
            if depth == 1:
                answers, took = self._one_by_one(requests, seconds, len(pool) if whole else 1)
            else:
                answers, took = self._many(requests, seconds, depth)
            run = Run(answers, took, self.process.cpu_s() - server, time.process_time() - client)
        check_line(self.ask(next(requests)), identity_of(pool[answers % len(pool)]))
        return run

    def _one_by_one(self, requests: "itertools.cycle[bytes]", seconds: float, step: int) -> tuple[int, float]:
        write, readv, clock = os.write, os.readv, time.perf_counter
        target, source, buffer = self._write, self._read, self._buffer
        buffers = [buffer]
        answers = 0
        started = now = clock()
        ends = started + seconds
        while now < ends or answers % step:
            write(target, next(requests))
            while buffer[(readv(source, buffers) or self.process.gone()) - 1] != NEWLINE:
                pass
            answers += 1
            now = clock()
        return answers, now - started

    def _many(self, requests: "itertools.cycle[bytes]", seconds: float, depth: int) -> tuple[int, float]:
        readv, clock, count = os.readv, time.perf_counter, self._buffer.count
        buffers = [self._buffer]
        sent, answers = depth, 0
        started = clock()
        ends = started + seconds
        self._write_all(b"".join(itertools.islice(requests, depth)))
        while answers < sent:
            fresh = count(b"\n", 0, readv(self._read, buffers) or self.process.gone())
            answers += fresh
            if fresh and clock() < ends:
                self._write_all(b"".join(itertools.islice(requests, fresh)))
                sent += fresh
        return answers, clock() - started

    def _write_all(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._write, view) :]

    def _next_line(self) -> bytes:
        """Return what is sent next that is no notification."""
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self._read, CHUNK) or self.process.gone()
            if answer.endswith(b"\n"):
                answer = b"".join(line for line in answer.splitlines(keepends=True) if not is_notification(line))
        return answer

    def close(self) -> None:
        """End the input, wait, and kill what does not go."""
        self._input.close()
        self.process.wait(politely=True)
        self._output.close()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
